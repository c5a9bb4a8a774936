//! What is kept from one request to the next: the numbers of clusters, and the pages of those that were requested last.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    cluster::PreparedPages,
    tally::{FleetRuleTally, ResultCounts},
};
use crate::fleet::{clusters::Cluster, view::FleetView};

/// What pages of a fleet have in common.
#[derive(Debug, Default)]
pub(crate) struct FleetCache {
    pub(super) pages: PreparedPages,
    pub(super) counts: KnownCounts,
}

/// The numbers of a cluster.
#[derive(Debug)]
pub(super) struct ClusterCounts {
    pub(super) total: ResultCounts,
    /// The namespaces with results or changes.
    pub(super) places: Vec<(Option<Arc<str>>, ResultCounts)>,
    /// The rules with results, by the index of their group, which stays the same.
    pub(super) tallies: Vec<(usize, FleetRuleTally)>,
    /// When the earliest of the counted changes was, in seconds since 1970.
    pub(super) earliest: u32,
}

/// The numbers of clusters without filters.
#[derive(Debug, Default)]
pub(super) struct KnownCounts(Mutex<BTreeMap<Arc<str>, KnownCluster>>);

#[derive(Debug)]
struct KnownCluster {
    revision: u64,
    /// When the period of the changes began, in seconds since 1970.
    changed: u32,
    counts: Arc<ClusterCounts>,
}

impl KnownCounts {
    /// Returns the numbers of a cluster with the changes after a time, if they are known.
    pub(super) fn get(&self, cluster: &Cluster, changed: u32) -> Option<Arc<ClusterCounts>> {
        let clusters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clusters.get(&cluster.name).filter(|known| known.revision == cluster.revision)?;
        // Meanwhile, no change has become too old.
        let is_valid = (known.changed..=known.counts.earliest).contains(&changed);
        is_valid.then(|| Arc::clone(&known.counts))
    }

    pub(super) fn keep(&self, cluster: &Cluster, changed: u32, counts: &Arc<ClusterCounts>) {
        let known = KnownCluster { revision: cluster.revision, changed, counts: Arc::clone(counts) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&cluster.name), known);
    }

    /// Drops clusters that are gone.
    pub(super) fn forget_gone(&self, view: &FleetView) {
        let mut clusters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.retain(|name, _| view.clusters.contains_key(name));
    }
}
