//! Inserts notes between the statements of a body.
//!
//! Before each statement there is a note that counts attempts and one with the values of its parts, and after it one
//! with the values that explain why it holds. The statements are in evaluation order, so a variable without a value
//! gets it from the next statement. As an index it is renamed in the note; other expressions with such variables are
//! left out.

use std::collections::BTreeSet;

use super::{model::StatementKind, needed::ModuleUses, parts};
use crate::{
    builtins::declarations::NOTE,
    syntax::{
        Branch, Expr, ExprKind, Import, Module, Name, Position, Statement, StatementNode, SyntaxBody, SyntaxRule, With,
    },
};

/// The name of the traced rule, which no module can use.
pub(super) const RULE: &str = "kaudit#traced";
/// The most parts of a statement that are noted.
const PARTS: usize = 12;

/// Returns a rule with this body that evaluates all of its solutions.
pub(super) fn rule(at: Position, body: SyntaxBody) -> SyntaxRule {
    let first = Branch { at, value: None, conditional: true, body: Some(body) };
    let name = Expr::name(at, &RULE.into());
    let contains = Some(Expr::scalar(at, "true"));
    SyntaxRule { at, default: false, name, parameters: None, contains, first, others: Vec::new(), last_line: at.line }
}

/// A point of a trace at which values are noted, and the source texts of their expressions.
#[derive(Debug, Default)]
pub(super) struct ValuePoint {
    pub(super) point: Option<usize>,
    pub(super) texts: Vec<String>,
}

/// The points of a branch.
#[derive(Debug)]
pub(super) struct BranchPoints {
    pub(super) body: BodyPoints,
    /// The lines of the value, and the points for its parts and for the value itself.
    pub(super) value: Option<((u32, u32), ValuePoint, ValuePoint)>,
}

/// The points of a body.
#[derive(Debug, Default)]
pub(super) struct BodyPoints {
    pub(super) statements: Vec<StatementPoints>,
    /// The point after the last statement.
    pub(super) end: usize,
}

/// The points of a statement.
#[derive(Debug)]
pub(super) struct StatementPoints {
    pub(super) at: Position,
    pub(super) lines: (u32, u32),
    pub(super) kind: StatementKind,
    pub(super) before: usize,
    /// Its parts, evaluated with its own `with` replacements.
    pub(super) parts: ValuePoint,
    /// The replacement values of its `with` that are names or references.
    pub(super) given: ValuePoint,
    /// Its own value.
    pub(super) whole: ValuePoint,
    /// The values after it.
    pub(super) held: ValuePoint,
    /// The values after it that are not shown.
    pub(super) hidden: ValuePoint,
    /// The variables of an `every`, and the points of its body.
    pub(super) inside: Option<(ValuePoint, BodyPoints)>,
}

/// Adds notes to bodies of one module.
pub(super) struct Instrument<'t> {
    text: &'t str,
    /// The positions of statements and values for which no values are noted.
    without_values: &'t BTreeSet<Position>,
    points: usize,
    /// Names that have a value here.
    known: BTreeSet<Name>,
    /// Names of imports, which are not shown.
    imports: BTreeSet<Name>,
}

impl<'t> Instrument<'t> {
    pub(super) fn new(
        (modules, uses): (&[Module], &ModuleUses),
        module: usize,
        text: &'t str,
        without_values: &'t BTreeSet<Position>,
    ) -> Self {
        let own = &modules[module];
        let of_package = uses.of_package(&own.package_path()).iter().map(|index| &modules[*index]);
        let rules = of_package.flat_map(|module| module.rules.iter().filter_map(|rule| rule.first_name().cloned()));
        let imports: BTreeSet<Name> = own.imports.iter().filter_map(Import::name).collect();
        let known = rules.chain(imports.iter().cloned()).chain(["data", "input"].map(Name::from)).collect();
        Self { text, without_values, points: 0, known, imports }
    }

    /// Returns the body of a branch with notes, and with an extra statement before the given index.
    pub(super) fn branch(
        &mut self,
        body: Option<&SyntaxBody>,
        value: Option<&Expr>,
        extra: Option<(usize, Statement)>,
    ) -> (SyntaxBody, BranchPoints) {
        let none = SyntaxBody::new();
        let body = body.unwrap_or(&none);
        let (mut noted, points) = self.body(body, extra);
        let value = value.map(|value| {
            let (value, with) = assigned(body, value).unwrap_or((value, &[]));
            let mut operands = Vec::new();
            // The whole value is noted as well.
            parts::inner(value, &mut operands);
            let own = self.values(value.at, &operands, with, &mut noted);
            let whole = self.values(value.at, &[value], with, &mut noted);
            ((value.at.line, value.at.line + breaks(value.span.of(self.text))), own, whole)
        });
        if noted.is_empty() {
            noted.push(Statement::plain(Expr::scalar(Position { line: 1, column: 1 }, "true")));
        }
        (noted, BranchPoints { body: points, value })
    }

