//! Operators and `size`.

use std::{cmp::Ordering, sync::Arc};

use super::{EvaluatedValue, argument, time, unexpected};
use crate::{
    declarations::Implementation,
    error::{failed, no_overload},
    value::{CelList, CelValue, code_points, typed},
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
fn unsupported<'v>(function: &str, value: &CelValue<'_>) -> EvaluatedValue<'v> {
    match value {
        // These types have functions of their own, which are tried first.
        CelValue::String(_) | CelValue::Duration(_) | CelValue::Timestamp(_) => no_overload(),
        _ => failed(format!("no such overload: {function}")),
    }
}

fn pair<'a, 'v>(values: &'a [CelValue<'v>]) -> (&'a CelValue<'v>, &'a CelValue<'v>) {
    match values {
        [one, other] => (one, other),
        _ => (&CelValue::Null, &CelValue::Null),
    }
}

fn not<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match argument(values, 0)? {
        CelValue::Bool(value) => Ok(CelValue::Bool(!value)),
        _ => no_overload(),
    }
}

fn negate<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match argument(values, 0)? {
        CelValue::Int(value) => int(value.checked_neg()),
        CelValue::Double(value) => Ok(CelValue::Double(-value)),
        CelValue::Duration(value) => time::duration(value.checked_neg()),
        CelValue::Bool(_) => no_overload(),
        other => unsupported("-_", other),
    }
}

fn int<'v>(value: Option<i64>) -> EvaluatedValue<'v> {
    value.map_or_else(|| failed("integer overflow"), |value| Ok(CelValue::Int(value)))
}

fn uint<'v>(value: Option<u64>) -> EvaluatedValue<'v> {
    value.map_or_else(|| failed("unsigned integer overflow"), |value| Ok(CelValue::Uint(value)))
}

pub(super) fn add<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match pair(values) {
        (CelValue::Int(one), CelValue::Int(other)) => int(one.checked_add(*other)),
        (CelValue::Uint(one), CelValue::Uint(other)) => uint(one.checked_add(*other)),
        (CelValue::Double(one), CelValue::Double(other)) => Ok(CelValue::Double(one + other)),
        (CelValue::String(one), CelValue::String(other)) => Ok(CelValue::from([&**one, &**other].concat())),
        (CelValue::Bytes(one), CelValue::Bytes(other)) => Ok(CelValue::Bytes(Arc::from([&**one, &**other].concat()))),
        (CelValue::List(one), CelValue::List(other)) => Ok(concatenated(one, other)),
        (CelValue::Duration(one), CelValue::Duration(other)) => time::duration(one.checked_add(*other)),
        (CelValue::Duration(one), CelValue::Timestamp(other))
        | (CelValue::Timestamp(other), CelValue::Duration(one)) => time::later(*other, *one),
        (
            CelValue::Int(_)
            | CelValue::Uint(_)
            | CelValue::Double(_)
            | CelValue::Bytes(_)
            | CelValue::List(_)
            | CelValue::String(_)
            | CelValue::Duration(_)
            | CelValue::Timestamp(_),
            _,
        ) => no_overload(),
        (other, _) => unsupported("_+_", other),
    }
}

fn concatenated<'v>(one: &CelList<'v>, other: &CelList<'v>) -> CelValue<'v> {
    if let Some(schema) = one.schema() {
        return CelValue::List(typed::added(one, schema, other));
    }
    if one.is_empty() {
        return CelValue::List(other.clone());
    }
    if other.is_empty() {
        return CelValue::List(one.clone());
    }
    CelValue::from(one.iter().chain(other.iter()).collect::<Vec<_>>())
}

fn subtract<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match pair(values) {
        (CelValue::Int(one), CelValue::Int(other)) => int(one.checked_sub(*other)),
        (CelValue::Uint(one), CelValue::Uint(other)) => uint(one.checked_sub(*other)),
        (CelValue::Double(one), CelValue::Double(other)) => Ok(CelValue::Double(one - other)),
        (CelValue::Duration(one), CelValue::Duration(other)) => time::duration(one.checked_sub(*other)),
        (CelValue::Timestamp(one), CelValue::Duration(other)) => time::earlier(*one, *other),
        (CelValue::Timestamp(one), CelValue::Timestamp(other)) => time::between(*one, *other),
        (
            CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) | CelValue::Duration(_) | CelValue::Timestamp(_),
            _,
        ) => no_overload(),
        (other, _) => unsupported("_-_", other),
    }
}

fn multiply<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match pair(values) {
        (CelValue::Int(one), CelValue::Int(other)) => int(one.checked_mul(*other)),
        (CelValue::Uint(one), CelValue::Uint(other)) => uint(one.checked_mul(*other)),
        (CelValue::Double(one), CelValue::Double(other)) => Ok(CelValue::Double(one * other)),
        (CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_), _) => no_overload(),
        (other, _) => unsupported("_*_", other),
    }
}

fn divide<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match pair(values) {
        (CelValue::Int(_), CelValue::Int(0)) | (CelValue::Uint(_), CelValue::Uint(0)) => failed("division by zero"),
        (CelValue::Int(one), CelValue::Int(other)) => int(one.checked_div(*other)),
        (CelValue::Uint(one), CelValue::Uint(other)) => uint(one.checked_div(*other)),
        (CelValue::Double(one), CelValue::Double(other)) => Ok(CelValue::Double(one / other)),
        (CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_), _) => no_overload(),
        (other, _) => unsupported("_/_", other),
    }
}

fn modulo<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match pair(values) {
        (CelValue::Int(_), CelValue::Int(0)) | (CelValue::Uint(_), CelValue::Uint(0)) => failed("modulus by zero"),
        (CelValue::Int(one), CelValue::Int(other)) => int(one.checked_rem(*other)),
        (CelValue::Uint(one), CelValue::Uint(other)) => uint(one.checked_rem(*other)),
        (CelValue::Int(_) | CelValue::Uint(_), _) => no_overload(),
        (other, _) => unsupported("_%_", other),
    }
}

fn compare<'v>(function: &str, values: &[CelValue<'v>], is: fn(Ordering) -> bool) -> EvaluatedValue<'v> {
    let (one, other) = pair(values);
    if !one.is_comparable() {
        return unsupported(function, one);
    }
    one.order(other).map(|order| CelValue::Bool(is(order)))
}

fn contains<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match pair(values) {
        (element, CelValue::List(list)) => Ok(CelValue::Bool(is_member(list, element))),
        (key, CelValue::Map(map)) => Ok(CelValue::Bool(map.find(key).is_some())),
        _ => no_overload(),
    }
}

/// Whether a list has an element.
pub(super) fn is_member<'v>(list: &CelList<'v>, element: &CelValue<'v>) -> bool {
    // Texts are compared without making values of the others.
    if let (CelList::Json(elements), CelValue::String(text)) = (list, element) {
        return elements.iter().any(|other| other.as_str() == Some(&**text));
    }
    list.iter().any(|other| element.is_equal(&other))
}

fn size<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    Ok(CelValue::length(match argument(values, 0)? {
        CelValue::String(text) => code_points(text),
        CelValue::Bytes(bytes) => bytes.len(),
        CelValue::List(list) => list.len(),
        CelValue::Map(map) => map.len(),
        other => return unsupported("size", other),
    }))
}
