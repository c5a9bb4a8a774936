//! Operators and `size`.

use std::{cmp::Ordering, sync::Arc};

use super::{Evaluated, argument, time, unexpected};
use crate::{
    declarations::Implementation,
    error::{failed, no_overload},
    value::{List, Value, code_points},
};

/// Returns the implementation of an operator; those that the machine evaluates have one that only fails.
pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "!_" => not,
        "-_" => negate,
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "_<_" => |values| compare("_<_", values, Ordering::is_lt),
        "_<=_" => |values| compare("_<=_", values, Ordering::is_le),
        "_>_" => |values| compare("_>_", values, Ordering::is_gt),
        "_>=_" => |values| compare("_>=_", values, Ordering::is_ge),
        "@in" => contains,
        "size" => size,
        name if name.starts_with(['_', '@']) && !name.starts_with("@map") => |_| unexpected(),
        _ => return None,
    })
}

/// The error of a function for a first argument of a type that does not support it.
fn unsupported<'v>(function: &str, value: &Value<'_>) -> Evaluated<'v> {
    match value {
        // These types have functions of their own, which are tried first.
        Value::String(_) | Value::Duration(_) | Value::Timestamp(_) => no_overload(),
        _ => failed(format!("no such overload: {function}")),
    }
}

fn pair<'a, 'v>(values: &'a [Value<'v>]) -> (&'a Value<'v>, &'a Value<'v>) {
    match values {
        [one, other] => (one, other),
        _ => (&Value::Null, &Value::Null),
    }
}

fn not<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match argument(values, 0)? {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => no_overload(),
    }
}

fn negate<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match argument(values, 0)? {
        Value::Int(value) => int(value.checked_neg()),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => time::duration(value.checked_neg()),
        Value::Bool(_) => no_overload(),
        other => unsupported("-_", other),
    }
}

fn int<'v>(value: Option<i64>) -> Evaluated<'v> {
    value.map_or_else(|| failed("integer overflow"), |value| Ok(Value::Int(value)))
}

fn uint<'v>(value: Option<u64>) -> Evaluated<'v> {
    value.map_or_else(|| failed("unsigned integer overflow"), |value| Ok(Value::Uint(value)))
}

pub(super) fn add<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match pair(values) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_add(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_add(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::String(one), Value::String(other)) => Ok(Value::from([&**one, &**other].concat())),
        (Value::Bytes(one), Value::Bytes(other)) => Ok(Value::Bytes(Arc::from([&**one, &**other].concat()))),
        (Value::List(one), Value::List(other)) => Ok(concatenated(one, other)),
        (Value::Duration(one), Value::Duration(other)) => time::duration(one.checked_add(*other)),
        (Value::Duration(one), Value::Timestamp(other)) | (Value::Timestamp(other), Value::Duration(one)) => {
            time::later(*other, *one)
        }
        (
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Bytes(_)
            | Value::List(_)
            | Value::String(_)
            | Value::Duration(_)
            | Value::Timestamp(_),
            _,
        ) => no_overload(),
        (other, _) => unsupported("_+_", other),
    }
}

fn concatenated<'v>(one: &List<'v>, other: &List<'v>) -> Value<'v> {
    if one.is_empty() {
        return Value::List(other.clone());
    }
    if other.is_empty() {
        return Value::List(one.clone());
    }
    Value::from(one.iter().chain(other.iter()).collect::<Vec<_>>())
}

fn subtract<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match pair(values) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_sub(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_sub(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one - other)),
        (Value::Duration(one), Value::Duration(other)) => time::duration(one.checked_sub(*other)),
        (Value::Timestamp(one), Value::Duration(other)) => time::earlier(*one, *other),
        (Value::Timestamp(one), Value::Timestamp(other)) => time::between(*one, *other),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _) => {
            no_overload()
        }
        (other, _) => unsupported("_-_", other),
    }
}

fn multiply<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match pair(values) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_mul(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_mul(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one * other)),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => no_overload(),
        (other, _) => unsupported("_*_", other),
    }
}

fn divide<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match pair(values) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => failed("division by zero"),
        (Value::Int(one), Value::Int(other)) => int(one.checked_div(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_div(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one / other)),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => no_overload(),
        (other, _) => unsupported("_/_", other),
    }
}

fn modulo<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match pair(values) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => failed("modulus by zero"),
        (Value::Int(one), Value::Int(other)) => int(one.checked_rem(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_rem(*other)),
        (Value::Int(_) | Value::Uint(_), _) => no_overload(),
        (other, _) => unsupported("_%_", other),
    }
}

fn compare<'v>(function: &str, values: &[Value<'v>], is: fn(Ordering) -> bool) -> Evaluated<'v> {
    let (one, other) = pair(values);
    if !one.is_comparable() {
        return unsupported(function, one);
    }
    one.order(other).map(|order| Value::Bool(is(order)))
}

fn contains<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match pair(values) {
        (element, Value::List(list)) => Ok(Value::Bool(is_member(list, element))),
        (key, Value::Map(map)) => Ok(Value::Bool(map.find(key).is_some())),
        _ => no_overload(),
    }
}

/// Whether a list has an element.
pub(super) fn is_member<'v>(list: &List<'v>, element: &Value<'v>) -> bool {
    // Texts are compared without making values of the others.
    if let (List::Json(elements), Value::String(text)) = (list, element) {
        return elements.iter().any(|other| other.as_str() == Some(&**text));
    }
    list.iter().any(|other| element.is_equal(&other))
}

fn size<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    Ok(Value::length(match argument(values, 0)? {
        Value::String(text) => code_points(text),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return unsupported("size", other),
    }))
}
