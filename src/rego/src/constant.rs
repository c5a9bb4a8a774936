//! Constants in source text, as the type checker sees them: keys of objects, indices, scalars.

use std::{cmp::Ordering, sync::Arc};

use regorus::Value;

/// A value that needs no evaluation. Sets are arrays, as in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constant {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A number of any size.
    Number(Number),
    /// A string.
    String(Arc<str>),
    /// An array, or the elements of a set in order.
    Array(Vec<Self>),
    /// An object, by keys and values in order of the keys.
    Object(Vec<(Self, Self)>),
}

/// A number as written in the source, compared by value.
#[derive(Debug, Clone)]
pub struct Number(pub(crate) Arc<str>);

impl Number {
    fn value(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// Returns the value; a number with a point or an exponent is a float, which `sprintf` formats differently.
    fn as_value(&self) -> Option<Value> {
        let text = &*self.0;
        let number = Value::from_numeric_string(text).ok()?;
        if !text.contains(['.', 'e', 'E']) {
            return Some(number);
        }
        let float: f64 = text.parse().ok()?;
        let digits = text.split(['e', 'E']).next().unwrap_or_default();
        let is_lost = float == 0.0 && digits.contains(|digit: char| ('1'..='9').contains(&digit));
        match Value::from(float) {
            // It could not be compared with others.
            _ if is_lost || !float.is_finite() => None,
            value if value == number => Some(value),
            _ => Some(number),
        }
    }

    /// Returns the number as an index.
    pub fn index(&self) -> Option<usize> {
        self.0.parse().ok()
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.0 == other.0 { Ordering::Equal } else { self.value().total_cmp(&other.value()) }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl Constant {
    /// Parses a scalar; `None` if the text is not one.
    pub fn scalar(text: &str) -> Option<Self> {
        Some(match text {
            "null" => Self::Null,
            "true" => Self::Boolean(true),
            "false" => Self::Boolean(false),
            _ if text.starts_with('`') => Self::String(text.trim_matches('`').into()),
            _ if text.starts_with('"') => Self::String(unquoted(text).into()),
            _ => {
                text.parse::<f64>().ok()?;
                Self::Number(Number(text.into()))
            }
        })
    }

    /// Returns the string, if it is one.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a scalar; `None` for a number that cannot be represented, and for collections, as an array
    /// may also represent a set.
    pub fn value(&self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::from(*value),
            Self::Number(number) => number.as_value()?,
            Self::String(text) => Value::String(Arc::clone(text)),
            Self::Array(_) | Self::Object(_) => return None,
        })
    }

    /// Returns it as text, without the quotes of a string.
    pub fn plain(&self) -> String {
        match self {
            Self::String(text) => text.to_string(),
            other => other.to_string(),
        }
    }
}

/// Parses a quoted string. As in OPA, control characters are allowed, and half a surrogate pair becomes the replacement
/// character.
fn unquoted(text: &str) -> String {
    if let Ok(text) = serde_json::from_str(text) {
        return text;
    }
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let mut units: Vec<u16> = Vec::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        let plain = match escaped {
            Some('u') => {
                let digits = chars.by_ref().take(4).collect::<String>();
                units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                continue;
            }
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(other) => other,
            None => c,
        };
        units.extend(plain.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16_lossy(&units)
}

impl std::fmt::Display for Constant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(number) => f.write_str(&number.0),
            Self::String(text) => write!(f, "{}", serde_json::Value::from(&**text)),
            Self::Array(items) => {
                write!(f, "[{}]", items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            Self::Object(fields) => {
                let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Constant;

    #[test]
    fn strings_are_parsed_as_in_opa() {
        for (text, want) in [
            (r#""a\n\"\/\u00e9""#, "a\n\"/é"),
            ("\"a\tb\\n\u{1b}\"", "a\tb\n\u{1b}"),
            (r#""\ud83d\ude00 \ud800 \t""#, "😀 \u{fffd} \t"),
            ("`a\\n`", "a\\n"),
        ] {
            assert_eq!(Constant::scalar(text), Some(Constant::String(want.into())), "{text}");
        }
    }
}
