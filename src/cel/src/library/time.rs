//! Durations and timestamps.

use chrono::{DateTime, Datelike, Offset, TimeZone, Timelike};

use super::{EvaluatedValue, Table, argument, floats, text, unexpected};
use crate::{
    error::{EvalError, failed},
    value::{CelValue, Timestamp},
};

const SECOND: i64 = 1_000_000_000;
/// The first second of year 1, and the last of year 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// A field of a date or time.
type TimePart = fn(&DateTime<chrono::FixedOffset>) -> i64;

pub(super) const TABLE: Table = &[
    ("timestamp_to_year", |values| part(values, |time| time.year().into())),
    ("timestamp_to_year_with_tz", |values| part(values, |time| time.year().into())),
    ("timestamp_to_month", |values| part(values, |time| time.month0().into())),
    ("timestamp_to_month_with_tz", |values| part(values, |time| time.month0().into())),
    ("timestamp_to_day_of_year", |values| part(values, |time| time.ordinal0().into())),
    ("timestamp_to_day_of_year_with_tz", |values| part(values, |time| time.ordinal0().into())),
    ("timestamp_to_day_of_month", |values| part(values, |time| time.day0().into())),
    ("timestamp_to_day_of_month_with_tz", |values| part(values, |time| time.day0().into())),
    ("timestamp_to_day_of_month_1_based", |values| part(values, |time| time.day().into())),
    ("timestamp_to_day_of_month_1_based_with_tz", |values| part(values, |time| time.day().into())),
    ("timestamp_to_day_of_week", |values| part(values, |time| time.weekday().num_days_from_sunday().into())),
    ("timestamp_to_day_of_week_with_tz", |values| part(values, |time| time.weekday().num_days_from_sunday().into())),
    ("timestamp_to_hours", |values| part(values, |time| time.hour().into())),
    ("timestamp_to_hours_with_tz", |values| part(values, |time| time.hour().into())),
    ("timestamp_to_minutes", |values| part(values, |time| time.minute().into())),
    ("timestamp_to_minutes_with_tz", |values| part(values, |time| time.minute().into())),
    ("timestamp_to_seconds", |values| part(values, |time| time.second().into())),
    ("timestamp_to_seconds_tz", |values| part(values, |time| time.second().into())),
    ("timestamp_to_milliseconds", |values| part(values, |time| i64::from(time.nanosecond()) / 1_000_000)),
    ("timestamp_to_milliseconds_with_tz", |values| part(values, |time| i64::from(time.nanosecond()) / 1_000_000)),
    ("duration_to_hours", |values| whole(values, 3600 * SECOND)),
    ("duration_to_minutes", |values| whole(values, 60 * SECOND)),
    ("duration_to_seconds", |values| whole(values, SECOND)),
    ("duration_to_milliseconds", |values| whole(values, SECOND / 1000)),
];

/// Returns a part of a timestamp in UTC, or in the time zone of the second argument.
fn part<'v>(values: &[CelValue<'v>], part: TimePart) -> EvaluatedValue<'v> {
    let CelValue::Timestamp(time) = argument(values, 0)? else { return unexpected() };
    let Some(utc) = DateTime::from_timestamp(time.seconds, time.nanos) else { return failed("timestamp overflow") };
    let offset = match values.get(1) {
        Some(_) => zone_offset(text(values, 1)?, &utc)?,
        None => 0,
    };
    // Larger offsets than a day have no meaning; the API server computes with them.
    let shifted = time.seconds.saturating_add(offset);
    let Some(local) = DateTime::from_timestamp(shifted, time.nanos) else { return failed("timestamp overflow") };
    Ok(CelValue::Int(part(&local.fixed_offset())))
}

/// Returns the seconds east of UTC of `Europe/Paris` or `+01:00`.
fn zone_offset(zone: &str, at: &DateTime<chrono::Utc>) -> Result<i64, EvalError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" => Ok(0),
            _ if zone.contains("..") || zone.starts_with(['/', '\\']) => failed("time: invalid location name"),
            _ => match zone.parse::<chrono_tz::Tz>() {
                Ok(tz) => Ok(tz.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc().into()),
                Err(_) => failed(format!("unknown time zone {zone}")),
            },
        };
    };
    let number = |text: &str| match text.parse::<i64>() {
        Ok(number) => Ok(number),
        Err(error) => failed(super::strings::atoi_error(text, &error)),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') { minutes.saturating_neg() } else { minutes };
    Ok(hours.saturating_mul(60).saturating_add(minutes).saturating_mul(60))
}

fn whole<'v>(values: &[CelValue<'v>], unit: i64) -> EvaluatedValue<'v> {
    match argument(values, 0)? {
        CelValue::Duration(nanos) => Ok(CelValue::Int(nanos / unit)),
        _ => unexpected(),
    }
}

pub(super) fn duration<'v>(nanos: Option<i64>) -> EvaluatedValue<'v> {
    nanos.map_or_else(|| failed("integer overflow"), |nanos| Ok(CelValue::Duration(nanos)))
}

