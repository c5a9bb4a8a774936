//! What is undefined to OPA and an error to the evaluator: iterating over what is no collection, computing with what is no
//! number or set.
//!
//! The error costs all results of the question. So after one, the same modules are asked again with every such operand
//! passed through an extension that is undefined where the operand is unfit; always doing that would cost each evaluation.
//! Functions with several definitions are written like that from the start: there the evaluator drops an error if another
//! definition has a value, and does not tidy up behind it.

use anyhow::Result;
use regorus::{Engine, Value};

use super::{
    Package,
    growth::BOUNDED,
    print, read,
    syntax::{Expr, Kind, Module, Rule, What},
};
use crate::rego::builtins;

/// `collection(x)` is `x` if it can be iterated over.
const COLLECTION: &str = "kaudit_generated.collection";

/// `operand(operator, x, y)` is `x` if `x operator y` can be computed.
const OPERAND: &str = "kaudit_generated.operand";

/// `pair(key, value, xs)` is `key, value in xs`.
pub(crate) const PAIR: &str = "kaudit_generated.pair";

/// `member(value, xs)` is `value in xs`.
pub(crate) const MEMBER: &str = "kaudit_generated.member";

/// Whether the adapter writes calls of a function of this name.
pub(crate) fn introduces(name: &str) -> bool {
    matches!(name, BOUNDED | COLLECTION | OPERAND | MEMBER | PAIR)
}

/// Adds the extensions that adapted modules may call.
pub(crate) fn support(engine: &mut Engine) -> Result<()> {
    engine.add_extension(
        BOUNDED.to_owned(),
        1,
        Box::new(|arguments| builtins::bounded(arguments.into_iter().next().unwrap_or(Value::Undefined))),
    )?;
    engine.add_extension(
        COLLECTION.to_owned(),
        1,
        Box::new(|arguments| {
            let value = arguments.into_iter().next().unwrap_or(Value::Undefined);
            let fit = matches!(value, Value::Array(_) | Value::Set(_) | Value::Object(_));
            Ok(if fit { value } else { Value::Undefined })
        }),
    )?;
    engine.add_extension(
        OPERAND.to_owned(),
        3,
        Box::new(|arguments| match <[Value; 3]>::try_from(arguments) {
            Ok([operator, left, right]) if fits(operator.as_string()?, &left, &right) => Ok(left),
            _ => Ok(Value::Undefined),
        }),
    )?;
    engine.add_extension(
        MEMBER.to_owned(),
        2,
        Box::new(|arguments| match arguments.as_slice() {
            [value, collection] => Ok(Value::from(is_member(value, collection))),
            _ => Ok(Value::Undefined),
        }),
    )?;
    engine.add_extension(
        PAIR.to_owned(),
        3,
        Box::new(|arguments| match <[Value; 3]>::try_from(arguments) {
            Ok([key, value, collection]) => Ok(Value::from(is_pair(&key, &value, &collection))),
            Err(_) => Ok(Value::Undefined),
        }),
    )
}

fn is_member(value: &Value, collection: &Value) -> bool {
    match collection {
        Value::Set(items) => items.contains(value),
        Value::Array(items) => items.iter().any(|item| item == value),
        Value::Object(fields) => fields.iter().any(|(_, item)| item == value),
        _ => false,
    }
}

fn is_pair(key: &Value, value: &Value, collection: &Value) -> bool {
    match collection {
        Value::Set(items) => key == value && items.contains(value),
        Value::Array(_) | Value::Object(_) => collection[key] == *value,
        _ => false,
    }
}

fn fits(operator: &str, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Set(_), Value::Set(_)) => matches!(operator, "-" | "|" | "&"),
        (Value::Number(left), Value::Number(right)) => match operator {
            "%" => left.is_integer() && right.is_integer(),
            _ => !matches!(operator, "|" | "&"),
        },
        _ => false,
    }
}

/// Returns an adapted module as it is asked after an error.
pub(crate) fn tolerant(text: &str) -> Option<(String, super::Version)> {
    let mut module = read(text, None).ok()?;
    module.rules.iter_mut().for_each(rewrite);
    Some((print::module(&module), module.version))
}

/// Makes functions with several definitions tolerant.
pub(crate) fn functions(module: &mut Module, package: &Package) {
    for rule in &mut module.rules {
        let name = match &rule.name.kind {
            Kind::Ref(head, _) => head.as_name(),
            _ => rule.name.as_name(),
        };
        let definitions = name.and_then(|name| package.rules.get(name)).map_or(0, |known| known.definitions);
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
                && !is_call(collection, COLLECTION)
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
        if !is_call(left, OPERAND) {
            let at = left.at;
            let inner = left.take();
            let operator = Expr::scalar(at, &format!("\"{operator}\""));
            **left = Expr::call(at, OPERAND, vec![operator, inner, (**right).clone()]);
        }
    });
}

pub(crate) fn is_call(expr: &Expr, name: &str) -> bool {
    let Kind::Call(function, _) = &expr.kind else { return false };
    function.path().is_some_and(|path| path.join(".") == name)
}
