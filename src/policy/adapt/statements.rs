//! Statements and operators that the evaluator refuses or misreads.

use super::{
    Outline, Package,
    scopes::Fresh,
    syntax::{Comprehension, Expr, Form, Key, Kind, Module, Piece, Statement, What},
};

/// `x = s[x]`: what defines `x` is the iteration, the rest a comparison.
pub(crate) fn self_references(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            for statement in body {
                let What::Expr(Expr { kind: Kind::Binary(operator @ "=", _, left, right), .. }) = &mut statement.what
                else {
                    continue;
                };
                if refers_to_itself(left, right) {
                    std::mem::swap(left, right);
                    *operator = "==";
                } else if refers_to_itself(right, left) {
                    *operator = "==";
                }
            }
        });
    }
}

fn refers_to_itself(name: &Expr, reference: &mut Expr) -> bool {
    let Some(name) = name.as_name().filter(|name| &***name != "_").cloned() else { return false };
    let Kind::Ref(_, keys) = &reference.kind else { return false };
    keys.iter().any(|key| matches!(key, Key::Index(index) if index.as_name() == Some(&name)))
}

/// `-x` is `0 - x`.
pub(crate) fn minus(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            if let Kind::Minus(inner) = &mut expr.kind {
                let zero = Expr::scalar(expr.at, "0");
                let inner = std::mem::replace(&mut **inner, zero.clone());
                *expr = Expr::binary("-", zero, inner);
            }
        });
    }
}

/// `f(x, y)` as a statement, where `f` takes one argument, is `y = f(x)`: extensions know no other way.
pub(crate) fn outputs(module: &mut Module, package: &Package, outline: &Outline) {
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            for statement in body {
                let (What::Expr(expr) | What::Not(expr)) = &mut statement.what else { continue };
                let Kind::Call(function, arguments) = &mut expr.kind else { continue };
                let path = function.path().unwrap_or_default();
                // It has many results; the evaluator knows it in this form only.
                if path.len() == 1 && &*path[0] == "walk" {
                    continue;
                }
                let arity = outline.arity(package, &path);
                if arity.is_none_or(|arity| arguments.len() != arity + 1) {
                    continue;
                }
                if let Some(mut output) = arguments.pop() {
                    output.at = expr.at;
                    let call = std::mem::replace(expr, Expr::scalar(output.at, "null"));
                    *expr = Expr::binary("=", output, call);
                }
            }
        });
    }
}

/// Template strings, as OPA itself lowers them: each expression becomes a set that is empty where it is undefined.
pub(crate) fn templates(module: &mut Module, fresh: &mut Fresh) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            let Kind::Template(pieces) = &mut expr.kind else { return };
            let at = expr.at;
            let items = std::mem::take(pieces).into_iter().map(|piece| match piece {
                Piece::Text(text) => Expr::scalar(at, &text),
                Piece::Statement(statement) => captured(*statement, fresh),
            });
            let items = Expr::new(at, Kind::Array(items.collect()));
            *expr = Expr::call(at, "internal.template_string", vec![items]);
        });
    }
}

/// `{part | part := expression}`.
fn captured(statement: Statement, fresh: &mut Fresh) -> Expr {
    let at = statement.at;
    let term = Expr::name(at, &fresh.name("part"));
    let What::Expr(value) = statement.what else { return term };
    let what = What::Expr(Expr::binary(":=", term.clone(), value));
    let body = vec![Statement { at, what, with: statement.with }];
    Expr::new(at, Kind::Comprehension(Box::new(Comprehension { form: Form::Set, key: None, term, body })))
}
