//! How results are written, and where to.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

/// The formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: grouped by object.
    Text,
    /// One document: the [`AuditResult`].
    Json,
    /// One line a result, and a last line with everything else.
    Ndjson,
}

impl Format {
    /// Returns the name as the user writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
        }
    }

    /// Whether the format has a line for each violation that comes or goes.
    pub fn streams(self) -> bool {
        matches!(self, Self::Text | Self::Ndjson)
    }
}

/// One `-o FORMAT[=FILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The format.
    pub format: Format,
    /// The file; `None` is standard output.
    pub file: Option<PathBuf>,
}

/// What a terminal can show. Ignored by the formats for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether text has ANSI colours.
    pub color: bool,
    /// Columns to wrap at; `usize::MAX` does not wrap.
    pub width: usize,
}

/// Plain and unwrapped, as for a file or a pipe.
impl Default for RenderOptions {
    fn default() -> Self {
        Self { color: false, width: usize::MAX }
    }
}

/// What happened to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamEvent {
    /// The object did not have it before.
    Appeared,
    /// The object no longer has it, or is gone.
    Resolved,
    /// It was about a transition, and does not stand.
    Happened,
}

/// Returns `time` in UTC, to the millisecond.
pub(super) fn shown_time(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}
