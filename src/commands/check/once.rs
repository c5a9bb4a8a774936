//! `check --once`: checks the present objects of a cluster.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    audit::result::AuditResult,
    cli::{
        check::CheckArgs,
        cluster::{ClusterArgs, RecordTarget},
    },
    metrics::Metrics,
    output::{self, progress},
    record::{recorders::Recorders, term::Terms},
    run::{
        baseline::{self, Baseline},
        checked,
        connect::connect,
        recording,
        wiring::{self, AuditRules, CHANGES, INTERRUPTED, Wiring},
    },
    source::informer::{Informer, ReadOptions},
    telemetry::Span,
};

/// Checks a cluster once; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    rules: AuditRules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<u8> {
    let policies = rules.policies.digest.to_string();
    let audit = Box::pin(audit(check, &check.cluster, rules, &stop, metrics));
    let (mut result, recorders) = audit.await?;
    baseline::settle(&mut result, check, &policies, baseline, None)?;
    // Results come first: the last Event may be written much later.
    let printed = super::write_results(check, &result);
    let recorded = Span::begin("record").instrument(recorders.flush(&stop)).await;
    printed?;
    Ok(output::exit_code(&result, check.fail_on, recorded))
}

/// Checks a cluster once; returns the result, and the recorders, which may have pending writes.
pub(super) async fn audit(
    check: &CheckArgs,
    cluster: &ClusterArgs,
    rules: AuditRules,
    stop: &CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<(AuditResult, Recorders)> {
    let receivers = recording::receivers(check)?;
    let connecting = stop.run_until_cancelled(Span::begin("connect").instrument(connect(cluster, &check.scope)));
    let (clients, served) = connecting.await.context(INTERRUPTED)??;
    let (mut wiring, changes, commands) = Wiring::new(CHANGES, &rules.policies, stop.clone(), metrics);
    wiring.include_labels(receivers.iter().flat_map(|receivers| receivers.label_keys()).collect());
    let memory = watch::channel(None).1;
    let history = watch::Sender::default();
    let settings = recording::settings(check, &clients, receivers, &commands, memory, history, wiring.metrics());
    recording::announce(&settings, recording::report_api(check, &served));
    let terms = Terms { settings, overview: wiring.overview(), lines: None, pipeline: commands, over: stop.clone() };
    // The only leadership term begins before the evaluation, and ends with the pipeline.
    let beginning = stop.run_until_cancelled(terms.begin(clients.plain.clone()));
    let recorders = beginning.await.context(INTERRUPTED)?;
    drop(terms);
    let client = clients.plain.clone();
    let mut selection = check.scope.selection(Some(&rules.policies));
    selection.named_only = !selection.namespaces.is_empty();
    wiring.select(&selection);
    let mut helpers = JoinSet::new();
    let is_recorded = |target| check.records(target, clients.is_in_pod());
    let records = is_recorded(RecordTarget::Events) || is_recorded(RecordTarget::Reports);
    let read = ReadOptions::once(check.source.manifests.secrets);
    let options = ReadOptions { packing: wiring.packing(), in_flight: wiring.in_flight(), confirms: records, ..read };
    helpers.spawn(Informer::new(clients, selection, options, changes).run(served));
    helpers.spawn(progress::show(wiring.progress()));
    let settings = wiring::settings(check, &rules.policies);
    let mut result = wiring.judge_once(settings, rules).await?;
    result.scope = Some(check.scope.audited(&check.source));
    checked::of_cluster(&result, &client).await?;
    Ok((result, recorders))
}
