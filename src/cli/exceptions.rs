//! The options for exceptions and baselines.

use std::path::PathBuf;

use clap::{Args, builder::BoolishValueParser};
use jiff::SignedDuration;

use super::values;

/// Exceptions in files.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Exceptions")]
pub struct ExceptionFileArgs {
    /// Apply the PolicyExceptions in this file, or in the files of this directory; - is standard input;
    /// repeatable
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(id = "exceptions", long = "exceptions", value_name = "FILE", env = "KAUDIT_EXCEPTIONS")]
    pub files: Vec<PathBuf>,

    /// Ignore exceptions of teams, in the cluster or in manifests, that end later than this from now, such
    /// as 90d [default: any end]
    #[arg(
        long,
        env = "KAUDIT_MAX_EXCEPTION_DURATION",
        value_name = "DURATION",
        value_parser = values::days
    )]
    pub max_exception_duration: Option<SignedDuration>,
}

/// Exceptions and baselines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Exceptions")]
pub struct ExceptionArgs {
    /// Exceptions in files.
    #[command(flatten)]
    pub given: ExceptionFileArgs,

    /// Write a draft exception for each violation to this file; add the reasons
    #[arg(long, value_name = "FILE", env = "KAUDIT_WRITE_EXCEPTIONS")]
    pub write_exceptions: Option<PathBuf>,

    /// Excuse the violations that this file lists, so that only new ones count
    #[arg(long, value_name = "FILE", env = "KAUDIT_BASELINE")]
    pub baseline: Option<PathBuf>,

    /// Write the present violations to this file, or - for standard output instead of the results, and excuse them
    #[arg(long, value_name = "FILE", env = "KAUDIT_WRITE_BASELINE", conflicts_with = "baseline")]
    pub write_baseline: Option<PathBuf>,

    /// Remove fixed violations from the baseline
    #[arg(long, env = "KAUDIT_PRUNE_BASELINE", value_parser = BoolishValueParser::new(), requires = "baseline")]
    pub prune_baseline: bool,
}

impl ExceptionArgs {
    /// Returns a given option that needs all results of a run; `None` if there is none.
    pub(super) fn that_needs_all_results(&self) -> Option<&'static str> {
        let given = [
            (self.write_exceptions.is_some(), "--write-exceptions"),
            (self.baseline.is_some(), "--baseline"),
            (self.write_baseline.is_some(), "--write-baseline"),
        ];
        given.into_iter().find_map(|(given, option)| given.then_some(option))
    }
}
