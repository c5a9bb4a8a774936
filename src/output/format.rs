//! How results are written, and where to.

use std::path::PathBuf;

use clap::ValueEnum;

use super::tree::WorkTree;

/// The formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: grouped by object.
    Text,
    /// One document: the [`AuditResult`].
    Json,
    /// One line a result, and a last line with everything else.
    Ndjson,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// `JUnit` XML.
    Junit,
    /// One row a result.
    Csv,
    /// Workflow commands of GitHub.
    Github,
    /// Code quality of GitLab.
    Gitlab,
    /// A summary of a job, or a comment on a pull request.
    Markdown,
    /// One page that needs no network.
    Html,
    /// The reports that the long run would write.
    Openreport,
}

impl Format {
    /// Returns the name as the user writes it.
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

/// Where Markdown goes, which says how much of it there may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// The summary of a job
    #[default]
    Summary,
    /// A comment on a pull request
    Comment,
}

impl Place {
    /// Returns how many bytes fit. A summary of GitHub's may have 1 MiB a step, and one that has more fails to be shown while
    /// the job succeeds; for a comment 65,536 characters are reported.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Summary => 900 * 1_024,
            Self::Comment => 59_999,
        }
    }
}

/// What a reader takes: colours and width of a terminal are for text, the place is for Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether text has ANSI colours.
    pub color: bool,
    /// Columns to wrap at; `usize::MAX` does not wrap.
    pub width: usize,
    /// Whether text has titles and links of rules.
    pub verbose: bool,
    /// Whether text has tables only.
    pub summary: bool,
    /// Where Markdown goes.
    pub place: Place,
    /// The repository that files are in, where a format names files as it does.
    pub tree: Option<WorkTree>,
    /// The id of the run in SARIF.
    pub sarif_id: Option<String>,
    /// The name of reports.
    pub report_name: Option<String>,
}

/// Plain and unwrapped, as for a file or a pipe.
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
        }
    }
}

/// Returns `time` in UTC, to the millisecond.
pub(super) fn shown_time(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}
