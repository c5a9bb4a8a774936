//! `kaudit diff`: compares the results of two sets of policies for the same objects, or two audits.
//!
//! Objects are read once: each change of the source goes to two pipelines, one for each set of policies, so that each side
//! has the results that `kaudit check` would report with these policies.

mod audits;
mod commit;
mod policies;

use crate::{
    audit::diff::{AuditDiff, Compared, compare},
    cli::diff::{DiffArgs, DiffSide},
    output,
    run::signals::signals,
};

/// Runs `kaudit diff`; returns the exit code.
///
/// # Errors
/// If nothing could be compared. The message says what to do; the exit code is 2.
pub async fn run(options: DiffArgs) -> anyhow::Result<u8> {
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped_twice = signals(stop.clone())?;
    let comparing = async {
        let diff = match (audits::read(&options.old)?, audits::read(&options.new)?) {
            (Some(old), Some(new)) => of_audits(&options, &old, &new)?,
            (None, None) => policies::compare(&options, stop).await?,
            (Some(_), None) => anyhow::bail!(mixed(&options.old, &options.new)),
            (None, Some(_)) => anyhow::bail!(mixed(&options.new, &options.old)),
        };
        output::write_diff(&options.output, &diff, options.log.color)?;
        Ok(output::diff_exit_code(&diff, options.fail_on))
    };
    tokio::select! {
        code = Box::pin(comparing) => code,
        () = stopped_twice => anyhow::bail!("stopped at once by a second signal"),
    }
}

fn mixed(audit: &DiffSide, policies: &DiffSide) -> String {
    format!("{audit} is an audit and {policies} is not: compare two audits, or two sets of policies")
}

/// Compares two audits.
fn of_audits(
    options: &DiffArgs,
    old: &crate::audit::result::AuditResult,
    new: &crate::audit::result::AuditResult,
) -> anyhow::Result<AuditDiff> {
    let given = [(options.source.once, "--once"), (!options.source.manifests.filename.is_empty(), "--filename")];
    if let Some((_, option)) = given.into_iter().find(|(given, _)| *given) {
        anyhow::bail!("{option} makes no sense with two audits: nothing is evaluated");
    }
    Ok(compare((&options.old.to_string(), old), (&options.new.to_string(), new), Compared::Audits))
}
