//! The results of dependents that owners cover, counted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::cover::{Cover, ResultDigest};
use crate::model::{
    object::{ObjectKey, ObjectRef},
    verdict::{Finding, Outcome},
};

/// Policy, rule and outcome.
pub(super) type ResultRule = (Arc<str>, Arc<str>, Outcome);

pub(super) fn rule(finding: &Finding) -> ResultRule {
    (Arc::clone(&finding.rule.policy), Arc::clone(&finding.rule.name), finding.outcome)
}

/// Labels by key.
pub type Labels = Arc<BTreeMap<String, String>>;

/// The owners of an object that are known, for [`Ledger::record`](super::Ledger::record).
#[derive(Debug, Default)]
pub struct Owners {
    /// Each with its uid, the topmost first.
    pub chain: Vec<(ObjectKey, Arc<str>)>,
    /// One of them that is about to be evaluated.
    pub awaited: Option<Arc<str>>,
    /// Those labels of the topmost that recorders need, or of the object if it has no owner.
    pub labels: Option<Labels>,
}

/// Topmost owners that are kept without checking whether they are still needed.
const TOPMOST: usize = 1_024;

/// What owners cover.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    /// By the uid of the owner.
    owners: HashMap<Arc<str>, CoveringOwner>,
    /// How many results are covered in all.
    covered: usize,
    /// Owners whose counts changed since [`Dependents::take_changed`].
    changed: BTreeSet<Arc<str>>,
    /// The topmost owners of objects with results, by uid: many objects have the same.
    topmost: HashMap<Arc<str>, Arc<ObjectRef>>,
    /// How many of those were needed when that was checked last.
    kept: usize,
}

#[derive(Debug)]
struct CoveringOwner {
    key: ObjectKey,
    /// How many results of dependents each of its results covers.
    covering: BTreeMap<ResultDigest, usize>,
}

impl Dependents {
    /// Notes the key of an owner that covers a result from now on.
    pub(super) fn know(&mut self, uid: &Arc<str>, owners: &Owners) {
        if !self.owners.contains_key(uid)
            && let Some((key, _)) = owners.chain.iter().find(|(_, owner)| owner == uid)
        {
            self.owners.insert(Arc::clone(uid), CoveringOwner { key: key.clone(), covering: BTreeMap::new() });
        }
    }

    /// Returns the topmost of the owners of an object.
    pub(super) fn topmost(&mut self, owners: &Owners) -> Option<Arc<ObjectRef>> {
        let (key, uid) = owners.chain.first()?;
        let api_version = key.kind.api_version();
        let known = self.topmost.get(uid).filter(|known| known.api_version == api_version);
        Some(known.cloned().unwrap_or_else(|| {
            let owner = Arc::new(ObjectRef::new(key, uid));
            self.topmost.insert(Arc::clone(uid), Arc::clone(&owner));
            owner
        }))
    }

    /// Counts a result that is covered.
    pub(super) fn add(&mut self, cover: &Cover) {
        self.covered += 1;
        if let Some((owner, result)) = self.covering(cover) {
            *owner.covering.entry(result).or_default() += 1;
            self.changed.insert(Arc::clone(&cover.uid));
        }
    }

    /// Counts it no longer.
    pub(super) fn remove(&mut self, cover: &Cover) {
        self.covered -= 1;
        if let Some((owner, result)) = self.covering(cover) {
            if let Some(count) = owner.covering.get_mut(&result) {
                *count -= 1;
                if *count == 0 {
                    owner.covering.remove(&result);
                }
            }
            self.changed.insert(Arc::clone(&cover.uid));
        }
    }

    /// Returns the owner that covers a result and which of its results does; `None` while it is about to be evaluated.
    fn covering(&mut self, cover: &Cover) -> Option<(&mut CoveringOwner, ResultDigest)> {
        Some((self.owners.get_mut(&cover.uid)?, cover.result?))
    }

    /// Returns how many results owners cover.
    pub(super) fn covered(&self) -> usize {
        self.covered
    }

    /// Returns the owners whose counts changed since this was called last, with their uids.
    pub(super) fn take_changed(&mut self) -> Vec<(ObjectKey, Arc<str>)> {
        let changed = std::mem::take(&mut self.changed);
        let known = |uid: &Arc<str>| Some((self.owners.get(uid)?.key.clone(), Arc::clone(uid)));
        let keys = changed.iter().filter_map(known).collect();
        for uid in changed {
            if self.owners.get(&uid).is_some_and(|owner| owner.covering.is_empty()) {
                self.owners.remove(&uid);
            }
        }
        if self.topmost.len() > 2 * self.kept {
            self.topmost.retain(|_, owner| Arc::strong_count(owner) > 1);
            self.kept = self.topmost.len().max(TOPMOST);
        }
        keys
    }

    /// Gives an owner another key.
    pub(super) fn rename(&mut self, uid: &str, key: &ObjectKey) {
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.key = key.clone();
        }
    }

    /// Returns how many results of dependents a finding about the owner with this uid covers.
    pub(super) fn number(&self, uid: &str, finding: &Finding) -> usize {
        let owner = self.owners.get(uid).filter(|owner| !owner.covering.is_empty());
        owner.and_then(|owner| owner.covering.get(&ResultDigest::of(finding))).copied().unwrap_or(0)
    }
}
