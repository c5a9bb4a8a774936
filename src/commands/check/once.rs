//! `check --once`: what a cluster holds now.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    baseline::{self, Baseline},
    recording,
    wiring::{self, CHANGES, INTERRUPTED, Rules, Wiring},
};
use crate::{
    cli::check::CheckArgs,
    commands::connect::connect,
    metrics::Metrics,
    output::{self, progress},
    record::term::Terms,
    source::informer::{Informer, ReadOptions},
    telemetry::Span,
};

/// Judges a cluster once; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    rules: Rules,
    baseline: Option<Baseline>,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
) -> anyhow::Result<u8> {
    let receivers = recording::receivers(check)?;
    let connecting = stop.run_until_cancelled(Span::begin("connect").cover(connect(&check.cluster, &check.scope)));
    let (clients, served) = connecting.await.context(INTERRUPTED)??;
    let (mut wiring, changes, commands) = Wiring::new(CHANGES, &rules.policies, stop.clone(), metrics);
    wiring.tell_labels(receivers.iter().flat_map(|receivers| receivers.label_keys()).collect());
    let terms = Terms {
        settings: recording::settings(check, &clients, receivers, &commands, watch::channel(None).1, wiring.metrics()),
        overview: wiring.overview(),
        lines: None,
        pipeline: commands,
        over: stop.clone(),
    };
    // The one term begins before anything is judged, and ends with the pipeline.
    let beginning = stop.run_until_cancelled(terms.begin(clients.plain.clone()));
    let recorders = beginning.await.context(INTERRUPTED)?;
    drop(terms);
    let selection = check.scope.selection(Some(&rules.policies));
    let mut helpers = JoinSet::new();
    let options = ReadOptions { packing: wiring.packing(), ..ReadOptions::once(check.source.manifests.secrets) };
    helpers.spawn(Informer::new(clients, selection, options, changes).run(served));
    helpers.spawn(progress::show(wiring.progress()));
    let policies = rules.policies.digest.to_string();
    let settings = wiring::settings(check, &rules.policies);
    let mut result = wiring.judge_once(settings, rules).await?;
    result.scope = Some(check.scope.audited(&check.source));
    baseline::settle(&mut result, check, &policies, baseline)?;
    // Nobody waits for the results until the last Event is written.
    let writing = Span::begin("write results");
    let printed = output::write_all(&check.output, &result, check.log.color, check.place);
    writing.end();
    let recorded = Span::begin("record").cover(recorders.flush(&stop)).await;
    printed?;
    if !check.scope.namespace.is_empty() && result.coverage.iter().all(|kind| kind.objects == 0) {
        warn!(namespaces = check.scope.namespace.join(", "), "Nothing at all was found there; are the names right?");
    }
    Ok(output::exit_code(&result, check.fail_on, recorded))
}
