//! Shares verdicts between objects with equal sharing keys: the replicas of a Deployment are evaluated once.
//!
//! The results of a rule are a function of the fields that it reads. Rules that read no field in which replicas differ
//! are *shareable*: their results are cached by a fingerprint of all fields that they read, and apply to every object
//! with the same fingerprint. If rules only print and compare the object's name and namespace and the name of the token
//! volume, these are not part of the fingerprint: the rules are evaluated on an object with placeholders for the names,
//! and the names of each object are inserted into the cached results. All other rules are evaluated for each object; if
//! there are too many of them, nothing is shared.
//!
//! [`plan`] determines at load time which rules are shareable, as a part of the policy set; this module contains the
//! cache, as a part of the pipeline. A fingerprint costs as much as some rules do, so it is computed only for objects
//! with a controller, and for the first object of a controller only if enough controllers have several objects. If few
//! fingerprints have hits, because all objects differ, few are computed.

pub(crate) mod kept;
pub(crate) mod placeholders;
pub(crate) mod plan;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use quick_cache::{Weighter, sync::Cache};

use self::{
    kept::KeptFindings,
    placeholders::Placeholders,
    plan::{Plans, SharingPlan},
};
use crate::model::object::Object;

/// The estimated size limit of the cached results; least recently used entries are evicted.
const BYTES: u64 = 32 << 20;
/// The maximum size of the cached results of one object.
const LARGEST: u64 = 64 << 10;
/// The size of typical results.
const USUAL: u64 = 1 << 10;
/// The maximum number of tracked controllers.
const CONTROLLERS: usize = 1 << 16;
/// A fingerprint is computed for the first object of a controller if more than one in this many controllers has
/// several.
const WORTHWHILE: u32 = 4;
/// One hit in this many is verified by evaluation.
const EVERY: u32 = 256;
/// The number of fingerprints needed to estimate the hit rate.
const ENOUGH: u32 = 256;
/// The number of fingerprints after which earlier ones count half.
const RECENT: u32 = 4_096;
/// At least one in this many must be a hit: a miss costs a quarter of an evaluation.
const FOUND: u32 = 4;
/// If fewer are, fingerprints are computed for the objects of one controller in this many, to detect a change of the
/// rate.
const PROBED: u64 = 16;

/// The shareable rules of one policy set.
pub(crate) struct Sharing {
    /// Different for each set.
    salt: u64,
    plans: Plans,
    pub(crate) placeholders: Placeholders,
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("plans", &self.plans).finish_non_exhaustive()
    }
}

impl Sharing {
    pub(crate) fn new(plans: Plans) -> Self {
        // Zero is not a valid salt.
        Self { salt: RandomState::new().hash_one("salt") | 1, plans, placeholders: Placeholders::new() }
    }

    /// Returns the plan for objects of a kind; `None` if nothing is shared.
    pub(crate) fn plan(&self, kind: &str) -> Option<&SharingPlan> {
        self.plans.of(kind)
    }

    fn key(&self, fingerprint: u128) -> (u64, u128) {
        (self.salt, fingerprint)
    }
}

/// The objects of one controller that were evaluated so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Siblings {
    /// One object was evaluated.
    One,
    /// Several objects were evaluated.
    Several,
    /// Their results cannot be cached, so each object is evaluated separately.
    Apart,
}

/// The cache of shared verdicts, for all policy sets of one pipeline.
pub struct SharedVerdicts {
    kept: Cache<(u64, u128), Arc<KeptFindings>, ByBytes>,
    /// By a hash of the policy set, the kind and the controller.
    siblings: Cache<u64, Siblings>,
    hasher: RandomState,
    /// The number of controllers, and of those with several objects.
    controllers: [AtomicU32; 2],
    hits: AtomicU32,
    /// The number of recent fingerprints, and of hits among them.
    fingerprints: [AtomicU32; 2],
    /// The policy set for which a shared verdict was wrong, so that the analysis of its policies is not trusted.
    wrong: AtomicU64,
}

