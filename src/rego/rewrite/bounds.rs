//! Bounds for what regorus does without a call that could be measured, and what could take all memory or time.

use super::extensions::BOUNDED;
use crate::rego::syntax::{Expr, Kind, Module};

/// `x * y`: a few dozen lines make a number that is too long to be written. A constant factor adds its digits only.
pub(super) fn products(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            if let Kind::Binary("*", _, left, right) = &mut expr.kind
                && ![&left, &right].into_iter().any(|factor| matches!(factor.kind, Kind::Scalar(_)))
            {
                *expr = Expr::call(expr.at, "internal.mul", vec![left.take(), right.take()]);
            }
        });
    }
}

/// `walk(x, y)` and `print(x)` go through all of `x`, what it holds several times as often.
pub(super) fn whole_values(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            let Kind::Call(function, arguments) = &mut expr.kind else { return };
            let gone_through = match function.as_name().map(|name| &**name) {
                Some("walk") => 1,
                Some("print") => arguments.len(),
                _ => 0,
            };
            for argument in arguments.iter_mut().take(gone_through) {
                if !matches!(argument.kind, Kind::Scalar(_)) && !argument.is_call(BOUNDED) {
                    let at = argument.at;
                    *argument = Expr::call(at, BOUNDED, vec![argument.take()]);
                }
            }
        });
    }
}
