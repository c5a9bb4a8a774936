//! What is mirrored, and where.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{mpsc, watch};

use crate::{
    audit::{command::Command, overview::Progress},
    fleet::bucket::BucketServer,
    metrics::Metrics,
    model::shard::Shard,
};

/// The name of the recorder.
pub(in crate::record) const RECORDER: &str = "fleet";

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
