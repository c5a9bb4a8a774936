//! A kind that is read in another API version from now on: its objects are the same, and so are their violations.

use std::sync::Arc;

use super::{Pipeline, work::Work};
use crate::{model::object::ObjectKey, source::change::WatchScope};

impl Pipeline {
    /// Lets a scope whose first list is complete take the place of one that had the same objects in another version. What
    /// was found about an object stands until it is judged in the new version.
    pub(super) fn take_over(&mut self, new: &WatchScope, old: &WatchScope) {
        let (same, gone): (Vec<_>, Vec<_>) = self.cache.keys(old).partition(|key| {
            let uid = self.cache.uid(key).filter(|uid| !uid.is_empty());
            uid.is_some_and(|uid| self.cache.has(&in_version_of(key, new), &uid))
        });
        self.vanish(old, gone);
        self.work.push_back(Work::Rename(same.into_iter(), new.clone()));
    }

    /// Drops a scope, and forgets the objects of it that are gone with it.
    pub(super) fn vanish(&mut self, scope: &WatchScope, gone: Vec<ObjectKey>) {
        let uid = |key: &ObjectKey| self.cache.uid(key).unwrap_or_default();
        let gone: Vec<_> = gone.into_iter().map(|key| (key.clone(), uid(&key))).collect();
        self.gate.vanished(scope);
        self.transitions.end_list(scope);
        self.cache.drop_scope(scope);
        self.forget_all(gone);
    }
}

/// Returns the key of the same object in the version of a scope.
pub(super) fn in_version_of(key: &ObjectKey, scope: &WatchScope) -> ObjectKey {
    ObjectKey { kind: Arc::clone(&scope.kind), ..key.clone() }
}
