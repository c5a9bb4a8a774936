//! The database of the API server: objects, one revision counter, and the history.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;

/// A stored object, without `apiVersion` and `kind`, which depend on the requested version.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) value: Value,
    json: OnceLock<Bytes>,
}

impl Stored {
    pub(super) fn new(value: Value) -> Self {
        Self { value, json: OnceLock::new() }
    }

    /// Returns its JSON, which is serialized on first use.
    pub(super) fn json(&self) -> Bytes {
        self.json.get_or_init(|| self.value.to_string().into()).clone()
    }

    pub(super) fn metadata(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.value["metadata"]["deletionTimestamp"].is_string()
    }
}

/// One step of the history.
#[derive(Debug, Clone)]
pub(super) struct HistoryStep {
    pub(super) revision: u64,
    /// The resource, see [`super::kinds::ResourceType::storage`].
    pub(super) resource: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) before: Option<Arc<Stored>>,
    /// `None` if it was deleted.
    pub(super) after: Option<Arc<Stored>>,
    /// The last state of a deleted object, with the version of its deletion.
    pub(super) last: Option<Arc<Stored>>,
}

/// The objects of a resource by `NAMESPACE/NAME`, or by name if they are cluster-scoped.
pub(super) type ObjectsByKey = BTreeMap<Arc<str>, Arc<Stored>>;

/// The whole database. A clone is a backup.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    pub(super) revision: u64,
    /// The oldest revision at which lists can be read.
    pub(super) compacted: u64,
    resources: BTreeMap<Arc<str>, ObjectsByKey>,
    history: VecDeque<HistoryStep>,
}

impl Store {
    pub(super) fn get(&self, resource: &str, key: &str) -> Option<&Arc<Stored>> {
        self.resources.get(resource)?.get(key)
    }

    /// Returns the objects of a resource, sorted by key.
    pub(super) fn all(&self, resource: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<Stored>)> {
        self.resources.get(resource).into_iter().flatten()
    }

    /// Returns the objects of a resource, if there ever was one.
    pub(super) fn of(&self, resource: &str) -> Option<&ObjectsByKey> {
        self.resources.get(resource)
    }

    /// Returns the objects of all resources.
    pub(super) fn everything(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Arc<Stored>)> {
        self.resources
            .iter()
            .flat_map(|(resource, objects)| objects.iter().map(move |(key, stored)| (resource, key, stored)))
    }

    /// Returns the objects of a resource as they were at a revision that is not compacted.
    pub(super) fn at(&self, resource: &str, revision: u64) -> ObjectsByKey {
        let mut objects = self.resources.get(resource).cloned().unwrap_or_default();
        let later = self.history.iter().rev().take_while(|step| step.revision > revision);
        for step in later.filter(|step| &*step.resource == resource) {
            match &step.before {
                Some(before) => objects.insert(Arc::clone(&step.key), Arc::clone(before)),
                None => objects.remove(&step.key),
            };
        }
        objects
    }

    /// Returns the history of a resource after a revision, and the revision up to which it reaches.
    pub(super) fn since(&self, resource: &str, revision: u64) -> Vec<HistoryStep> {
        let first = self.history.partition_point(|step| step.revision <= revision);
        self.history.range(first..).filter(|step| &*step.resource == resource).cloned().collect()
    }

    /// Stores a state of an object with a new revision, which becomes its `resourceVersion`.
    pub(super) fn put(&mut self, resource: &Arc<str>, key: &Arc<str>, mut value: Value) -> Arc<Stored> {
        self.revision += 1;
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let stored = Arc::new(Stored::new(value));
        let objects = self.resources.entry(Arc::clone(resource)).or_default();
        let before = objects.insert(Arc::clone(key), Arc::clone(&stored));
        self.step(resource, key, before, Some(Arc::clone(&stored)), None);
        stored
    }

    /// Deletes an object; returns its last state, if it existed.
    pub(super) fn remove(&mut self, resource: &Arc<str>, key: &Arc<str>) -> Option<Arc<Stored>> {
        let before = self.resources.get_mut(resource)?.remove(key)?;
        self.revision += 1;
        let mut value = before.value.clone();
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let last = Arc::new(Stored::new(value));
        self.step(resource, key, Some(before), None, Some(Arc::clone(&last)));
        Some(last)
    }

    fn step(
        &mut self,
        resource: &Arc<str>,
        key: &Arc<str>,
        before: Option<Arc<Stored>>,
        after: Option<Arc<Stored>>,
        last: Option<Arc<Stored>>,
    ) {
        let (resource, key) = (Arc::clone(resource), Arc::clone(key));
        self.history.push_back(HistoryStep { revision: self.revision, resource, key, before, after, last });
    }

    /// Makes all versions before the current one unreadable. Open watches continue.
    pub(super) fn compact(&mut self) {
        self.compacted = self.revision;
    }
}
