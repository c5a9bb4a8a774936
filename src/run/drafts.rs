//! Drafts of exceptions for the present violations: `--write-exceptions`.

use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;

use crate::{
    audit::result::{AuditResult, Entry},
    output::{drafts, replace_file},
};

/// Writes an exception for each rule and namespace with violations.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(path: &Path, result: &AuditResult) -> anyhow::Result<()> {
    // An exception for an owner also excuses its dependents.
    let result = result.rolled_up();
    let violations: Vec<&Entry> = result.results.iter().filter(|entry| entry.result.is_violation()).collect();
    let head = "# Fill in each reason, and delete the exceptions for violations that will be fixed.\n";
    let text = format!("{head}{}", drafts(&result, &violations, Timestamp::now())?);
    replace_file(path, |out| out.write_all(text.as_bytes()))
        .with_context(|| format!("writing exceptions to {}", path.display()))
}
