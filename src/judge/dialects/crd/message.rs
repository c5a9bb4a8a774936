//! The messages of the API server about invalid fields.

use std::fmt::Write as _;

use kaudit_cel::CelValue;
use serde_json::Value as Json;

/// Why a field is invalid: `reason` of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FieldReason {
    #[default]
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

impl FieldReason {
    /// Returns the reason with this name; unknown ones count as invalid, as in the API server.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "FieldValueForbidden" => Self::Forbidden,
            "FieldValueRequired" => Self::Required,
            "FieldValueDuplicate" => Self::Duplicate,
            _ => Self::Invalid,
        }
    }

    /// Returns its name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }

    /// Returns the message about a field; `value` is shown if it is a scalar.
    pub(super) fn message(self, value: &Json, detail: &str) -> String {
        match self {
            Self::Invalid => format!("Invalid value{}: {detail}", shown(value)),
            Self::Forbidden => format!("Forbidden: {detail}"),
            Self::Required => format!("Required value: {detail}"),
            Self::Duplicate => format!("Duplicate value{}", shown(value)),
        }
    }
}

/// Returns the message about a rule that cannot be evaluated for a value of this type.
pub(super) fn invalid_type(type_name: &str, detail: &str) -> String {
    format!("Invalid value: {}: {detail}", quoted(type_name))
}

fn shown(value: &Json) -> String {
    match value {
        Json::Object(_) | Json::Array(_) | Json::Null => String::new(),
        Json::String(text) => format!(": {}", quoted(text)),
        Json::Bool(value) => format!(": {value}"),
        Json::Number(_) => format!(": {}", CelValue::from(value).plain()),
    }
}

/// Returns a text in quotes as Go's `%q` does.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            '\u{7}' => write!(quoted, "\\a"),
            '\u{8}' => write!(quoted, "\\b"),
            '\u{c}' => write!(quoted, "\\f"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\u{b}' => write!(quoted, "\\v"),
            c if c.is_ascii_control() => write!(quoted, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => write!(quoted, "\\u{:04x}", u32::from(c)),
            c => write!(quoted, "{c}"),
        };
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_those_of_the_api_server() {
        for (reason, value, want) in [
            ("", json!(7), "Invalid value: 7: d"),
            ("FieldValueInvalid", json!(1.5), "Invalid value: 1.5: d"),
            ("", json!({"a": 1}), "Invalid value: d"),
            ("", json!("a\"\n\u{1}é"), "Invalid value: \"a\\\"\\n\\x01é\": d"),
            ("FieldValueForbidden", json!(true), "Forbidden: d"),
            ("FieldValueRequired", json!(true), "Required value: d"),
            ("FieldValueDuplicate", json!(true), "Duplicate value: true"),
            ("FieldValueDuplicate", json!([]), "Duplicate value"),
        ] {
            assert_eq!(FieldReason::named(reason).message(&value, "d"), want);
        }
    }
}