    /// Returns statements followed by a note of the keys of the resulting cases.
    pub(super) fn cases(&mut self, statements: SyntaxBody, keys: Expr) -> SyntaxBody {
        let mut noted = statements;
        self.note(keys.at, vec![keys], &[], &mut noted);
        noted
    }

    fn body(&mut self, body: &SyntaxBody, extra: Option<(usize, Statement)>) -> (SyntaxBody, BodyPoints) {
        let mut noted = SyntaxBody::new();
        let mut points = BodyPoints::default();
        let at = body.last().map_or(Position { line: 1, column: 1 }, |last| last.at);
        for (index, statement) in body.iter().enumerate() {
            if let Some((before, extra)) = &extra
                && *before == index
            {
                noted.push(extra.clone());
            }
            let of_statement = self.statement(statement, &mut noted);
            points.statements.push(of_statement);
        }
        noted.extend(extra.filter(|(before, _)| *before >= body.len()).map(|(_, extra)| extra));
        points.end = self.count(at, &mut noted);
        (noted, points)
    }

    fn statement(&mut self, statement: &Statement, noted: &mut SyntaxBody) -> StatementPoints {
        let at = statement.at;
        let before = self.count(at, noted);
        let operands = failing(statement);
        let parts = self.values(at, &operands, statement.with.as_slice(), noted);
        let is_name = |expr: &&Expr| matches!(expr.kind, ExprKind::Name(_) | ExprKind::Ref(..));
        let fixtures: Vec<&Expr> = statement.with.iter().map(|with| &with.value).filter(is_name).collect();
        let given = self.values(at, &fixtures, &[], noted);
        let whole = match &statement.kind {
            StatementNode::Expr(expr)
                if !matches!(expr.kind, ExprKind::Binary(":=" | "=", ..)) && !expr.is_call("print") =>
            {
                self.values(at, &[expr], statement.with.as_slice(), noted)
            }
            StatementNode::Not(expr) => self.values(at, &[expr], statement.with.as_slice(), noted),
            _ => ValuePoint::default(),
        };
        let mut own = statement.clone();
        let inside = self.inside(&mut own);
        noted.push(own);
        parts::names_of_statement(statement, &mut self.known);
        let (mut shown, mut all) = (Vec::new(), Vec::new());
        // With replacements, the whole statement would have to be evaluated again.
        if statement.with.is_empty() {
            holding(statement, &mut shown);
            keys(statement, &mut all);
        }
        let held = self.values(at, &shown, &[], noted);
        let hidden = self.values(at, &all, &[], noted);
        let lines = (at.line, statement.last_line);
        StatementPoints { at, lines, kind: kind(statement), before, parts, given, whole, held, hidden, inside }
    }

    /// Adds notes to the body of an `every`.
    fn inside(&mut self, statement: &mut Statement) -> Option<(ValuePoint, BodyPoints)> {
        let StatementNode::Every { key, value, body, .. } = &mut statement.kind else { return None };
        let known = self.known.clone();
        let names: Vec<Name> = key.iter().chain([&*value]).filter(|name| &***name != "_").cloned().collect();
        self.known.extend(names.iter().cloned());
        let exprs: Vec<Expr> = names.iter().map(|name| Expr::name(statement.at, name)).collect();
        let mut noted = SyntaxBody::new();
        let begin = self.values(statement.at, &exprs.iter().collect::<Vec<_>>(), &[], &mut noted);
        let (inner, points) = self.body(body, None);
        noted.extend(inner);
        *body = noted;
        self.known = known;
        Some((begin, points))
    }

    /// Adds a note without values, which counts attempts.
    fn count(&mut self, at: Position, noted: &mut SyntaxBody) -> usize {
        self.note(at, Vec::new(), &[], noted)
    }

