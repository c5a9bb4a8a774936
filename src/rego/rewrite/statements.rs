//! Statements and operators that regorus refuses or misreads.

use std::{collections::HashMap, sync::Arc};

use super::{
    extensions::{MEMBER, PAIR},
    outline::{Outline, Package},
    scopes::Fresh,
};
use crate::rego::builtins::{self, Arity};
use crate::rego::syntax::{
    Branch, Comprehension, ComprehensionKind, Expr, Key, Kind, Module, Name, Piece, Position, Rule, Statement, What,
};

/// `x = s[x]`: what defines `x` is the iteration, the rest a comparison.
pub(super) fn self_references(module: &mut Module) {
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

/// `some x in xs` at the end of a body gets a statement behind it: regorus looks at the limit of memory only where it evaluates
/// statements, and not while it collects what the last loop gives.
pub(super) fn last_loops(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            if let Some(Statement { what: What::SomeIn { value, .. }, .. }) = body.last() {
                let truth = Expr::scalar(value.at, "true");
                body.push(Statement::plain(truth));
            }
        });
    }
}

/// `-x` is `0 - x`.
pub(super) fn minus(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            if let Kind::Minus(inner) = &mut expr.kind {
                let inner = inner.take();
                *expr = Expr::binary("-", Expr::scalar(expr.at, "0"), inner);
            }
        });
    }
}

/// `f(x, y)` as a statement, where `f` takes one argument, is `y = f(x)`: extensions know no other way.
pub(super) fn outputs(module: &mut Module, package: &Package, outline: &Outline) {
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            for statement in body {
                let (What::Expr(expr) | What::Not(expr)) = &mut statement.what else { continue };
                let Kind::Call(function, arguments) = &mut expr.kind else { continue };
                let path = function.path().unwrap_or_default();
                if path.len() == 1 && &*path[0] == "walk" {
                    continue;
                }
                let arity = outline.arity(package, &path);
                if arity.is_none_or(|arity| arguments.len() != arity + 1) {
                    continue;
                }
                if let Some(mut output) = arguments.pop() {
                    output.at = expr.at;
                    let call = expr.take();
                    *expr = Expr::binary("=", output, call);
                }
            }
        });
    }
}

/// `walk` has many results; regorus knows it as `walk(x, pattern)` alone, as a statement.
pub(super) fn walks(module: &mut Module, fresh: &mut Fresh) {
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            let mut index = 0;
            while index < body.len() {
                let statement = &mut body[index];
                let mut found = Vec::new();
                match &mut statement.what {
                    What::Expr(Expr { kind: Kind::Binary("=" | ":=", _, left, right), .. }) if is_walk(right, 1) => {
                        left.parts(&mut |part| take_walks(part, fresh, &mut found));
                        let pattern = left.take();
                        let mut call = right.take();
                        if let Kind::Call(_, arguments) = &mut call.kind {
                            arguments.push(pattern);
                        }
                        statement.what = What::Expr(call);
                    }
                    What::Expr(expr) if is_walk(expr, 1) => {
                        expr.parts(&mut |part| take_walks(part, fresh, &mut found));
                        let anything = Expr::name(expr.at, &"_".into());
                        if let Kind::Call(_, arguments) = &mut expr.kind {
                            arguments.push(anything);
                        }
                    }
                    What::Expr(expr) | What::Not(expr) if is_walk(expr, 2) || is_walk(expr, 1) => {
                        expr.parts(&mut |part| take_walks(part, fresh, &mut found));
                    }
                    _ => statement.exprs(&mut |expr| take_walks(expr, fresh, &mut found)),
                }
                let with = statement.with.clone();
                for taken in found {
                    body.insert(index, Statement { with: with.clone(), ..taken });
                    index += 1;
                }
                index += 1;
            }
        });
    }
}

fn is_walk(expr: &Expr, count: usize) -> bool {
    matches!(&expr.kind, Kind::Call(function, arguments)
        if function.as_name().is_some_and(|name| &**name == "walk") && arguments.len() == count)
}

