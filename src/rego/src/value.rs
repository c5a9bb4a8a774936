//! Parsing JSON into values, and access to their parts.
//!
//! The value type is that of regorus. Its JSON parser is not used, because it treats the key
//! `$serde_json::private::Number` specially: as a number of any size, whose digits take hours to compute if the
//! exponent is large. Any object could contain this key, so nothing is parsed that way.

mod fold;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    sync::Arc,
};

use regorus::{
    Value,
    value::{Array, Object},
};
use serde::de::{DeserializeSeed as _, Error};
use serde_json::value::RawValue;

use self::fold::{All, Folded};
pub use self::fold::{JsonFold, JsonScalar, PartSelection, fold};

/// Parses JSON.
///
/// # Errors
/// Also for nesting deeper than 127 levels, and for numbers beyond 64-bit floats.
pub fn from_json(json: &[u8]) -> Result<Value, serde_json::Error> {
    from_json_parts(json, All)
}

/// Parses the selected parts of JSON.
///
/// # Errors
/// Those of [`from_json`], including errors in the parts that are not selected.
pub fn from_json_parts(json: &[u8], selection: impl PartSelection) -> Result<Value, serde_json::Error> {
    let rounded = Cell::new(false);
    let value = fold(json, selection, ValueFold(&rounded))?;
    if rounded.get() { exact(serde_json::from_slice(json)?, selection) } else { Ok(value) }
}

/// Parses the selected parts of JSON with all digits of integers, of which `serde_json` keeps 64 bits.
fn exact(json: &RawValue, selection: impl PartSelection) -> Result<Value, serde_json::Error> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let element = selection.of_elements();
            let read = items.into_iter().filter_map(|item| Some(exact(item, element?)));
            read.collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        Some(b'{') => {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let read = fields.into_iter().filter_map(|(name, field)| {
                let selection = selection.of_field(&name)?;
                Some(exact(field, selection).map(|value| (key(&name), value)))
            });
            read.collect::<Result<BTreeMap<_, _>, _>>().map(Value::from)
        }
        Some(b'-' | b'0'..=b'9') if !text.contains(['.', 'e', 'E']) => {
            Value::from_numeric_string(text).map_err(serde_json::Error::custom)
        }
        _ => fold(text.as_bytes(), selection, ValueFold(&Cell::new(false))),
    }
}

/// Converts a JSON tree into a value.
pub fn from_tree(tree: serde_json::Value) -> Result<Value, serde_json::Error> {
    Folded(All, ValueFold(&Cell::new(false))).deserialize(tree)
}

/// 2^63: floats below it cannot come from integers beyond 64 bits.
const LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Returns a string; `None` for any other value.
///
/// The accessors of [`Value`] return an error for other values, and capturing its backtrace with `RUST_BACKTRACE` takes
/// longer than the evaluation.
pub fn text(value: &Value) -> Option<&Arc<str>> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the items of an array; `None` for anything else.
pub fn array(value: &Value) -> Option<&Array> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// Returns the fields of an object; `None` for anything else.
pub fn object(value: &Value) -> Option<&Object> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Returns the fields of an object whose keys are strings, sorted by key; none for any other value.
pub fn fields(value: &Value) -> impl Iterator<Item = (Arc<str>, Value)> + use<> {
    let fields = object(value).map(|fields| {
        let named = fields.iter_sorted().filter_map(|(key, value)| Some((Arc::clone(text(key)?), value.clone())));
        named.collect::<Vec<_>>()
    });
    fields.unwrap_or_default().into_iter()
}

/// Whether a value takes at most about `most` bytes when written out. Shared parts count each time: a few rules that
/// double a value build one that no memory can hold once it is written out.
///
/// A value that is nested deeper than [`DEEPEST`] levels never fits, as it is written recursively.
pub fn fits(value: &Value, most: usize) -> bool {
    let mut left = most;
    visit(value, |value, depth| {
        let text = if let Value::String(text) = value { text.len() } else { 0 };
        // Paths and indentation grow with the depth of the value.
        let rest = left.checked_sub(text + 8 + depth).filter(|_| depth <= DEEPEST);
        left = rest.unwrap_or(0);
        rest.is_some()
    })
}

/// The deepest value that is traversed recursively.
const DEEPEST: usize = 1_000;

/// Calls `visit` for each nested value with its depth, repeatedly for shared ones, as long as it returns true; returns
/// whether it visited all.
pub fn visit(value: &Value, mut visit: impl FnMut(&Value, usize) -> bool) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if !visit(value, depth) {
            return false;
        }
        let below = depth + 1;
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, below))),
            Value::Set(items) => open.extend(items.iter().map(|item| (item, below))),
            Value::Object(fields) => {
                open.extend(fields.iter_sorted().flat_map(|(key, value)| [(key, below), (value, below)]));
            }
            _ => {}
        }
    }
    true
}

