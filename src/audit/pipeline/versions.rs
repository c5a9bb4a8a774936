//! A kind that is read in another API version from now on: its objects are the same, and so are their violations.

use std::{collections::HashSet, sync::Arc};

use super::Pipeline;
use crate::{audit::work::Work, model::object::ObjectKey, source::change::WatchScope};

impl Pipeline {
    /// Lets a scope whose first list is complete take the place of one that had the same objects in another version. What
    /// was found about an object stands until it is judged in the new version.
    pub(super) fn take_over(&mut self, new: &WatchScope, old: &WatchScope) {
        let is_same = |key: &ObjectKey| {
            let uid = self.cache.uid(key).filter(|uid| !uid.is_empty());
            uid.is_some_and(|uid| self.cache.has(&in_version_of(key, new), &uid))
        };
        let same: HashSet<ObjectKey> = self.cache.keys(old).filter(is_same).collect();
        let renamed: Vec<_> = same.iter().cloned().collect();
        self.vanish(old, same);
        self.work.push_back(Work::Rename(renamed.into_iter(), new.clone()));
    }

    /// Drops a scope, and forgets the objects of it that are gone with it: all but some.
    pub(super) fn vanish(&mut self, scope: &WatchScope, but: HashSet<ObjectKey>) {
        self.gate.vanished(scope);
        self.transitions.end_list(scope);
        let gone = self.cache.take(scope).filter(move |(key, _)| !but.contains(key));
        self.work.push_back(Work::Forget(Box::new(gone)));
    }
}

/// Returns the key of the same object in the version of a scope.
pub(super) fn in_version_of(key: &ObjectKey, scope: &WatchScope) -> ObjectKey {
    ObjectKey { kind: Arc::clone(&scope.kind), ..key.clone() }
}
