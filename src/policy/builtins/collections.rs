//! Arrays, sets and objects: what the evaluator lacks, and the deprecated builtins.

use regorus::Value;

use super::{Answer, Builtin, array, failed, items, native, wrong_type};

pub(super) const TABLE: &[Builtin] = &[
    ("all", 1, |arguments| quantified(arguments, true)),
    ("any", 1, |arguments| quantified(arguments, false)),
    ("array.flatten", 1, flatten),
    ("cast_array", 1, cast_array),
    ("cast_boolean", 1, |arguments| cast(arguments, "boolean", |value| matches!(value, Value::Bool(_)))),
    ("cast_null", 1, |arguments| cast(arguments, "null", |value| matches!(value, Value::Null))),
    ("cast_object", 1, |arguments| cast(arguments, "object", |value| matches!(value, Value::Object(_)))),
    ("cast_set", 1, cast_set),
    ("cast_string", 1, |arguments| cast(arguments, "string", |value| matches!(value, Value::String(_)))),
    ("object.subset", 2, subset),
    ("set_diff", 2, set_diff),
];

/// Whether all items are true; whether any is. For no items: the neutral answer.
fn quantified(arguments: &[Value], all: bool) -> Answer {
    let Some(items) = items(&arguments[0]) else { return wrong_type(1, "one of {array, set}", &arguments[0]) };
    let holds = |item: &&Value| **item == Value::Bool(true);
    Ok(Value::from(if all { items.iter().all(holds) } else { items.iter().any(holds) }))
}

fn flatten(arguments: &[Value]) -> Answer {
    let mut flat = Vec::new();
    for item in array(arguments, 0)? {
        match item {
            Value::Array(inner) => flat.extend(inner.iter().cloned()),
            other => flat.push(other.clone()),
        }
    }
    Ok(Value::from(flat))
}

fn cast(arguments: &[Value], wanted: &str, is: fn(&Value) -> bool) -> Answer {
    if is(&arguments[0]) { Ok(arguments[0].clone()) } else { wrong_type(1, wanted, &arguments[0]) }
}

fn cast_array(arguments: &[Value]) -> Answer {
    match items(&arguments[0]) {
        Some(items) => Ok(Value::from(items.into_iter().cloned().collect::<Vec<_>>())),
        None => wrong_type(1, "one of {array, set}", &arguments[0]),
    }
}

fn cast_set(arguments: &[Value]) -> Answer {
    match items(&arguments[0]) {
        Some(items) => Ok(Value::from(items.into_iter().cloned().collect::<std::collections::BTreeSet<_>>())),
        None => wrong_type(1, "one of {array, set}", &arguments[0]),
    }
}

fn set_diff(arguments: &[Value]) -> Answer {
    match (&arguments[0], &arguments[1]) {
        (Value::Set(left), Value::Set(right)) => Ok(left.difference(right).into_value()),
        _ => failed("operands must be sets"),
    }
}

/// The evaluator cuts arrays into windows as long as the second one, and panics where that is empty.
fn subset(arguments: &[Value]) -> Answer {
    match (&arguments[0], &arguments[1]) {
        (Value::Array(_), Value::Array(part)) if part.iter().next().is_none() => Ok(Value::from(true)),
        _ => native("object.subset", arguments),
    }
}
