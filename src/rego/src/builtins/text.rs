//! String builtins for which regorus differs from OPA.

use regorus::Value;

use super::{
    budget,
    call::{Builtin, BuiltinResult, failed, integer, string},
    natives::native,
};

pub(super) const TABLE: &[Builtin] = &[
    ("indexof", 2, |arguments| searched("indexof", arguments)),
    ("indexof_n", 2, |arguments| searched("indexof_n", arguments)),
    ("lower", 1, lower),
    ("strings.count", 2, count),
    ("strings.split_n", 3, split_n),
    ("substring", 3, substring),
    ("trim_space", 1, trim_space),
    ("upper", 1, upper),
];

/// Searches with regorus' builtin, but refuses the empty string, which regorus finds everywhere.
fn searched(name: &str, arguments: &[Value]) -> BuiltinResult {
    if string(arguments, 1)?.is_empty() {
        return failed("empty search character");
    }
    native(name, arguments)
}

fn count(arguments: &[Value]) -> BuiltinResult {
    let (text, part) = (string(arguments, 0)?, string(arguments, 1)?);
    let count = if part.is_empty() { text.chars().count() + 1 } else { text.matches(part).count() };
    Ok(Value::from(count))
}

/// Converts character by character, as Go does: no letter becomes two.
fn upper(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(string(arguments, 0)?.chars().map(|c| single(c, c.to_uppercase())).collect::<String>()))
}

fn lower(arguments: &[Value]) -> BuiltinResult {
    // The only capital whose lowercase is two characters is İ; Go converts it to a plain i.
    let small = |c: char| if c == 'İ' { 'i' } else { single(c, c.to_lowercase()) };
    Ok(Value::from(string(arguments, 0)?.chars().map(small).collect::<String>()))
}

fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Trims white space; Go uses Unicode's definition, as Rust does.
fn trim_space(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(string(arguments, 0)?.trim()))
}

fn substring(arguments: &[Value]) -> BuiltinResult {
    let text = string(arguments, 0)?;
    let (start, length) = (integer(arguments, 1)?, integer(arguments, 2)?);
    let Ok(start) = usize::try_from(start) else { return failed("negative offset") };
    let rest = text.chars().skip(start);
    let part: String = match usize::try_from(length) {
        Ok(length) => rest.take(length).collect(),
        Err(_) => rest.collect(),
    };
    Ok(Value::from(part))
}

/// Returns the first parts, or the last ones if the number is negative.
fn split_n(arguments: &[Value]) -> BuiltinResult {
    let (text, separator, count) = (string(arguments, 0)?, string(arguments, 1)?, integer(arguments, 2)?);
    let parts: Vec<&str> = if separator.is_empty() {
        let ends = text.char_indices().map(|(start, c)| &text[start..start + c.len_utf8()]);
        ends.collect()
    } else {
        text.split(separator).collect()
    };
    budget::check_elements("strings.split_n", parts.len())?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(parts.len());
    let parts = if count >= 0 { &parts[..wanted] } else { &parts[parts.len() - wanted..] };
    Ok(Value::from(parts.iter().map(|part| Value::from(*part)).collect::<Vec<_>>()))
}
