//! Limits of calls that cost little in the API server but need much memory or time.
//!
//! A list of a few elements can contain one value again and again: thirty variables, each a list of the one before, twice,
//! are a billion values for everything that reads them all.

use crate::{
    cost::CallCost,
    error::EvalError,
    value::{CelList, CelValue, Map},
};

/// The longest text, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// The longest list.
const MOST_ELEMENTS: usize = 4 << 20;
/// The most values that are read to compare two values.
const MOST_VALUES: usize = 1 << 20;
/// The most values that are read to compare the elements of lists with each other.
const MOST_COMPARED: usize = 64 << 20;
/// The most values of a list or map that are shown as text.
const MOST_SHOWN: usize = 10_000;
/// The longest `lists.range`: longer ones exceed the cost limit.
const LONGEST_RANGE: i64 = 1_000_000;

/// Whether the arguments of a function have to be checked.
pub(crate) fn apply_to(function: &str) -> bool {
    matches!(
        function,
        "lists.range"
            | "_+_"
            | "replace"
            | "join"
            | "flatten"
            | "format"
            | "@in"
            | "sets.contains"
            | "sets.equivalent"
            | "sets.intersects"
            | "distinct"
            | "indexOf"
            | "lastIndexOf"
            | "isSorted"
            | "sum"
            | "min"
            | "max"
    )
}

/// Whether the cost of a call grows with the product of the lengths of lists, so that it is checked before the call.
pub(crate) fn is_quadratic(cost: CallCost) -> bool {
    matches!(cost, CallCost::Sets(_) | CallCost::SelfCompare(_))
}

