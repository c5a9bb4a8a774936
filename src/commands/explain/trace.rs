//! How far each body of a rule gets, and the values on the way.

use regorus::{
    Value,
    unstable::{AssignOp, Expr, Literal, LiteralStmt, Query, Rule},
};
use serde::Serialize;

use crate::commands::test::{
    explain::{Explainer, joined, ways},
    operands::operand,
    result::{Explanation, Named},
};

/// One body of a definition.
#[derive(Debug, Serialize)]
pub(super) struct TracedBody {
    /// In how many ways all of it holds; `None` if that could not be asked.
    pub(super) holds: Option<u64>,
    /// The statements that hold, with the values of the first way.
    pub(super) statements: Vec<TracedStatement>,
    /// The first statement that does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<Explanation>,
}

/// One statement.
#[derive(Debug, Serialize)]
pub(super) struct TracedStatement {
    /// Its last line.
    pub(super) line: u32,
    pub(super) values: Vec<Named>,
}

/// Returns the conditions of the bodies of a definition; none if it has no conditions.
pub(super) fn queries(rule: &Rule) -> Vec<&Query> {
    let Rule::Spec { bodies, .. } = rule else { return Vec::new() };
    bodies.iter().map(|body| &*body.query).filter(|query| !query.stmts.is_empty()).collect()
}

/// Traces one body.
pub(super) fn body(explainer: &Explainer<'_>, query: &Query) -> TracedBody {
    let way = ways(&explainer.pieces(), query);
    let reached = reached(explainer, &way);
    let Some(reached) = reached else { return TracedBody { holds: None, statements: Vec::new(), failed: None } };
    let holds = if reached.passed == way.len() { reached.ways } else { 0 };
    let passed = &way[..reached.passed];
    let statements = query.stmts[..reached.passed].iter();
    let statements = statements.map(|statement| self::statement(explainer, passed, statement)).collect();
    let failed = if holds > 0 { None } else { explainer.query(&[], query, &way) };
    TracedBody { holds: Some(holds), statements, failed }
}

/// How far a body gets.
struct Reached {
    /// Statements that hold together.
    passed: usize,
    /// In how many ways.
    ways: u64,
}

/// Finds out how far it gets; `None` if the evaluator cannot tell.
fn reached(explainer: &Explainer<'_>, way: &[String]) -> Option<Reached> {
    let questions: Vec<String> =
        (1..=way.len()).map(|count| format!("count([1 | {}])", joined(&way[..count], "true"))).collect();
    let counts = explainer.ask(&questions);
    // What cannot be asked for by itself needs a statement behind it; it is passed over.
    let Some(Some(Value::Number(ways))) = counts.last() else { return None };
    let passed = counts.iter().position(|count| *count == Some(Value::from(0_u64))).unwrap_or(way.len());
    Some(Reached { passed, ways: ways.as_u64()? })
}

/// Returns the values of a statement that holds, in the first way in which `passed` does.
fn statement(explainer: &Explainer<'_>, passed: &[String], statement: &LiteralStmt) -> TracedStatement {
    let pieces = explainer.pieces();
    let mut parts = Vec::new();
    match &statement.literal {
        Literal::SomeVars { .. } => {}
        Literal::SomeIn { key, value, .. } => {
            key.iter().chain([value]).for_each(|variable| operand(&pieces, variable, &mut parts));
        }
        Literal::Every { domain, .. } => operand(&pieces, domain, &mut parts),
        Literal::Expr { expr, .. } => match &**expr {
            Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } => operand(&pieces, lhs, &mut parts),
            expr => operand(&pieces, expr, &mut parts),
        },
        Literal::NotExpr { expr, .. } => operand(&pieces, expr, &mut parts),
    }
    let mut values = Vec::new();
    // With other documents in place of its own the statement would have to be asked as a whole.
    if statement.with_mods.is_empty() {
        explainer.name(passed, &parts, "", &mut values);
    }
    let given = pieces.span(&statement.span);
    let (_, mut values) = explainer.as_written(passed, statement.span.line, given, values);
    // That a statement holds is known.
    values.retain(|named| named.value != "true" || named.name.chars().all(|c| c.is_alphanumeric() || "_.".contains(c)));
    let lines = u32::try_from(given.lines().count()).unwrap_or(1).max(1);
    TracedStatement { line: statement.span.line + lines - 1, values }
}
