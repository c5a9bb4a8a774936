//! What was recorded before: by an earlier run, or by the replica that was the leader before.
//!
//! Recorders read it from the cluster, and the pipeline compares it with its verdicts as kinds are listed. The rest belongs to
//! kinds that cannot be read, and stays as it was recorded.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    audit::ledger::Violation,
    model::object::{Kind, ObjectKey, ObjectRef},
    source::change::WatchScope,
};

/// Recorded results by object.
#[derive(Debug, Default)]
pub struct Recorded {
    /// By group and kind: the served version and plural may have changed since.
    kinds: BTreeMap<(String, String), BTreeMap<RecordedName, RecordedObject>>,
}

/// Namespace, name and uid.
type RecordedName = (Option<Arc<str>>, Arc<str>, Arc<str>);

/// The recorded results of one object.
#[derive(Debug, Clone)]
pub struct RecordedObject {
    /// The object as the record names it, perhaps in a version that is no longer read.
    pub object: ObjectRef,
    /// Its results, each with the time when it was first seen.
    pub results: Vec<Violation>,
}

/// How much the clocks of an API server and of kaudit may differ.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);

impl RecordedObject {
    /// Moves times before the object was created to its creation: users who may write Events or reports can write any time.
    pub fn correct_times(&mut self, created: Option<Timestamp>) {
        let Some(created) = created else { return };
        for result in &mut self.results {
            if created.duration_since(result.since) > CLOCKS_APART {
                result.since = created;
            }
        }
    }

    /// Returns the key of the object, as one of `kind`.
    pub fn key(&self, kind: &Arc<Kind>) -> ObjectKey {
        let ObjectRef { namespace, name, .. } = self.object.clone();
        ObjectKey { kind: Arc::clone(kind), namespace, name, copy: 0 }
    }

    /// Returns its kind, as completely as a record has it, for kinds that are no longer served.
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
    /// Adds the results of an object; of a result that is there already, the first record counts.
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
                for new in recorded.results {
                    match known.iter_mut().find(|known| known.id == new.id) {
                        Some(known) => known.notified = known.notified.take().or(new.notified),
                        None => known.push(new),
                    }
                }
            }
        }
    }

    /// Returns all objects with recorded results.
    pub fn objects(&self) -> impl Iterator<Item = &RecordedObject> {
        self.kinds.values().flat_map(BTreeMap::values)
    }

    /// Changes every result, given its object.
    pub fn revise(&mut self, revise: impl Fn(&ObjectRef, &mut Violation)) {
        for RecordedObject { object, results } in self.kinds.values_mut().flat_map(BTreeMap::values_mut) {
            for result in results {
                revise(object, result);
            }
        }
    }

    /// Adds what another recorder has recorded, as [`Self::add`] does.
    pub fn join(&mut self, other: Self) {
        other.kinds.into_values().flat_map(BTreeMap::into_values).for_each(|object| self.add(object));
    }

    /// Keeps only the objects in the namespaces for which `keeps` is true; `None` means cluster-scoped objects.
    pub fn keep(&mut self, keeps: impl Fn(Option<&str>) -> bool) {
        for objects in self.kinds.values_mut() {
            objects.retain(|_, recorded| keeps(recorded.object.namespace.as_deref()));
        }
    }

    /// Removes and returns what was recorded of a scope's objects.
    pub fn take(&mut self, scope: &WatchScope) -> Vec<RecordedObject> {
        let Some(objects) = self.kinds.get_mut(&(scope.kind.group.clone(), scope.kind.kind.clone())) else {
            return Vec::new();
        };
        let own = objects
            .extract_if(.., |_, recorded| scope.namespace.is_none() || recorded.object.namespace == scope.namespace);
        own.map(|(_, object)| object).collect()
    }

    /// Whether something was recorded of kinds for which `kept`, given group and kind, is false.
    pub fn has_others(&self, kept: impl Fn(&str, &str) -> bool) -> bool {
        self.kinds.iter().any(|((group, kind), objects)| !objects.is_empty() && !kept(group, kind))
    }

    /// Removes and returns what was recorded of kinds for which `kept`, given group and kind, is false.
    pub fn take_unless(&mut self, kept: impl Fn(&str, &str) -> bool) -> Vec<RecordedObject> {
        let gone = self.kinds.extract_if(.., |(group, kind), _| !kept(group, kind));
        gone.flat_map(|(_, objects)| objects.into_values()).collect()
    }
}
