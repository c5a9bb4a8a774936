//! Semantic versions.

use std::{cmp::Ordering, fmt, sync::Arc};

use super::{EvaluatedValue, Table, argument, strings::go_quoted, text};
use crate::{
    error::{EvalError, failed, no_overload},
    value::CelValue,
};

pub(super) const TABLE: Table = &[
    ("string_to_semver", |values| value(Semver::parse(text(values, 0)?))),
    ("string_bool_to_semver", |values| value(parse(values)?)),
    ("is_semver_string", |values| Ok(Semver::parse(text(values, 0)?).is_ok().into())),
    ("is_semver_string_bool", |values| Ok(parse(values)?.is_ok().into())),
    ("semver_major", |values| Ok(number(version(values, 0)?.numbers[0]))),
    ("semver_minor", |values| Ok(number(version(values, 0)?.numbers[1]))),
    ("semver_patch", |values| Ok(number(version(values, 0)?.numbers[2]))),
    ("semver_compare_to", |values| Ok(CelValue::Int(order(values)? as i64))),
    ("semver_is_greater_than", |values| Ok(order(values)?.is_gt().into())),
    ("semver_is_less_than", |values| Ok(order(values)?.is_lt().into())),
];

/// A semantic version.
#[derive(Debug, Clone)]
pub struct Semver {
    /// Major, minor and patch.
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
    build: Vec<String>,
}

/// A part of a pre-release; numbers come before text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

fn value<'v>(version: Result<Semver, String>) -> EvaluatedValue<'v> {
    version.map_or_else(failed, |version| Ok(CelValue::Semver(Arc::new(version))))
}

fn version<'a>(values: &'a [CelValue<'_>], index: usize) -> Result<&'a Semver, EvalError> {
    match argument(values, index)? {
        CelValue::Semver(version) => Ok(version),
        _ => no_overload(),
    }
}

#[expect(clippy::cast_possible_wrap, reason = "as the API server does")]
fn number<'v>(number: u64) -> CelValue<'v> {
    CelValue::Int(number as i64)
}

fn order(values: &[CelValue<'_>]) -> Result<Ordering, EvalError> {
    Ok(version(values, 0)?.compare(version(values, 1)?))
}

/// Parses the first argument, and normalises it before if the second is true.
fn parse(values: &[CelValue<'_>]) -> Result<Result<Semver, String>, EvalError> {
    let given = text(values, 0)?;
    match argument(values, 1)? {
        CelValue::Bool(true) => Ok(normalized(given).and_then(|text| Semver::parse(&text))),
        CelValue::Bool(false) => Ok(Semver::parse(given)),
        _ => no_overload(),
    }
}

/// Removes `v` and leading zeros, and adds missing numbers.
fn normalized(given: &str) -> Result<String, String> {
    let given = given.strip_prefix('v').unwrap_or(given);
    let mut parts: Vec<String> = given.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn parse_number(text: &str, name: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let quoted = go_quoted(text);
        return Err(if text.is_empty() {
            "strconv.ParseUint: parsing \"\": invalid syntax".to_owned()
        } else {
            format!("Invalid character(s) found in {name} number {quoted}")
        });
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut name = name.to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        return Err(format!("{name} number must not contain leading zeroes {}", go_quoted(text)));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", go_quoted(text)))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", go_quoted(text)));
        }
        let out_of_range = |_| format!("strconv.ParseUint: parsing {}: value out of range", go_quoted(text));
        return text.parse().map(Identifier::Number).map_err(out_of_range);
    }
    if !is_alphanumeric(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quoted(text)));
    }
    Ok(Identifier::Text(text.to_owned()))
}

impl Semver {
    fn parse(given: &str) -> Result<Self, String> {
        if given.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = given.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else { return Err("No Major.Minor.Patch elements found".to_owned()) };
        let (major, minor) = (parse_number(major, "major")?, parse_number(minor, "minor")?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = parse_number(patch, "patch")?;
        let prerelease = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect())?;
        let build: Vec<String> = build.map_or(Vec::new(), |build| build.split('.').map(str::to_owned).collect());
        for part in &build {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_alphanumeric(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quoted(part)));
            }
        }
        Ok(Self { numbers: [major, minor, patch], prerelease, build })
    }

    /// Returns the order of two versions; builds do not count.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.prerelease.cmp(&other.prerelease),
        })
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        for (index, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}
