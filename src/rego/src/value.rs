//! Reading JSON and YAML as values, and their parts.
//!
//! The type of values is regorus'. Its own reader of JSON is not used, because it gives a meaning to the key
//! `$serde_json::private::Number`: a number of any size, whose digits it computes for hours if the exponent is large. Any
//! object could carry it, so nothing is read by that way.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use regorus::{
    Value,
    value::{Array, Object},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::yaml;

/// Reads JSON.
///
/// # Errors
/// Also for what is nested deeper than 127 levels, and for numbers beyond 64-bit floats.
pub fn from_json(json: &[u8]) -> Result<Value, serde_json::Error> {
    from_json_parts(json, All)
}

/// Reads the selected parts of JSON.
///
/// # Errors
/// Those of [`from_json`], for the parts that are left out, too.
pub fn from_json_parts(json: &[u8], selection: impl Selection) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let rounded = Cell::new(false);
    let value = Selected(selection, &rounded).deserialize(&mut reader)?;
    reader.end()?;
    if rounded.get() { exact(serde_json::from_slice(json)?, selection) } else { Ok(value) }
}

/// Reads the selected parts of JSON with all digits of its whole numbers, of which the parser keeps 64 bits.
fn exact(json: &RawValue, selection: impl Selection) -> Result<Value, serde_json::Error> {
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
        _ => Selected(selection, &Cell::new(false)).deserialize(&mut serde_json::Deserializer::from_str(text)),
    }
}

/// Reads one YAML document for a policy that asks for it.
pub(crate) fn from_yaml(yaml: &str) -> Result<Value, serde_saphyr::Error> {
    serde_saphyr::from_str_with_options::<Plain>(yaml, yaml::as_opa_text()).map(|plain| plain.0)
}

/// Turns a JSON tree into a value.
pub fn from_tree(tree: serde_json::Value) -> Result<Value, serde_json::Error> {
    Plain::deserialize(tree).map(|plain| plain.0)
}

/// Floats below it, 2^63, were no whole number beyond 64 bits.
const LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Returns a text; `None` for anything else.
///
/// For anything else the accessors of [`Value`] make an error, whose backtrace, where `RUST_BACKTRACE` asks for one, takes longer
/// than the evaluation.
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

/// Returns the fields of an object whose keys are texts, sorted by key; of anything else none.
pub fn fields(value: &Value) -> impl Iterator<Item = (Arc<str>, Value)> + use<> {
    let fields = object(value).map(|fields| {
        let named = fields.iter_sorted().filter_map(|(key, value)| Some((Arc::clone(text(key)?), value.clone())));
        named.collect::<Vec<_>>()
    });
    fields.unwrap_or_default().into_iter()
}

/// Whether a value, written out, takes about `most` bytes at most. What it holds several times counts several times: a few
/// rules that double a value make one that no memory can hold once it is written.
///
/// What is nested deeper than [`DEEPEST`] levels fits nowhere: it is written by recursion.
pub fn fits(value: &Value, most: usize) -> bool {
    let mut left = most;
    visit(value, |value, depth| {
        let text = if let Value::String(text) = value { text.len() } else { 0 };
        // Paths and indents are as long as the value is deep.
        let rest = left.checked_sub(text + 8 + depth).filter(|_| depth <= DEEPEST);
        left = rest.unwrap_or(0);
        rest.is_some()
    })
}

/// The deepest value that is gone through by recursion.
const DEEPEST: usize = 1_000;

/// Shows each value in a value with its depth, however often it is there, as long as that returns true; returns whether
/// it saw all.
pub fn visit(value: &Value, mut look: impl FnMut(&Value, usize) -> bool) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if !look(value, depth) {
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

/// Which parts of a text become a value. It is copied for each of them.
pub trait Selection: Copy {
    /// Returns what to read of each element of an array; `None` for an array that is read as an empty one.
    fn of_elements(self) -> Option<Self>;
    /// Returns what to read of a field; `None` for one that is left out.
    fn of_field(self, key: &str) -> Option<Self>;
}

/// Selects a text with all its parts.
#[derive(Clone, Copy)]
struct All;

impl Selection for All {
    fn of_elements(self) -> Option<Self> {
        Some(self)
    }

    fn of_field(self, _: &str) -> Option<Self> {
        Some(self)
    }
}

/// A whole text as a value.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Selected(All, &Cell::new(false))).map(Self)
    }
}

