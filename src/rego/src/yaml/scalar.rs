//! The value of a plain or tagged scalar in YAML, as in Go's parsers (`resolve` of go.yaml.in/yaml/v2 and v3): YAML 1.1
//! and a little of 1.2, without sexagesimals. A number that overflows is a string.

use std::borrow::Cow;

use data_encoding::{Encoding, Specification};
use serde_json::Value;

/// The prefix of YAML's own tags, which are written with `!!`.
const TAGS: &str = "tag:yaml.org,2002:";

/// The reader of YAML to follow where kubectl and OPA differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YamlDialect {
    /// sigs.k8s.io/yaml on go-yaml v2: `yes`, `no`, `on`, `off`, `y` and `n` are booleans, and a merged mapping replaces
    /// the keys before it.
    Kubectl,
    /// OPA's package on go-yaml v3: these are strings, and a mapping's own keys replace merged ones.
    Opa,
    /// kaudit's own settings: the booleans of kubectl, but keys are strings as they are written, and replace merged ones.
    Settings,
}

/// The value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub enum YamlScalar<'t> {
    /// Null, or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Greater than any [`YamlScalar::Int`].
    Unsigned(u64),
    /// A number with a fraction or an exponent, or one that is too large for the others.
    Float(f64),
    /// A string.
    Text(Cow<'t, str>),
}

impl<'t> YamlScalar<'t> {
    /// Reads a scalar with a tag, or a plain one without.
    ///
    /// # Errors
    /// When the text is not a value of its tag.
    pub(super) fn read(text: &'t str, tag: Option<&str>, dialect: YamlDialect) -> Result<Self, String> {
        let Some(tag) = tag else { return Ok(Self::plain(text, dialect)) };
        let scalar = match (tag.strip_prefix(TAGS), Self::plain(text, dialect)) {
            (Some("null"), scalar @ Self::Null)
            | (Some("bool"), scalar @ Self::Bool(_))
            | (Some("int"), scalar @ (Self::Int(_) | Self::Unsigned(_)))
            | (Some("float"), scalar @ Self::Float(_)) => scalar,
            #[expect(clippy::cast_precision_loss, reason = "that is what the tag asks for")]
            (Some("float"), Self::Int(number)) => Self::Float(number as f64),
            (Some(kind @ ("null" | "bool" | "int" | "float")), _) => {
                return Err(format!("not a value of the tag !!{kind}"));
            }
            (Some("binary"), _) => {
                Self::Text(binary(text).ok_or("not base64, which the tag !!binary requires")?.into())
            }
            // Tags of applications are ignored.
            _ => Self::Text(text.into()),
        };
        Ok(scalar)
    }

    /// Reads a scalar without tag and quotes.
    pub fn plain(text: &'t str, dialect: YamlDialect) -> Self {
        let is_v2 = dialect != YamlDialect::Opa;
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" => Self::Bool(true),
            "false" | "False" | "FALSE" => Self::Bool(false),
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if is_v2 => Self::Bool(true),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" if is_v2 => Self::Bool(false),
            ".nan" | ".NaN" | ".NAN" => Self::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Self::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Self::Float(f64::NEG_INFINITY),
            _ => number(text).unwrap_or(Self::Text(text.into())),
        }
    }

    /// Returns its JSON value; `None` if JSON has no such number.
    pub fn into_json(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Int(number) => number.into(),
            Self::Unsigned(number) => number.into(),
            // `1.0` is 1, as Go writes it: with the fewest digits, followed by zeros.
            Self::Float(number) => match number.to_string().parse::<i64>() {
                Ok(whole) => whole.into(),
                Err(_) => Value::Number(serde_json::Number::from_f64(number)?),
            },
            Self::Text(text) => text.into_owned().into(),
        })
    }

    /// Returns its key in a JSON object; `None` if it cannot be a key.
    pub(super) fn into_key(self) -> Option<String> {
        match self {
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(number) => Some(number.to_string()),
            Self::Float(number) => Some(float_key(number)),
            Self::Text(text) => Some(text.into_owned()),
            Self::Null | Self::Unsigned(_) => None,
        }
    }
}

/// Reads a number; `None` if it is not one, or too large for a float.
fn number(text: &str) -> Option<YamlScalar<'static>> {
    let float = |digits: &str| digits.parse().ok().filter(|number: &f64| number.is_finite()).map(YamlScalar::Float);
    match text.as_bytes().first()? {
        // Go checks the positions of underscores only here.
        b'.' => {
            let plain = text.replace('_', "");
            (separates(text) && is_decimal(&plain)).then(|| float(&plain))?
        }
        b'0'..=b'9' | b'+' | b'-' => {
            let plain: Cow<'_, str> = if text.contains('_') { text.replace('_', "").into() } else { text.into() };
            let binary = || i64::from_str_radix(plain.strip_prefix("0b")?, 2).ok().map(YamlScalar::Int);
            integer(&plain).or_else(|| is_decimal(&plain).then(|| float(&plain))?).or_else(binary)
        }
        _ => None,
    }
}

/// Whether each underscore is between digits.
fn separates(text: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    bytes
        .iter()
        .enumerate()
        .all(|(at, byte)| *byte != b'_' || (at > 0 && is_digit(bytes.get(at - 1)) && is_digit(bytes.get(at + 1))))
}

/// Reads an integer with the prefixes of Go: `0x`, `0o` or `0`, `0b`.
fn integer(text: &str) -> Option<YamlScalar<'static>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefixed = |prefixes: [&str; 2]| prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (digits, radix) = [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)]
        .into_iter()
        .find_map(|(prefixes, radix)| Some((prefixed(prefixes)?, radix)))
        .or_else(|| Some((digits.strip_prefix('0').filter(|rest| !rest.is_empty())?, 8)))
        .unwrap_or((digits, 10));
    // A second sign would be accepted.
    let size =
        digits.starts_with(|first: char| first.is_ascii_alphanumeric()).then(|| u64::from_str_radix(digits, radix))?;
    let size = i128::from(size.ok()?);
    if text.starts_with('-') {
        return i64::try_from(-size).ok().map(YamlScalar::Int);
    }
    match i64::try_from(size) {
        Ok(number) => Some(YamlScalar::Int(number)),
        Err(_) if text.starts_with('+') => None,
        Err(_) => u64::try_from(size).ok().map(YamlScalar::Unsigned),
    }
}

/// Whether a text consists of digits with an optional point, and an optional exponent.
fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(number, rest)| (number, Some(rest)));
    let number = number.strip_prefix(['+', '-']).unwrap_or(number);
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    digits(whole)
        && digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(|exponent| {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent)
        })
}

/// Writes a float as sigs.k8s.io/yaml writes keys: with the fewest digits that a float of 32 bits needs, and exponents
/// from -5 down and from 6 up.
#[expect(clippy::cast_possible_truncation, reason = "as documented")]
fn float_key(number: f64) -> String {
    let number = number as f32;
    if number.is_nan() {
        return ".nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

/// Decodes base64 with line breaks. Each byte that is not UTF-8 becomes a replacement character.
fn binary(text: &str) -> Option<String> {
    let bytes = lenient_base64()?.decode(text.as_bytes()).ok()?;
    let mut decoded = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        decoded.push_str(chunk.valid());
        decoded.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Some(decoded)
}

fn lenient_base64() -> Option<Encoding> {
    let mut specification: Specification = data_encoding::BASE64.specification();
    specification.check_trailing_bits = false;
    specification.ignore.push_str("\r\n");
    specification.encoding().ok()
}
