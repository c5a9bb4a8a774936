//! Operators called by name: `plus(1, 2)`, `eq(x, y)`.

use std::cmp::Ordering;

use regorus::Value;

use super::{
    budget,
    call::{Builtin, BuiltinResult, failed, wrong_type},
    decimals::Decimal,
};
use crate::order;

pub(super) const TABLE: &[Builtin] = &[
    ("and", 2, |arguments| sets(arguments, true)),
    ("div", 2, |arguments| arithmetic(arguments, '/')),
    ("eq", 2, |arguments| compare(arguments, Ordering::is_eq)),
    ("equal", 2, |arguments| compare(arguments, Ordering::is_eq)),
    ("gt", 2, |arguments| compare(arguments, Ordering::is_gt)),
    ("gte", 2, |arguments| compare(arguments, Ordering::is_ge)),
    ("lt", 2, |arguments| compare(arguments, Ordering::is_lt)),
    // OPA rewrites `x in xs` and `key, x in xs` to these.
    ("internal.member_2", 2, |arguments| Ok(Value::from(is_member(&arguments[0], &arguments[1])))),
    ("internal.member_3", 3, |arguments| Ok(Value::from(is_pair(&arguments[0], &arguments[1], &arguments[2])))),
    ("lte", 2, |arguments| compare(arguments, Ordering::is_le)),
    ("minus", 2, minus),
    ("mul", 2, times),
    ("neq", 2, |arguments| compare(arguments, Ordering::is_ne)),
    ("or", 2, |arguments| sets(arguments, false)),
    ("plus", 2, |arguments| arithmetic(arguments, '+')),
    ("rem", 2, |arguments| arithmetic(arguments, '%')),
];

fn times(arguments: &[Value]) -> BuiltinResult {
    let product = arithmetic(arguments, '*')?;
    budget::charge("*", &product)?;
    Ok(product)
}

/// Whether `value in collection` holds.
pub(crate) fn is_member(value: &Value, collection: &Value) -> bool {
    match collection {
        Value::Set(items) => items.contains(value),
        Value::Array(items) => items.iter().any(|item| item == value),
        Value::Object(fields) => fields.iter().any(|(_, item)| item == value),
        _ => false,
    }
}

/// Whether `key, value in collection` holds.
pub(crate) fn is_pair(key: &Value, value: &Value, collection: &Value) -> bool {
    match collection {
        Value::Set(items) => key == value && items.contains(value),
        Value::Array(_) | Value::Object(_) => collection[key] == *value,
        _ => false,
    }
}

fn compare(arguments: &[Value], holds: fn(Ordering) -> bool) -> BuiltinResult {
    Ok(Value::from(holds(order::compare(&arguments[0], &arguments[1]))))
}

fn sets(arguments: &[Value], common: bool) -> BuiltinResult {
    let Value::Set(left) = &arguments[0] else { return wrong_type(1, "set", &arguments[0]) };
    let Value::Set(right) = &arguments[1] else { return wrong_type(2, "set", &arguments[1]) };
    let set = if common { left.intersection(right) } else { left.union(right) };
    Ok(set.into_value())
}

fn minus(arguments: &[Value]) -> BuiltinResult {
    match (&arguments[0], &arguments[1]) {
        (Value::Set(left), Value::Set(right)) => Ok(left.difference(right).into_value()),
        _ => arithmetic(arguments, '-'),
    }
}

/// Computes with two numbers: exactly if both are whole, otherwise with [`Decimal`].
pub(super) fn arithmetic(arguments: &[Value], operator: char) -> BuiltinResult {
    let Value::Number(left) = &arguments[0] else { return wrong_type(1, "number", &arguments[0]) };
    let Value::Number(right) = &arguments[1] else { return wrong_type(2, "number", &arguments[1]) };
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64())
        && let Some(result) = small(left, right, operator)
    {
        return Ok(Value::from(result));
    }
    let whole = left.is_integer() && right.is_integer();
    let result = match operator {
        '%' if whole => left.clone().modulo(right),
        '%' => return failed("modulo on floating-point number"),
        '+' if whole => left.add(right),
        '-' if whole => left.sub(right),
        '*' if whole => left.mul(right),
        '/' if whole && left.clone().modulo(right).is_ok_and(|rest| rest.as_i64() == Some(0)) => {
            left.clone().divide(right)
        }
        _ => {
            return match (Decimal::of(&arguments[0]), Decimal::of(&arguments[1])) {
                (Some(left), Some(right)) => left.computed(operator, right),
                _ => failed("number out of range"),
            };
        }
    };
    result.map(Value::from).or_else(|error| failed(error.to_string()))
}

/// Computes with 64-bit integers; `None` if the result is not one.
fn small(left: i64, right: i64, operator: char) -> Option<i64> {
    match operator {
        '+' => left.checked_add(right),
        '-' => left.checked_sub(right),
        '*' => left.checked_mul(right),
        '%' => left.checked_rem(right),
        _ => left.checked_rem(right).filter(|rest| *rest == 0).and_then(|_| left.checked_div(right)),
    }
}
