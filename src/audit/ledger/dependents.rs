//! What owners stand for, counted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::model::{
    object::{ObjectKey, ObjectRef},
    verdict::{Finding, Outcome},
};

/// Policy, rule and outcome.
pub(super) type Rule = (Arc<str>, Arc<str>, Outcome);

pub(super) fn rule(finding: &Finding) -> Rule {
    (Arc::clone(&finding.policy), Arc::clone(&finding.rule), finding.outcome)
}

/// Labels by key.
pub type Labels = Arc<BTreeMap<String, String>>;

/// The owners of an object that are known, for [`Ledger::record`](super::Ledger::record).
#[derive(Debug, Default)]
pub struct Owners {
    /// Each with its uid, the topmost first.
    pub chain: Vec<(ObjectKey, Arc<str>)>,
    /// One of them that is about to be judged.
    pub awaited: Option<Arc<str>>,
    /// The labels of the topmost, or of the object if it has none, as far as anybody asks for them.
    pub labels: Option<Labels>,
}

/// Topmost owners that are kept without a look at whether they are needed.
const TOPMOST: usize = 1_024;

/// What owners stand for.
#[derive(Debug, Default)]
pub(super) struct Dependents {
    /// By the uid of the owner.
    owners: HashMap<Arc<str>, Owner>,
    /// All of these results.
    covered: usize,
    /// Those whose numbers changed since they were asked for.
    changed: BTreeSet<Arc<str>>,
    /// The topmost owners of objects with results, by uid: many objects have the same.
    topmost: HashMap<Arc<str>, Arc<ObjectRef>>,
    /// How many of those were needed when that was looked at last.
    kept: usize,
}

#[derive(Debug)]
struct Owner {
    key: ObjectKey,
    /// Results of dependents.
    rules: BTreeMap<Rule, usize>,
}

impl Dependents {
    /// Knows the key of an owner that covers a result from now on.
    pub(super) fn know(&mut self, uid: &Arc<str>, owners: &Owners) {
        if !self.owners.contains_key(uid)
            && let Some((key, _)) = owners.chain.iter().find(|(_, owner)| owner == uid)
        {
            self.owners.insert(Arc::clone(uid), Owner { key: key.clone(), rules: BTreeMap::new() });
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

    /// Counts a finding that the owner with this uid covers.
    pub(super) fn add(&mut self, uid: Option<&Arc<str>>, finding: &Finding) {
        if let Some(uid) = uid
            && let Some(owner) = self.owners.get_mut(uid)
        {
            *owner.rules.entry(rule(finding)).or_default() += 1;
            self.covered += 1;
            self.changed.insert(Arc::clone(uid));
        }
    }

    /// Counts it no more.
    pub(super) fn remove(&mut self, uid: Option<&Arc<str>>, finding: &Finding) {
        let Some(uid) = uid else { return };
        let Some(owner) = self.owners.get_mut(uid) else { return };
        let rule = rule(finding);
        if let Some(count) = owner.rules.get_mut(&rule) {
            *count -= 1;
            self.covered -= 1;
            if *count == 0 {
                owner.rules.remove(&rule);
            }
        }
        self.changed.insert(Arc::clone(uid));
    }

    /// Returns how many findings owners stand for.
    pub(super) fn covered(&self) -> usize {
        self.covered
    }

    /// Returns the owners whose numbers changed since this was called last, with their uids.
    pub(super) fn take_changed(&mut self) -> Vec<(ObjectKey, Arc<str>)> {
        let changed = std::mem::take(&mut self.changed);
        let known = |uid: &Arc<str>| Some((self.owners.get(uid)?.key.clone(), Arc::clone(uid)));
        let keys = changed.iter().filter_map(known).collect();
        for uid in changed {
            if self.owners.get(&uid).is_some_and(|owner| owner.rules.is_empty()) {
                self.owners.remove(&uid);
            }
        }
        if self.topmost.len() > 2 * self.kept {
            self.topmost.retain(|_, owner| Arc::strong_count(owner) > 1);
            self.kept = self.topmost.len().max(TOPMOST);
        }
        keys
    }

    /// Knows an owner by another key from now on.
    pub(super) fn rename(&mut self, uid: &str, key: &ObjectKey) {
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.key = key.clone();
        }
    }

    /// Returns how many findings of dependents one of the owner with this uid stands for.
    pub(super) fn number(&self, uid: &str, finding: &Finding) -> usize {
        let owner = self.owners.get(uid).filter(|owner| !owner.rules.is_empty());
        owner.and_then(|owner| owner.rules.get(&rule(finding))).copied().unwrap_or(0)
    }
}
