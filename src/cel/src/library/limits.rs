//! Limits of results that cost little in the API server but need much memory.

use crate::{
    error::EvalError,
    value::{CelList, CelValue},
};

/// The longest text, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// The longest list.
const MOST_ELEMENTS: usize = 4 << 20;
/// The longest `lists.range`: longer ones exceed the cost limit.
const LONGEST_RANGE: i64 = 1_000_000;

/// Whether the arguments of a function have to be checked.
pub(crate) fn apply_to(function: &str) -> bool {
    matches!(function, "lists.range" | "_+_" | "replace" | "join" | "flatten" | "format")
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
        ("format", [_, CelValue::List(list)]) => check_bytes(weight(list)),
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

/// Returns a lower bound of the bytes of a list as text.
fn weight(list: &CelList<'_>) -> usize {
    let mut bytes: usize = 0;
    for element in list.iter() {
        bytes = bytes.saturating_add(match &element {
            CelValue::String(text) => text.len(),
            CelValue::List(inner) => weight(inner),
            _ => 1,
        });
        if bytes > MOST_BYTES {
            break;
        }
    }
    bytes
}

pub(crate) fn check_bytes(bytes: usize) -> Result<(), EvalError> {
    if bytes > MOST_BYTES { Err(EvalError::TooLarge) } else { Ok(()) }
}

pub(crate) fn check_length(length: usize) -> Result<(), EvalError> {
    if length > MOST_ELEMENTS { Err(EvalError::TooLarge) } else { Ok(()) }
}
