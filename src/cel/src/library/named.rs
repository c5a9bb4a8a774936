//! Named formats of strings.

use std::sync::LazyLock;

use ::regex::Regex;

use super::{EvaluatedValue, Table, argument, strings::texts, text, url};
use crate::{error::no_overload, value::CelValue};

pub(super) const TABLE: Table = &[
    ("format-named", |values| {
        let format = NamedFormat::named(text(values, 0)?);
        Ok(CelValue::Optional(format.map(|format| CelValue::Format(format).into())))
    }),
    ("format-validate", validate),
    ("format.dns1123Label", |_| Ok(CelValue::Format(NamedFormat::Dns1123Label))),
    ("format.dns1123Subdomain", |_| Ok(CelValue::Format(NamedFormat::Dns1123Subdomain))),
    ("format.dns1035Label", |_| Ok(CelValue::Format(NamedFormat::Dns1035Label))),
    ("format.qualifiedName", |_| Ok(CelValue::Format(NamedFormat::QualifiedName))),
    ("format.dns1123LabelPrefix", |_| Ok(CelValue::Format(NamedFormat::Dns1123LabelPrefix))),
    ("format.dns1123SubdomainPrefix", |_| Ok(CelValue::Format(NamedFormat::Dns1123SubdomainPrefix))),
    ("format.dns1035LabelPrefix", |_| Ok(CelValue::Format(NamedFormat::Dns1035LabelPrefix))),
    ("format.labelValue", |_| Ok(CelValue::Format(NamedFormat::LabelValue))),
    ("format.uri", |_| Ok(CelValue::Format(NamedFormat::Uri))),
    ("format.uuid", |_| Ok(CelValue::Format(NamedFormat::Uuid))),
    ("format.byte", |_| Ok(CelValue::Format(NamedFormat::Byte))),
    ("format.date", |_| Ok(CelValue::Format(NamedFormat::Date))),
    ("format.datetime", |_| Ok(CelValue::Format(NamedFormat::Datetime))),
];

/// A format that strings can be validated against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedFormat {
    /// A label of RFC 1123.
    Dns1123Label,
    /// A subdomain of RFC 1123.
    Dns1123Subdomain,
    /// A label of RFC 1035.
    Dns1035Label,
    /// The key of a label or annotation.
    QualifiedName,
    /// The beginning of a label of RFC 1123.
    Dns1123LabelPrefix,
    /// The beginning of a subdomain of RFC 1123.
    Dns1123SubdomainPrefix,
    /// The beginning of a label of RFC 1035.
    Dns1035LabelPrefix,
    /// The value of a label.
    LabelValue,
    /// A URI.
    Uri,
    /// A UUID.
    Uuid,
    /// Base64.
    Byte,
    /// A date of RFC 3339.
    Date,
    /// A date and time of RFC 3339.
    Datetime,
}

/// A rule for names: the pattern, the message, and examples.
struct NameRule {
    pattern: &'static str,
    message: &'static str,
    examples: &'static [&'static str],
    most: usize,
    unit: &'static str,
    regex: LazyLock<Regex>,
}

macro_rules! rule {
    ($pattern:expr, $message:expr, $examples:expr, $most:expr, $unit:expr) => {
        NameRule {
            pattern: $pattern,
            message: $message,
            examples: $examples,
            most: $most,
            unit: $unit,
            regex: LazyLock::new(|| anchored($pattern)),
        }
    };
}

static LABEL: NameRule = rule!(
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    &["my-name", "123-abc"],
    63,
    "characters"
);
static SUBDOMAIN: NameRule = rule!(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    &["example.com"],
    253,
    "characters"
);
static OLD_LABEL: NameRule = rule!(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    &["my-name", "abc-123"],
    63,
    "characters"
);
static KEY: NameRule = rule!(
    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    &["MyName", "my.name", "123-abc"],
    63,
    "bytes"
);
static LABEL_VALUE: NameRule = rule!(
    "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    &["MyValue", "my_value", "12345"],
    63,
    "bytes"
);
const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const TIME: &str = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
static UUID_REGEX: LazyLock<Regex> = LazyLock::new(|| compiled(UUID));
static TIME_REGEX: LazyLock<Regex> = LazyLock::new(|| compiled(TIME));

#[expect(clippy::unwrap_used, reason = "constants, which a test compiles")]
fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

fn anchored(pattern: &str) -> Regex {
    compiled(&format!("^(?:{pattern})$"))
}

impl NameRule {
    fn message(&self) -> String {
        let examples: Vec<_> = self.examples.iter().map(|example| format!("'{example}', ")).collect();
        format!("{} (e.g. {}regex used for validation is '{}')", self.message, examples.join(" or "), self.pattern)
    }

    fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    fn too_long(&self, text: &str) -> Option<String> {
        (text.len() > self.most).then(|| format!("must be no more than {} {}", self.most, self.unit))
    }

    /// Returns what is wrong with a text.
    fn validate(&self, text: &str) -> Vec<String> {
        let mismatch = (!self.is_match(text)).then(|| self.message());
        self.too_long(text).into_iter().chain(mismatch).collect()
    }
}

