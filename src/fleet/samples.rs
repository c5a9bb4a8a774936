//! Buckets for tests: views made of the values that a cluster would have written.

use std::{collections::BTreeMap, sync::Arc};

use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    follow::FleetUpdate,
    keys::{BucketItem, BucketKey, ResultsPart},
    packed,
    part::{self, StoredPart},
    state::{ClusterState, Heartbeat},
    view::FleetView,
};
use crate::{
    audit::result::{AuditResult, Entry, PolicySummary},
    model::shard::Shard,
};

/// What a cluster has written.
pub(crate) struct SampleCluster {
    pub(crate) name: Arc<str>,
    pub(crate) state: ClusterState,
    pub(crate) policies: Vec<PolicySummary>,
    pub(crate) results: Vec<Entry>,
    pub(crate) ended: Vec<(Entry, Timestamp)>,
    pub(crate) heartbeat: Option<Timestamp>,
    pub(crate) is_read: bool,
}

impl SampleCluster {
    /// Returns a live cluster with a result, its policies and exceptions.
    pub(crate) fn new(name: &str, mut result: AuditResult, at: Timestamp) -> Self {
        let state = ClusterState {
            labels: BTreeMap::new(),
            began: at,
            syncing: None,
            policies: "1780961d".to_owned(),
            policies_since: None,
            problems: Vec::new(),
            exceptions: std::mem::take(&mut result.exceptions),
            counts: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            teams: std::mem::take(&mut result.teams),
            result: result.with_results(Vec::new()),
        };
        Self {
            name: name.into(),
            state,
            policies: std::mem::take(&mut result.policies),
            results: result.results,
            ended: result.ended.into_iter().map(|ended| (ended.entry, ended.at)).collect(),
            heartbeat: Some(at),
            is_read: true,
        }
    }

    /// Returns the values of its bucket.
    pub(crate) fn values(&self) -> BTreeMap<BucketItem, Bytes> {
        let mut values: BTreeMap<BucketItem, Bytes> = BTreeMap::new();
        if let Some(at) = self.heartbeat {
            let beat = Heartbeat { at, version: "0.2.0".to_owned() };
            values.insert(BucketItem::Heartbeat, packed::json(&beat).unwrap().into());
        }
        values.insert(BucketItem::State, packed(&self.state));
        values.insert(BucketItem::Policies, packed(&self.policies));
        let mut places: BTreeMap<Option<Arc<str>>, Vec<&Entry>> = BTreeMap::new();
        for entry in &self.results {
            places.entry(entry.resource.place()).or_default().push(entry);
        }
        for (place, mut entries) in places {
            entries.sort_by(|a, b| a.order().cmp(&b.order()));
            let parts = part::parts(entries.len(), None);
            for (number, entries) in part::split(&entries, parts) {
                let item = BucketItem::Results(ResultsPart { place: place.clone(), parts, part: number });
                values.insert(item, packed(&StoredPart::new(entries.into_iter().map(|entry| (entry, None)))));
            }
        }
        for (number, ended) in (0..).zip(self.ended.chunks(3)) {
            let stored = StoredPart::new(ended.iter().map(|(entry, at)| (entry, Some(*at))));
            values.insert(BucketItem::Ended(number), packed(&stored));
        }
        values
    }
}

impl FleetView {
    /// Returns the view of these clusters.
    pub(crate) fn sample(clusters: &[SampleCluster]) -> Self {
        let mut view = Self::default();
        view.take(FleetUpdate::Clusters(clusters.iter().map(|cluster| Arc::clone(&cluster.name)).collect()));
        for cluster in clusters {
            view.set(&cluster.name, cluster.values(), cluster.heartbeat.unwrap_or_default(), cluster.is_read);
        }
        view
    }

    /// Takes the values of a bucket, which were stored at a time.
    pub(crate) fn set(&mut self, name: &Arc<str>, values: BTreeMap<BucketItem, Bytes>, at: Timestamp, is_read: bool) {
        let key = |item: &BucketItem| BucketKey { shard: Shard::WHOLE, item: item.clone() };
        let keys = values.keys().map(key).collect();
        for (item, value) in values {
            self.take(FleetUpdate::Value(Arc::clone(name), key(&item), Some((value, at))));
        }
        if is_read {
            self.take(FleetUpdate::Read(Arc::clone(name), keys));
        }
    }
}

fn packed(value: &impl Serialize) -> Bytes {
    packed::pack(&packed::json(value).unwrap()).unwrap().into()
}
