//! Output formats and targets.

use std::path::PathBuf;

use clap::ValueEnum;
use jiff::Timestamp;

use super::tree::WorkTree;

/// The formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: grouped by object.
    Text,
    /// One document: the [`AuditResult`](crate::audit::result::AuditResult).
    Json,
    /// One line per result, then one line with the summary.
    Ndjson,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// `JUnit` XML.
    Junit,
    /// One row per result.
    Csv,
    /// GitHub workflow commands.
    Github,
    /// GitLab code quality report.
    Gitlab,
    /// For a job summary or a comment on a pull request.
    Markdown,
    /// A self-contained page that needs no network.
    Html,
    /// The reports that a watch writes into the cluster.
    Openreport,
}

impl Format {
    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Sarif => "sarif",
            Self::Junit => "junit",
            Self::Csv => "csv",
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Openreport => "openreport",
        }
    }

    /// Whether the format can be streamed: one line for each new or resolved violation.
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

/// Where Markdown is published, which limits its size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// The summary of a job
    #[default]
    Summary,
    /// A comment on a pull request
    Comment,
}

impl Place {
    /// Returns the maximum size in bytes. GitHub allows a summary 1 MiB per step; it does not show a larger one, and
    /// the job still succeeds. A comment may have 65,536 characters.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Summary => 900 * 1_024,
            Self::Comment => 59_999,
        }
    }
}

/// Options of the renderers: colours and width apply to text, the place to Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether text has ANSI colours.
    pub color: bool,
    /// Columns to wrap at; `usize::MAX` does not wrap.
    pub width: usize,
    /// Whether text includes titles and links of rules.
    pub verbose: bool,
    /// Whether text consists of tables only.
    pub summary: bool,
    /// Where Markdown is published.
    pub place: Place,
    /// The work tree, for formats that name files relative to the repository.
    pub tree: Option<WorkTree>,
    /// The run id in SARIF.
    pub sarif_id: Option<String>,
    /// The name of reports.
    pub report_name: Option<String>,
    /// When the audit ended, for the page in a file.
    pub at: Option<Timestamp>,
}

/// Plain and unwrapped, for a file or a pipe.
impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            color: false,
            width: usize::MAX,
            verbose: false,
            summary: false,
            place: Place::Summary,
            tree: None,
            sarif_id: None,
            report_name: None,
            at: None,
        }
    }
}

/// Returns `time` in UTC, to the millisecond.
pub(super) fn shown_time(time: Timestamp) -> String {
    format!("{time:.3}")
}
