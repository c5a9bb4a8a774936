//! A fleet at one moment, from which its views are made.

use std::sync::Arc;

use jiff::Timestamp;

use super::cache::FleetCache;
use crate::fleet::{
    clusters::Cluster,
    scope::FleetScope,
    view::{ClusterStatus, FleetView},
};

/// A fleet at one moment.
pub(crate) struct FleetPage {
    pub(super) view: FleetView,
    pub(super) at: Timestamp,
    /// Expected clusters without a bucket.
    pub(super) missing: Vec<String>,
    pub(super) cache: Arc<FleetCache>,
}

impl FleetPage {
    /// Makes the page of the clusters in scope at a time; `cache` keeps what does not change between requests.
    pub(crate) fn new(view: &FleetView, scope: &FleetScope, at: Timestamp, cache: Arc<FleetCache>) -> Self {
        cache.counts.forget_gone(view);
        let missing = view.missing(scope).map(str::to_owned).collect();
        // Results have seconds.
        let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
        Self { view: view.within(scope), at, missing, cache }
    }

    /// Whether all expected clusters are live.
    pub(super) fn is_complete(&self) -> bool {
        let is_live = |cluster: &Arc<Cluster>| cluster.status(self.at) == ClusterStatus::Live;
        self.view.is_read() && self.missing.is_empty() && self.view.clusters.values().all(is_live)
    }
}
