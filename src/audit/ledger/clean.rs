//! Judged objects without results: nearly all of a cluster, so they are kept in a few bytes each.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use crate::model::object::ObjectKey;

/// For each object the number of the set of rules that it passed. The key is a hash with a secret of this process, so that no
/// two objects can be made to share one on purpose.
#[derive(Debug, Default)]
pub(super) struct Clean {
    hasher: RandomState,
    /// Hashes are kept in halves, so that an entry is 12 bytes.
    passed: HashMap<[u32; 2], u32>,
}

impl Clean {
    fn hash(&self, key: &ObjectKey) -> [u32; 2] {
        let hash = self.hasher.hash_one(key);
        [0, 32].map(|shift| u32::try_from(hash >> shift & u64::from(u32::MAX)).unwrap_or_default())
    }

    pub(super) fn insert(&mut self, key: &ObjectKey, passed: u32) {
        self.passed.insert(self.hash(key), passed);
    }

    /// Takes an object out; returns the number of its set.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<u32> {
        self.passed.remove(&self.hash(key))
    }

    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.passed.contains_key(&self.hash(key))
    }

    /// Gives back the room of those that are gone, but for a little.
    pub(super) fn shrink(&mut self, room: usize) {
        if self.passed.capacity() > 4 * self.passed.len() + room {
            self.passed.shrink_to(2 * self.passed.len());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.passed.len()
    }
}