impl NamedFormat {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "dns1123Label" => Self::Dns1123Label,
            "dns1123Subdomain" => Self::Dns1123Subdomain,
            "dns1035Label" => Self::Dns1035Label,
            "qualifiedName" => Self::QualifiedName,
            "dns1123LabelPrefix" => Self::Dns1123LabelPrefix,
            "dns1123SubdomainPrefix" => Self::Dns1123SubdomainPrefix,
            "dns1035LabelPrefix" => Self::Dns1035LabelPrefix,
            "labelValue" => Self::LabelValue,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "datetime" => Self::Datetime,
            _ => return None,
        })
    }

    /// Returns the name that the API server displays.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns1123Label => "DNS1123Label",
            Self::Dns1123Subdomain => "DNS1123Subdomain",
            Self::Dns1035Label => "DNS1035Label",
            Self::QualifiedName => "QualifiedName",
            Self::Dns1123LabelPrefix => "DNS1123LabelPrefix",
            Self::Dns1123SubdomainPrefix => "DNS1123SubdomainPrefix",
            Self::Dns1035LabelPrefix => "DNS1035LabelPrefix",
            Self::LabelValue => "LabelValue",
            Self::Uri => "URI",
            Self::Uuid => "uuid",
            Self::Byte => "byte",
            Self::Date => "date",
            Self::Datetime => "datetime",
        }
    }

    fn validate(self, text: &str) -> Vec<String> {
        let unless = |is_valid: bool, message: &str| if is_valid { Vec::new() } else { vec![message.to_owned()] };
        match self {
            Self::Dns1123Label => label(text),
            Self::Dns1123LabelPrefix => label(&without_dash(text)),
            Self::Dns1123Subdomain => SUBDOMAIN.validate(text),
            Self::Dns1123SubdomainPrefix => SUBDOMAIN.validate(&without_dash(text)),
            Self::Dns1035Label => OLD_LABEL.validate(text),
            Self::Dns1035LabelPrefix => OLD_LABEL.validate(&without_dash(text)),
            Self::QualifiedName => qualified_name(text),
            Self::LabelValue => LABEL_VALUE.validate(text),
            Self::Uri => url::Url::parse_request(text).err().into_iter().collect(),
            Self::Uuid => unless(UUID_REGEX.is_match(text), "does not match the UUID format"),
            Self::Byte => unless(is_base64(text), "invalid base64"),
            Self::Date => unless(is_date(text), "invalid date"),
            Self::Datetime => unless(is_datetime(text), "invalid datetime"),
        }
    }
}

/// Returns the size of the pattern that costs are computed with.
pub(crate) fn pattern_size(format: NamedFormat) -> u64 {
    match format {
        NamedFormat::Dns1123Label
        | NamedFormat::Dns1035Label
        | NamedFormat::Dns1123LabelPrefix
        | NamedFormat::Dns1035LabelPrefix => 30,
        NamedFormat::Dns1123Subdomain | NamedFormat::QualifiedName | NamedFormat::Dns1123SubdomainPrefix => 60,
        NamedFormat::LabelValue => 40,
        NamedFormat::Uri => 1103,
        NamedFormat::Uuid => UUID.len() as u64,
        NamedFormat::Byte => 84,
        NamedFormat::Date | NamedFormat::Datetime => TIME.len() as u64,
    }
}

fn validate<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let CelValue::Format(format) = argument(values, 0)? else { return no_overload() };
    let problems = format.validate(text(values, 1)?);
    Ok(if problems.is_empty() { CelValue::Optional(None) } else { CelValue::some(texts(problems)) })
}

/// Replaces a trailing dash, and the character before it, by a letter.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut shorter = rest.to_owned();
            shorter.pop();
            shorter + "a"
        }
        _ => text.to_owned(),
    }
}

fn label(text: &str) -> Vec<String> {
    let mismatch = match (LABEL.is_match(text), SUBDOMAIN.is_match(text)) {
        (true, _) => None,
        (false, true) => Some("must not contain dots".to_owned()),
        (false, false) => Some(LABEL.message()),
    };
    LABEL.too_long(text).into_iter().chain(mismatch).collect()
}

fn qualified_name(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (prefix, name) = match parts[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            let optional = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {}{optional}", KEY.message())];
        }
    };
    let mut problems = match prefix {
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => SUBDOMAIN.validate(prefix).iter().map(|problem| format!("prefix part {problem}")).collect(),
        None => Vec::new(),
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(KEY.validate(name).iter().map(|problem| format!("name part {problem}")));
    problems
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_dashes = bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-';
    has_dashes && super::time::parse_timestamp(&format!("{text}T00:00:00Z")).is_some()
}

fn is_datetime(text: &str) -> bool {
    if text.len() < 4 {
        return false;
    }
    let lower = text.to_lowercase();
    let parts: Vec<&str> = lower.split('t').collect();
    let [date, time, ..] = parts[..] else { return false };
    if !is_date(date) {
        return false;
    }
    let Some(found) = TIME_REGEX.captures(time) else { return false };
    let within = |group: usize, most: u32| {
        found.get(group).and_then(|part| part.as_str().parse::<u32>().ok()).is_some_and(|value| value <= most)
    };
    within(1, 23) && within(2, 59) && within(3, 59)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for rule in [&LABEL, &SUBDOMAIN, &OLD_LABEL, &KEY, &LABEL_VALUE] {
            assert!(rule.is_match("a"), "{}", rule.pattern);
        }
        assert!(!UUID_REGEX.is_match("") && !TIME_REGEX.is_match(""));
    }
}
