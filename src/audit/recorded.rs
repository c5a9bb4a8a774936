//! What was recorded before: by an earlier run, or by the replica that led before.
//!
//! Recorders read it out of the cluster, the pipeline takes it in kind by kind as the kinds become known. What nobody takes
//! is of kinds that cannot be read: it stays as it was recorded.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use crate::{
    audit::ledger::Violation,
    model::object::{Kind, ObjectKey, ObjectRef},
    source::change::WatchScope,
};

/// Recorded results by object.
#[derive(Debug, Default)]
pub struct Recorded {
    /// By group and kind, whose version and plural may be others by now.
    kinds: BTreeMap<(String, String), BTreeMap<Place, RecordedObject>>,
}

/// Namespace, name and uid.
type Place = (Option<Arc<str>>, Arc<str>, Arc<str>);

/// What was recorded of one object.
#[derive(Debug, Clone)]
pub struct RecordedObject {
    /// The object as the record names it, perhaps in a version that is no longer read.
    pub object: ObjectRef,
    /// Its results, with the time of first sight.
    pub results: Vec<Violation>,
}

impl RecordedObject {
    /// Returns the key of the object, as one of `kind`.
    pub fn key(&self, kind: &Arc<Kind>) -> ObjectKey {
        let ObjectRef { namespace, name, .. } = self.object.clone();
        ObjectKey { kind: Arc::clone(kind), namespace, name, copy: 0 }
    }

    /// Returns its kind as far as a record tells it, for kinds that are not served any more.
    pub fn former_kind(&self) -> Arc<Kind> {
        Arc::new(Kind {
            group: self.object.group().to_owned(),
            version: self.object.api_version.rsplit('/').next().unwrap_or_default().to_owned(),
            plural: String::new(),
            kind: self.object.kind.clone(),
            singular: String::new(),
            short_names: Vec::new(),
            namespaced: self.object.namespace.is_some(),
        })
    }
}

impl Recorded {
    /// Adds what was recorded of an object; what was recorded first stands.
    pub fn add(&mut self, recorded: RecordedObject) {
        let object = &recorded.object;
        let kind = self.kinds.entry((object.group().to_owned(), object.kind.clone())).or_default();
        let place = (object.namespace.clone(), object.name.clone(), object.uid.clone());
        match kind.entry(place) {
            Entry::Vacant(entry) => {
                entry.insert(recorded);
            }
            Entry::Occupied(entry) => {
                let known = &mut entry.into_mut().results;
                let new = recorded.results.into_iter().filter(|new| known.iter().all(|known| known.id != new.id));
                known.extend(new.collect::<Vec<_>>());
            }
        }
    }

    /// All objects of which something was recorded.
    pub fn objects(&self) -> impl Iterator<Item = &RecordedObject> {
        self.kinds.values().flat_map(BTreeMap::values)
    }

    /// Adds what another record has; what was recorded first stands.
    pub fn join(&mut self, other: Self) {
        other.kinds.into_values().flat_map(BTreeMap::into_values).for_each(|object| self.add(object));
    }

    /// Forgets what is not of the namespaces that `keeps` says; `None` is what is in none.
    pub fn keep(&mut self, keeps: impl Fn(Option<&str>) -> bool) {
        for objects in self.kinds.values_mut() {
            objects.retain(|_, recorded| keeps(recorded.object.namespace.as_deref()));
        }
    }

    /// Takes out what was recorded of a scope's objects.
    pub fn take(&mut self, scope: &WatchScope) -> Vec<RecordedObject> {
        let Some(objects) = self.kinds.get_mut(&(scope.kind.group.clone(), scope.kind.kind.clone())) else {
            return Vec::new();
        };
        let own = objects
            .extract_if(.., |_, recorded| scope.namespace.is_none() || recorded.object.namespace == scope.namespace);
        own.map(|(_, object)| object).collect()
    }

    /// Takes out what was recorded of kinds that are not, by group and kind, to be kept.
    pub fn take_unless(&mut self, kept: impl Fn(&str, &str) -> bool) -> Vec<RecordedObject> {
        let gone = self.kinds.extract_if(.., |(group, kind), _| !kept(group, kind));
        gone.flat_map(|(_, objects)| objects.into_values()).collect()
    }
}