/// Returns a timestamp if it is between the years 1 and 9999.
pub(super) fn checked<'v>(time: Timestamp) -> EvaluatedValue<'v> {
    if (FIRST..=LAST).contains(&time.seconds) { Ok(CelValue::Timestamp(time)) } else { failed("timestamp overflow") }
}

pub(super) fn later<'v>(time: Timestamp, nanos: i64) -> EvaluatedValue<'v> {
    let total = i128::from(time.seconds) * i128::from(SECOND) + i128::from(time.nanos) + i128::from(nanos);
    let (seconds, nanos) = (total.div_euclid(SECOND.into()), total.rem_euclid(SECOND.into()));
    match (i64::try_from(seconds), u32::try_from(nanos)) {
        (Ok(seconds), Ok(nanos)) => checked(Timestamp { seconds, nanos, ..time }),
        _ => failed("timestamp overflow"),
    }
}

pub(super) fn earlier<'v>(time: Timestamp, nanos: i64) -> EvaluatedValue<'v> {
    match nanos.checked_neg() {
        Some(nanos) => later(time, nanos),
        None => failed("integer overflow"),
    }
}

/// Returns the duration between two timestamps.
pub(super) fn between<'v>(one: Timestamp, other: Timestamp) -> EvaluatedValue<'v> {
    let total = |time: Timestamp| i128::from(time.seconds) * i128::from(SECOND) + i128::from(time.nanos);
    duration(i64::try_from(total(one) - total(other)).ok())
}

/// Parses a duration as Go does: `1h30m`, `-1.5s`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = duration_part(rest)?;
        total = total.checked_add(nanos).filter(|total| *total <= 1 << 63)?;
        rest = after;
    }
    if negative {
        return 0_i64.checked_sub_unsigned(total);
    }
    i64::try_from(total).ok()
}

/// Parses a number with its unit; returns the nanoseconds and the rest.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as Go does")]
fn duration_part(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let after = &text[whole..];
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", after),
    };
    if whole == 0 && fraction.is_empty() {
        return None;
    }
    let unit = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (name, rest) = after.split_at(unit);
    let nanos: u64 = match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let number: u64 = if whole == 0 { 0 } else { text[..whole].parse().ok()? };
    let mut value = number.checked_mul(nanos).filter(|value| *value <= 1 << 63)?;
    if !fraction.is_empty() {
        let (mut digits, mut scale) = (0_u64, 1.0);
        for digit in fraction.bytes() {
            match digits.checked_mul(10).and_then(|more| more.checked_add(u64::from(digit - b'0'))) {
                Some(more) if more < 1 << 63 => digits = more,
                _ => break,
            }
            scale *= 10.0;
        }
        value = value.checked_add((digits as f64 * (nanos as f64 / scale)) as u64).filter(|value| *value <= 1 << 63)?;
    }
    Some((value, rest))
}

/// Returns seconds with a fraction: `1.5s`.
#[expect(clippy::cast_precision_loss, reason = "as Go does")]
pub(super) fn duration_text(nanos: i64) -> String {
    let seconds = (nanos / SECOND) as f64 + (nanos % SECOND) as f64 / 1e9;
    format!("{}s", floats::plain(seconds))
}

/// Parses a timestamp of RFC 3339 as Go does.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let part = bytes.get(range)?;
        part.iter().all(u8::is_ascii_digit).then(|| str::from_utf8(part).ok()?.parse().ok())?
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
        return None;
    }
    let date = chrono::NaiveDate::from_ymd_opt(i32::try_from(number(0..4)?).ok()?, number(5..7)?, number(8..10)?)?;
    let time = date.and_hms_opt(number(11..13)?, number(14..16)?, number(17..19)?)?;
    let mut rest = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        let kept = &fraction[..digits.min(9)];
        nanos = kept.parse::<u32>().ok()? * 10_u32.pow(u32::try_from(9 - kept.len()).ok()?);
        rest = &fraction[digits..];
    }
    let offset = parse_offset(rest)?;
    Some(Timestamp { seconds: time.and_utc().timestamp() - i64::from(offset), nanos, offset })
}

/// Parses `Z` or `+01:00`; returns seconds east of UTC.
fn parse_offset(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let bytes = text.as_bytes();
    let sign = match bytes.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = bytes.len() == 6 && bytes[3] == b':' && [1, 2, 4, 5].iter().all(|at| bytes[*at].is_ascii_digit());
    let (hours, minutes): (i32, i32) = digits.then(|| Some((text[1..3].parse().ok()?, text[4..6].parse().ok()?)))??;
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Returns a timestamp of RFC 3339, with as many decimals as needed.
pub(super) fn timestamp_text(time: Timestamp) -> String {
    let Some(local) = DateTime::from_timestamp(time.seconds + i64::from(time.offset), time.nanos) else {
        return String::new();
    };
    let fraction = match time.nanos {
        0 => String::new(),
        nanos => format!(".{}", format!("{nanos:09}").trim_end_matches('0')),
    };
    let zone = match time.offset {
        0 => "Z".to_owned(),
        offset => {
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{zone}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
        local.second()
    )
}
