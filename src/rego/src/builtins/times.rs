//! `time.*` where regorus differs: OPA's days, weeks and years in durations, dates that overflow, layouts.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::LazyLock,
};

use regex::Regex;
use regorus::Value;

use super::{
    call::{Builtin, BuiltinFault, BuiltinResult, failed, integer, refused, string},
    natives::native,
};
use crate::value;

pub(super) const TABLE: &[Builtin] = &[
    ("time.add_date", 4, add_date),
    ("time.format", 1, format),
    ("time.parse_duration_ns", 1, parse),
    ("time.parse_ns", 2, parse_ns),
    ("time.parse_rfc3339_ns", 1, parse_rfc3339_ns),
];

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;

/// Adds years, months and days. A day beyond the end of a month overflows into the next: one month after 31 January is
/// 2 or 3 March. In a time zone, the local time of day stays the same.
fn add_date(arguments: &[Value]) -> BuiltinResult {
    let (years, months, days) = (integer(arguments, 1)?, integer(arguments, 2)?, integer(arguments, 3)?);
    let (at, zone) = match &arguments[0] {
        Value::Array(parts) => (parts.first(), parts.get(1)),
        at => (Some(at), None),
    };
    let Some(Value::Number(number)) = at else { return native("time.add_date", arguments) };
    let Some(at) = number.as_i64() else { return failed("timestamp too big") };
    let offset = |at: i128| zone.map_or(Ok(0), |zone| offset(at, zone));
    let local = i128::from(at) + offset(i128::from(at))?;
    let (day, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (year, month, of_month) = civil(day);
    let months = i128::from(years) * 12 + i128::from(months) + year * 12 + month - 1;
    let day = days_to(months.div_euclid(12), months.rem_euclid(12) + 1) + of_month - 1 + i128::from(days);
    let local = day.saturating_mul(DAY).saturating_add(rest);
    // As in Go's `time.Date`, the offset is the one at a first guess, which matters when clocks are changed.
    let at = local - offset(local - offset(local)?)?;
    i64::try_from(at).map_or_else(|_| failed("time outside of valid range"), |at| Ok(Value::from(at)))
}

/// Returns how many nanoseconds a time zone is ahead of UTC.
fn offset(at: i128, zone: &Value) -> Result<i128, BuiltinFault> {
    let Ok(at) = i64::try_from(at) else { return Err(BuiltinFault::Failed("time outside of valid range".to_owned())) };
    let moment = [Value::from(vec![Value::from(at), zone.clone()])];
    let (date, clock) = (native("time.date", &moment)?, native("time.clock", &moment)?);
    let number = |parts: &Value, index: usize| parts[index].as_i64().map_or(0, i128::from);
    let day = days_to(number(&date, 0), number(&date, 1)) + number(&date, 2) - 1;
    let seconds = (number(&clock, 0) * 60 + number(&clock, 1)) * 60 + number(&clock, 2);
    Ok(day * DAY + seconds * SECOND - i128::from(at).div_euclid(SECOND) * SECOND)
}

/// Returns the days from 1970 to the first of a month (1 to 12), in the proleptic Gregorian calendar.
fn days_to(year: i128, month: i128) -> i128 {
    // With years that begin in March, the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (month * 153 + 2) / 5 - 719_468
}

/// Returns year, month and day of a day counted from 1970.
fn civil(day: i128) -> (i128, i128, i128) {
    let guess = day.div_euclid(366) + 1970;
    // The guess is never too late from 1970 on, and only a few years off within 64-bit timestamps.
    let year = (guess - 2..guess + 6).rev().find(|year| days_to(*year, 1) <= day).unwrap_or(guess);
    let month = (1..=12).rev().find(|month| days_to(year, *month) <= day).unwrap_or(1);
    (year, month, day - days_to(year, month) + 1)
}

/// Formats a time. regorus supports offsets of time zones but not their abbreviations, and handles fractions
/// differently.
fn format(arguments: &[Value]) -> BuiltinResult {
    let Value::Array(parts) = &arguments[0] else { return native("time.format", arguments) };
    let text = |index: usize| parts.get(index).and_then(value::text).map(ToString::to_string);
    let (zone, layout) = (text(1).unwrap_or_default(), text(2).unwrap_or_default());
    if layout.is_empty()
        && parts.iter().count() == 3
        && parts.get(2).is_some_and(|layout| value::text(layout).is_some())
    {
        let parts: Vec<Value> = parts.iter().take(2).cloned().collect();
        return native("time.format", &[Value::from(parts)]);
    }
    let layout = match layout.as_str() {
        "UnixDate" => "Mon Jan _2 15:04:05 MST 2006".to_owned(),
        "RFC822" => "02 Jan 06 15:04 MST".to_owned(),
        "RFC850" => "Monday, 02-Jan-06 15:04:05 MST".to_owned(),
        "RFC1123" => "Mon, 02 Jan 2006 15:04:05 MST".to_owned(),
        _ => layout,
    };
    if layout.contains("MST") {
        if !matches!(zone.as_str(), "" | "UTC") {
            return refused("time.format: time zone abbreviations are not supported; use an offset (-0700)");
        }
        let mut parts: Vec<Value> = parts.iter().take(2).cloned().collect();
        parts.push(Value::from(layout.replace("MST", "UTC")));
        return native("time.format", &[Value::from(parts)]);
    }
    if layout.contains(".9") || layout.contains(",9") {
        return refused("time.format: fractions without trailing zeros (.999) are not supported; use zeros (.000)");
    }
    native("time.format", arguments)
}

/// Parses what Go's `time.Parse` accepts for the layout `RFC3339`. In addition to RFC 3339, these are single-digit
/// hours, a comma before the fraction, and offsets up to `24:60`; lowercase letters and leap seconds are errors.
fn parse_rfc3339_ns(arguments: &[Value]) -> BuiltinResult {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let date = "([0-9]{4})-([0-9]{2})-([0-9]{2})";
        let time = "([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?";
        Regex::new(&format!("^{date}T{time}(?:Z|([+-])([0-9]{{2}}):([0-9]{{2}}))$")).ok()
    });
    let text = string(arguments, 0)?;
    let invalid = || failed(format!("{text:?} is not an RFC 3339 time, for example 2006-01-02T15:04:05Z"));
    let Some(parts) = FORM.as_ref().and_then(|form| form.captures(text)) else { return invalid() };
    let number = |part: usize| parts.get(part).and_then(|part| part.as_str().parse::<i128>().ok()).unwrap_or(0);
    let (year, month, day) = (number(1), number(2), number(3));
    let (hour, minute, second) = (number(4), number(5), number(6));
    let (offset_hours, offset_minutes) = (number(9), number(10));
    let days = days_to(year, month);
    let in_range = (1..=12).contains(&month)
        && (1..=days_to(year + month / 12, month % 12 + 1) - days).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && offset_hours <= 24
        && offset_minutes <= 60;
    if !in_range {
        return invalid();
    }
    // Digits after the ninth are dropped.
    let fraction: String =
        parts.get(7).map_or("", |part| part.as_str()).chars().chain("000000000".chars()).take(9).collect();
    let offset = (offset_hours * 60 + offset_minutes)
        * if parts.get(8).is_some_and(|sign| sign.as_str() == "-") { -1 } else { 1 };
    let at = (days + day - 1) * DAY
        + ((hour * 60 + minute - offset) * 60 + second) * SECOND
        + fraction.parse::<i128>().unwrap_or(0);
    i64::try_from(at).map_or_else(|_| failed("time outside of valid range"), |at| Ok(Value::from(at)))
}

