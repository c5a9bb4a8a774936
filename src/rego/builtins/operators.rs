//! Operators by their names: `plus(1, 2)`, `eq(x, y)`.

use std::cmp::Ordering;

use regorus::Value;

use super::{
    budget,
    call::{Answer, Builtin, failed, wrong_type},
};

pub(super) const TABLE: &[Builtin] = &[
    ("and", 2, |arguments| sets(arguments, true)),
    ("div", 2, |arguments| arithmetic(arguments, '/')),
    ("eq", 2, |arguments| compare(arguments, Ordering::is_eq)),
    ("equal", 2, |arguments| compare(arguments, Ordering::is_eq)),
    ("gt", 2, |arguments| compare(arguments, Ordering::is_gt)),
    ("gte", 2, |arguments| compare(arguments, Ordering::is_ge)),
    ("lt", 2, |arguments| compare(arguments, Ordering::is_lt)),
    // What OPA makes of `x in xs` and `key, x in xs`.
    ("internal.member_2", 2, |arguments| Ok(Value::from(is_member(&arguments[0], &arguments[1])))),
    ("internal.member_3", 3, |arguments| Ok(Value::from(is_pair(&arguments[0], &arguments[1], &arguments[2])))),
    // What the rewriter writes for `x * y`, where a policy may have a `mul` of its own.
    ("internal.mul", 2, times),
    ("lte", 2, |arguments| compare(arguments, Ordering::is_le)),
    ("minus", 2, minus),
    ("mul", 2, |arguments| arithmetic(arguments, '*')),
    ("neq", 2, |arguments| compare(arguments, Ordering::is_ne)),
    ("or", 2, |arguments| sets(arguments, false)),
    ("plus", 2, |arguments| arithmetic(arguments, '+')),
    ("rem", 2, |arguments| arithmetic(arguments, '%')),
];

fn times(arguments: &[Value]) -> Answer {
    let product = arithmetic(arguments, '*')?;
    budget::charge("*", &product)?;
    Ok(product)
}

/// `value in collection`
pub(crate) fn is_member(value: &Value, collection: &Value) -> bool {
    match collection {
        Value::Set(items) => items.contains(value),
        Value::Array(items) => items.iter().any(|item| item == value),
        Value::Object(fields) => fields.iter().any(|(_, item)| item == value),
        _ => false,
    }
}

/// `key, value in collection`
pub(crate) fn is_pair(key: &Value, value: &Value, collection: &Value) -> bool {
    match collection {
        Value::Set(items) => key == value && items.contains(value),
        Value::Array(_) | Value::Object(_) => collection[key] == *value,
        _ => false,
    }
}

fn compare(arguments: &[Value], holds: fn(Ordering) -> bool) -> Answer {
    Ok(Value::from(holds(arguments[0].cmp(&arguments[1]))))
}

fn sets(arguments: &[Value], common: bool) -> Answer {
    let Value::Set(left) = &arguments[0] else { return wrong_type(1, "set", &arguments[0]) };
    let Value::Set(right) = &arguments[1] else { return wrong_type(2, "set", &arguments[1]) };
    let set = if common { left.intersection(right) } else { left.union(right) };
    Ok(set.into_value())
}

fn minus(arguments: &[Value]) -> Answer {
    match (&arguments[0], &arguments[1]) {
        (Value::Set(left), Value::Set(right)) => Ok(left.difference(right).into_value()),
        _ => arithmetic(arguments, '-'),
    }
}

pub(super) fn arithmetic(arguments: &[Value], operator: char) -> Answer {
    let Value::Number(left) = &arguments[0] else { return wrong_type(1, "number", &arguments[0]) };
    let Value::Number(right) = &arguments[1] else { return wrong_type(2, "number", &arguments[1]) };
    let result = match operator {
        '+' => left.add(right),
        '-' => left.sub(right),
        '*' => left.mul(right),
        '/' => left.clone().divide(right),
        _ if !(left.is_integer() && right.is_integer()) => return failed("modulo on floating-point number"),
        _ => left.clone().modulo(right),
    };
    result.map(Value::from).or_else(|error| failed(error.to_string()))
}
