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

use std::sync::Arc;

use super::{Delta, Ledger, Standing, Violation, dependents::Owners};
use crate::model::{object::ObjectKey, verdict::Finding};

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
        self.dependents.covered()
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
        let changed = self.dependents.take_changed();
        let deltas = changed.into_iter().filter_map(|(object, uid)| {
            let standing = self.objects.get(&object).filter(|standing| standing.uid == uid)?;
            let results = self.told(standing);
            (!results.is_empty()).then(|| Delta::of(object, standing, results))
        });
        deltas.collect()
    }
}
