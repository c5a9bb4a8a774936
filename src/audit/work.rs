//! What concerns many objects, as far as it is left to do: the pipeline does it a part at a time.

use std::{
    collections::{VecDeque, btree_set},
    sync::Arc,
    vec,
};

use super::{
    cache::Cache,
    clock::Slice,
    inventory::{ObjectState, Waiting},
};
use crate::{model::object::ObjectKey, source::change::WatchScope};

/// Objects that are dealt with before the task looks for something else to do: some milliseconds.
pub(crate) const TURN: usize = 1_024;
/// A change takes as long as so many of them: its object may be compressed.
pub(crate) const CHANGE: usize = 4;

/// Something that concerns many objects, as far as it is left to do.
pub(crate) enum Work {
    /// Look at objects that are there.
    Look(Purpose, Objects),
    /// Forget objects that are gone, with these uids.
    Forget(Box<dyn Iterator<Item = (ObjectKey, Arc<str>)> + Send>),
    /// Know objects by the keys that they have in the version of a scope.
    Rename(vec::IntoIter<ObjectKey>, WatchScope),
    /// Excuse anew what stands of objects.
    Excuse(vec::IntoIter<ObjectKey>),
    /// Have objects judged that waited for the inventory.
    Judge(vec::IntoIter<Waiting>),
    /// Look up the states of objects that changed, then bring the inventory up to date with them.
    Update(btree_set::IntoIter<ObjectKey>, Vec<ObjectState>),
}

/// Why objects are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Those of a complete list may be judged from now on.
    Admit,
    /// Those of a complete list are judged when they change.
    Skip,
    /// There are new policies.
    Renew,
    /// The inventory is built anew.
    Mark,
    /// Something that their verdicts depend on changed.
    Judge,
    /// The same, for a part of them.
    JudgeSlice(Slice),
}

/// The keys of the objects of some places, one after the other.
#[derive(Debug)]
pub(crate) struct Objects {
    places: vec::IntoIter<(WatchScope, Option<Arc<str>>)>,
    keys: vec::IntoIter<ObjectKey>,
}

impl Objects {
    /// Returns those in scopes.
    pub(crate) fn of(cache: &Cache, scopes: impl IntoIterator<Item = WatchScope>) -> Self {
        let places = scopes.into_iter().flat_map(|scope| {
            let namespaces = cache.namespaces(&scope).map(|namespace| (scope.clone(), namespace.cloned()));
            namespaces.collect::<Vec<_>>()
        });
        Self::at(places.collect())
    }

    /// Returns those in a namespace.
    pub(crate) fn in_namespace(scopes: impl IntoIterator<Item = WatchScope>, namespace: &Arc<str>) -> Self {
        let reach = |scope: &WatchScope| scope.namespace.as_ref().is_none_or(|only| only == namespace);
        let scopes = scopes.into_iter().filter(reach);
        Self::at(scopes.map(|scope| (scope, Some(Arc::clone(namespace)))).collect())
    }

    /// Returns those in scopes and namespaces.
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

impl From<Vec<ObjectKey>> for Objects {
    fn from(keys: Vec<ObjectKey>) -> Self {
        Self { places: Vec::new().into_iter(), keys: keys.into_iter() }
    }
}

/// What is to be done, in that order.
pub(crate) type Agenda = VecDeque<Work>;
