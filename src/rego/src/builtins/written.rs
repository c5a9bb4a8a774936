//! Values in OPA's notation.

use regorus::Value;

use super::natives::native;
use crate::order;

/// Appends a value as OPA writes it inside messages: strings quoted, sets in braces.
pub(super) fn write(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Array(items) => list(out, '[', items.iter(), ']'),
        Value::Set(items) if items.is_empty() => out.push_str("set()"),
        Value::Set(items) => list(out, '{', order::items(items).into_iter(), '}'),
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, value)) in order::entries(entries).into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write(out, key);
                out.push_str(": ");
                write(out, value);
            }
            out.push('}');
        }
        Value::Number(_) => out.push_str(&number(value)),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Null => out.push_str("null"),
        Value::Undefined => out.push_str("<undefined>"),
    }
}

/// Returns a value as text; a top-level string is not quoted.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => {
            let mut text = String::new();
            write(&mut text, other);
            text
        }
    }
}

fn list<'a>(out: &mut String, open: char, items: impl Iterator<Item = &'a Value>, close: char) {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push(close);
}

fn number(value: &Value) -> String {
    match value {
        Value::Number(number) => number.format_decimal(),
        _ => String::new(),
    }
}

/// Quotes a string as Go does.
pub(super) fn quoted(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        return format!("\"{text}\"");
    }
    // regorus has the table of characters that Go considers printable.
    let arguments = [Value::from("%q"), Value::from(vec![Value::from(text)])];
    match native("sprintf", &arguments) {
        Ok(Value::String(quoted)) => quoted.to_string(),
        _ => format!("{text:?}"),
    }
}

/// Whether Go writes a character unescaped.
pub(super) fn is_print(c: char) -> bool {
    matches!(c, '"' | '\\') || !quoted(&c.to_string()).starts_with("\"\\")
}