/// Go's layouts that OPA accepts by name.
const LAYOUTS: &[(&str, &str)] = &[
    ("ANSIC", "Mon Jan _2 15:04:05 2006"),
    ("RFC1123", "Mon, 02 Jan 2006 15:04:05 MST"),
    ("RFC1123Z", "Mon, 02 Jan 2006 15:04:05 -0700"),
    ("RFC3339", "2006-01-02T15:04:05Z07:00"),
    ("RFC3339Nano", "2006-01-02T15:04:05.999999999Z07:00"),
    ("RFC822", "02 Jan 06 15:04 MST"),
    ("RFC822Z", "02 Jan 06 15:04 -0700"),
    ("RFC850", "Monday, 02-Jan-06 15:04:05 MST"),
    ("RubyDate", "Mon Jan 02 15:04:05 -0700 2006"),
    ("UnixDate", "Mon Jan _2 15:04:05 MST 2006"),
];

/// Parses a time with a layout. regorus cuts layouts and times at byte offsets, possibly in the middle of a character,
/// requires a month and a day, and reads a time zone after the end of a layout.
fn parse_ns(arguments: &[Value]) -> BuiltinResult {
    let (layout, time) = (string(arguments, 0)?, string(arguments, 1)?);
    let layout = LAYOUTS.iter().find(|(name, _)| *name == layout).map_or(layout, |(_, layout)| layout);
    let occurs = |c: char| layout.contains(c) || time.contains(c);
    let mut free = ('\u{1}'..' ').filter(|c| !c.is_whitespace() && !occurs(*c));
    let Some(separator) = free.next() else { return native("time.parse_ns", arguments) };
    let Some((layout, time)) = in_ascii(layout, time, free) else {
        return refused("time.parse_ns: more than 20 different non-ASCII characters in layout and time");
    };
    let end = if layout.contains("MST") { String::new() } else { separator.to_string() };
    // As in Go, a month or day missing from the layout is the first one. A field must not occur twice, so only missing
    // ones are added.
    let with = |fields: &str, first: &str| {
        let [fields, first] = [fields, first].map(|text| text.replace(' ', &separator.to_string()));
        native("time.parse_ns", &[format!("{layout}{fields}{end}").into(), format!("{time}{first}{end}").into()])
    };
    let missing = || [(" 02", " 01"), (" 01", " 01"), (" 01 02", " 01 01")].into_iter();
    let parsed = with("", "");
    if parsed.is_ok() {
        parsed
    } else {
        missing().find_map(|(fields, first)| with(fields, first).ok()).map_or(parsed, Ok)
    }
}

