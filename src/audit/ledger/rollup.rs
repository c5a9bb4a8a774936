//! Roll-up by owner: a violation that a Deployment, its `ReplicaSet` and its hundred Pods share is one thing to fix, and is
//! listed and reported once, at the Deployment.
//!
//! A result is covered while an owner has the [same violation](super::same_violation) and that result is itself listed, that
//! is, not covered. The topmost such owner covers it, and each of its results covers one of the dependent's at most. This is
//! a function of the present results and owners, so a fresh audit covers the same. Owners in a circle cover nothing of each
//! other. Covered results are kept like others, but are neither counted as open nor recorded.
//!
//! Nothing is reported twice and nothing is lost when owners come late or go first: what appears while it is covered is
//! reported when it no longer is ([`handover`](super::handover)), and what was reported before it was covered is reported
//! as resolved when it is, not when it is covered. An owner that is about to be evaluated covers what appears until then:
//! objects that are found at once come in no order.

use std::sync::Arc;

use super::{
    Delta, Ledger, ObjectResults, Violation,
    cover::{Cover, ResultDigest},
    dependents::Owners,
    same_violation::{OwnerPair, PathEquality},
};
use crate::model::{object::ObjectKey, verdict::Finding};

impl Ledger {
    /// Attributes the results of an object to its owners, and takes those that are covered out of `appeared`; returns whether
    /// any result is covered that was not, or the other way round.
    pub(super) fn roll_up(
        &mut self,
        key: &ObjectKey,
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
        let covers = self.covers(key, results, owners);
        for (result, cover) in results.iter_mut().zip(covers) {
            let place = appeared.iter().position(|new| new.id == result.id);
            let before = result.covered_by.take();
            let waits = place.is_some() || before.is_some();
            let awaited = owners.awaited.clone().filter(|_| waits).map(|uid| Cover { uid, result: None });
            if let Some(cover) = &cover {
                self.dependents.know(&cover.uid, owners);
            }
            result.covered_by = cover.or(awaited).map(Box::new);
            changed |= before.is_some() != result.covered_by.is_some();
            if let Some(place) = place.filter(|_| result.covered_by.is_some()) {
                appeared.remove(place);
                result.unreported = true;
            }
        }
        changed
    }

    /// Returns for each result of an object what covers it.
    fn covers(&self, key: &ObjectKey, results: &[Violation], owners: &Owners) -> Vec<Option<Cover>> {
        let mut covers = vec![None; results.len()];
        for (owner, uid) in &owners.chain {
            let Some(known) = self.objects.get(owner).filter(|known| known.uid == *uid) else { continue };
            let mut listed: Vec<&Finding> = known.uncovered().map(|known| &known.finding).collect();
            let pair = OwnerPair { dependent: key, owner };
            for paths in [PathEquality::Exact, PathEquality::AnyIndex] {
                for (cover, result) in covers.iter_mut().zip(results).filter(|(cover, _)| cover.is_none()) {
                    let same = listed.iter().position(|known| pair.is_same(&result.finding, known, paths));
                    *cover = same.map(|place| {
                        let result = Some(ResultDigest::of(listed.swap_remove(place)));
                        Cover { uid: Arc::clone(uid), result }
                    });
                }
            }
        }
        covers
    }

    /// Returns how many results of dependents a result covers.
    pub fn dependents(&self, uid: &str, finding: &Finding) -> usize {
        self.dependents.number(uid, finding)
    }

    /// Returns how many results owners cover.
    pub fn covered(&self) -> usize {
        self.dependents.covered()
    }

    /// Sets how many results of dependents each result in a delta covers. The ledger sets it nowhere else.
    #[must_use]
    pub fn counted(&self, mut delta: Delta) -> Delta {
        for result in delta.appeared.iter_mut().chain(&mut delta.results) {
            result.dependents = self.dependents(&delta.object.uid, &result.finding);
        }
        delta
    }

    /// Returns the deltas of the owners whose counts changed since this was called last.
    pub fn recounted(&mut self) -> Vec<Delta> {
        let changed = self.dependents.take_changed();
        let deltas = changed.into_iter().filter_map(|(key, uid)| {
            let known = self.objects.get(&key).filter(|known| known.uid == uid)?;
            let results: Vec<Violation> = known.uncovered().cloned().collect();
            (!results.is_empty()).then(|| known.delta(key, results))
        });
        deltas.collect()
    }
}

impl ObjectResults {
    /// Returns the results that no owner covers.
    pub(super) fn uncovered(&self) -> impl Iterator<Item = &Violation> {
        self.results.iter().filter(|result| result.covered_by.is_none())
    }
}
