//! `check --once` with several contexts: checks several clusters, with one result.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::once;
use crate::{
    audit::result::AuditResult,
    cli::{
        check::{CheckArgs, CheckMode},
        cluster::ClusterArgs,
    },
    cluster::client,
    metrics::Metrics,
    output::{self, Format},
    run::{
        baseline::{self, Baseline},
        wiring::{AuditRules, INTERRUPTED},
    },
};

/// Checks that several clusters are given only with `--once`, and without options for a single cluster.
///
/// # Errors
/// Names the invalid option, and what to do instead.
pub(super) fn check_options(check: &CheckArgs) -> anyhow::Result<()> {
    if check.mode() != CheckMode::Clusters {
        ensure!(
            check.cluster.context.len() < 2 && !check.contexts.all_contexts,
            "several clusters can be checked only with --once: one kaudit process watches one cluster"
        );
        return Ok(());
    }
    let writes_reports = check.output.iter().any(|target| target.format == Format::Openreport);
    let given = [
        ("--record", !check.recording.record.is_empty()),
        ("--notify", check.writing.notify.is_some()),
        ("--write-exceptions", check.exceptions.write_exceptions.is_some()),
        ("-o openreport", writes_reports),
    ];
    let option = given.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option);
    ensure!(option.is_none(), "{} works for one cluster only: give one --context", option.unwrap_or_default());
    Ok(())
}

/// Checks clusters one after the other, and returns the exit code. One that cannot be checked makes the result incomplete.
pub(super) async fn run(
    check: &CheckArgs,
    rules: &AuditRules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<u8> {
    let contexts = contexts(check)?;
    let (mut checked, mut unchecked) = (Vec::new(), Vec::new());
    for context in &contexts {
        let cluster = ClusterArgs { context: vec![context.clone()], ..check.cluster.clone() };
        let audit = once::audit(check, &cluster, rules.clone(), &stop, Arc::clone(&metrics));
        let name: Arc<str> = context.as_str().into();
        match Box::pin(audit).await {
            // Nothing is recorded, so there is nothing to wait for.
            Ok((result, _recorders)) => checked.push((name, result)),
            Err(error) => {
                ensure!(!stop.is_cancelled(), INTERRUPTED);
                let error = format!("{error:#}");
                let why = error.lines().next().unwrap_or_default();
                warn!(cluster = context, "Not checked: {why}");
                unchecked.push((name, why.to_owned()));
            }
        }
    }
    let failures = unchecked.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("\n");
    let mut result =
        AuditResult::merged(checked, unchecked).with_context(|| format!("no cluster could be checked\n{failures}"))?;
    if let Some(scope) = &mut result.scope {
        scope.clusters = contexts;
    }
    baseline::settle(&mut result, check, &rules.policies.digest.to_string(), baseline, None)?;
    super::write_results(check, &result)?;
    Ok(output::exit_code(&result, check.fail_on, true))
}

/// Returns the selected contexts, each once.
fn contexts(check: &CheckArgs) -> anyhow::Result<Vec<String>> {
    if check.contexts.all_contexts {
        let all = client::contexts(check.cluster.kubeconfig.as_deref())?;
        ensure!(!all.is_empty(), "--all-contexts: the kubeconfig has no context");
        return Ok(all);
    }
    let mut contexts = Vec::new();
    for context in &check.cluster.context {
        if !contexts.contains(context) {
            contexts.push(context.clone());
        }
    }
    Ok(contexts)
}
