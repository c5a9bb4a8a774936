//! Serves metrics and the page of a fleet until a signal comes.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::scope;
use crate::{
    cli::fleet::FleetArgs,
    fleet::{clusters::Cluster, view::FleetView},
    run::signals::signals,
    serve::{admin, fleet::FleetSite},
};

/// Serves until a signal comes; returns the exit code.
pub(super) async fn run(fleet: &FleetArgs, view: watch::Receiver<Arc<FleetView>>) -> anyhow::Result<u8> {
    let stop = CancellationToken::new();
    let again = signals(stop.clone())?;
    let mut helpers = JoinSet::new();
    helpers.spawn(log_problems(view.clone()));
    let site = FleetSite::new(view, scope(fleet));
    let mut servers = JoinSet::new();
    if let Some(address) = &fleet.listen {
        servers.spawn(site.clone().serve_health(admin::bind(address).await?, stop.clone()));
    }
    if let Some(address) = &fleet.listen_ui {
        servers.spawn(site.serve_page(admin::bind(address).await?, stop));
    }
    tokio::select! {
        _ended = servers.join_all() => {}
        () = again => {}
    }
    Ok(0)
}

/// Logs each new problem with NATS or a bucket, and when NATS answers again.
async fn log_problems(mut view: watch::Receiver<Arc<FleetView>>) {
    let (mut known, mut of_buckets) = (String::new(), BTreeMap::<Arc<str>, String>::new());
    while view.changed().await.is_ok() {
        let now = Arc::clone(&view.borrow_and_update());
        if now.problem != known {
            if now.problem.is_empty() {
                info!("NATS answers again");
            } else {
                warn!("The buckets cannot be read: {}", now.problem);
            }
            known.clone_from(&now.problem);
        }
        let problem = |cluster: &Arc<Cluster>| Some((Arc::clone(&cluster.name), cluster.problem()?));
        let problems: BTreeMap<_, _> = now.clusters.values().filter_map(problem).collect();
        for (cluster, problem) in problems.iter().filter(|(cluster, problem)| of_buckets.get(*cluster) != Some(problem))
        {
            warn!(%cluster, "The bucket of a cluster cannot be read: {problem}");
        }
        of_buckets = problems;
    }
}