impl Default for SharedVerdicts {
    fn default() -> Self {
        let usual = usize::try_from(BYTES / USUAL).unwrap_or(usize::MAX);
        Self {
            kept: Cache::with_weighter(usual, BYTES, ByBytes),
            siblings: Cache::new(CONTROLLERS),
            hasher: RandomState::new(),
            controllers: Default::default(),
            hits: AtomicU32::new(0),
            fingerprints: Default::default(),
            wrong: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for SharedVerdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedVerdicts").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

impl SharedVerdicts {
    /// Returns the plan to share an object's results with its siblings; `None` if none can be shared, or if it is not
    /// likely to have siblings.
    pub(crate) fn plan<'s>(&self, sharing: &'s Sharing, object: &Object) -> Option<&'s SharingPlan> {
        let plan = sharing.plan(&object.key.kind.kind)?;
        if self.wrong.load(Ordering::Relaxed) == sharing.salt {
            return None;
        }
        let siblings = self.siblings_of(sharing, object)?;
        if self.has_low_hit_rate() && !siblings.is_multiple_of(PROBED) {
            return None;
        }
        let [controllers, with_several] = &self.controllers;
        match self.siblings.get(&siblings) {
            Some(Siblings::Several) => Some(plan),
            Some(Siblings::Apart) => None,
            Some(Siblings::One) => {
                self.siblings.insert(siblings, Siblings::Several);
                with_several.fetch_add(1, Ordering::Relaxed);
                Some(plan)
            }
            None => {
                self.siblings.insert(siblings, Siblings::One);
                let controllers = controllers.fetch_add(1, Ordering::Relaxed);
                let likely = with_several.load(Ordering::Relaxed).saturating_mul(WORTHWHILE) > controllers;
                likely.then_some(plan)
            }
        }
    }

    /// Counts a fingerprint, and whether it was a hit.
    pub(crate) fn count(&self, found: bool) {
        let [made, hits] = &self.fingerprints;
        hits.fetch_add(found.into(), Ordering::Relaxed);
        if made.fetch_add(1, Ordering::Relaxed) + 1 == RECENT {
            // Concurrent updates may be lost, which does not matter.
            made.store(RECENT / 2, Ordering::Relaxed);
            hits.store(hits.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// Whether the hit rate of recent fingerprints is low.
    fn has_low_hit_rate(&self) -> bool {
        let [made, hits] = self.fingerprints.each_ref().map(|count| count.load(Ordering::Relaxed));
        made >= ENOUGH && hits.saturating_mul(FOUND) < made
    }

    fn siblings_of(&self, sharing: &Sharing, object: &Object) -> Option<u64> {
        let controller = object.controller.as_ref()?;
        Some(self.hasher.hash_one((sharing.salt, &*object.key.kind.kind, &*controller.uid)))
    }

    /// Disables sharing for the siblings of an object.
    pub(crate) fn separate(&self, sharing: &Sharing, object: &Object) {
        if let Some(siblings) = self.siblings_of(sharing, object) {
            self.siblings.insert(siblings, Siblings::Apart);
        }
    }

    /// Returns the cached results for a fingerprint.
    pub(crate) fn get(&self, sharing: &Sharing, fingerprint: u128) -> Option<Arc<KeptFindings>> {
        self.kept.get(&sharing.key(fingerprint))
    }

    /// Caches the results of an object.
    pub(crate) fn keep(&self, sharing: &Sharing, fingerprint: u128, kept: Arc<KeptFindings>) {
        if kept.bytes() <= LARGEST {
            self.kept.insert(sharing.key(fingerprint), kept);
        }
    }

    /// Counts a hit; returns whether it must be verified by evaluation.
    pub(crate) fn must_verify(&self) -> bool {
        self.hits.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// Disables sharing for this policy set.
    pub(crate) fn disable(&self, sharing: &Sharing) {
        self.wrong.store(sharing.salt, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<(u64, u128), Arc<KeptFindings>> for ByBytes {
    fn weight(&self, _: &(u64, u128), kept: &Arc<KeptFindings>) -> u64 {
        kept.bytes()
    }
}
