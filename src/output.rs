//! Results for people and programs: one [`AuditResult`], many renderers.
//!
//! A renderer is a pure function of the result and [`RenderOptions`]: the same result gives the same bytes. Where
//! they go is the business of [`write`](mod@write); [`exit_code`] says what they mean for a pipeline.

use std::{io, path::PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::audit::result::{AuditResult, Entry};

mod json;
pub mod policies;
pub mod progress;
pub(crate) mod safe;
#[cfg(test)]
mod tests;
mod text;
pub mod write;

pub use policies::PolicyList;
pub use safe::shown_lines;
pub use write::{Streams, print, write_all};

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

/// The least result that makes the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Only fail
    Fail,
    /// Fail and warn
    Warn,
    /// No result
    None,
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
pub enum Event {
    /// It was not there before.
    Appeared,
    /// It is gone, or its object is.
    Resolved,
    /// It was about a change: it is over, and stands nowhere.
    Happened,
}

/// Writes the whole result.
pub fn render(
    format: Format,
    result: &AuditResult,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::render(result, options, out),
        Format::Json => json::render(result, out),
        Format::Ndjson => json::render_lines(result, out),
    }
}

/// Writes one line about one violation of the long run. Formats that do not stream write nothing.
pub fn stream_line(
    format: Format,
    event: Event,
    entry: &Entry,
    time: jiff::Timestamp,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::stream_line(event, entry, time, options, out),
        Format::Ndjson => json::stream_line(event, entry, time, out),
        Format::Json => Ok(()),
    }
}

/// Returns `time` in UTC, to the millisecond.
fn shown_time(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

/// Returns the exit code that a finished audit deserves: 1 for violations at or above `fail_on`, else 3 where
/// something was not judged, else 0.
pub fn exit_code(result: &AuditResult, fail_on: FailOn) -> u8 {
    let summary = &result.summary;
    let violations = match fail_on {
        FailOn::Fail => summary.fail,
        FailOn::Warn => summary.fail + summary.warn,
        FailOn::None => 0,
    };
    if violations > 0 {
        1
    } else if !result.complete || summary.error > 0 {
        3
    } else {
        0
    }
}
