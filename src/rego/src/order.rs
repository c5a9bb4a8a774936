//! OPA's order of values: null, booleans, numbers, strings, arrays, objects, sets.
//!
//! The order of [`Value`], defined by regorus, has sets before objects and is otherwise the same.

use std::{cmp::Ordering, collections::BTreeMap};

use regorus::{
    Value,
    value::{Object, Set},
};

/// Compares two values.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => lists(left.iter(), right.iter()),
        (Value::Set(left), Value::Set(right)) => lists(items(left).into_iter(), items(right).into_iter()),
        (Value::Object(left), Value::Object(right)) => objects(left, right),
        (Value::Set(_), Value::Object(_)) => Ordering::Greater,
        (Value::Object(_), Value::Set(_)) => Ordering::Less,
        _ => left.cmp(right),
    }
}

/// Compares two objects by their first key, its value, their second key, and so on.
fn objects(left: &Object, right: &Object) -> Ordering {
    let (mut of_left, mut of_right) = (left.iter_sorted(), right.iter_sorted());
    loop {
        let (key, value, other_key, other_value) = match (of_left.next(), of_right.next()) {
            (Some((key, value)), Some((other_key, other_value))) => (key, value, other_key, other_value),
            (left, right) => return left.is_some().cmp(&right.is_some()),
        };
        // Scalar keys come first in both orders.
        if is_collection(key) || is_collection(other_key) {
            let parts = |fields| entries(fields).into_iter().flat_map(|(key, value)| [key, value]);
            return lists(parts(left), parts(right));
        }
        match key.cmp(other_key).then_with(|| compare(value, other_value)) {
            Ordering::Equal => {}
            order => return order,
        }
    }
}

fn lists<'a>(left: impl Iterator<Item = &'a Value>, mut right: impl Iterator<Item = &'a Value>) -> Ordering {
    for left in left {
        match right.next().map_or(Ordering::Greater, |right| compare(left, right)) {
            Ordering::Equal => {}
            order => return order,
        }
    }
    right.next().map_or(Ordering::Equal, |_| Ordering::Less)
}

/// Returns the items of a set in order.
pub(crate) fn items(set: &Set) -> Vec<&Value> {
    let mut items: Vec<&Value> = set.iter_sorted().collect();
    // Scalars come first in both orders.
    if items.last().is_some_and(|last| is_collection(last)) {
        items.sort_by(|left, right| compare(left, right));
    }
    items
}

/// Returns the keys and values of an object in the order of its keys.
pub(crate) fn entries(object: &Object) -> Vec<(&Value, &Value)> {
    let mut entries: Vec<(&Value, &Value)> = object.iter_sorted().collect();
    if entries.last().is_some_and(|(last, _)| is_collection(last)) {
        entries.sort_by(|(left, _), (right, _)| compare(left, right));
    }
    entries
}

/// Returns a value as the document that OPA writes as JSON: sets are arrays with their items in order, and keys are
/// strings.
pub(crate) fn document(value: &Value) -> Value {
    if is_document(value) {
        return value.clone();
    }
    match value {
        Value::Array(items) => items.iter().map(document).collect::<Vec<_>>().into(),
        Value::Set(set) => items(set).into_iter().map(document).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let text = |key: &Value| match key {
                Value::String(_) => key.clone(),
                other => document(other).to_string().into(),
            };
            let fields = fields.iter().map(|(key, value)| (text(key), document(value)));
            fields.collect::<BTreeMap<_, _>>().into()
        }
        scalar => scalar.clone(),
    }
}

fn is_document(value: &Value) -> bool {
    match value {
        Value::Set(_) => false,
        Value::Array(items) => items.iter().all(is_document),
        Value::Object(fields) => {
            fields.iter().all(|(key, value)| matches!(key, Value::String(_)) && is_document(value))
        }
        _ => true,
    }
}

fn is_collection(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Set(_) | Value::Object(_))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn sets_come_after_objects_at_every_depth() {
        let set = Value::from(BTreeSet::from([Value::from(1)]));
        let object = Value::from(BTreeMap::from([(Value::from("a"), Value::from(1))]));
        let wrapped = |value: &Value| {
            [
                value.clone(),
                Value::from(vec![Value::from(1), value.clone()]),
                Value::from(BTreeSet::from([value.clone()])),
                Value::from(BTreeMap::from([(value.clone(), Value::Null)])),
                Value::from(BTreeMap::from([(Value::Null, value.clone())])),
            ]
        };
        for (set, object) in wrapped(&set).iter().zip(&wrapped(&object)) {
            assert_eq!(compare(object, set), Ordering::Less, "{object} {set}");
            assert_eq!(compare(set, object), Ordering::Greater);
            assert_eq!(compare(set, set), Ordering::Equal);
        }
        let Value::Set(both) = Value::from(BTreeSet::from([set.clone(), object.clone(), Value::Null])) else {
            panic!()
        };
        assert_eq!(items(&both), [&Value::Null, &object, &set]);
    }
}
