//! Earlier states of objects, for policies that compare the state before a change with the one after it (`oldObject`,
//! `operation`).
//!
//! Only a change that a watch reports is a transition. A change found by a list happened at some time in the past, and there
//! may have been several between the two states.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::{
    model::object::{Object, ObjectKey},
    source::change::WatchScope,
};

/// Earlier states of objects, which are no longer in the cache and still have to be evaluated.
#[derive(Debug, Default)]
pub(crate) struct Transitions {
    /// Scopes that are being listed.
    listing: HashSet<WatchScope>,
    /// The state before the oldest change that was not evaluated yet.
    previous: HashMap<ObjectKey, Object>,
    /// The last states of deleted objects.
    deleted: VecDeque<Object>,
    /// Whether a deletion was evaluated last.
    last_was_deletion: bool,
}

impl Transitions {
    /// Notes that a list of `scope` begins.
    pub(crate) fn begin_list(&mut self, scope: WatchScope) {
        self.listing.insert(scope);
    }

    /// Notes that the list of `scope` is complete, or that the scope was dropped.
    pub(crate) fn end_list(&mut self, scope: &WatchScope) {
        self.listing.remove(scope);
    }

    /// Whether changes of `scope` come from a watch.
    pub(crate) fn are_watched(&self, scope: &WatchScope) -> bool {
        !self.listing.contains(scope)
    }

    /// Keeps the state before a change, unless an older one still waits to be evaluated.
    pub(crate) fn update(&mut self, previous: Object) {
        self.previous.entry(previous.key.clone()).or_insert(previous);
    }

    /// Keeps the last state of a deleted object.
    pub(crate) fn delete(&mut self, last: Object) {
        self.deleted.push_back(last);
    }

    /// Removes and returns the state before the changes of an object that is evaluated now.
    pub(crate) fn take_previous(&mut self, key: &ObjectKey) -> Option<Object> {
        self.previous.remove(key)
    }

    /// Removes and returns the deleted object that has waited longest; while `others_wait`, not twice in a row.
    pub(crate) fn next_deleted(&mut self, others_wait: bool) -> Option<Object> {
        let skipped = others_wait && self.last_was_deletion;
        let deleted = if skipped { None } else { self.deleted.pop_front() };
        self.last_was_deletion = deleted.is_some();
        deleted
    }

    /// Returns how many deletions wait to be evaluated.
    pub(crate) fn deletions(&self) -> usize {
        self.deleted.len()
    }
}
