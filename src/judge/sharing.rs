//! Verdicts shared between objects that look the same: the replicas of a Deployment are judged once.
//!
//! What a rule says of an object is a function of what it reads. Rules that read nothing in which replicas differ are
//! *shareable*: their findings are kept under the fingerprint of what all of them read together, and are those of every
//! object that has the same. The object's name and namespace and the name of the volume with a Pod's token are open in it, where
//! rules do no more than print and compare them: findings are made of an object in which placeholders stand for them, and each
//! object has its own names put in. All other rules are asked about each object; where they are too many, nothing is shared.
//!
//! [`plan`] says at load what is shareable; here is what is kept.

pub(crate) mod placeholders;
pub(crate) mod plan;
pub(crate) mod said;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use quick_cache::{Weighter, sync::Cache};

use self::{
    placeholders::Placeholders,
    plan::{Plan, Plans},
    said::Said,
};

/// Bytes of the findings that are kept, as estimated; those that were used least recently go.
const BYTES: u64 = 32 << 20;
/// What is kept for one object at most.
const LARGEST: u64 = 64 << 10;
/// Bytes of a few findings.
const USUAL: u64 = 1 << 10;
/// One hit in so many is judged, too.
const EVERY: u32 = 256;

/// What was said of objects by one policy set.
pub(crate) struct Sharing {
    plans: Plans,
    pub(crate) placeholders: Placeholders,
    said: Cache<u128, Arc<Said>, ByBytes>,
    hits: AtomicU32,
    wrong: AtomicBool,
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("plans", &self.plans).finish_non_exhaustive()
    }
}

impl Sharing {
    pub(crate) fn new(plans: Plans) -> Self {
        let usual = usize::try_from(BYTES / USUAL).unwrap_or(usize::MAX);
        Self {
            plans,
            placeholders: Placeholders::new(),
            said: Cache::with_weighter(usual, BYTES, ByBytes),
            hits: AtomicU32::new(0),
            wrong: AtomicBool::new(false),
        }
    }

    /// Returns what is shared between objects of a kind; `None` if nothing is.
    pub(crate) fn plan(&self, kind: &str) -> Option<&Plan> {
        if self.wrong.load(Ordering::Relaxed) { None } else { self.plans.of(kind) }
    }

    /// Returns what was said of an object with this fingerprint.
    pub(crate) fn get(&self, fingerprint: u128) -> Option<Arc<Said>> {
        self.said.get(&fingerprint)
    }

    /// Keeps what is said of an object.
    pub(crate) fn keep(&self, fingerprint: u128, said: Arc<Said>) {
        if said.bytes() <= LARGEST {
            self.said.insert(fingerprint, said);
        }
    }

    /// Counts a hit; returns whether the object is to be judged all the same.
    pub(crate) fn is_due(&self) -> bool {
        self.hits.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// From now on nothing is shared: what was proven of the policies does not hold.
    pub(crate) fn stop(&self) {
        self.wrong.store(true, Ordering::Relaxed);
        self.said.clear();
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<u128, Arc<Said>> for ByBytes {
    fn weight(&self, _: &u128, said: &Arc<Said>) -> u64 {
        said.bytes()
    }
}
