//! Replacing as Go's `strings.Replacer` does: one scan from left to right that never scans replacements again.

use regorus::Value;

use super::{
    budget,
    call::{Builtin, BuiltinResult, failed, string, wrong_type},
};

pub(super) const TABLE: &[Builtin] = &[("replace", 3, replace), ("strings.replace_n", 2, replace_n)];

fn replace(arguments: &[Value]) -> BuiltinResult {
    let (text, old, new) = (string(arguments, 0)?, string(arguments, 1)?, string(arguments, 2)?);
    scan("replace", text, &[(old, new)])
}

fn replace_n(arguments: &[Value]) -> BuiltinResult {
    let Value::Object(patterns) = &arguments[0] else { return wrong_type(1, "object", &arguments[0]) };
    let text = string(arguments, 1)?;
    let mut pairs = Vec::new();
    for (key, value) in patterns.iter_sorted() {
        match (key, value) {
            (Value::String(key), Value::String(value)) => pairs.push((&**key, &**value)),
            (Value::String(_), _) => return failed("operand 1 non-string value found in pattern object"),
            _ => return failed("operand 1 non-string key found in pattern object"),
        }
    }
    scan("strings.replace_n", text, &pairs)
}

/// Replaces, at each position, the first pattern that matches there. The empty pattern matches everywhere, also at the
/// end, but not twice at one position.
fn scan(name: &str, text: &str, pairs: &[(&str, &str)]) -> BuiltinResult {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut after_empty = false;
    loop {
        let rest = &text[at..];
        let found = pairs.iter().find(|(old, _)| rest.starts_with(old) && !(old.is_empty() && after_empty));
        after_empty = found.is_some_and(|(old, _)| old.is_empty());
        if let Some((old, new)) = found {
            out.push_str(new);
            at += old.len();
            budget::check_text(name, out.len())?;
            continue;
        }
        let Some(next) = rest.chars().next() else { return Ok(Value::from(out)) };
        out.push(next);
        at += next.len_utf8();
    }
}
