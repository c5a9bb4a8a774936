//! `check -f`: manifests, once, without a cluster.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    baseline::{self, Baseline},
    wiring::{self, Rules, Wiring},
};
use crate::{
    audit::result::AuditResult, cli::check::CheckArgs, metrics::Metrics, output, source::manifest, telemetry::Span,
};

/// Documents between the files and the pipeline. Few: they are read faster than they are judged.
const DOCUMENTS: usize = 128;

/// Judges manifests; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    rules: Rules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<u8> {
    let files = manifest::files(&check.source.manifests.filename)?;
    let (wiring, changes, _) = Wiring::new(DOCUMENTS, &rules.policies, stop, metrics);
    let (selection, secrets) = (check.scope.selection(Some(&rules.policies)), check.source.manifests.secrets);
    let mut source = JoinSet::new();
    source.spawn_blocking(move || manifest::read(&files, &selection, secrets, &changes));
    let policies = rules.policies.digest.to_string();
    let settings = wiring::settings(check, &rules.policies);
    let mut result = wiring.judge_once(settings, rules).await?;
    ensure_judged(&result)?;
    result.scope = Some(check.scope.audited(&check.source));
    baseline::settle(&mut result, check, &policies, baseline)?;
    let writing = Span::begin("write results");
    output::write_all(&check.output, &result, check.log.color, check.place)?;
    writing.end();
    Ok(output::exit_code(&result, check.fail_on, true))
}

/// Passes on if any manifest was judged: where nothing was, nothing is clean, also when the command in front of a pipe
/// failed.
///
/// # Errors
/// When none was, with the reason.
pub(in crate::commands) fn ensure_judged(result: &AuditResult) -> anyhow::Result<()> {
    let inactive: usize = result.coverage.iter().map(|kind| kind.inactive).sum();
    let why = match result.coverage.first() {
        _ if result.summary.objects > 0 => return Ok(()),
        _ if inactive > 0 => "all objects are over, as finished Jobs are; to judge them: --inactive judge",
        Some(kind) => &kind.message,
        None => "there is no object in what was given",
    };
    anyhow::bail!("nothing was judged: {why}")
}