/// Replaces the non-ASCII characters of both strings by characters from `free`. They are not fields of a layout and
/// only have to be equal. `None` if there are too few.
fn in_ascii(layout: &str, time: &str, mut free: impl Iterator<Item = char>) -> Option<(String, String)> {
    let mut places = BTreeMap::new();
    let mut replaced = |text: &str| -> Option<String> {
        let replace = |c: char| match places.entry(c) {
            _ if c.is_ascii() => Some(c),
            Entry::Occupied(place) => Some(*place.get()),
            Entry::Vacant(place) => free.next().map(|c| *place.insert(c)),
        };
        text.chars().map(replace).collect()
    };
    Some((replaced(layout)?, replaced(time)?))
}

/// OPA's additional units, in hours.
const HOURS: &[(&str, f64)] = &[("d", 24.0), ("w", 168.0), ("y", 8760.0)];

fn parse(arguments: &[Value]) -> BuiltinResult {
    let text = string(arguments, 0)?;
    if !text.contains(['d', 'w', 'y']) {
        return native("time.parse_duration_ns", arguments);
    }
    let invalid = || failed(format!("time: invalid duration {text:?}"));
    let unsigned = text.trim_start_matches(['+', '-']);
    let mut rewritten = text[..text.len() - unsigned.len()].to_owned();
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(span(rest, |c| c.is_ascii_digit() || c == '.'));
        let (unit, after) = after.split_at(span(after, |c| !(c.is_ascii_digit() || c == '.')));
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
        rest = after;
    }
    native("time.parse_duration_ns", &[Value::from(rewritten)])
}

/// Returns the number of leading bytes whose characters match.
fn span(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}
