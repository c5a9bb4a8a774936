//! Strings, by code points.

use std::{num::IntErrorKind, sync::Arc};

use super::{EvaluatedValue, Table, int, list, text};
use crate::{error::failed, value::CelValue};

pub(super) const TABLE: Table = &[
    ("contains_string", |values| Ok(text(values, 0)?.contains(text(values, 1)?).into())),
    ("ends_with_string", |values| Ok(text(values, 0)?.ends_with(text(values, 1)?).into())),
    ("starts_with_string", |values| Ok(text(values, 0)?.starts_with(text(values, 1)?).into())),
    ("string_char_at_int", char_at),
    ("string_index_of_string", |values| index_of(text(values, 0)?, text(values, 1)?, 0)),
    ("string_index_of_string_int", |values| index_of(text(values, 0)?, text(values, 1)?, int(values, 2)?)),
    ("string_last_index_of_string", last_index_of),
    ("string_last_index_of_string_int", |values| last_index_from(text(values, 0)?, text(values, 1)?, int(values, 2)?)),
    ("string_lower_ascii", |values| Ok(text(values, 0)?.to_ascii_lowercase().into())),
    ("string_upper_ascii", |values| Ok(text(values, 0)?.to_ascii_uppercase().into())),
    ("string_replace_string_string", |values| Ok(replace(text(values, 0)?, text(values, 1)?, text(values, 2)?, -1))),
    ("string_replace_string_string_int", |values| {
        Ok(replace(text(values, 0)?, text(values, 1)?, text(values, 2)?, int(values, 3)?))
    }),
    ("string_split_string", |values| Ok(split(text(values, 0)?, text(values, 1)?, -1))),
    ("string_split_string_int", |values| Ok(split(text(values, 0)?, text(values, 1)?, int(values, 2)?))),
    ("string_substring_int", |values| substring(text(values, 0)?, int(values, 1)?, None)),
    ("string_substring_int_int", |values| substring(text(values, 0)?, int(values, 1)?, Some(int(values, 2)?))),
    ("string_trim", |values| Ok(text(values, 0)?.trim_matches(is_space).into())),
    ("strings_quote", |values| Ok(quote(text(values, 0)?).into())),
    ("list_join", |values| join(values, "")),
    ("list_join_string", |values| join(values, text(values, 1)?)),
];

/// Whether Go's `strings.TrimSpace` removes a character.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range<'v>(index: i64) -> EvaluatedValue<'v> {
    failed(format!("index out of range: {index}"))
}

/// Returns an index if it is not negative.
fn index(value: i64) -> Option<usize> {
    usize::try_from(value).ok()
}

fn char_at<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (text, at) = (text(values, 0)?, int(values, 1)?);
    let count = text.chars().count();
    match index(at) {
        Some(position) if position == count => Ok("".into()),
        Some(position) => text.chars().nth(position).map_or_else(|| out_of_range(at), |c| Ok(c.to_string().into())),
        None => out_of_range(at),
    }
}

fn index_of<'v>(text: &str, part: &str, from: i64) -> EvaluatedValue<'v> {
    if part.is_empty() {
        return Ok(CelValue::Int(from));
    }
    let Some(from) = index(from) else { return out_of_range(from) };
    let Some((begin, _)) = text.char_indices().nth(from) else { return Ok(CelValue::Int(-1)) };
    Ok(match text[begin..].find(part) {
        Some(at) => CelValue::length(from + text[begin..begin + at].chars().count()),
        None => CelValue::Int(-1),
    })
}

fn last_index_of<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (text, part) = (text(values, 0)?, text(values, 1)?);
    let count = text.chars().count();
    if part.is_empty() {
        return Ok(CelValue::length(count));
    }
    if text.len() < part.len() {
        return Ok(CelValue::Int(-1));
    }
    last_index_from(text, part, i64::try_from(count).unwrap_or(i64::MAX) - 1)
}

fn last_index_from<'v>(text: &str, part: &str, from: i64) -> EvaluatedValue<'v> {
    if part.is_empty() {
        return Ok(CelValue::Int(from));
    }
    let Some(from) = index(from) else { return out_of_range(from) };
    let (count, length) = (text.chars().count(), part.chars().count());
    if from >= count || length > count {
        return Ok(CelValue::Int(-1));
    }
    // The last place where the part may begin.
    let last = from.min(count - length);
    let end = text.char_indices().nth(last + length).map_or(text.len(), |(at, _)| at);
    Ok(match text[..end].rfind(part) {
        Some(at) => CelValue::length(text[..at].chars().count()),
        None => CelValue::Int(-1),
    })
}

fn replace<'v>(text: &str, old: &str, new: &str, most: i64) -> CelValue<'v> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    text.replacen(old, new, most).into()
}

fn split<'v>(text: &str, separator: &str, most: i64) -> CelValue<'v> {
    if most == 0 {
        return CelValue::from(Vec::new());
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return CelValue::from(text.splitn(most, separator).map(CelValue::from).collect::<Vec<_>>());
    }
    // Without a separator, at every code point; the last part has the rest.
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if parts.len() + 1 == most { rest.len() } else { c.len_utf8() };
        parts.push(CelValue::from(&rest[..length]));
        rest = &rest[length..];
    }
    CelValue::from(parts)
}

fn substring<'v>(text: &str, from: i64, to: Option<i64>) -> EvaluatedValue<'v> {
    if let Some(to) = to
        && from > to
    {
        return failed(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let count = text.chars().count();
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let Some(begin) = index(from).filter(|at| *at <= count) else { return out_of_range(from) };
    let end = match to {
        Some(to) => match index(to).filter(|at| *at <= count) {
            Some(at) => byte(at),
            None => return out_of_range(to),
        },
        None => text.len(),
    };
    Ok(text[byte(begin)..end].into())
}

fn join<'v>(values: &[CelValue<'v>], separator: &str) -> EvaluatedValue<'v> {
    let mut joined = String::new();
    for (position, element) in list(values, 0)?.iter().enumerate() {
        if position > 0 {
            joined.push_str(separator);
        }
        match element.as_str() {
            Some(text) => joined.push_str(text),
            None => return failed(format!("join: invalid input: {}", element.plain())),
        }
    }
    Ok(CelValue::from(joined))
}

/// Returns the letter after the backslash of a character that has an escape of its own, in CEL and in Go.
fn escape(c: char) -> Option<char> {
    Some(match c {
        '"' | '\\' => c,
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{b}' => 'v',
        _ => return None,
    })
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match escape(c) {
            Some(letter) => quoted.extend(['\\', letter]),
            None => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a text in quotes as Go's `%q` does.
pub(super) fn go_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match escape(c) {
            Some(letter) => quoted.extend(['\\', letter]),
            None if c.is_ascii_control() => quoted.extend(format!("\\x{:02x}", c as u32).chars()),
            None if c.is_control() => quoted.extend(format!("\\u{:04x}", c as u32).chars()),
            None => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns Go's message for a text that is no number.
pub(super) fn atoi_error(text: &str, error: &std::num::ParseIntError) -> String {
    let reason = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.Atoi: parsing {}: {reason}", go_quoted(text))
}

/// Returns a list of texts.
pub(super) fn texts<'v>(texts: Vec<String>) -> CelValue<'v> {
    CelValue::List(crate::value::CelList::Shared(Arc::new(texts.into_iter().map(CelValue::from).collect())))
}
