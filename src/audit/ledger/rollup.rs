//! Roll-up by owner: what a Deployment, its `ReplicaSet` and its hundred Pods violate alike is one thing to mend, and is told
//! once, at the Deployment.
//!
//! A result is covered as long as an owner has one of the same rule and outcome; the topmost such owner stands for it. That
//! depends on nothing but what stands now, so a fresh audit covers the same. Covered results stand like others, and are
//! counted by their owner's; only records and what people read leave them out.
//!
//! Nothing is told twice and nothing is lost when owners come late or go first: what appears while it is covered is told
//! when it no longer is, and what was told before it was covered is told to be resolved when it is, not when it is covered.
//! An owner that is about to be judged covers what appears until then: what is found at once comes in no order.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{Delta, Ledger, Standing, Violation};
use crate::{
    audit::queue::Lane,
    model::{
        object::{ObjectKey, ObjectRef},
        verdict::{Finding, Outcome},
    },
};

/// Policy, rule and outcome.
pub(super) type Rule = (Arc<str>, Arc<str>, Outcome);

pub(super) fn rule(finding: &Finding) -> Rule {
    (Arc::clone(&finding.policy), Arc::clone(&finding.rule), finding.outcome)
}

/// The owners of an object that are known, for [`Ledger::record`].
#[derive(Debug, Default)]
pub struct Owners {
    /// Each with its uid, the topmost first.
    pub chain: Vec<(ObjectKey, Arc<str>)>,
    /// One of them that is about to be judged.
    pub awaited: Option<Arc<str>>,
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
    fn know(&mut self, uid: &Arc<str>, owners: &Owners) {
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

    /// Counts a result, if it is covered.
    pub(super) fn add(&mut self, result: &Violation) {
        if let Some(uid) = &result.covered_by
            && let Some(owner) = self.owners.get_mut(uid)
        {
            *owner.rules.entry(rule(&result.finding)).or_default() += 1;
            self.covered += 1;
            self.changed.insert(Arc::clone(uid));
        }
    }

    /// Counts a result no more.
    pub(super) fn remove(&mut self, result: &Violation) {
        let Some(uid) = &result.covered_by else { return };
        let Some(owner) = self.owners.get_mut(uid) else { return };
        let rule = rule(&result.finding);
        if let Some(count) = owner.rules.get_mut(&rule) {
            *count -= 1;
            self.covered -= 1;
            if *count == 0 {
                owner.rules.remove(&rule);
            }
        }
        self.changed.insert(Arc::clone(uid));
    }

    pub(super) fn rename(&mut self, uid: &str, key: &ObjectKey) {
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.key = key.clone();
        }
    }

    fn number(&self, uid: &str, finding: &Finding) -> usize {
        let owner = self.owners.get(uid).filter(|owner| !owner.rules.is_empty());
        owner.and_then(|owner| owner.rules.get(&rule(finding))).copied().unwrap_or(0)
    }
}

impl Ledger {
    /// Attributes results to owners, and takes those that `appeared` covered out; returns whether any result is covered that
    /// was not, or the other way round.
    pub(super) fn roll_up(
        &mut self,
        results: &mut [Violation],
        appeared: &mut Vec<Violation>,
        owners: &Owners,
    ) -> bool {
        let none = Owners::default();
        let owners = if self.rolls_up { owners } else { &none };
        if owners.chain.is_empty() && results.iter().all(|result| result.covered_by.is_none()) {
            return false;
        }
        let mut changed = false;
        for result in results {
            let place = appeared.iter().position(|new| new.id == result.id);
            let before = result.covered_by.take();
            let covering = owners.chain.iter().find(|(key, uid)| self.finds(key, uid, &result.finding));
            let waits = place.is_some() || before.is_some();
            result.covered_by =
                covering.map(|(_, uid)| Arc::clone(uid)).or_else(|| owners.awaited.clone().filter(|_| waits));
            result.covered_by.iter().for_each(|uid| self.dependents.know(uid, owners));
            changed |= before.is_some() != result.covered_by.is_some();
            if let Some(place) = place.filter(|_| result.covered_by.is_some()) {
                appeared.remove(place);
                result.untold = true;
            }
        }
        changed
    }

    /// Whether a result of the same rule and outcome stands of an object.
    fn finds(&self, key: &ObjectKey, uid: &Arc<str>, finding: &Finding) -> bool {
        let standing = self.objects.get(key).filter(|standing| standing.uid == *uid);
        let same = |known: &Violation| {
            let Finding { policy, rule, outcome, .. } = &known.finding;
            (policy, rule, outcome) == (&finding.policy, &finding.rule, &finding.outcome)
        };
        standing.is_some_and(|standing| standing.results.iter().any(same))
    }

    /// Returns how many results of dependents a result stands for.
    pub fn dependents(&self, uid: &str, finding: &Finding) -> usize {
        self.dependents.number(uid, finding)
    }

    /// Returns how many results owners stand for.
    pub fn covered(&self) -> usize {
        self.dependents.covered
    }

    /// Returns the results that no owner stands for, with the number of those that each stands for.
    pub(super) fn told(&self, standing: &Standing) -> Vec<Violation> {
        let own = standing.results.iter().filter(|result| result.covered_by.is_none());
        own.map(|result| Violation { dependents: self.dependents(&standing.uid, &result.finding), ..result.clone() })
            .collect()
    }

    /// Brings the numbers in a delta up to date.
    #[must_use]
    pub fn counted(&self, mut delta: Delta) -> Delta {
        for result in delta.appeared.iter_mut().chain(&mut delta.results) {
            result.dependents = self.dependents(&delta.uid, &result.finding);
        }
        delta
    }

    /// Returns the deltas of the owners whose numbers changed since this was called last.
    pub fn recounted(&mut self) -> Vec<Delta> {
        let changed = std::mem::take(&mut self.dependents.changed);
        let deltas = changed.iter().filter_map(|uid| {
            let key = &self.dependents.owners.get(uid)?.key;
            let standing = self.objects.get(key).filter(|standing| standing.uid == *uid)?;
            let results = self.told(standing);
            (!results.is_empty()).then(|| Delta {
                object: key.clone(),
                uid: Arc::clone(uid),
                owner: standing.owner.clone(),
                appeared: Vec::new(),
                resolved: Vec::new(),
                transitions: Vec::new(),
                results,
                lane: Lane::Snapshot,
            })
        });
        let deltas = deltas.collect();
        for uid in changed {
            if self.dependents.owners.get(&uid).is_some_and(|owner| owner.rules.is_empty()) {
                self.dependents.owners.remove(&uid);
            }
        }
        if self.dependents.topmost.len() > 2 * self.dependents.kept {
            self.dependents.topmost.retain(|_, owner| Arc::strong_count(owner) > 1);
            self.dependents.kept = self.dependents.topmost.len().max(TOPMOST);
        }
        deltas
    }
}
