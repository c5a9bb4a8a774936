//! How much stack the evaluation of a rule can need, and the values that it makes.
//!
//! regorus walks the syntax tree by recursion: each operator, each loop of a body and each rule that another one refers to
//! lies on the stack while what is inside of it is evaluated. An overflow would abort the process, so it is estimated at
//! load, from figures measured on regorus 0.14.1 and rounded up.

use regorus::unstable::{Expr, Literal, LiteralStmt, Query, Ref, Rule, RuleHead};

/// Bytes for one rule or function that is evaluated for another.
const RULE: usize = 4096;
/// Bytes for one body or comprehension.
const QUERY: usize = 2048;
/// Bytes for one loop: `some x in xs`, `xs[_]`.
const LOOP: usize = 1536;
/// Bytes for one level of an expression.
const LEVEL: usize = 768;

/// Returns the bytes that one rule can need by itself.
pub(crate) fn rule(rule: &Rule) -> usize {
    RULE + match rule {
        Rule::Default { value, .. } => expr(value),
        Rule::Spec { head, bodies, .. } => {
            let head = match head {
                RuleHead::Compr { refr, assign, .. } => reach(refr, assign.as_ref().map(|assign| &assign.value)),
                RuleHead::Set { refr, key, .. } => reach(refr, key.as_ref()),
                RuleHead::Func { refr, assign, .. } => reach(refr, assign.as_ref().map(|assign| &assign.value)),
            };
            // The head is evaluated inside the loops of the body.
            let bodies = bodies
                .iter()
                .map(|body| query(&body.query) + body.assign.as_ref().map_or(0, |assign| expr(&assign.value)));
            head + bodies.max().unwrap_or(0)
        }
    }
}

/// Returns how many collections a rule writes: no value of it is nested by more levels than that, beside what it gets from
/// others.
pub(crate) fn collections(rule: &Rule) -> usize {
    match rule {
        Rule::Default { value, .. } => written(value),
        Rule::Spec { head, bodies, .. } => {
            // All but functions may be collections by their heads.
            let (own, refr, value) = match head {
                RuleHead::Func { refr, assign, .. } => (0, refr, assign.as_ref().map(|assign| &assign.value)),
                RuleHead::Compr { refr, assign, .. } => (1, refr, assign.as_ref().map(|assign| &assign.value)),
                RuleHead::Set { refr, key, .. } => (1, refr, key.as_ref()),
            };
            let bodies = bodies
                .iter()
                .map(|body| written_in(&body.query) + body.assign.as_ref().map_or(0, |assign| written(&assign.value)));
            own + written(refr) + value.map_or(0, |value| written(value)) + bodies.sum::<usize>()
        }
    }
}

/// Whether a rule has a value that may hold others, and not only a scalar.
pub(crate) fn gives_collections(rule: &Rule) -> bool {
    let is_scalar = |expr: &Expr| {
        matches!(
            expr,
            Expr::String { .. } | Expr::RawString { .. } | Expr::Number { .. } | Expr::Bool { .. } | Expr::Null { .. }
        )
    };
    match rule {
        Rule::Default { value, .. } => !is_scalar(value),
        Rule::Spec { head: RuleHead::Func { assign, .. }, bodies, .. } => {
            let others = bodies.iter().filter_map(|body| body.assign.as_ref());
            assign.iter().chain(others).any(|assign| !is_scalar(&assign.value))
        }
        Rule::Spec { .. } => true,
    }
}

fn written(expr: &Expr) -> usize {
    let own = match expr {
        Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => 1,
        Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
            1 + written(term) + written_in(query)
        }
        Expr::ObjectCompr { key, value, query, .. } => 1 + written(key) + written(value) + written_in(query),
        _ => 0,
    };
    own + children(expr).into_iter().map(written).sum::<usize>()
}

fn written_in(query: &Query) -> usize {
    let statement = |statement: &LiteralStmt| {
        let own = match &statement.literal {
            Literal::SomeVars { .. } => 0,
            Literal::SomeIn { key, value, collection, .. } => {
                key.as_ref().map_or(0, |key| written(key)) + written(value) + written(collection)
            }
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => written(expr),
            Literal::Every { domain, query, .. } => written(domain) + written_in(query),
        };
        own + statement.with_mods.iter().map(|with| written(&with.r#as)).sum::<usize>()
    };
    query.stmts.iter().map(statement).sum()
}

fn reach(refr: &Expr, value: Option<&Ref<Expr>>) -> usize {
    expr(refr) + value.map_or(0, |value| expr(value))
}

fn query(query: &Query) -> usize {
    let mut loops = 0;
    let mut deepest = 0;
    for statement in &query.stmts {
        let depth = match &statement.literal {
            Literal::SomeVars { .. } => 0,
            Literal::SomeIn { key, value, collection, .. } => {
                loops += 1;
                let key = key.as_ref().map_or(0, |key| expr(key));
                key.max(expr(value)).max(expr(collection))
            }
            Literal::Expr { expr: inner, .. } | Literal::NotExpr { expr: inner, .. } => {
                loops += looped(inner);
                expr(inner)
            }
            Literal::Every { domain, query, .. } => expr(domain).max(LOOP + self::query(query)),
        };
        let with = statement.with_mods.iter().map(|with| expr(&with.r#as)).max().unwrap_or(0);
        deepest = deepest.max(depth).max(with);
    }
    QUERY + loops * LOOP + deepest
}

/// Returns how many loops an expression may stand for: one for each index that is not a constant.
fn looped(expr: &Expr) -> usize {
    let own = match expr {
        Expr::RefBrack { index, .. } => {
            usize::from(!matches!(**index, Expr::String { .. } | Expr::RawString { .. } | Expr::Number { .. }))
        }
        Expr::Call { .. } => 1,
        _ => 0,
    };
    own + children(expr).into_iter().map(looped).sum::<usize>()
}

fn expr(expr: &Expr) -> usize {
    let inner = match expr {
        Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
            self::query(query) + self::expr(term)
        }
        Expr::ObjectCompr { key, value, query, .. } => self::query(query) + self::expr(key).max(self::expr(value)),
        other => children(other).into_iter().map(self::expr).max().unwrap_or(0),
    };
    LEVEL + inner
}

/// Returns the expressions right inside another one, comprehensions left out.
pub(crate) fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().map(AsRef::as_ref).collect(),
        Expr::Object { fields, .. } => {
            fields.iter().flat_map(|(_, key, value)| [key.as_ref(), value.as_ref()]).collect()
        }
        Expr::Call { fcn, params, .. } => [fcn].into_iter().chain(params).map(AsRef::as_ref).collect(),
        Expr::UnaryExpr { expr, .. } => vec![expr],
        Expr::RefDot { refr, .. } => vec![refr],
        Expr::RefBrack { refr, index, .. } => vec![refr, index],
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { lhs, rhs, .. } => vec![lhs, rhs],
        Expr::Membership { key, value, collection, .. } => {
            key.iter().chain([value, collection]).map(AsRef::as_ref).collect()
        }
        _ => Vec::new(),
    }
}
