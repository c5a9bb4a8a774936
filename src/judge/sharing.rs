//! Verdicts that are shared between objects that look the same: the replicas of a Deployment are evaluated once.
//!
//! What a rule says of an object is a function of what it reads. Rules that read nothing in which replicas differ are
//! *shareable*: their findings are kept under the fingerprint of what all of them read together, and are those of every
//! object that has the same. The object's name and namespace and the name of the volume with a Pod's token are open in it, where
//! rules do no more than print and compare them: findings are made of an object with placeholders in their place, and each
//! object has its own names put in. All other rules are evaluated for each object; where they are too many, nothing is shared.
//!
//! [`plan`] finds out at load what is shareable, as a part of the policy set; here is what is kept, as a part of the pipeline.
//! A fingerprint costs as much as some rules do, so it is only made of objects with a controller, and of the first of its
//! objects only where enough controllers have several. Where hardly any finds something, as all objects differ, few are made.

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
    plan::{Plan, Plans},
};
use crate::model::object::Object;

/// Bytes of the findings that are kept, as estimated; those that were used least recently go.
const BYTES: u64 = 32 << 20;
/// What is kept for one object at most.
const LARGEST: u64 = 64 << 10;
/// Bytes of a few findings.
const USUAL: u64 = 1 << 10;
/// So many controllers are known.
const CONTROLLERS: usize = 1 << 16;
/// Of the first object of a controller a fingerprint is made if more than one in so many controllers has several.
const WORTHWHILE: u32 = 4;
/// One hit in so many is evaluated, too.
const EVERY: u32 = 256;
/// Fingerprints after which it shows whether they find anything.
const ENOUGH: u32 = 256;
/// Fingerprints after which earlier ones count half.
const RECENT: u32 = 4_096;
/// At least one in so many has to find something: one that does not costs a quarter of an evaluation.
const FOUND: u32 = 4;
/// Where fewer do, they are made of the objects of one controller in so many, to see whether that changes.
const PROBED: u64 = 16;

/// What can be shared by the rules of one policy set.
pub(crate) struct Sharing {
    /// Another one for each set.
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
        // Zero is no set.
        Self { salt: RandomState::new().hash_one("salt") | 1, plans, placeholders: Placeholders::new() }
    }

    /// Returns what is shared between objects of a kind; `None` if nothing is.
    pub(crate) fn plan(&self, kind: &str) -> Option<&Plan> {
        self.plans.of(kind)
    }

    fn key(&self, fingerprint: u128) -> (u64, u128) {
        (self.salt, fingerprint)
    }
}

/// What is known of the objects with one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Siblings {
    /// There was one.
    One,
    /// There were several.
    Several,
    /// Their findings cannot be kept: each is evaluated by itself.
    Apart,
}

/// The verdicts that objects share, of all policy sets of one pipeline.
pub struct SharedVerdicts {
    kept: Cache<(u64, u128), Arc<KeptFindings>, ByBytes>,
    /// By a hash of the policy set, the kind and the controller.
    siblings: Cache<u64, Siblings>,
    hasher: RandomState,
    /// How many controllers were seen, and how many of them with several objects.
    controllers: [AtomicU32; 2],
    hits: AtomicU32,
    /// How many fingerprints were made lately, and how many of them were found.
    fingerprints: [AtomicU32; 2],
    /// The set for which a shared verdict was wrong: what was proven of its policies does not hold.
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
    /// Returns what an object can share with its siblings; `None` if nothing, or if it is not likely to have any.
    pub(crate) fn plan<'s>(&self, sharing: &'s Sharing, object: &Object) -> Option<&'s Plan> {
        let plan = sharing.plan(&object.key.kind.kind)?;
        if self.wrong.load(Ordering::Relaxed) == sharing.salt {
            return None;
        }
        let siblings = self.siblings_of(sharing, object)?;
        if self.hardly_finds() && !siblings.is_multiple_of(PROBED) {
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

    /// Counts a fingerprint that was made, and whether findings were kept for it.
    pub(crate) fn count(&self, found: bool) {
        let [made, hits] = &self.fingerprints;
        hits.fetch_add(found.into(), Ordering::Relaxed);
        if made.fetch_add(1, Ordering::Relaxed) + 1 == RECENT {
            // What other threads count in between is lost, which matters to nothing.
            made.store(RECENT / 2, Ordering::Relaxed);
            hits.store(hits.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        }
    }

    /// Whether hardly any of the latest fingerprints was found.
    fn hardly_finds(&self) -> bool {
        let [made, hits] = self.fingerprints.each_ref().map(|count| count.load(Ordering::Relaxed));
        made >= ENOUGH && hits.saturating_mul(FOUND) < made
    }

    fn siblings_of(&self, sharing: &Sharing, object: &Object) -> Option<u64> {
        let controller = object.controller.as_ref()?;
        Some(self.hasher.hash_one((sharing.salt, &*object.key.kind.kind, &*controller.uid)))
    }

    /// From now on the siblings of an object are evaluated each by itself.
    pub(crate) fn part(&self, sharing: &Sharing, object: &Object) {
        if let Some(siblings) = self.siblings_of(sharing, object) {
            self.siblings.insert(siblings, Siblings::Apart);
        }
    }

    /// Returns the findings of objects with this fingerprint.
    pub(crate) fn get(&self, sharing: &Sharing, fingerprint: u128) -> Option<Arc<KeptFindings>> {
        self.kept.get(&sharing.key(fingerprint))
    }

    /// Keeps the findings of an object.
    pub(crate) fn keep(&self, sharing: &Sharing, fingerprint: u128, kept: Arc<KeptFindings>) {
        if kept.bytes() <= LARGEST {
            self.kept.insert(sharing.key(fingerprint), kept);
        }
    }

    /// Counts a hit; returns whether the object is to be evaluated all the same.
    pub(crate) fn is_due(&self) -> bool {
        self.hits.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// From now on nothing of this policy set is shared.
    pub(crate) fn stop(&self, sharing: &Sharing) {
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
