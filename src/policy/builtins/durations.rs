//! `time.parse_duration_ns`: Go's durations, and OPA's days, weeks and years.

use regorus::Value;

use super::{Answer, Builtin, failed, native, string};

pub(super) const TABLE: &[Builtin] = &[("time.parse_duration_ns", 1, parse)];

/// What OPA's own units are in hours.
const HOURS: &[(&str, f64)] = &[("d", 24.0), ("w", 168.0), ("y", 8760.0)];

fn parse(arguments: &[Value]) -> Answer {
    let text = string(arguments, 0)?;
    if !text.contains(['d', 'w', 'y']) {
        return native("time.parse_duration_ns", arguments);
    }
    let invalid = || failed(format!("time: invalid duration {text:?}"));
    let unsigned = text.trim_start_matches(['+', '-']);
    let mut rewritten = text[..text.len() - unsigned.len()].to_owned();
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (digits, behind) = rest.split_at(span(rest, |c| c.is_ascii_digit() || c == '.'));
        let (unit, behind) = behind.split_at(span(behind, |c| !(c.is_ascii_digit() || c == '.')));
        if digits.is_empty() || unit.is_empty() {
            return invalid();
        }
        match HOURS.iter().find(|(known, _)| *known == unit) {
            Some((_, hours)) => match digits.parse::<f64>() {
                Ok(number) => rewritten.push_str(&format!("{}h", number * hours)),
                Err(_) => return invalid(),
            },
            None => rewritten.push_str(&format!("{digits}{unit}")),
        }
        rest = behind;
    }
    native("time.parse_duration_ns", &[Value::from(rewritten)])
}

/// How many bytes at the beginning are of a kind.
fn span(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}
