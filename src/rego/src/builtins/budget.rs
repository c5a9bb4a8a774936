//! What calls may make: each by itself, and all of one evaluation together.
//!
//! regorus looks at its clock between statements only, so a few lines that double a text would take all memory before
//! it looks again. Every call that can make something large goes through here. An evaluation that reaches a limit ends as an
//! error, never with less than what it asked for. What a policy makes without calls, by comprehensions, grows by a few
//! bytes a step, and the clock ends it.

use std::cell::Cell;

use regorus::Value;

use super::{
    call::{BuiltinFault, refused},
    decimals,
};
use crate::value;

/// The longest text that one call may make, in bytes: twice what the value of a whole evaluation may have.
pub(super) const LONGEST_TEXT: usize = 8 << 20;

/// The most elements that one call may make.
pub(super) const MOST_ELEMENTS: usize = 1_000_000;

/// The largest number, in bits: 20,000 digits. Writing one takes time by the square of its length.
const MOST_BITS: u64 = 1 << 16;

/// The most that the calls of one evaluation may make together, in bytes, as estimated.
const MOST_IN_ALL: usize = 128 << 20;

/// An element of a collection, with what lies around it.
const ELEMENT: usize = 48;

thread_local! {
    /// What is left for the evaluation at hand.
    static LEFT: Cell<usize> = const { Cell::new(MOST_IN_ALL) };
}

/// A new evaluation begins on this thread.
pub(crate) fn renew() {
    LEFT.set(MOST_IN_ALL);
    decimals::renew();
}

/// Takes what a call has made. What its elements hold is theirs, made by someone else.
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

/// Takes what was read from a text: everything in it is new.
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
        None => refused(format!("{name}: the calls of one evaluation make more than {} MiB", MOST_IN_ALL >> 20)),
    }
}

fn text(value: &Value) -> usize {
    if let Value::String(text) = value { text.len() } else { 0 }
}

/// For a call that is about to make a text.
pub(super) fn check_text(name: &str, bytes: usize) -> Result<(), BuiltinFault> {
    if bytes <= LONGEST_TEXT {
        return Ok(());
    }
    refused(format!("{name}: the result is longer than {} MiB", LONGEST_TEXT >> 20))
}

/// For a call that is about to make a collection.
pub(super) fn check_elements(name: &str, count: usize) -> Result<(), BuiltinFault> {
    if count <= MOST_ELEMENTS {
        return Ok(());
    }
    refused(format!("{name}: more than {MOST_ELEMENTS} elements"))
}

fn check_bits(name: &str, bits: u64) -> Result<(), BuiltinFault> {
    if bits <= MOST_BITS {
        return Ok(());
    }
    refused(format!("{name}: a number of more than {MOST_BITS} bits"))
}

/// For a call that goes through all that a value holds, however often.
pub(super) fn check_whole(name: &str, value: &Value) -> Result<(), BuiltinFault> {
    if value::fits(value, LONGEST_TEXT) {
        return Ok(());
    }
    refused(format!("{name}: the value is larger than {} MiB when it is written out", LONGEST_TEXT >> 20))
}
