//! Formats of strings that are other types in expressions, parsed as by the API server's package `strfmt`.

use std::sync::{Arc, LazyLock};

use data_encoding::{Encoding, Specification};
use regex::Regex;

use crate::{
    library::time::{parse_duration, parse_timestamp},
    types::CelType,
    value::{CelText, CelValue, Timestamp},
};

/// The format of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StringFormat {
    /// Text in expressions, too.
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// The alphabet of URLs with padding. Superfluous bits of the last character and line breaks are ignored, as in Go.
static BASE64: LazyLock<Option<Encoding>> = LazyLock::new(|| {
    let mut alphabet = Specification::new();
    alphabet.symbols.push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
    (alphabet.padding, alphabet.check_trailing_bits) = (Some('='), false);
    alphabet.ignore.push_str("\r\n");
    alphabet.encoding().ok()
});

/// A number with a unit, anywhere in the text.
static DURATION_PART: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").ok());

/// The names of units, the longest last, and their nanoseconds. Longer names than the last also count.
const UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "µs", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["m", "min"], 60_000_000_000),
    (&["h", "hr", "hour"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
    (&["w", "wk", "week"], 604_800_000_000_000),
];

impl StringFormat {
    pub(super) fn named(name: &str) -> Self {
        match name {
            "byte" => Self::Bytes,
            "duration" => Self::Duration,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            _ => Self::Plain,
        }
    }

    /// Returns its name in schemas.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "string",
            Self::Bytes => "byte",
            Self::Duration => "duration",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    pub(super) fn cel_type(self) -> CelType {
        match self {
            Self::Plain => CelType::String,
            Self::Bytes => CelType::Bytes,
            Self::Duration => CelType::Duration,
            Self::Date | Self::DateTime => CelType::Timestamp,
        }
    }

    /// Returns the value of a text; `None` if it does not have the format.
    pub(super) fn parse(self, text: &str) -> Option<CelValue<'_>> {
        match self {
            Self::Plain => Some(CelValue::String(CelText::Borrowed(text))),
            Self::Bytes => {
                let bytes = BASE64.as_ref()?.decode(text.as_bytes()).ok()?;
                Some(CelValue::Bytes(Arc::from(bytes)))
            }
            Self::Duration => duration(text).map(CelValue::Duration),
            Self::Date => {
                let is_date = text.len() == 10;
                is_date.then(|| parse_timestamp(&format!("{text}T00:00:00Z")))?.map(CelValue::Timestamp)
            }
            Self::DateTime if text.is_empty() => {
                Some(CelValue::Timestamp(Timestamp { seconds: 0, nanos: 0, offset: 0 }))
            }
            // Without a time zone it is UTC.
            Self::DateTime => {
                parse_timestamp(text).or_else(|| parse_timestamp(&format!("{text}Z"))).map(CelValue::Timestamp)
            }
        }
    }
}

/// Parses a duration as Go does, or as a sum of numbers with units: `2 days 3h`.
fn duration(text: &str) -> Option<i64> {
    if let Some(nanos) = parse_duration(text) {
        return Some(nanos);
    }
    let mut sum = None;
    for part in DURATION_PART.as_ref()?.captures_iter(text) {
        let number: i64 = part[1].parse().ok()?;
        let unit = part[2].to_lowercase();
        for (names, nanos) in UNITS {
            let is_longest = |index: usize| index + 1 == names.len();
            let is_named = |(index, name): (usize, &&str)| unit == *name || is_longest(index) && unit.starts_with(name);
            // A unit may have several names that match; each counts, as in the API server.
            for _ in names.iter().enumerate().filter(|one| is_named(*one)) {
                sum = Some(sum.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(nanos)));
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_parsed_as_by_the_api_server() {
        let shown = |format: &str, text: &str| StringFormat::named(format).parse(text).map(|value| value.to_string());
        for (format, text, want) in [
            ("duration", "1h30m", Some("duration(5400000000000)")),
            ("duration", "2 days", Some("duration(172800000000000)")),
            ("duration", "1 week 1 s", Some("duration(604801000000000)")),
            ("duration", "soon", None),
            ("date", "2024-02-29", Some("timestamp(1709164800, 0)")),
            ("date", "2023-02-29", None),
            ("date-time", "2024-02-29T12:00:00+02:00", Some("timestamp(1709200800, 0)")),
            ("date-time", "2024-02-29T12:00:00.5Z", Some("timestamp(1709208000, 500000000)")),
            ("date-time", "2024-02-29T12:00:00", Some("timestamp(1709208000, 0)")),
            ("date-time", "2024-02-29", None),
            ("byte", "aGk=", Some("b6869")),
            ("byte", "aGk", None),
            ("uuid", "x", Some("\"x\"")),
        ] {
            assert_eq!(shown(format, text).as_deref(), want, "{format} {text}");
        }
    }
}
