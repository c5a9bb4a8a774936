//! The agenda: what is left to do. Work about many objects is done in parts.

use std::{
    collections::{BTreeSet, VecDeque, btree_set},
    sync::Arc,
    vec,
};

use super::{
    cache::Cache,
    clock::Slice,
    command::Command,
    inventory::{ObjectState, Waiting},
    watched::WatchedObjects,
};
use crate::{
    model::object::ObjectKey,
    source::change::{Change, WatchScope},
};

/// Objects that are processed before the task checks its inputs: some milliseconds.
pub(crate) const TURN: usize = 1_024;
/// A change takes as long as this many of them: its object may be compressed.
pub(crate) const CHANGE: usize = 4;

/// Work about many objects, or the rest of it.
pub(crate) enum Work {
    /// Process objects for a purpose.
    Look(Purpose, ObjectKeys),
    /// Forget deleted objects with these uids.
    Forget(Box<dyn Iterator<Item = (ObjectKey, Arc<str>)> + Send>),
    /// Give objects the keys that they have in the version of a scope.
    Rename(vec::IntoIter<ObjectKey>, WatchScope),
    /// Apply exceptions to the results of objects again.
    Excuse(vec::IntoIter<ObjectKey>),
    /// Evaluate objects that waited for the inventory.
    Judge(vec::IntoIter<Waiting>),
    /// Collect the states of objects that changed, then update the inventory with them.
    Update(btree_set::IntoIter<ObjectKey>, Vec<ObjectState>),
}

/// Why objects are processed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Their list is complete, so they may be evaluated from now on.
    Admit,
    /// Their list is complete, and they are evaluated when they change.
    Skip,
    /// There are new policies.
    Renew,
    /// The inventory is built again.
    Mark,
    /// Something that their results depend on changed.
    Judge,
    /// The same, for a part of them.
    JudgeSlice(Slice),
}

/// The keys of the objects in some scopes and namespaces, one after the other.
#[derive(Debug)]
pub(crate) struct ObjectKeys {
    places: vec::IntoIter<(WatchScope, Option<Arc<str>>)>,
    keys: vec::IntoIter<ObjectKey>,
}

impl ObjectKeys {
    /// Returns the keys in scopes.
    pub(crate) fn of(cache: &Cache, scopes: impl IntoIterator<Item = WatchScope>) -> Self {
        let places = scopes.into_iter().flat_map(|scope| {
            let namespaces = cache.namespaces(&scope).map(|namespace| (scope.clone(), namespace.cloned()));
            namespaces.collect::<Vec<_>>()
        });
        Self::at(places.collect())
    }

    /// Returns the keys of scopes in a namespace.
    pub(crate) fn in_namespace(scopes: impl IntoIterator<Item = WatchScope>, namespace: &Arc<str>) -> Self {
        let reach = |scope: &WatchScope| scope.namespace.as_ref().is_none_or(|only| only == namespace);
        let scopes = scopes.into_iter().filter(reach);
        Self::at(scopes.map(|scope| (scope, Some(Arc::clone(namespace)))).collect())
    }

    /// Returns the keys in pairs of scope and namespace.
    pub(crate) fn at(places: Vec<(WatchScope, Option<Arc<str>>)>) -> Self {
        Self { places: places.into_iter(), keys: Vec::new().into_iter() }
    }

    /// Returns the next one.
    pub(crate) fn next(&mut self, cache: &Cache) -> Option<ObjectKey> {
        loop {
            if let Some(key) = self.keys.next() {
                return Some(key);
            }
            let (scope, namespace) = self.places.next()?;
            self.keys = cache.keys_in(&scope, namespace.as_ref()).collect::<Vec<_>>().into_iter();
        }
    }
}

impl From<Vec<ObjectKey>> for ObjectKeys {
    fn from(keys: Vec<ObjectKey>) -> Self {
        Self { places: Vec::new().into_iter(), keys: keys.into_iter() }
    }
}

/// What is left to do: work about many objects, which is done in parts; changes that are not applied yet; and a command that
/// waits until all of that is done.
pub(crate) struct Agenda {
    pub(super) work: VecDeque<Work>,
    pub(super) received: VecDeque<Change>,
    pub(super) held: Option<Command>,
    /// How many objects are dealt with in one go; fewer in tests.
    pub(super) turn: usize,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { work: VecDeque::new(), received: VecDeque::new(), held: None, turn: TURN }
    }
}

impl Agenda {
    /// Adds work, to be done after all that was added before.
    pub(super) fn add(&mut self, work: Work) {
        self.work.push_back(work);
    }

    /// Adds processing objects for a purpose.
    pub(super) fn look(&mut self, purpose: Purpose, objects: ObjectKeys) {
        self.add(Work::Look(purpose, objects));
    }

    /// Adds another evaluation of those of some objects that may be evaluated.
    pub(super) fn look_again(&mut self, objects: &WatchedObjects, keys: BTreeSet<ObjectKey>) {
        let keys: Vec<ObjectKey> = keys.into_iter().filter(|key| objects.is_admitted(key)).collect();
        self.look(Purpose::Judge, ObjectKeys::from(keys));
    }

    /// Whether nothing is left to do.
    pub(super) fn is_empty(&self) -> bool {
        self.work.is_empty() && self.received.is_empty() && self.held.is_none()
    }
}