/// Takes calls of `walk` out of an expression.
fn take_walks(expr: &mut Expr, fresh: &mut Fresh, taken: &mut Vec<Statement>) {
    expr.parts(&mut |part| take_walks(part, fresh, taken));
    if is_walk(expr, 1) {
        let name = Expr::name(expr.at, &fresh.name("walked"));
        let mut call = std::mem::replace(expr, name.clone());
        if let Kind::Call(_, arguments) = &mut call.kind {
            arguments.push(name);
        }
        taken.push(Statement::plain(call));
    }
}

/// Membership. With a key, regorus finds nothing in sets, whose keys are their elements; inside of an expression it
/// takes the elements of an undefined collection for none, where OPA's value is undefined.
pub(super) fn memberships(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            if let Kind::In { key, value, collection } = &mut expr.kind {
                let function = if key.is_some() { PAIR } else { MEMBER };
                let parts = key.take().into_iter().map(|key| *key).chain([value.take(), collection.take()]);
                *expr = Expr::call(expr.at, function, parts.collect());
            }
        });
        // As a statement, false is as good as undefined.
        rule.each_body(&mut |body| {
            for statement in body {
                if let What::Expr(expr) | What::Not(expr) = &mut statement.what
                    && expr.is_call(MEMBER)
                    && let Kind::Call(_, arguments) = &mut expr.kind
                    && let Some(collection) = arguments.pop()
                    && let Some(value) = arguments.pop()
                {
                    expr.kind = Kind::In { key: None, value: Box::new(value), collection: Box::new(collection) };
                }
            }
        });
    }
}

/// `with f as builtin`: regorus replaces functions by functions of policies, so the builtin gets one around it.
pub(super) fn replacements(module: &mut Module, package: &Package, outline: &Outline, fresh: &mut Fresh) {
    let mut added: Vec<Rule> = Vec::new();
    for rule in &mut module.rules {
        // A variable that is called like a builtin is a value.
        let mut named = HashMap::<Name, usize>::new();
        rule.each_expr(&mut |expr| {
            if let Kind::Name(name) = &expr.kind {
                *named.entry(Arc::clone(name)).or_default() += 1;
            }
        });
        rule.each_body(&mut |body| {
            for with in body.iter_mut().flat_map(|statement| &mut statement.with) {
                let (Some(target), Some(path)) = (with.target.path(), with.value.path()) else { continue };
                let variable =
                    package.rules.contains_key(&path[0]) || named.get(&path[0]).is_some_and(|times| *times > 1);
                if variable || outline.arity(package, &target).is_none() {
                    continue;
                }
                if let Some(Arity::Exactly(arity)) = builtins::find(&path.join(".")) {
                    let around = function_around(with.value.at, &path, arity, fresh);
                    with.value = around.name.clone();
                    added.push(around);
                }
            }
        });
    }
    module.rules.append(&mut added);
}

/// `count__1(x__1) := count(x__1)`.
fn function_around(at: Position, builtin: &[Name], arity: u8, fresh: &mut Fresh) -> Rule {
    let name = Expr::name(at, &fresh.name(&builtin.join("_")));
    let parameters: Vec<Expr> = (0..arity).map(|_| Expr::name(at, &fresh.name("x"))).collect();
    let value = Some((":=", Expr::call(at, &builtin.join("."), parameters.clone())));
    let first = Branch { at, value, conditional: false, body: None };
    Rule {
        at,
        default: false,
        name,
        parameters: Some(parameters),
        contains: None,
        first,
        others: Vec::new(),
        last_line: at.line,
    }
}

/// Template strings, as OPA itself lowers them: each expression becomes a set that is empty where it is undefined.
pub(super) fn templates(module: &mut Module, fresh: &mut Fresh) {
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
    let body = vec![Statement { what, ..statement }];
    Expr::new(at, Kind::Comprehension(Box::new(Comprehension { form: ComprehensionKind::Set, key: None, term, body })))
}
