//! `yaml.marshal`: values as Go's `yaml.v3` writes them, indented by two.
//!
//! Strings that YAML 1.1 would parse as another type, and strings with unprintable characters, are double-quoted.
//! Strings that resemble YAML syntax are single-quoted, and strings of several lines become a block.

use std::{cmp::Ordering, collections::BTreeMap, fmt::Write as _};

use regorus::Value;

use super::{
    budget,
    call::{Builtin, BuiltinFault, BuiltinResult, refused},
    gofloat::{GoNumber, float},
    written::plain,
};
use crate::order;

pub(super) const TABLE: &[Builtin] = &[("yaml.marshal", 1, marshal)];

/// The longest key that is written before its colon, in bytes.
const LONGEST_KEY: usize = 128;

fn marshal(arguments: &[Value]) -> BuiltinResult {
    budget::check_whole("yaml.marshal", &arguments[0])?;
    let mut text = String::new();
    write(&mut text, &arguments[0], 0)?;
    Ok(Value::from(text))
}

/// Appends a value whose first line has already begun; further lines start at this column.
fn write(out: &mut String, value: &Value, column: usize) -> Result<(), BuiltinFault> {
    match value {
        Value::Array(items) if !items.is_empty() => sequence(out, items.iter(), column),
        Value::Set(items) if !items.is_empty() => sequence(out, order::items(items).into_iter(), column),
        Value::Object(fields) if !fields.is_empty() => {
            // Of a number and a string with the same text, the last one counts.
            let named: BTreeMap<String, &Value> =
                order::entries(fields).into_iter().map(|(key, value)| (key_text(key), value)).collect();
            let mut named: Vec<_> = named.into_iter().collect();
            named.sort_by(|(left, _), (right, _)| natural_order(left, right));
            for (index, (key, value)) in named.into_iter().enumerate() {
                begin(out, index, column);
                field(out, &key, value, column)?;
            }
            Ok(())
        }
        other => {
            out.push_str(&scalar(other, column));
            end_line(out);
            Ok(())
        }
    }
}

fn sequence<'a>(out: &mut String, items: impl Iterator<Item = &'a Value>, column: usize) -> Result<(), BuiltinFault> {
    for (index, item) in items.enumerate() {
        begin(out, index, column);
        out.push_str("- ");
        write(out, item, column + 2)?;
    }
    Ok(())
}

/// Indents a line, unless it is the first one of a collection.
fn begin(out: &mut String, index: usize, column: usize) {
    if index > 0 {
        out.push_str(&" ".repeat(column));
    }
}

