//! Type errors: iterating over what is no collection, computing with what is no number or set. They are undefined to OPA and
//! errors to regorus.
//!
//! Such an error costs all results of the query. So after one, the same modules are evaluated again with every such operand
//! passed through an extension that is undefined where the operand is unfit; always doing that would slow each evaluation.
//! Functions with several definitions are written like that from the start: there regorus drops an error if another
//! definition has a value, and does not tidy up behind it.

use super::{
    extensions::{COLLECTION, OPERAND},
    outline::Package,
};
use crate::rego::syntax::{Expr, Kind, Module, Rule, What};

/// Makes the type errors of all rules undefined.
pub(super) fn everywhere(module: &mut Module) {
    module.rules.iter_mut().for_each(rewrite);
}

/// Makes those of functions with several definitions undefined.
pub(super) fn in_functions(module: &mut Module, package: &Package) {
    for rule in &mut module.rules {
        let definitions = rule.first_name().and_then(|name| package.rules.get(name)).map_or(0, |known| known.count);
        if rule.parameters.is_some() && !rule.default && definitions > 1 {
            rewrite(rule);
        }
    }
}

fn rewrite(rule: &mut Rule) {
    rule.each_body(&mut |body| {
        for statement in body {
            if let What::SomeIn { collection, .. } = &mut statement.what
                && !matches!(collection.kind, Kind::Array(_) | Kind::Set(_) | Kind::Object(_) | Kind::Comprehension(_))
                && !collection.is_call(COLLECTION)
            {
                let inner = collection.take();
                *collection = Expr::call(inner.at, COLLECTION, vec![inner]);
            }
        }
    });
    rule.each_expr(&mut |expr| {
        let Kind::Binary(operator @ ("+" | "-" | "*" | "/" | "%" | "|" | "&"), _, left, right) = &mut expr.kind else {
            return;
        };
        if !left.is_call(OPERAND) {
            let at = left.at;
            let inner = left.take();
            let operator = Expr::scalar(at, &format!("\"{operator}\""));
            **left = Expr::call(at, OPERAND, vec![operator, inner, (**right).clone()]);
        }
    });
}
