//! What regorus computes by operators that differ from OPA's, or without a bound on time and memory.

use super::extensions::BOUNDED;
use crate::rego::syntax::{Expr, Kind, Module};

/// `x + y`, `x - y`, `x * y` and `x / y`: OPA computes with decimals, and regorus with 64-bit floats; a few dozen products make a
/// number that is too long to be written.
pub(super) fn arithmetic(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            let Kind::Binary(operator, _, left, right) = &mut expr.kind else { return };
            let is_whole = |operand: &Expr| {
                matches!(&operand.kind, Kind::Scalar(text) if text.bytes().all(|byte| byte.is_ascii_digit()))
            };
            let name = match *operator {
                _ if is_whole(left) && is_whole(right) => return,
                "+" => "internal.plus",
                "-" => "internal.minus",
                "*" => "internal.mul",
                "/" => "internal.div",
                _ => return,
            };
            *expr = Expr::call(expr.at, name, vec![left.take(), right.take()]);
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
