//! Arrays, sets and objects: builtins that regorus lacks, and deprecated ones.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use regorus::{
    Value,
    value::{Array, Object, Set},
};

use super::{
    budget,
    call::{Builtin, BuiltinFault, BuiltinResult, array, failed, items, wrong_type},
};
use crate::order;

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
    ("count", 1, count),
    ("json.filter", 2, json_filter),
    ("json.remove", 2, json_remove),
    ("max", 1, |arguments| extreme(arguments, Ordering::Greater)),
    ("min", 1, |arguments| extreme(arguments, Ordering::Less)),
    ("object.subset", 2, subset),
    ("object.union_n", 1, union_n),
    ("set_diff", 2, set_diff),
    ("sort", 1, sort),
];

/// Returns the number of elements; of a string, the number of code points.
fn count(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(match &arguments[0] {
        Value::Array(items) => items.len(),
        Value::Set(items) => items.len(),
        Value::Object(fields) => fields.len(),
        Value::String(text) => text.chars().count(),
        other => return wrong_type(1, "one of {array, object, set, string}", other),
    }))
}

/// Returns the first item that is less, or greater, than all others.
fn extreme(arguments: &[Value], wanted: Ordering) -> BuiltinResult {
    let Some(items) = items(&arguments[0]) else { return wrong_type(1, "one of {array, set}", &arguments[0]) };
    let better = |best: &'_ Value, item: &'_ Value| order::compare(item, best) == wanted;
    let best = items.into_iter().reduce(|best, item| if better(best, item) { item } else { best });
    Ok(best.cloned().unwrap_or(Value::Undefined))
}

fn sort(arguments: &[Value]) -> BuiltinResult {
    let Some(mut items) = items(&arguments[0]) else { return wrong_type(1, "one of {array, set}", &arguments[0]) };
    items.sort_by(|left, right| order::compare(left, right));
    Ok(Value::from(items.into_iter().cloned().collect::<Vec<_>>()))
}

/// Whether all items are `true`, or, if not `all`, whether any item is.
fn quantified(arguments: &[Value], all: bool) -> BuiltinResult {
    let Some(items) = items(&arguments[0]) else { return wrong_type(1, "one of {array, set}", &arguments[0]) };
    let holds = |item: &&Value| **item == Value::Bool(true);
    Ok(Value::from(if all { items.iter().all(holds) } else { items.iter().any(holds) }))
}

/// Merges objects from left to right. regorus' builtin copies what it has merged so far for each of them.
fn union_n(arguments: &[Value]) -> BuiltinResult {
    let mut merged = Object::new();
    for (index, object) in array(arguments, 0)?.enumerate() {
        let Value::Object(fields) = object else {
            return failed(format!("object.union_n: element {index} of the array is not an object"));
        };
        merge(&mut merged, fields);
    }
    let merged = Value::Object(regorus::Rc::new(merged));
    budget::check_whole("object.union_n", &merged)?;
    Ok(merged)
}

/// Adds the fields of an object; where both values are objects, they are merged.
fn merge(merged: &mut Object, fields: &Object) {
    for (key, value) in fields.iter() {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(regorus::Rc::make_mut(known), more),
            (Some(known), _) => *known = value.clone(),
            (None, _) => drop(merged.insert(key.clone(), value.clone())),
        }
    }
}

fn flatten(arguments: &[Value]) -> BuiltinResult {
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

fn cast(arguments: &[Value], wanted: &str, is: fn(&Value) -> bool) -> BuiltinResult {
    if is(&arguments[0]) { Ok(arguments[0].clone()) } else { wrong_type(1, wanted, &arguments[0]) }
}

fn cast_array(arguments: &[Value]) -> BuiltinResult {
    match items(&arguments[0]) {
        Some(items) => Ok(Value::from(items.into_iter().cloned().collect::<Vec<_>>())),
        None => wrong_type(1, "one of {array, set}", &arguments[0]),
    }
}

fn cast_set(arguments: &[Value]) -> BuiltinResult {
    match items(&arguments[0]) {
        Some(items) => Ok(Value::from(items.into_iter().cloned().collect::<BTreeSet<_>>())),
        None => wrong_type(1, "one of {array, set}", &arguments[0]),
    }
}

fn set_diff(arguments: &[Value]) -> BuiltinResult {
    match (&arguments[0], &arguments[1]) {
        (Value::Set(left), Value::Set(right)) => Ok(left.difference(right).into_value()),
        _ => failed("operands must be sets"),
    }
}

fn subset(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(match (&arguments[0], &arguments[1]) {
        (Value::Object(all), Value::Object(part)) => has_fields(all, part),
        (Value::Set(all), Value::Set(part)) => has_items(all, part),
        (Value::Array(all), Value::Array(part)) => has_run(all, part),
        (Value::Array(all), Value::Set(part)) => counts_items(all, part),
        _ => return failed("both arguments object.subset must be of the same type or array and set"),
    }))
}

