//! Objects that existed before the audit began and are not evaluated until they change: `--initial=skip`.

use std::collections::HashSet;

use crate::{model::object::ObjectKey, source::change::WatchScope};

/// The objects of the first lists that have not changed since.
#[derive(Debug, Default)]
pub(crate) struct Unchanged {
    /// Scopes of the first discovery. All objects of a kind that appears later are new.
    scopes: HashSet<WatchScope>,
    objects: HashSet<ObjectKey>,
}

impl Unchanged {
    /// Lets the objects of the first list of `scope` wait for a change.
    pub(crate) fn expect(&mut self, scope: WatchScope) {
        self.scopes.insert(scope);
    }

    /// Whether the objects of the first list of `scope` wait for a change.
    pub(crate) fn covers(&self, scope: &WatchScope) -> bool {
        self.scopes.contains(scope)
    }

    /// Adds an object of a first list.
    pub(crate) fn insert(&mut self, key: ObjectKey) {
        self.objects.insert(key);
    }

    /// Whether an object has not changed since the first list.
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains(key)
    }

    /// Gives an object another key.
    pub(crate) fn rename(&mut self, old: &ObjectKey, new: ObjectKey) {
        if self.objects.remove(old) {
            self.objects.insert(new);
        }
    }

    /// Removes an object that changed or was deleted.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }
}
