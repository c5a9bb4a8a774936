//! Mirrors the results of the cluster into its bucket of a fleet.
//!
//! In: the result whenever it has changed. Out: the values of the bucket that differ from it. Whatever fails, the next
//! session reads what the bucket has and writes the differences, as a new leader does.

mod claim;
mod session;
#[cfg(test)]
mod tests;
mod values;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use self::session::Session;
use super::health::Health;
use crate::{
    audit::{
        command::Command,
        overview::{Overview, Progress},
    },
    cluster::backoff::Backoff,
    fleet::bucket::BucketServer,
    metrics::Metrics,
    model::shard::Shard,
};

/// The name of the recorder.
pub(super) const RECORDER: &str = "fleet";
/// Delays after failures.
const RETRY: Backoff = Backoff::between(Duration::from_secs(1), Duration::from_secs(30));
/// A session that lasted so long was not one of a row of failures.
const LASTING: Duration = Duration::from_mins(1);

/// What is mirrored, and where.
#[derive(Clone)]
pub struct MirrorSettings {
    /// The servers that keep the bucket.
    pub servers: Arc<dyn BucketServer>,
    /// The name of the cluster.
    pub cluster: Arc<str>,
    /// The labels of the cluster.
    pub labels: BTreeMap<String, String>,
    /// The shard that is mirrored.
    pub shard: Shard,
    /// Namespace and name of the `Audit` of all shards.
    pub instance: String,
    /// The pipeline, which returns the result.
    pub pipeline: mpsc::Sender<Command>,
    /// Progress of the initial sync.
    pub progress: watch::Receiver<Progress>,
    /// Notifies as soon as a violation is new or resolved.
    pub delta_recorded: watch::Receiver<()>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Mirrors until the pipeline ends.
pub(super) async fn run(
    settings: MirrorSettings,
    client: Client,
    overview: watch::Receiver<Option<Arc<Overview>>>,
    health: watch::Sender<Health>,
) {
    settings.metrics.recorder_began(RECORDER);
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let running = async {
            let mut session = Session::open(&settings, &client, overview.clone()).await?;
            info!(cluster = &*settings.cluster, "Mirroring into the bucket of the fleet");
            health.send_replace(Health::default());
            session.run().await
        };
        let Err(why) = running.await else { return };
        failures = if began.elapsed() > LASTING { 1 } else { failures + 1 };
        let trouble = format!("the bucket of the fleet is not up to date: {why}");
        if health.borrow().trouble != trouble {
            warn!("{trouble}");
        }
        health.send_replace(Health { trouble, ..Health::default() });
        settings.metrics.recorder_retries(RECORDER);
        sleep(RETRY.with_jitter(failures)).await;
    }
}