/// Whether an object has all fields of another one, with equal values or with values that contain those of the other,
/// at any depth.
fn has_fields(all: &Object, part: &Object) -> bool {
    part.iter().all(|(key, wanted)| match (all.get(key), wanted) {
        (Some(value), wanted) if value == wanted => true,
        (Some(Value::Object(all)), Value::Object(part)) => has_fields(all, part),
        (Some(Value::Set(all)), Value::Set(part)) => has_items(all, part),
        (Some(Value::Array(all)), Value::Array(part)) => has_run(all, part),
        _ => false,
    })
}

fn has_items(all: &Set, part: &Set) -> bool {
    part.iter().all(|item| all.contains(item))
}

/// Whether the items of an array occur as consecutive items in another one.
fn has_run(all: &Array, part: &Array) -> bool {
    let wanted = part.len();
    wanted == 0 || all.iter().collect::<Vec<_>>().windows(wanted).any(|run| run.iter().copied().eq(part.iter()))
}

/// Whether an array has as many items in the set as the set has elements; OPA counts equal items of the array
/// repeatedly.
fn counts_items(all: &Array, part: &Set) -> bool {
    let mut missing = part.len();
    all.iter().any(|item| {
        if part.contains(item) {
            missing = missing.saturating_sub(1);
        }
        missing == 0
    })
}

/// A tree of selected paths; a node without children selects everything below it.
#[derive(Default)]
struct Paths(BTreeMap<Value, Self>);

impl Paths {
    fn read(argument: &Value) -> Result<Self, BuiltinFault> {
        let Some(given) = items(argument) else { return wrong_type(2, "one of {set, array}", argument) };
        let mut paths = Self::default();
        for path in given {
            match path {
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => {
                    let keys = text.trim_start_matches('/').split('/');
                    paths.add(
                        &keys.map(|key| Value::from(key.replace("~1", "/").replace("~0", "~"))).collect::<Vec<_>>(),
                    );
                }
                Value::Array(keys) => paths.add(&keys.iter().cloned().collect::<Vec<_>>()),
                _ => {
                    return failed(
                        "operand 2 must be one of {set, array} containing string paths or array of path segments",
                    );
                }
            }
        }
        Ok(paths)
    }

    fn add(&mut self, path: &[Value]) {
        let Some((last, to)) = path.split_last() else { return };
        let mut at = self;
        for key in to {
            // A path below one that is already selected as a whole adds nothing.
            if at.0.get(key).is_some_and(Self::is_whole) {
                return;
            }
            at = at.0.entry(key.clone()).or_default();
        }
        at.0.insert(last.clone(), Self::default());
    }

    fn is_whole(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a value with the parts for which `part` returns something.
    fn mapped(value: &Value, part: impl Fn(&Value, &Value) -> Option<Value>) -> Value {
        match value {
            Value::Object(entries) => {
                let kept = entries.iter().filter_map(|(key, value)| Some((key.clone(), part(key, value)?)));
                Value::from(kept.collect::<BTreeMap<_, _>>())
            }
            Value::Array(items) => {
                let kept = |(at, item): (usize, &Value)| part(&Value::from(at.to_string()), item);
                Value::from(items.iter().enumerate().filter_map(kept).collect::<Vec<_>>())
            }
            Value::Set(items) => Value::from(items.iter().filter_map(|item| part(item, item)).collect::<BTreeSet<_>>()),
            _ => value.clone(),
        }
    }

    fn without(&self, value: &Value) -> Value {
        Self::mapped(value, |key, value| match self.0.get(key) {
            None => Some(value.clone()),
            Some(below) => (!below.is_whole()).then(|| below.without(value)),
        })
    }

    fn only(&self, value: &Value) -> Value {
        Self::mapped(value, |key, value| {
            let below = self.0.get(key)?;
            Some(if below.is_whole() { value.clone() } else { below.only(value) })
        })
    }
}

fn json_filter(arguments: &[Value]) -> BuiltinResult {
    let Value::Object(_) = &arguments[0] else { return wrong_type(1, "object", &arguments[0]) };
    Ok(Paths::read(&arguments[1])?.only(&arguments[0]))
}

fn json_remove(arguments: &[Value]) -> BuiltinResult {
    let Value::Object(_) = &arguments[0] else { return wrong_type(1, "object", &arguments[0]) };
    Ok(Paths::read(&arguments[1])?.without(&arguments[0]))
}
