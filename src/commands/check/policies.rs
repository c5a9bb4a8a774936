//! The policy directory: loaded at the start, and again whenever it changed.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{sync::mpsc, task::spawn_blocking, time::sleep};
use tracing::{error, warn};

use crate::{
    audit::command::Command,
    cli::policies::{EvaluationArgs, PolicyArgs},
    judge::{
        files::{self, Fingerprint},
        set::PolicySet,
        sources::PolicySource,
    },
    model::shard::Shard,
    rego::problem::LoadError,
    telemetry::{Span, count},
};

/// How often files are looked at. Polling also sees changes on network and overlay file systems, and of
/// mounted `ConfigMap`s.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// Loads what can be loaded. The outer error is not about the policies.
pub(in crate::commands) async fn load(
    sources: &[PolicySource],
    evaluation: &EvaluationArgs,
) -> anyhow::Result<Result<PolicySet, LoadError>> {
    let (sources, limits) = (sources.to_vec(), evaluation.limits());
    let span = Span::begin("load policies");
    let loaded =
        spawn_blocking(move || PolicySet::load_partly(&sources, &limits)).await.context("loading the policies")?;
    match &loaded {
        Ok(set) => span.set(|| [("kaudit.policies", count(set.policies.len())), ("kaudit.rules", count(set.rules()))]),
        Err(_) => span.fail("refused"),
    }
    span.end();
    Ok(loaded)
}

/// Logs what is wrong with the policies, and what they cannot see from a shard.
pub(in crate::commands) fn log_problems(policies: &PolicySet, shard: Shard) {
    for problem in &policies.problems {
        if problem.is_refusal() { error!("{problem}") } else { warn!("{problem}") }
    }
    if !shard.is_whole() && !policies.inventory_reads().is_empty() {
        warn!(%shard, "Policies look other objects up, and see only those of this shard (and all Namespaces)");
    }
}

/// Loads the policies again whenever their files changed and have come to rest, until the pipeline has ended.
pub(super) async fn follow(
    policies: PolicyArgs,
    shard: Shard,
    mut in_force: Arc<PolicySet>,
    pipeline: mpsc::Sender<Command>,
) {
    let mut failed = false;
    let mut loaded = fingerprint(&policies.sources).await;
    let mut before = loaded;
    while !pipeline.is_closed() {
        sleep(POLL).await;
        let now = fingerprint(&policies.sources).await;
        // Whoever is writing files gets the time to finish.
        let at_rest = std::mem::replace(&mut before, now) == now;
        if now == loaded || !at_rest {
            continue;
        }
        loaded = now;
        let reload = match load(&policies.sources, &policies.evaluation).await {
            Ok(reload) => reload.and_then(|policies| policies.after(&in_force)).map(Arc::new),
            Err(error) => {
                error!("{error:#}");
                continue;
            }
        };
        // Policies that are the same as before are worth a message only after some that failed.
        let was_failing = std::mem::replace(&mut failed, reload.is_err());
        if let Ok(policies) = &reload {
            let before = std::mem::replace(&mut in_force, policies.clone());
            if before.digest == policies.digest && !was_failing {
                continue;
            }
            log_problems(policies, shard);
        }
        // An error says that the pipeline has ended.
        let _ended = pipeline.send(Command::Reload(reload)).await;
    }
}

/// Returns what changes when the files of `sources` do; `None` if that cannot be found out.
pub(super) async fn fingerprint(sources: &[PolicySource]) -> Option<Fingerprint> {
    let sources = sources.to_vec();
    spawn_blocking(move || files::fingerprint(&sources)).await.ok()
}
