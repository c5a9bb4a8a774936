//! Evaluated objects without results: nearly all of a cluster, so each takes only a few bytes.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use crate::model::object::ObjectKey;

/// The set of rules that each object passed, by its index. The key is a hash with a secret of this process, so that two objects
/// cannot be made to share one on purpose.
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

    /// Removes an object; returns the index of its set.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<u32> {
        self.passed.remove(&self.hash(key))
    }

    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.passed.contains_key(&self.hash(key))
    }

    /// Gives back the memory of removed objects, but for `room` entries.
    pub(super) fn shrink(&mut self, room: usize) {
        if self.passed.capacity() > 4 * self.passed.len() + room {
            self.passed.shrink_to(2 * self.passed.len());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.passed.len()
    }
}