    /// Adds a note with the values of those expressions that have one here.
    fn values(&mut self, at: Position, exprs: &[&Expr], with: &[With], noted: &mut SyntaxBody) -> ValuePoint {
        let mut found = ValuePoint::default();
        let mut arguments = Vec::new();
        for expr in exprs {
            let text = self.text_of(expr);
            // A wildcard has a different value each time.
            let is_wildcard = text.starts_with('_');
            let is_import = expr.as_name().is_some_and(|name| self.imports.contains(name));
            if is_wildcard || is_import || found.texts.contains(&text) || arguments.len() == PARTS {
                continue;
            }
            if let Some(own) = parts::with_own_variables(expr, &self.known) {
                arguments.push(own);
                found.texts.push(text);
            }
        }
        if !self.without_values.contains(&at) && !arguments.is_empty() {
            found.point = Some(self.note(at, arguments, with, noted));
        }
        found
    }

    fn note(&mut self, at: Position, arguments: Vec<Expr>, with: &[With], noted: &mut SyntaxBody) -> usize {
        let point = self.points;
        self.points += 1;
        let arguments = std::iter::once(Expr::scalar(at, &point.to_string())).chain(arguments).collect();
        let function = Expr::name(at, &NOTE.into());
        let call = Expr::new(at, ExprKind::Call(Box::new(function), arguments));
        noted.push(Statement { with: with.to_vec(), ..Statement::plain(call) });
        point
    }

    /// Returns the source text of an expression.
    fn text_of(&self, expr: &Expr) -> String {
        match expr.span.of(self.text) {
            "" => expr.as_name().map_or_else(String::new, ToString::to_string),
            text => text.to_owned(),
        }
    }
}

/// Returns the last value that a body assigns to the variable of an expression.
fn assigned<'b>(body: &'b SyntaxBody, expr: &Expr) -> Option<(&'b Expr, &'b [With])> {
    let name = expr.as_name()?;
    body.iter().rev().find_map(|statement| match &statement.kind {
        StatementNode::Expr(Expr { kind: ExprKind::Binary(":=", left, right), .. }) if left.as_name() == Some(name) => {
            Some((&**right, statement.with.as_slice()))
        }
        _ => None,
    })
}

fn breaks(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(0)
}

fn kind(statement: &Statement) -> StatementKind {
    match &statement.kind {
        StatementNode::Some(_) => StatementKind::Declaration,
        StatementNode::SomeIn { .. } => StatementKind::Iteration,
        StatementNode::Every { .. } => StatementKind::Every,
        StatementNode::Not(_) => StatementKind::Negation,
        StatementNode::Expr(Expr { kind: ExprKind::Binary(":=" | "=", ..), .. }) => StatementKind::Assignment,
        StatementNode::Expr(_) => StatementKind::Condition,
    }
}

/// Returns the parts that explain why a statement does not hold.
fn failing(statement: &Statement) -> Vec<&Expr> {
    let mut found = Vec::new();
    match &statement.kind {
        StatementNode::Some(_) => {}
        StatementNode::SomeIn { collection, .. } | StatementNode::Every { collection, .. } => {
            parts::operand(collection, &mut found);
        }
        StatementNode::Not(expr) => parts::operand(expr, &mut found),
        StatementNode::Expr(expr) => {
            parts::inner(expr, &mut found);
            let is_relation = matches!(
                expr.kind,
                ExprKind::Binary(":=" | "=" | "==" | "!=" | "<" | "<=" | ">" | ">=", ..) | ExprKind::In { .. }
            );
            if !is_relation && !expr.is_call("print") {
                parts::operand(expr, &mut found);
            }
        }
    }
    found
}

/// Collects the parts that show why a statement holds.
fn holding<'s>(statement: &'s Statement, found: &mut Vec<&'s Expr>) {
    match &statement.kind {
        StatementNode::Some(_) => {}
        StatementNode::SomeIn { key, value, .. } => {
            key.iter().chain([value]).for_each(|part| parts::operand(part, found));
        }
        StatementNode::Every { collection, .. } => parts::operand(collection, found),
        StatementNode::Expr(Expr { kind: ExprKind::Binary(":=", left, _), .. }) => parts::operand(left, found),
        StatementNode::Expr(expr) if expr.is_call("print") => parts::inner(expr, found),
        StatementNode::Expr(expr) | StatementNode::Not(expr) => parts::operand(expr, found),
    }
}

/// Collects keys and variables of a statement.
fn keys<'s>(statement: &'s Statement, found: &mut Vec<&'s Expr>) {
    match &statement.kind {
        StatementNode::SomeIn { key, value, collection } => {
            key.iter().chain([value, collection]).for_each(|part| parts::keys_and_variables(part, found));
        }
        StatementNode::Expr(expr) | StatementNode::Not(expr) => parts::keys_and_variables(expr, found),
        StatementNode::Some(_) | StatementNode::Every { .. } => {}
    }
}