/// Folds JSON into values, and notes whether the text may contain integers beyond 64 bits.
#[derive(Clone, Copy)]
struct ValueFold<'n>(&'n Cell<bool>);

impl JsonFold for ValueFold<'_> {
    type FoldedValue = Value;

    fn scalar(self, scalar: JsonScalar<'_>) -> Value {
        match scalar {
            JsonScalar::Null => Value::Null,
            JsonScalar::Bool(value) => Value::from(value),
            JsonScalar::Unsigned(number) => Value::from(number),
            JsonScalar::Signed(number) => Value::from(number),
            JsonScalar::Float(number) => {
                if number.abs() >= LARGE {
                    self.0.set(true);
                }
                Value::from(number)
            }
            JsonScalar::Text(text) => Value::from(text),
        }
    }

    fn key(self, key: &str) -> Value {
        self::key(key)
    }

    fn array<E: Error>(self, elements: impl Iterator<Item = Result<Value, E>>) -> Result<Value, E> {
        elements.collect::<Result<Vec<_>, E>>().map(Value::from)
    }

    fn object<E: Error>(self, fields: impl Iterator<Item = Result<(Value, Value), E>>) -> Result<Value, E> {
        let mut values = Vec::new();
        for field in fields {
            if values.is_empty() {
                values.reserve(8);
            }
            values.push(field?);
        }
        // Of equal keys the last one counts. Sorted keys, as in most objects from an API server, are fastest this way.
        Ok(Value::from(values.into_iter().collect::<BTreeMap<_, _>>()))
    }
}

/// Longer keys are mostly data.
const KEY_BYTES: usize = 48;
/// A power of two, so that the hash can be reduced.
const KEYS: usize = 1_024;

thread_local! {
    /// A direct-mapped cache: each hash has one entry, which the latest key with that hash takes.
    static KNOWN: RefCell<Vec<Value>> = RefCell::new(vec![Value::Undefined; KEYS]);
}

/// Returns the value of a key. Objects have few different keys, so each thread caches them.
fn key(text: &str) -> Value {
    if text.len() > KEY_BYTES {
        return Value::from(text);
    }
    let hash = text.bytes().fold(text.len(), |hash, byte| (hash ^ usize::from(byte)).wrapping_mul(0x0100_01b3));
    KNOWN.with_borrow_mut(|known| {
        let place = &mut known[(hash ^ (hash >> 10)) % KEYS];
        if !matches!(place, Value::String(known) if **known == *text) {
            *place = Value::from(text);
        }
        place.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_key_of_serde_json_is_not_special() {
        let json = r#"{"$serde_json::private::Number": "1e999999999"}"#;
        let value = from_json(json.as_bytes()).unwrap();
        assert_eq!(value["$serde_json::private::Number"], Value::from("1e999999999"));
        assert_eq!(from_tree(serde_json::from_str(json).unwrap()).unwrap(), value);
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_different_keys_stay_distinct() {
        let value = from_json(br#"{"b": 1, "a": 2, "b": 3, "\u0062c": 4}"#).unwrap();
        assert_eq!(value, Value::from_json_str(r#"{"a": 2, "b": 3, "bc": 4}"#).unwrap());
        // More keys than cache entries.
        let text = |number: usize| format!("{{\"key-{number}\": {number}, \"{}\": 1}}", "k".repeat(number % 100));
        for number in (0..5_000).chain(0..5_000) {
            assert_eq!(from_json(text(number).as_bytes()).unwrap(), Value::from_json_str(&text(number)).unwrap());
        }
    }

    #[test]
    fn all_json_values_are_parsed() {
        let json = r#"{"a": [1, -2, 1.5, "\u00e4", true, null, {}], "b": 18446744073709551615}"#;
        let value = from_json(json.as_bytes()).unwrap();
        assert_eq!(value, Value::from_json_str(json).unwrap());
        let large =
            r#"{"a": [18446744073709551617, -9223372036854775809, 1e30, 2.0], "b": {"a": 18446744073709551616}}"#;
        let value = from_json(large.as_bytes()).unwrap();
        let whole = |number| Value::from_numeric_string(number).unwrap();
        let numbers =
            [whole("18446744073709551617"), whole("-9223372036854775809"), Value::from(1e30), Value::from(2.0)];
        assert_eq!(value["a"], Value::from(numbers.to_vec()));
        assert_eq!(value["b"]["a"], Value::from_numeric_string("18446744073709551616").unwrap());
        assert!(from_json(b"1e999").is_err());
        assert!(from_json(&[b'['; 200]).is_err());
    }
}