/// Reads the selected parts of a text as a value, and notes whether it may have whole numbers beyond 64 bits.
struct Selected<'n, S>(S, &'n Cell<bool>);

impl<'de, S: Selection> DeserializeSeed<'de> for Selected<'_, S> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Selection> Visitor<'de> for Selected<'_, S> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if value.abs() >= LARGE {
            self.1.set(true);
        }
        // YAML has infinities; Rego has none.
        if value.is_finite() { Ok(Value::from(value)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::with_capacity(items.size_hint().unwrap_or(0));
        match self.0.of_elements() {
            Some(element) => {
                while let Some(value) = items.next_element_seed(Self(element, self.1))? {
                    values.push(value);
                }
            }
            // Not even how many there are is read.
            None => while items.next_element::<Skipped>()?.is_some() {},
        }
        Ok(Value::from(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(field) = entries.next_key_seed(Field(self.0))? {
            let Some((key, selection)) = field else {
                entries.next_value::<Skipped>()?;
                continue;
            };
            if values.is_empty() {
                values.reserve(entries.size_hint().unwrap_or(8));
            }
            values.push((key, entries.next_value_seed(Self(selection, self.1))?));
        }
        // Of equal keys the last one counts. What is sorted already, as most of what a server sends, costs least this way.
        Ok(Value::from(values.into_iter().collect::<BTreeMap<_, _>>()))
    }
}

/// Reads the key of a field, and what to read of its value.
struct Field<S>(S);

impl<'de, S: Selection> DeserializeSeed<'de> for Field<S> {
    type Value = Option<(Value, S)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<S: Selection> Visitor<'_> for Field<S> {
    type Value = Option<(Value, S)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.0.of_field(text).map(|selection| (key(text), selection)))
    }
}

/// Reads over a value, and refuses what cannot be read as one: whether a text can be read must not depend on the selection.
pub struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        // What is a key and what a value does not matter here.
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}
/// Longer keys are mostly data.
const KEY_BYTES: usize = 48;
/// A power of two, so that the hash can be cut.
const KEYS: usize = 1_024;

thread_local! {
    /// Each key has one place, which the last key of its hash takes.
    static KNOWN: RefCell<Vec<Value>> = RefCell::new(vec![Value::Undefined; KEYS]);
}

/// Returns the value of a key. Objects have few different keys, so each thread keeps those that it has met.
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
    fn the_key_for_numbers_is_a_key_like_any_other() {
        let json = r#"{"$serde_json::private::Number": "1e999999999"}"#;
        let value = from_json(json.as_bytes()).unwrap();
        assert_eq!(value["$serde_json::private::Number"], Value::from("1e999999999"));
        assert_eq!(from_yaml(json).unwrap(), value);
        assert_eq!(from_tree(serde_json::from_str(json).unwrap()).unwrap(), value);
    }

    #[test]
    fn reads_yaml_as_opa_does() {
        let value = from_yaml("a: [yes, no, true, 010, ~, 1.5, '1', 2024-01-01]\n1: x").unwrap();
        let json = r#"{"a": ["yes", "no", true, 8, null, 1.5, "1", "2024-01-01"], "1": "x"}"#;
        assert_eq!(value, from_json(json.as_bytes()).unwrap());
    }

    #[test]
    fn of_equal_keys_the_last_counts_and_all_keys_are_told_apart() {
        let value = from_json(br#"{"b": 1, "a": 2, "b": 3, "\u0062c": 4}"#).unwrap();
        assert_eq!(value, Value::from_json_str(r#"{"a": 2, "b": 3, "bc": 4}"#).unwrap());
        // More keys than have a place.
        let text = |number: usize| format!("{{\"key-{number}\": {number}, \"{}\": 1}}", "k".repeat(number % 100));
        for number in (0..5_000).chain(0..5_000) {
            assert_eq!(from_json(text(number).as_bytes()).unwrap(), Value::from_json_str(&text(number)).unwrap());
        }
    }

    #[test]
    fn reads_what_json_can_say() {
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
        assert!(from_yaml("a: .inf").is_err());
        assert!(from_json(&[b'['; 200]).is_err());
    }
}