fn end_line(out: &mut String) {
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

fn field(out: &mut String, key: &str, value: &Value, column: usize) -> Result<(), BuiltinFault> {
    if key.len() > LONGEST_KEY || key.contains(is_break) {
        return refused(format!(
            "yaml.marshal: keys with line breaks or of more than {LONGEST_KEY} bytes are not supported"
        ));
    }
    out.push_str(&text(key, column));
    out.push(':');
    let is_empty = match value {
        Value::Array(items) => items.is_empty(),
        Value::Set(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    if is_empty {
        out.push(' ');
        return write(out, value, column + 2);
    }
    out.push('\n');
    out.push_str(&" ".repeat(column + 2));
    write(out, value, column + 2)
}

/// Returns a key as JSON writes it.
fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        other => serde_json::to_string(other).unwrap_or_else(|_| plain(other)),
    }
}

fn scalar(value: &Value, column: usize) -> String {
    match value {
        Value::Array(_) | Value::Set(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        Value::String(string) => text(string, column),
        Value::Number(_) => match GoNumber::of(value) {
            Some(GoNumber::Float(number)) => float(number, 'g', None),
            Some(GoNumber::Big(number)) if u64::try_from(&number).is_err() => {
                number.to_string().parse().map_or_else(|_| number.to_string(), |number| float(number, 'g', None))
            }
            _ => plain(value),
        },
        other => plain(other),
    }
}

/// Properties of a string that restrict its style.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own, as in Go")]
struct TextShape {
    indicator: bool,
    tab: bool,
    unprintable: bool,
    lines: bool,
    break_space: bool,
    space_break: bool,
    blank_end: bool,
    trailing_space: bool,
}

impl TextShape {
    fn of(text: &str) -> Self {
        let mut shape = Self { indicator: text.starts_with("---") || text.starts_with("..."), ..Self::default() };
        let mut before = ' ';
        let mut rest = text.chars().peekable();
        let mut is_first = true;
        while let Some(c) = rest.next() {
            let next = rest.peek().copied();
            let followed = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            shape.indicator |= match c {
                '#' => is_first || is_blank(before),
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => is_first,
                '?' | '-' => is_first && followed,
                ':' => followed,
                _ => false,
            };
            shape.tab |= c == '\t';
            shape.unprintable |= c != '\t' && !is_printable(c);
            shape.lines |= is_break(c);
            shape.break_space |= c == ' ' && !is_first && is_break(before);
            shape.space_break |= is_break(c) && !is_first && before == ' ';
            shape.blank_end |= (is_first || next.is_none()) && (c == ' ' || is_break(c));
            shape.trailing_space |= next.is_none() && c == ' ';
            before = c;
            is_first = false;
        }
        shape
    }

    fn can_be_quoted(&self) -> bool {
        !(self.break_space || self.space_break || self.tab || self.unprintable)
    }

    fn can_be_plain(&self) -> bool {
        self.can_be_quoted() && !(self.indicator || self.blank_end || self.lines)
    }

    fn can_be_block(&self) -> bool {
        !(self.trailing_space || self.space_break || self.unprintable)
    }
}

fn text(text: &str, column: usize) -> String {
    let shape = TextShape::of(text);
    if text.contains('\n') {
        return if shape.can_be_block() { block(text, column) } else { double_quoted(text) };
    }
    if is_other(text) {
        return double_quoted(text);
    }
    if shape.can_be_plain() {
        text.to_owned()
    } else if shape.can_be_quoted() {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        double_quoted(text)
    }
}

/// Returns a block of several lines that keeps all trailing line breaks.
fn block(text: &str, column: usize) -> String {
    let indent = " ".repeat(column.max(2));
    let mut out = String::from("|");
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    match text.strip_suffix('\n') {
        None => out.push('-'),
        Some(rest) if rest.is_empty() || rest.ends_with('\n') => out.push('+'),
        Some(_) => {}
    }
    out.push('\n');
    for line in text.split_inclusive('\n') {
        if line != "\n" {
            out.push_str(&indent);
        }
        out.push_str(line);
    }
    out
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let code = u32::from(c);
        let _ = match c {
            '\0' => out.write_str("\\0"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\t' => out.write_str("\\t"),
            '\n' => out.write_str("\\n"),
            '\u{b}' => out.write_str("\\v"),
            '\u{c}' => out.write_str("\\f"),
            '\r' => out.write_str("\\r"),
            '\u{1b}' => out.write_str("\\e"),
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\u{85}' => out.write_str("\\N"),
            '\u{2028}' => out.write_str("\\L"),
            '\u{2029}' => out.write_str("\\P"),
            _ if is_printable(c) => out.write_char(c),
            _ if code <= 0xff => write!(out, "\\x{code:02X}"),
            _ if code <= 0xffff => write!(out, "\\u{code:04X}"),
            _ => write!(out, "\\U{code:08X}"),
        };
    }
    out.push('"');
    out
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_break(c)
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}') && c != '\u{feff}'
}

/// Whether YAML parses a string as another type.
fn is_other(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "y", "yes", "on", "n", "no", "off"];
    let lower = text.to_lowercase();
    let title: String = lower.chars().take(1).flat_map(char::to_uppercase).chain(lower.chars().skip(1)).collect();
    let is_cased = text == lower || text == title || text == text.to_uppercase();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_infinity = matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN");
    matches!(text, "" | "~")
        || is_cased && WORDS.contains(&&*lower)
        || is_infinity
        || is_number(text)
        || is_base_60(unsigned)
        || is_time(text)
}

