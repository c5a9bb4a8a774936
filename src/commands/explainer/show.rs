//! Values and source as explanations show them: values as Rego, source on one line.

use std::{borrow::Cow, fmt::Write as _};

use regorus::Value;

use super::masking::{SecretMask, is_secret};

/// How many characters of a value are shown.
const VALUE: usize = 160;
/// How many characters of source are shown.
const CODE: usize = 100;

/// Writes a value as Rego, uncut.
pub(crate) fn literal(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text, usize::MAX, None);
    text
}

/// Writes a value as Rego, without secrets if there is a mask, and cut after [`VALUE`] characters.
pub(crate) fn value(value: &Value, mask: Option<&SecretMask>) -> String {
    let mut text = String::new();
    write(value, &mut text, VALUE, mask);
    cut(text, VALUE)
}

/// Writes source on one line, cut after [`CODE`] characters.
pub(crate) fn code(text: &str) -> String {
    cut(text.split_whitespace().collect::<Vec<_>>().join(" "), CODE)
}

fn cut(mut text: String, longest: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Writes a value; stops soon after `enough` bytes.
fn write(value: &Value, text: &mut String, enough: usize, mask: Option<&SecretMask>) {
    match value {
        Value::Array(items) => list(items.iter(), ('[', ']'), text, enough, mask),
        Value::Set(items) if items.is_empty() => text.push_str("set()"),
        Value::Set(items) => list(items.iter(), ('{', '}'), text, enough, mask),
        Value::Object(fields) => {
            text.push('{');
            for (index, (key, value)) in fields.iter_sorted().enumerate() {
                if text.len() > enough {
                    return;
                }
                text.push_str(if index == 0 { "" } else { ", " });
                write(key, text, enough, mask);
                text.push_str(": ");
                match value {
                    Value::String(_) if mask.is_some() && is_secret(fields, key) => text.push_str("\"***\""),
                    value => write(value, text, enough, mask),
                }
            }
            text.push('}');
        }
        Value::Undefined => text.push_str("undefined"),
        Value::String(shown) if mask.is_some() => {
            let shown = mask.map_or(Cow::from(&**shown), |mask| mask.text(shown));
            let _ = write!(text, "{}", Value::from(&*shown));
        }
        scalar => {
            // Scalars are written alike in JSON and in Rego.
            let _ = write!(text, "{scalar}");
        }
    }
}

fn list<'v>(
    items: impl Iterator<Item = &'v Value>,
    (open, close): (char, char),
    text: &mut String,
    enough: usize,
    mask: Option<&SecretMask>,
) {
    text.push(open);
    for (index, item) in items.enumerate() {
        if text.len() > enough {
            return;
        }
        text.push_str(if index == 0 { "" } else { ", " });
        write(item, text, enough, mask);
    }
    text.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_rego() {
        let value = Value::from_json_str(r#"{"b": [1, "x\"y"], "a": null}"#).unwrap();
        assert_eq!(literal(&value), r#"{"a": null, "b": [1, "x\"y"]}"#);
        assert_eq!(literal(&Value::new_set()), "set()");
        let long = Value::from((0..100).map(Value::from).collect::<Vec<_>>());
        let shown = super::value(&long, None);
        assert!(shown.starts_with("[0, 1, 2") && shown.ends_with('…') && shown.chars().count() == VALUE + 1, "{shown}");
    }
}