/// Returns the number of values that a call reads at most, as far as that matters.
///
/// # Errors
/// If there are too many of them.
pub(crate) fn work(function: &str, arguments: &[CelValue<'_>]) -> Result<usize, EvalError> {
    match (function, arguments) {
        ("@in", [element, CelValue::List(list)]) | ("indexOf" | "lastIndexOf", [CelValue::List(list), element, ..])
            if is_collection(element) =>
        {
            values_of_list(list)
        }
        ("isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf", [CelValue::List(list), ..]) => {
            values_of_list(list)
        }
        ("distinct", [CelValue::List(list)]) => compared(list, list),
        ("sets.contains" | "sets.equivalent" | "sets.intersects", [CelValue::List(one), CelValue::List(other)]) => {
            compared(one, other)
        }
        _ => Ok(0),
    }
}

/// Returns the number of values that are read if each element of a list is compared with each of another.
fn compared(one: &CelList<'_>, other: &CelList<'_>) -> Result<usize, EvalError> {
    let read = values_of_list(one)?.saturating_mul(other.len()).min(values_of_list(other)?.saturating_mul(one.len()));
    if read > MOST_COMPARED { Err(EvalError::TooLarge) } else { Ok(read) }
}

/// Returns the number of values that are read to find out whether two values are equal.
///
/// # Errors
/// If there are too many of them.
pub(crate) fn equality(one: &CelValue<'_>, other: &CelValue<'_>) -> Result<usize, EvalError> {
    match (one, other) {
        (CelValue::List(one), CelValue::List(other)) if one.len() == other.len() => values_of_list(one),
        (CelValue::Map(map), CelValue::Map(other)) if map.len() == other.len() => values(one),
        (CelValue::Optional(Some(_)), CelValue::Optional(Some(_))) => values(one),
        _ => Ok(0),
    }
}

fn is_collection(value: &CelValue<'_>) -> bool {
    matches!(value, CelValue::List(_) | CelValue::Map(_) | CelValue::Optional(_))
}

fn values(value: &CelValue<'_>) -> Result<usize, EvalError> {
    count(value, MOST_VALUES).ok_or(EvalError::TooLarge)
}

fn values_of_list(list: &CelList<'_>) -> Result<usize, EvalError> {
    count_list(list, MOST_VALUES).ok_or(EvalError::TooLarge)
}

/// Returns the number of values in a value, itself included; `None` if it is above a limit.
pub(crate) fn count(value: &CelValue<'_>, most: usize) -> Option<usize> {
    let inside = match value {
        CelValue::List(list) => count_list(list, most.checked_sub(1)?)?,
        CelValue::Map(map) => count_map(map, most.checked_sub(1)?)?,
        CelValue::Optional(Some(inner)) => count(inner, most.checked_sub(1)?)?,
        _ => 0,
    };
    Some(inside + 1).filter(|all| *all <= most)
}

fn count_list(list: &CelList<'_>, most: usize) -> Option<usize> {
    list.iter().try_fold(0, |sum: usize, element| Some(sum + count(&element, most.checked_sub(sum)?)?))
}

fn count_map(map: &Map<'_>, most: usize) -> Option<usize> {
    let entries = map.entries();
    entries.iter().try_fold(0, |sum: usize, (_, value)| Some(sum + count(value, most.checked_sub(sum)?)?))
}

/// Checks the arguments of functions whose result may be much larger than what they cost.
///
/// # Errors
/// If the result would be too large.
pub(crate) fn check(function: &str, arguments: &[CelValue<'_>]) -> Result<(), EvalError> {
    match (function, arguments) {
        ("lists.range", [CelValue::Int(length)]) if *length > LONGEST_RANGE => Err(EvalError::CostLimit),
        ("_+_", [CelValue::List(one), CelValue::List(other)]) => check_length(one.len() + other.len()),
        ("_+_", [CelValue::String(one), CelValue::String(other)]) => check_bytes(one.len() + other.len()),
        ("replace", [CelValue::String(text), CelValue::String(old), CelValue::String(new), ..]) => {
            let most = if old.is_empty() { text.len() + 1 } else { text.len() / old.len() };
            check_bytes(most.saturating_mul(new.len()).saturating_add(text.len()))
        }
        ("join", [CelValue::List(list), rest @ ..]) => {
            let separator = rest.first().and_then(CelValue::as_str).map_or(0, str::len);
            check_bytes(joined(list).saturating_add(separator.saturating_mul(list.len())))
        }
        ("flatten", [CelValue::List(list), ..]) => check_length(leaves(list)),
        ("format", [_, CelValue::List(list)]) => {
            values_of_list(list)?;
            check_bytes(weight(list))
        }
        _ => Ok(()),
    }
}

fn joined(list: &CelList<'_>) -> usize {
    list.iter().filter_map(|element| element.as_str().map(str::len)).fold(0, usize::saturating_add)
}

/// Returns the number of elements in a list and its lists, as far as it matters.
fn leaves(list: &CelList<'_>) -> usize {
    let mut count: usize = 0;
    for element in list.iter() {
        count = count.saturating_add(if let CelValue::List(inner) = &element { leaves(inner) } else { 1 });
        if count > MOST_ELEMENTS {
            break;
        }
    }
    count
}

/// Returns a lower bound of the bytes of a list as text, as far as it matters.
fn weight(list: &CelList<'_>) -> usize {
    list.iter().fold(1, |bytes, element| if bytes > MOST_BYTES { bytes } else { bytes + weight_of(&element) })
}

fn weight_of(value: &CelValue<'_>) -> usize {
    match value {
        CelValue::String(text) => text.len(),
        CelValue::List(list) => weight(list),
        CelValue::Map(map) => map
            .entries()
            .iter()
            .fold(1, |bytes, (_, value)| if bytes > MOST_BYTES { bytes } else { bytes + weight_of(value) }),
        CelValue::Optional(Some(inner)) => weight_of(inner),
        _ => 1,
    }
}

/// Whether a value is shown as text: one with very many others in it is only described.
pub(crate) fn is_shown(value: &CelValue<'_>) -> bool {
    count(value, MOST_SHOWN).is_some()
}

/// Checks a key of a map, which is compared as text if it is a list or a map.
pub(crate) fn check_key(key: &CelValue<'_>) -> Result<(), EvalError> {
    if is_shown(key) { Ok(()) } else { Err(EvalError::TooLarge) }
}

pub(crate) fn check_bytes(bytes: usize) -> Result<(), EvalError> {
    if bytes > MOST_BYTES { Err(EvalError::TooLarge) } else { Ok(()) }
}

pub(crate) fn check_length(length: usize) -> Result<(), EvalError> {
    if length > MOST_ELEMENTS { Err(EvalError::TooLarge) } else { Ok(()) }
}
