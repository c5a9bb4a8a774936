//! Why a text is not read.

use std::fmt::Display;

use serde::de::{Error, Expected, Unexpected};

use crate::position::Position;

/// Why a YAML text is refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {} column {}: {why}", .at.line, .at.column)]
pub struct YamlError {
    /// The position of the mistake.
    pub at: Position,
    /// What is wrong, on one line. It contains no values, which may be secrets.
    pub why: String,
    /// Whether the text exceeds a limit; it may be valid nevertheless.
    pub is_excessive: bool,
}

impl YamlError {
    /// Returns an error about the text at a position.
    pub(super) fn new(at: Position, why: impl Into<String>) -> Self {
        Self { at, why: why.into(), is_excessive: false }
    }

    /// Returns an error about a text that exceeds a limit.
    pub(super) fn excessive(at: Position, why: impl Into<String>) -> Self {
        Self { is_excessive: true, ..Self::new(at, why) }
    }
    /// Adds a position, unless the error has one.
    pub(super) fn or_at(self, at: Position) -> Self {
        if self.at == Position::default() { Self { at, ..self } } else { self }
    }
}

/// Errors of deserialization, without values.
impl Error for YamlError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(Position::default(), message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_value(found, expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("expected {expected}"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("unknown variant `{variant}`, expected one of {}", expected.join(", ")))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!("unknown field `{field}`, expected one of {}", expected.join(", ")))
    }
}
