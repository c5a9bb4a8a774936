//! All clusters at one moment, kept up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use super::{clusters::Cluster, follow::FleetUpdate, keys::BucketItem, names::Names, scope::FleetScope, state::is_old};

/// How many updates are taken before the view is published.
const BATCH: usize = 256;

/// A fleet at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetView {
    /// The clusters that have buckets, by name.
    pub(crate) clusters: BTreeMap<Arc<str>, Arc<Cluster>>,
    pub(crate) names: Arc<Names>,
    /// Whether the list of buckets was read.
    pub(crate) is_listed: bool,
    /// Why the servers cannot be reached; empty if they can.
    pub(crate) problem: String,
    /// When the servers listed the buckets last.
    pub(crate) listed_at: Option<Timestamp>,
    /// Grows with each change, also with heartbeats.
    pub(crate) revision: u64,
    /// Grows with each change of what clusters say, without heartbeats.
    pub(crate) values_revision: u64,
}

/// How far the results of a cluster can be relied on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterStatus {
    /// Everything in scope is checked, and the results are current.
    Live,
    /// The bucket is not read yet, or kaudit has only started.
    Starting,
    /// Something was not checked.
    Incomplete,
    /// The last heartbeat is that old; `None` if there is none.
    Old(Option<Timestamp>),
    /// The bucket, or a part of it, cannot be read.
    Unreadable,
}

impl ClusterStatus {
    /// The names of all, in metrics and JSON.
    pub(crate) const WORDS: [&'static str; 5] = ["live", "starting", "incomplete", "old", "unreadable"];

    /// Returns the name in metrics and JSON.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Starting => "starting",
            Self::Incomplete => "incomplete",
            Self::Old(_) => "old",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Cluster {
    /// Returns how far its results can be relied on at a time.
    pub(crate) fn status(&self, now: Timestamp) -> ClusterStatus {
        let beats = self.shards().map(|shard| shard.heartbeat.as_ref().map(|(_, at)| *at));
        // The shard with the oldest heartbeat decides; one without a heartbeat is older than all others.
        let oldest = if self.has_all_shards() { beats.min().flatten() } else { None };
        if self.is_unreadable() {
            return ClusterStatus::Unreadable;
        }
        if !self.is_read {
            return ClusterStatus::Starting;
        }
        match oldest {
            Some(at) if is_old(at, now) => return ClusterStatus::Old(Some(at)),
            None => return ClusterStatus::Old(None),
            Some(_) => {}
        }
        let mut states = self.shards().map(|shard| shard.state.as_ref());
        let is_starting = self.shards().any(|shard| shard.state.as_ref().is_none_or(|state| state.syncing.is_some()));
        let is_complete =
            states.all(|state| state.is_some_and(|state| state.result.complete && state.problems.is_empty()));
        match (is_starting, is_complete) {
            (true, _) => ClusterStatus::Starting,
            (_, true) => ClusterStatus::Live,
            _ => ClusterStatus::Incomplete,
        }
    }
}

impl FleetView {
    /// Whether the list of buckets and all buckets were read.
    pub(crate) fn is_read(&self) -> bool {
        let is_read = |cluster: &Arc<Cluster>| cluster.is_read || cluster.is_unreadable();
        self.is_listed && self.clusters.values().all(is_read)
    }

    /// Returns the selected clusters.
    pub(crate) fn clusters_in(&self, scope: &FleetScope) -> BTreeMap<Arc<str>, Arc<Cluster>> {
        let clusters = self.clusters.iter().filter(|(name, cluster)| scope.selects(name, cluster));
        clusters.map(|(name, cluster)| (Arc::clone(name), Arc::clone(cluster))).collect()
    }

    /// Returns the view of the selected clusters only.
    pub(crate) fn within(&self, scope: &FleetScope) -> Self {
        Self { clusters: self.clusters_in(scope), ..self.clone() }
    }

    /// Returns the names of expected clusters that have no bucket; none before the buckets were listed.
    pub(crate) fn missing<'s>(&self, scope: &'s FleetScope) -> impl Iterator<Item = &'s str> {
        let expected = scope.expected.iter().filter(|_| self.is_listed).map(String::as_str);
        expected.filter(|name| !self.clusters.contains_key(*name))
    }

    /// Whether an update changes more than heartbeats.
    fn changes_values(&self, update: &FleetUpdate) -> bool {
        match update {
            FleetUpdate::Clusters(names) => !self.is_listed || !names.iter().eq(self.clusters.keys()),
            FleetUpdate::Connection(problem) => *problem != self.problem,
            FleetUpdate::Value(_, key, _) => key.item != BucketItem::Heartbeat,
            FleetUpdate::Read(..) | FleetUpdate::Failed(..) => true,
        }
    }

    /// Takes an update.
    pub(crate) fn take(&mut self, update: FleetUpdate) {
        self.revision += 1;
        if self.changes_values(&update) {
            self.values_revision += 1;
            let cluster = update.cluster().and_then(|name| self.clusters.get_mut(name));
            if let Some(cluster) = cluster.map(Arc::make_mut) {
                cluster.revision = self.values_revision;
            }
        }
        match update {
            FleetUpdate::Clusters(names) => self.take_clusters(&names),
            FleetUpdate::Connection(problem) => {
                if problem.is_empty() {
                    self.listed_at = Some(Timestamp::now());
                }
                self.problem = problem;
            }
            FleetUpdate::Value(name, key, value) => {
                let Self { clusters, names, .. } = self;
                let Some(cluster) = clusters.get_mut(&name).map(Arc::make_mut) else { return };
                cluster.set(&key, value.as_ref().map(|(value, at)| (value, *at)), names);
            }
            FleetUpdate::Read(name, keys) => {
                if let Some(cluster) = self.clusters.get_mut(&name).map(Arc::make_mut) {
                    cluster.keep(&keys);
                    cluster.is_read = true;
                    cluster.bucket_problem.clear();
                }
            }
            FleetUpdate::Failed(name, why) => {
                if let Some(cluster) = self.clusters.get_mut(&name).map(Arc::make_mut) {
                    cluster.bucket_problem = format!("the bucket {why}");
                }
            }
        }
    }

    fn take_clusters(&mut self, names: &BTreeSet<Arc<str>>) {
        self.is_listed = true;
        self.clusters.retain(|name, _| names.contains(name));
        for name in names {
            let new = || {
                let mut cluster = Cluster::new(name);
                cluster.revision = self.values_revision;
                Arc::new(cluster)
            };
            self.clusters.entry(Arc::clone(name)).or_insert_with(new);
        }
    }
}

/// Keeps a view up to date until the updates end. It blocks its thread: values are unpacked there.
pub(crate) fn keep(mut updates: mpsc::Receiver<FleetUpdate>, view: &watch::Sender<Arc<FleetView>>) {
    let mut now = FleetView::default();
    let mut batch = Vec::with_capacity(BATCH);
    while updates.blocking_recv_many(&mut batch, BATCH) > 0 {
        batch.drain(..).for_each(|update| now.take(update));
        view.send_replace(Arc::new(now.clone()));
    }
}

#[cfg(test)]
mod tests;
