//! Limits on what builtin calls produce: each call by itself, and all calls of one evaluation together.
//!
//! The machine checks its limits only between steps, so a few lines that double a string would use up all memory before
//! the next check. Every call that can produce something large is therefore measured here. An evaluation that reaches a
//! limit ends with an error, never with an incomplete value. What a policy builds without calls, in comprehensions,
//! grows by a few bytes per step, so that the time limit stops it.

use std::cell::Cell;

use regorus::Value;

use super::{
    call::{BuiltinFault, refused},
    decimals,
};
use crate::value;

/// The longest string that one call may return, in bytes: twice the largest value of a whole evaluation.
pub(super) const LONGEST_TEXT: usize = 8 << 20;

/// The most elements that one call may return.
pub(super) const MOST_ELEMENTS: usize = 1_000_000;

/// The largest number, in bits: 20,000 digits. The time to write a number grows with the square of its length.
const MOST_BITS: u64 = 1 << 16;

/// The most that all calls of one evaluation may produce together, as an estimate in bytes.
const MOST_IN_ALL: usize = 128 << 20;

/// Estimated size of an element of a collection, including its overhead.
const ELEMENT: usize = 48;

thread_local! {
    /// Bytes left for the current evaluation.
    static LEFT: Cell<usize> = const { Cell::new(MOST_IN_ALL) };
}

/// Resets the budget for a new evaluation on this thread.
pub(crate) fn renew() {
    LEFT.set(MOST_IN_ALL);
    decimals::renew();
}

/// Charges the result of a call: a string, or the elements of a collection. Collections inside it are charged as one
/// element each, as other calls produced them.
pub(super) fn charge(name: &str, made: &Value) -> Result<(), BuiltinFault> {
    let bytes = match made {
        Value::String(text) => {
            return check_text(name, text.len()).and_then(|()| spend(name, text.len()));
        }
        Value::Number(number) => {
            let large = number.as_i64().is_none() && number.is_integer();
            return check_bits(name, if large { number.as_big().map_or(0, |number| number.bits()) } else { 0 });
        }
        Value::Array(items) => elements(name, items.len(), items.iter())?,
        Value::Set(items) => elements(name, items.len(), items.iter())?,
        Value::Object(fields) => 2 * elements(name, fields.len(), fields.iter().map(|(_, value)| value))?,
        _ => return Ok(()),
    };
    spend(name, bytes)
}

fn elements<'a>(name: &str, count: usize, items: impl Iterator<Item = &'a Value>) -> Result<usize, BuiltinFault> {
    check_elements(name, count)?;
    Ok(items.map(|item| ELEMENT + text(item)).sum())
}

/// Charges a value parsed from a string: everything in it is new.
pub(super) fn charge_tree(name: &str, made: &Value) -> Result<(), BuiltinFault> {
    let mut bytes = 0;
    value::visit(made, |value, _| {
        bytes += ELEMENT + text(value);
        true
    });
    spend(name, bytes)
}

fn spend(name: &str, bytes: usize) -> Result<(), BuiltinFault> {
    let left = LEFT.get().checked_sub(bytes);
    LEFT.set(left.unwrap_or(0));
    match left {
        Some(_) => Ok(()),
        None => {
            refused(format!("{name}: builtin calls produced more than {} MiB in one evaluation", MOST_IN_ALL >> 20))
        }
    }
}

fn text(value: &Value) -> usize {
    if let Value::String(text) = value { text.len() } else { 0 }
}

/// Refuses a string that a call is about to make, if it is too long.
pub(super) fn check_text(name: &str, bytes: usize) -> Result<(), BuiltinFault> {
    if bytes <= LONGEST_TEXT {
        return Ok(());
    }
    refused(format!("{name}: the result is longer than {} MiB", LONGEST_TEXT >> 20))
}

/// Refuses a collection that a call is about to make, if it is too large.
pub(super) fn check_elements(name: &str, count: usize) -> Result<(), BuiltinFault> {
    if count <= MOST_ELEMENTS {
        return Ok(());
    }
    refused(format!("{name}: the result has more than {MOST_ELEMENTS} elements"))
}

fn check_bits(name: &str, bits: u64) -> Result<(), BuiltinFault> {
    if bits <= MOST_BITS {
        return Ok(());
    }
    refused(format!("{name}: the result is a number of more than {MOST_BITS} bits"))
}

/// Refuses an argument that is too large when written out, for calls that traverse it completely and visit shared parts
/// repeatedly.
pub(super) fn check_whole(name: &str, value: &Value) -> Result<(), BuiltinFault> {
    if value::fits(value, LONGEST_TEXT) {
        return Ok(());
    }
    refused(format!("{name}: the value is larger than {} MiB when it is written out", LONGEST_TEXT >> 20))
}
