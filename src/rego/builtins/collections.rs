//! Arrays, sets and objects: what regorus lacks, and the deprecated builtins.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;

use super::{
    budget,
    call::{Answer, Builtin, array, failed, items, wrong_type},
    natives::native,
};

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
    ("json.remove", 2, json_remove),
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
        budget::check_elements("array.flatten", flat.len())?;
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
        Some(items) => Ok(Value::from(items.into_iter().cloned().collect::<BTreeSet<_>>())),
        None => wrong_type(1, "one of {array, set}", &arguments[0]),
    }
}

fn set_diff(arguments: &[Value]) -> Answer {
    match (&arguments[0], &arguments[1]) {
        (Value::Set(left), Value::Set(right)) => Ok(left.difference(right).into_value()),
        _ => failed("operands must be sets"),
    }
}

/// regorus cuts arrays into windows as long as the second one, and panics where that is empty.
fn subset(arguments: &[Value]) -> Answer {
    match (&arguments[0], &arguments[1]) {
        (Value::Array(_), Value::Array(part)) if part.iter().next().is_none() => Ok(Value::from(true)),
        (Value::Object(_), Value::Object(_))
        | (Value::Set(_), Value::Set(_))
        | (Value::Array(_), Value::Array(_) | Value::Set(_)) => native("object.subset", arguments),
        _ => failed("both arguments object.subset must be of the same type or array and set"),
    }
}

/// Keys to take away: all below, or only some of what is below.
#[derive(Default)]
struct Removal(BTreeMap<Value, Self>);

impl Removal {
    fn add(&mut self, path: &[Value]) {
        let Some((last, to)) = path.split_last() else { return };
        let mut at = self;
        for key in to {
            // What is taken away as a whole has nothing below.
            if at.0.get(key).is_some_and(|below| below.0.is_empty()) {
                return;
            }
            at = at.0.entry(key.clone()).or_default();
        }
        at.0.insert(last.clone(), Self::default());
    }

    /// Returns what is left of the value at a key.
    fn left(&self, key: &Value, value: &Value) -> Option<Value> {
        match self.0.get(key) {
            None => Some(value.clone()),
            Some(below) if below.0.is_empty() => None,
            Some(below) => Some(below.from(value)),
        }
    }

    fn from(&self, value: &Value) -> Value {
        match value {
            Value::Object(entries) => {
                let left = |(key, value): (&Value, &Value)| Some((key.clone(), self.left(key, value)?));
                Value::from(entries.iter().filter_map(left).collect::<BTreeMap<_, _>>())
            }
            Value::Array(items) => {
                let left = |(at, item): (usize, &Value)| self.left(&Value::from(at.to_string()), item);
                Value::from(items.iter().enumerate().filter_map(left).collect::<Vec<_>>())
            }
            Value::Set(items) => {
                Value::from(items.iter().filter_map(|item| self.left(item, item)).collect::<BTreeSet<_>>())
            }
            _ => value.clone(),
        }
    }
}

fn json_remove(arguments: &[Value]) -> Answer {
    let Value::Object(_) = &arguments[0] else { return wrong_type(1, "object", &arguments[0]) };
    let Some(paths) = items(&arguments[1]) else { return wrong_type(2, "one of {set, array}", &arguments[1]) };
    let mut removal = Removal::default();
    for path in paths {
        match path {
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => {
                let keys = text.trim_start_matches('/').split('/');
                removal
                    .add(&keys.map(|key| Value::from(key.replace("~1", "/").replace("~0", "~"))).collect::<Vec<_>>());
            }
            Value::Array(keys) => removal.add(&keys.iter().cloned().collect::<Vec<_>>()),
            _ => {
                return failed(
                    "operand 2 must be one of {set, array} containing string paths or array of path segments",
                );
            }
        }
    }
    Ok(removal.from(&arguments[0]))
}
