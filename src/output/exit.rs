//! The exit code of a finished audit.

use clap::ValueEnum;

use crate::audit::result::AuditResult;

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

/// Returns the exit code of a finished audit: 1 for violations at or above `fail_on`, else 3 where something was not judged,
/// not compared with the baseline, or not `recorded` that was to be, else 0.
pub fn exit_code(result: &AuditResult, fail_on: FailOn, recorded: bool) -> u8 {
    let summary = &result.summary;
    let is_incomparable = result.baseline.as_ref().is_some_and(|baseline| !baseline.incomparable.is_empty());
    let violations = match fail_on {
        FailOn::Fail => summary.fail,
        FailOn::Warn => summary.fail + summary.warn,
        FailOn::None => 0,
    };
    if violations > 0 {
        1
    } else if !result.complete || summary.error > 0 || !recorded || is_incomparable {
        3
    } else {
        0
    }
}