fn is_number(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    // After a leading point, underscores are not ignored.
    let text = if text.starts_with('.') { text.to_owned() } else { text.replace('_', "") };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let of_base = |prefix: [&str; 2], base| {
        let digits = prefix.iter().find_map(|prefix| unsigned.strip_prefix(*prefix));
        digits.is_some_and(|digits| !digits.starts_with(['+', '-']) && u64::from_str_radix(digits, base).is_ok())
    };
    let is_decimal = unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok_and(f64::is_finite);
    begins && (of_base(["0x", "0X"], 16) || of_base(["0b", "0B"], 2) || of_base(["0o", "0O"], 8) || is_decimal)
}

/// Whether a string without its sign is a base 60 number: `12:30`.
fn is_base_60(unsigned: &str) -> bool {
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let places: Vec<&str> = parts.collect();
    let is_place = |place: &&str| matches!(place.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(is_digit)
        && !places.is_empty()
        && places.iter().all(is_place)
        && fraction.bytes().all(is_digit)
}

/// Whether a string is a date, or a date with a time.
fn is_time(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((&text[at..=at], &text[at + 1..]))),
        None => (text, None),
    };
    let number = |part: &str, most: usize| {
        let fits = (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| fits)
    };
    let [year, month, day] = date.split('-').collect::<Vec<_>>()[..] else { return false };
    let (Some(year_number), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year_number % 4 == 0 && (year_number % 100 != 0 || year_number % 400 == 0);
    let days = [31, 28 + u32::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let last = usize::try_from(month).ok().and_then(|month| days.get(month.checked_sub(1)?).copied());
    if year.len() != 4 || day == 0 || last.is_none_or(|last| day > last) {
        return false;
    }
    let Some((separator, time)) = time else { return true };
    let (time, has_zone) = match time.strip_suffix('Z') {
        Some(time) => (time, true),
        None => match time.rfind(['+', '-']) {
            Some(at) => {
                let zone = time[at + 1..].split(':').map(|part| number(part, 2).filter(|_| part.len() == 2));
                let zone: Vec<Option<u32>> = zone.collect();
                if !matches!(zone[..], [Some(0..=24), Some(0..=60)]) {
                    return false;
                }
                (&time[..at], true)
            }
            None => (time, false),
        },
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let parts: Vec<Option<u32>> = clock.split(':').map(|part| number(part, 2)).collect();
    has_zone == (separator != " ")
        && matches!(parts[..], [Some(0..=23), Some(0..=59), Some(0..=59)])
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// Compares keys in natural order: `a2` comes before `a10`.
fn natural_order(left: &str, right: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    let (Some(&a), Some(&b)) = (left.get(same), right.get(same)) else { return left.len().cmp(&right.len()) };
    let after_digits = same > 0 && left[same - 1].is_ascii_digit();
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => return a.cmp(&b),
        (false, false) => {}
        // After digits a letter comes first, elsewhere a non-letter.
        (is_letter, _) => return if is_letter == after_digits { Ordering::Less } else { Ordering::Greater },
    }
    let zeros = a == '0' || b == '0';
    let digits_before = left[..same].iter().rev().take_while(|c| c.is_ascii_digit());
    let first = u64::from(zeros && digits_before.into_iter().any(|c| *c != '0'));
    let number = |text: &[char]| {
        let digits: Vec<u64> = text.iter().map_while(|c| c.to_digit(10)).map(u64::from).collect();
        let number = digits.iter().fold(first, |number, digit| number.wrapping_mul(10).wrapping_add(*digit));
        (number, digits.len())
    };
    number(&left[same..]).cmp(&number(&right[same..])).then(a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_natural_order() {
        let mut keys = ["a10", "b", "a2", "a", "_a", "A"];
        keys.sort_by(|left, right| natural_order(left, right));
        assert_eq!(keys, ["_a", "A", "a", "a2", "a10", "b"]);
    }

    #[test]
    fn collections_are_indented_by_two() {
        let value =
            Value::from_json_str(r#"{"a": [1, {"b": ["x"]}, [], [[2]]], "c": {"d": {}}, "e": "f\ng"}"#).unwrap();
        let yaml = "a:\n  - 1\n  - b:\n      - x\n  - []\n  - - - 2\nc:\n  d: {}\ne: |-\n  f\n  g\n";
        assert_eq!(marshal(&[value]), Ok(Value::from(yaml)));
    }
}
