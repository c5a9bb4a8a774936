//! A kind that is read in another API version from now on: its objects are the same, and so are their violations.

use std::{sync::Arc, time::Instant};

use super::Pipeline;
use crate::{model::object::ObjectKey, source::change::WatchScope};

impl Pipeline {
    /// Lets a scope whose first list is complete take the place of one that had the same objects in another version. What
    /// was found about an object stands until it is judged in the new version.
    pub(super) fn take_over(&mut self, new: &WatchScope, old: &WatchScope, now: Instant) {
        let keys: Vec<ObjectKey> = self.cache.keys(old).cloned().collect();
        let (same, gone): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| {
            let uid = self.cache.uid(key).filter(|uid| !uid.is_empty());
            uid.is_some() && uid == self.cache.uid(&in_version_of(key, new))
        });
        self.vanish(old, gone, now);
        for key in same {
            let renamed = in_version_of(&key, new);
            self.ledger.rename(&key, renamed.clone());
            if self.owned.unlink(&key) {
                self.link(&renamed);
            }
            self.unchanged.rename(&key, renamed);
            self.leave(&key, now);
        }
    }

    /// Drops a scope, and forgets the objects of it that are gone with it.
    pub(super) fn vanish(&mut self, scope: &WatchScope, gone: Vec<ObjectKey>, now: Instant) {
        let uid = |key: &ObjectKey| self.cache.uid(key).cloned().unwrap_or_default();
        let gone: Vec<_> = gone.into_iter().map(|key| (uid(&key), key)).collect();
        self.gate.vanished(scope);
        self.transitions.end_list(scope);
        self.cache.drop_scope(scope);
        for (uid, key) in gone {
            self.forget(&key, &uid, now);
        }
    }
}

/// Returns the key of the same object in the version of a scope.
fn in_version_of(key: &ObjectKey, scope: &WatchScope) -> ObjectKey {
    ObjectKey { kind: Arc::clone(&scope.kind), ..key.clone() }
}
