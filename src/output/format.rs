//! How results are written, and where to.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
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

    /// Whether results can be written one by one as they come and go.
    pub fn streams(self) -> bool {
        matches!(self, Self::Text | Self::Ndjson)
    }
}

/// One `-o FORMAT[=FILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// How to write.
    pub format: Format,
    /// Where to; `None` is standard output.
    pub file: Option<PathBuf>,
}

/// What a renderer may know about where its text will be read. Ignored by the formats for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether to colour.
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
    /// It was not there before.
    Appeared,
    /// It is gone, or its object is.
    Resolved,
    /// It was about a change: it is over, and stands nowhere.
    Happened,
}

/// Returns `time` in UTC, to the millisecond.
pub(super) fn shown_time(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}
