//! The parts of a statement: the expressions whose values explain it.

use std::collections::BTreeSet;

use crate::syntax::{Expr, ExprKind, Key, Name, Statement, StatementNode};

/// Collects an expression that is an operand, and its parts.
pub(super) fn operand<'e>(expr: &'e Expr, parts: &mut Vec<&'e Expr>) {
    let is_shown = match &expr.kind {
        ExprKind::Call(..) | ExprKind::Comprehension(_) | ExprKind::Ref(..) => true,
        ExprKind::Binary(operator, ..) => matches!(*operator, "+" | "-" | "*" | "/" | "%" | "|" | "&"),
        ExprKind::Name(name) => !name.starts_with('_') && &**name != "data",
        _ => false,
    };
    if is_shown {
        parts.push(expr);
    }
    inner(expr, parts);
}

/// Collects the operands of an expression.
pub(super) fn inner<'e>(expr: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match &expr.kind {
        ExprKind::Object(fields) => fields.iter().for_each(|(_, value)| operand(value, parts)),
        // The parts that determine the reference: `x` of `x.a[i]`, and `i`.
        ExprKind::Ref(head, keys) => {
            base(head, parts);
            keys.iter().filter_map(Key::index).for_each(|index| operand(index, parts));
        }
        ExprKind::Binary(":=", _, right) => operand(right, parts),
        _ => {
            for part in expr.children() {
                operand(part, parts);
            }
        }
    }
}

/// Collects the head of a reference, unless it is a document.
fn base<'e>(head: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match head.as_name() {
        Some(name) if matches!(&**name, "data" | "input") => {}
        _ => operand(head, parts),
    }
}

/// Collects the variables and keys of an expression, shown or not, which determine where a reference leads.
pub(super) fn keys_and_variables<'e>(expr: &'e Expr, found: &mut Vec<&'e Expr>) {
    match &expr.kind {
        ExprKind::Name(name) if !name.starts_with('_') => found.push(expr),
        ExprKind::Ref(head, keys) => {
            if head.as_name().is_none_or(|name| !matches!(&**name, "data" | "input")) {
                keys_and_variables(head, found);
            }
            for index in keys.iter().filter_map(Key::index) {
                found.push(index);
                keys_and_variables(index, found);
            }
        }
        ExprKind::Object(_) => {}
        _ => {
            for part in expr.children() {
                keys_and_variables(part, found);
            }
        }
    }
}

/// Collects the names in an expression, without those of functions and those in comprehensions, which may be local.
pub(super) fn names(expr: &Expr, found: &mut BTreeSet<Name>) {
    found.extend(expr.as_name().cloned());
    for part in expr.children() {
        names(part, found);
    }
}

/// Returns an expression in which each variable without a value is renamed; `None` unless all of them are indices,
/// which bind them.
pub(super) fn with_own_variables(expr: &Expr, known: &BTreeSet<Name>) -> Option<Expr> {
    let mut unknown = BTreeSet::new();
    names(expr, &mut unknown);
    unknown.retain(|name| &**name != "_" && !known.contains(name));
    if unknown.is_empty() {
        return Some(expr.clone());
    }
    let mut indices = BTreeSet::new();
    let is_plain = indices_of(expr, &mut indices);
    if !is_plain || !unknown.is_subset(&indices) {
        return None;
    }
    let mut own = expr.clone();
    rename(&mut own, &unknown);
    Some(own)
}

/// Collects the names that are indices; returns whether the expression contains no bodies.
fn indices_of(expr: &Expr, found: &mut BTreeSet<Name>) -> bool {
    if let ExprKind::Ref(_, keys) = &expr.kind {
        found.extend(keys.iter().filter_map(Key::index).filter_map(Expr::as_name).cloned());
    }
    !matches!(expr.kind, ExprKind::Comprehension(_) | ExprKind::Template(_))
        && expr.children().into_iter().all(|part| indices_of(part, found))
}

fn rename(expr: &mut Expr, names: &BTreeSet<Name>) {
    match &mut expr.kind {
        ExprKind::Name(name) if names.contains(name) => *name = format!("{name}#").into(),
        _ => expr.parts(&mut |part| rename(part, names)),
    }
}

/// Collects the names that have a value after a statement.
pub(super) fn names_of_statement(statement: &Statement, found: &mut BTreeSet<Name>) {
    match &statement.kind {
        StatementNode::Expr(expr) => names(expr, found),
        StatementNode::SomeIn { key, value, collection } => {
            key.iter().chain([value, collection]).for_each(|expr| names(expr, found));
        }
        StatementNode::Every { collection, .. } => names(collection, found),
        StatementNode::Not(_) | StatementNode::Some(_) => {}
    }
}
