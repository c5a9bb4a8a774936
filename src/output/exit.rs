//! The exit code of a finished audit.

use clap::ValueEnum;

use crate::{audit::result::AuditResult, model::verdict::Outcome};

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

impl FailOn {
    /// Whether a result is reason enough for the exit code 1.
    pub fn counts(self, result: Outcome) -> bool {
        match self {
            Self::Fail => result == Outcome::Fail,
            Self::Warn => result.is_violation(),
            Self::None => false,
        }
    }
}

/// Returns the exit code of a finished audit: 1 for violations at or above `fail_on`, else 3 where something was not judged,
/// not compared with the baseline, or not `recorded` that was to be, else 0.
pub fn exit_code(result: &AuditResult, fail_on: FailOn, recorded: bool) -> u8 {
    let summary = &result.summary;
    let is_incomparable = result.baseline.as_ref().is_some_and(|baseline| !baseline.incomparable.is_empty());
    let counts = [(Outcome::Fail, summary.fail), (Outcome::Warn, summary.warn)];
    if counts.into_iter().any(|(result, number)| number > 0 && fail_on.counts(result)) {
        1
    } else if !result.complete || summary.error > 0 || !recorded || is_incomparable {
        3
    } else {
        0
    }
}
