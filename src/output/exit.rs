//! Exit codes: that of a finished audit, and that of an error.

use clap::ValueEnum;

use crate::{
    audit::result::AuditResult,
    model::verdict::{Outcome, Severity},
};

/// The exit code after an error: of usage, configuration, policies or connection.
pub const ERROR_CODE: u8 = 2;

/// The least severe violation that makes the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Fail and warn of severity critical
    Critical,
    /// Fail and warn of severity high or worse
    High,
    /// Fail and warn of severity medium or worse
    Medium,
    /// Fail and warn of severity low or worse
    Low,
    /// Fail and warn of any severity
    Info,
    /// Only fail, whatever the severity
    Fail,
    /// Fail and warn, whatever the severity
    Warn,
    /// No violation
    None,
}

impl FailOn {
    /// Whether a result makes the exit code 1. With a severity threshold, a fail without a severity counts, and a warn
    /// without one does not.
    pub fn counts(self, result: Outcome, severity: Option<Severity>) -> bool {
        let from = |least: Severity| {
            let is_severe = severity.map_or(result == Outcome::Fail, |severity| severity <= least);
            result.is_violation() && is_severe
        };
        match self {
            Self::Critical => from(Severity::Critical),
            Self::High => from(Severity::High),
            Self::Medium => from(Severity::Medium),
            Self::Low => from(Severity::Low),
            Self::Info => from(Severity::Info),
            Self::Fail => result == Outcome::Fail,
            Self::Warn => result.is_violation(),
            Self::None => false,
        }
    }
}

/// Returns the exit code of a finished audit: 1 for violations at or above `fail_on`; else 3 if the audit is
/// incomplete, a policy failed, the baseline could not be compared completely, or results were not `recorded`; else 0.
pub fn exit_code(result: &AuditResult, fail_on: FailOn, recorded: bool) -> u8 {
    let summary = &result.summary;
    let is_incomparable = result.baseline.as_ref().is_some_and(|baseline| !baseline.incomparable.is_empty());
    if result.results.iter().any(|entry| fail_on.counts(entry.result, entry.severity)) {
        1
    } else if !result.complete || summary.error > 0 || !recorded || is_incomparable {
        3
    } else {
        0
    }
}
