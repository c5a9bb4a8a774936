//! Types of expressions, as CEL's type checker has them.

use std::{fmt, sync::Arc};

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CelType {
    /// Only known in evaluation.
    Dyn,
    /// Of an expression that was refused.
    Error,
    /// `null`.
    Null,
    /// `true` and `false`.
    Bool,
    /// 64 bits with a sign.
    Int,
    /// 64 bits without a sign.
    Uint,
    /// A floating point number of 64 bits.
    Double,
    /// Unicode text.
    String,
    /// Bytes.
    Bytes,
    /// A length of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list with the type of its elements.
    List(Arc<Self>),
    /// A map with the types of its keys and values.
    Map(Arc<(Self, Self)>),
    /// A type, and which if it is known.
    Type(Option<Arc<Self>>),
    /// A value that may be missing.
    Optional(Arc<Self>),
    /// A type without fields, such as `net.IP`.
    Opaque(Arc<str>),
    /// A type with fields, such as `kubernetes.AdmissionRequest`.
    Struct(Arc<str>),
    /// A type variable.
    Param(Arc<str>),
}

impl CelType {
    /// Returns the type of lists with these elements.
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// Returns the type of maps with these keys and values.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// Returns the type of optional values.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    pub(crate) fn is_param(&self) -> bool {
        matches!(self, Self::Param(_))
    }

    /// Whether null is a value of this type.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Optional(_) | Self::Opaque(_) | Self::Struct(_) | Self::Duration | Self::Timestamp
        )
    }

    /// Returns the type inside an optional one, or the type itself, and whether it was optional.
    pub(crate) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    /// Returns the name that values of this type have in error messages and as `type(value)`.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Dyn | Self::Param(_) => "dyn",
            Self::Error => "error",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(name) | Self::Struct(name) => name,
        }
    }

    /// Returns the types that this one is built from.
    fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(Some(inner)) => vec![inner],
            Self::Map(entry) => vec![&entry.0, &entry.1],
            _ => Vec::new(),
        }
    }

    /// Whether a type variable occurs in it.
    pub(crate) fn any(&self, is: &mut impl FnMut(&Self) -> bool) -> bool {
        is(self) || self.parameters().into_iter().any(|inner| inner.any(is))
    }

    /// Replaces types from the inside; `replace` returns `None` where a type stays as it is.
    pub(crate) fn replaced(&self, replace: &impl Fn(&Self) -> Option<Self>) -> Self {
        if let Some(other) = replace(self) {
            return other;
        }
        match self {
            Self::List(inner) => Self::list(inner.replaced(replace)),
            Self::Map(entry) => Self::map(entry.0.replaced(replace), entry.1.replaced(replace)),
            Self::Optional(inner) => Self::optional(inner.replaced(replace)),
            Self::Type(Some(inner)) => Self::Type(Some(Arc::new(inner.replaced(replace)))),
            other => other.clone(),
        }
    }

    /// Parses a type as the table of declarations has it: `list(<A>)`, `google.protobuf.Duration`.
    pub fn parse(text: &str) -> Self {
        if let Some(name) = text.strip_prefix('<') {
            return Self::Param(name.trim_end_matches('>').into());
        }
        let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
        if let Some(element) = inner("list(") {
            return Self::list(Self::parse(element));
        }
        if let Some(value) = inner("optional_type(") {
            return Self::optional(Self::parse(value));
        }
        if let Some(of) = inner("type(") {
            return Self::Type(Some(Arc::new(Self::parse(of))));
        }
        if let Some((key, value)) = inner("map(").and_then(|entry| entry.split_once(", ")) {
            return Self::map(Self::parse(key), Self::parse(value));
        }
        match text {
            "dyn" => Self::Dyn,
            "null_type" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "google.protobuf.Duration" => Self::Duration,
            "google.protobuf.Timestamp" => Self::Timestamp,
            name if name.starts_with("net.") => Self::Opaque(name.into()),
            name => Self::Struct(name.into()),
        }
    }
}

/// As error messages of the type checker show it.
impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Type(Some(of)) => write!(f, "type({of})"),
            Self::Param(name) => f.write_str(name),
            other => f.write_str(other.runtime_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_parsed_and_displayed() {
        for (text, shown) in [
            ("list(<A>)", "list(A)"),
            ("map(string, list(string))", "map(string, list(string))"),
            ("optional_type(map(<K>, <V>))", "optional_type(map(K, V))"),
            ("google.protobuf.Timestamp", "timestamp"),
            ("net.IP", "net.IP"),
        ] {
            assert_eq!(CelType::parse(text).to_string(), shown);
        }
    }
}
