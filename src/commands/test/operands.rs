//! What an expression is made of: the parts whose values explain it.

use std::collections::BTreeSet;

use regorus::unstable::{AssignOp, Expr};

use super::show::ModuleText;

/// Collects the variables of an expression.
pub(super) fn variables(expr: &Expr, names: &mut BTreeSet<String>) {
    match expr {
        Expr::Var { span, .. } => {
            names.insert(span.text().to_owned());
        }
        Expr::RefDot { refr, .. } => variables(refr, names),
        Expr::RefBrack { refr, index, .. } => {
            variables(refr, names);
            variables(index, names);
        }
        Expr::Call { params: items, .. } | Expr::Array { items, .. } => {
            for item in items {
                variables(item, names);
            }
        }
        _ => {}
    }
}

/// Collects an expression that is an operand, and what it is made of.
pub(in crate::commands) fn operand(pieces: &ModuleText<'_>, expr: &Expr, parts: &mut Vec<String>) {
    let shown = match expr {
        Expr::Call { .. }
        | Expr::ArithExpr { .. }
        | Expr::BinExpr { .. }
        | Expr::ArrayCompr { .. }
        | Expr::SetCompr { .. }
        | Expr::ObjectCompr { .. }
        | Expr::RefDot { .. }
        | Expr::RefBrack { .. } => true,
        Expr::Var { span, .. } => !span.text().starts_with('_') && span.text() != "data",
        _ => false,
    };
    if shown {
        parts.push(pieces.expr(expr).to_owned());
    }
    inner(pieces, expr, parts);
}

/// Collects the operands of an expression.
pub(super) fn inner(pieces: &ModuleText<'_>, expr: &Expr, parts: &mut Vec<String>) {
    match expr {
        Expr::Array { items, .. } | Expr::Set { items, .. } | Expr::Call { params: items, .. } => {
            for item in items {
                operand(pieces, item, parts);
            }
        }
        Expr::Object { fields, .. } => fields.iter().for_each(|(_, _, value)| operand(pieces, value, parts)),
        Expr::UnaryExpr { expr, .. } => operand(pieces, expr, parts),
        // The way to the last part: `x` of `x.a[i]`, and `i`.
        Expr::RefDot { refr, .. } => base(pieces, refr, parts),
        Expr::RefBrack { refr, index, .. } => {
            base(pieces, refr, parts);
            operand(pieces, index, parts);
        }
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
            operand(pieces, lhs, parts);
            operand(pieces, rhs, parts);
        }
        Expr::AssignExpr { rhs, .. } => operand(pieces, rhs, parts),
        Expr::Membership { key, value, collection, .. } => {
            key.iter().chain([value, collection]).for_each(|part| operand(pieces, part, parts));
        }
        _ => {}
    }
}

/// Collects the variable that a reference begins with, unless it is a whole document.
fn base(pieces: &ModuleText<'_>, expr: &Expr, parts: &mut Vec<String>) {
    match expr {
        Expr::RefDot { refr, .. } => base(pieces, refr, parts),
        Expr::RefBrack { refr, index, .. } => {
            base(pieces, refr, parts);
            operand(pieces, index, parts);
        }
        Expr::Var { span, .. } if matches!(span.text(), "data" | "input") => {}
        other => operand(pieces, other, parts),
    }
}
