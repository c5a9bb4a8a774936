//! `check --once`: what a cluster holds now.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    recording,
    wiring::{CHANGES, Wiring, finish},
};
use crate::{
    cli::check::CheckArgs, commands::connect::connect, judge::set::PolicySet, output::progress, record::term::Terms,
    source::informer::Informer,
};

/// Judges a cluster once; returns the exit code.
pub(super) async fn run(check: &CheckArgs, policies: Arc<PolicySet>, stop: CancellationToken) -> anyhow::Result<u8> {
    let (clients, served) = connect(&check.cluster, &check.scope).await?;
    let (wiring, changes, commands) = Wiring::new(CHANGES, &policies, stop.clone());
    let terms = Terms {
        settings: recording::settings(check, &clients, wiring.metrics()),
        overview: wiring.overview(),
        lines: None,
        pipeline: commands,
        over: stop,
    };
    // The one term begins before anything is judged, and ends with the pipeline.
    let recorders = terms.begin(clients.plain.clone()).await;
    drop(terms);
    let selection = check.scope.selection(Some(&policies));
    let mut helpers = JoinSet::new();
    helpers.spawn(Informer::new(clients, selection, check.secrets, true, changes).run(served));
    helpers.spawn(progress::show(wiring.progress()));
    let result = wiring.judge_once(check, policies).await?;
    recorders.flush(None).await;
    if !check.scope.namespace.is_empty() && result.coverage.iter().all(|kind| kind.objects == 0) {
        warn!(namespaces = check.scope.namespace.join(", "), "Nothing at all was found there; are the names right?");
    }
    finish(check, &result)
}
