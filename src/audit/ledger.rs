//! The open violations, and what a new verdict changes about them.
//!
//! Invariant: each time a violation (uid, policy, rule, message) is open, one delta reports that it appeared and one that it
//! is resolved, however often its object is evaluated in between. New policies that only word a message differently resolve
//! nothing and report nothing as new ([`rewording`]). A violation that an owner has as well is listed and reported at the
//! owner, and not at its dependents ([`rollup`]).

mod clean;
pub mod counts;
mod cover;
mod delta;
pub mod dependents;
mod handover;
mod lifecycle;
mod rewording;
mod rollup;
mod rule_tallies;
mod same_violation;
mod undecided;
mod unlisted;
mod violation;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use self::{
    clean::Clean,
    counts::{Counts, Totals},
    delta::DeltaOwner,
    dependents::{Dependents, Labels, Owners},
    handover::Handovers,
    rule_tallies::RuleTallies,
};
pub use self::{
    cover::Cover,
    delta::{Cause, Delta},
    handover::HANDOVER,
    lifecycle::Lifecycle,
    violation::{Id, Violation},
};
use crate::{
    audit::{memory::MemoryUsage, queue::Lane},
    judge::set::PolicySet,
    model::{
        object::{ObjectKey, ObjectRef, ObjectVersion},
        rule_counts::RuleCounts,
        rule_numbers::{RuleName, RuleNumbers},
        verdict::{Class, Finding, Outcome, Verdict},
    },
};

#[cfg(test)]
impl Violation {
    /// A violation since the beginning of time.
    pub(crate) fn sample(message: &str) -> Self {
        Self::new(&ObjectRef::sample(), Finding::sample(message), Timestamp::UNIX_EPOCH)
    }
}

/// The last verdict on one object that has results.
#[derive(Debug)]
pub struct ObjectResults {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its topmost owner, if it has results.
    pub owner: Option<Arc<ObjectRef>>,
    /// The labels of that owner, as in [`Delta::labels`].
    labels: Option<Labels>,
    /// Its results, as in the verdict.
    pub results: Vec<Violation>,
    /// Rules that were evaluated without a result.
    pub passed: Arc<RuleNumbers>,
    /// The policy set that it was evaluated with, by its count.
    set: u32,
    /// The object's state that was evaluated; `None` if that is not known.
    state: Option<ObjectVersion>,
}

impl ObjectResults {
    /// Makes a delta in which nothing changed.
    fn delta(&self, key: ObjectKey, results: Vec<Violation>) -> Delta {
        Delta { results, ..Delta::new(key, &self.uid, self.ownership(), Lane::Snapshot) }
    }

    fn ownership(&self) -> DeltaOwner {
        (self.owner.clone(), self.labels.clone())
    }

    /// Returns about how many bytes of memory its results take.
    fn bytes(&self) -> usize {
        self.results.iter().map(|result| violation::bytes(&result.finding)).sum()
    }
}

/// Objects for which there is room at any time.
const ROOM: usize = 1_024;

/// The results of all evaluated objects.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Those with results.
    objects: HashMap<ObjectKey, ObjectResults>,
    /// Those without.
    clean: Clean,
    counts: Counts,
    rules: RuleTallies,
    /// Objects without results that were dropped and only counted.
    dropped: usize,
    /// Results that are excused, by what excuses them.
    excused: HashMap<Arc<str>, usize>,
    /// Number of the present policy set.
    set: u32,
    /// Its policies whose results depend on nothing but the evaluated object.
    object_only: HashSet<Arc<str>>,
    /// What owners cover.
    dependents: Dependents,
    /// Whether they cover anything.
    rolls_up: bool,
    /// Violations that an owner covered until a moment ago.
    handovers: Handovers,
    /// The bytes of all results.
    usage: MemoryUsage,
}

impl Ledger {
    /// Makes one in which owners cover what their dependents share with them, or not, and which counts so many namespaces by
    /// themselves. What an owner covered until now is reported after the pause `handover`.
    pub fn new(rolls_up: bool, namespaces: usize, handover: Duration) -> Self {
        let (counts, handovers) = (Counts::new(namespaces), Handovers::new(handover));
        Self { counts, rolls_up, handovers, ..Self::default() }
    }

    /// Notes that verdicts are by other policies from now on.
    pub fn set_policies(&mut self, policies: &PolicySet) {
        self.set += 1;
        self.counts.expect(policies.classes());
        let alone = policies.policies.iter().filter(|policy| policy.depends.is_object_alone());
        self.object_only = alone.map(|policy| Arc::clone(&policy.name)).collect();
    }

    /// Notes that an object is in another state of which no policy can see the difference: its verdict stays.
    pub fn holds_for(&mut self, key: &ObjectKey, state: Option<ObjectVersion>) {
        if let Some(known) = self.objects.get_mut(key).filter(|known| known.state.is_some()) {
            known.state = state;
        }
    }

    /// Returns how much memory the results take.
    pub(crate) fn usage(&self) -> &MemoryUsage {
        &self.usage
    }

    /// Returns how many bytes the results of an object take, and would take with this verdict.
    pub fn growth(&self, verdict: &Verdict) -> (usize, usize) {
        let old = self.objects.get(&verdict.key).map_or(0, ObjectResults::bytes);
        (old, verdict.results.iter().map(violation::bytes).sum())
    }

    /// Enters a verdict by the present policies about a state of the object; returns what it changed. When another object has
    /// taken the name of one that was evaluated, forget that one first: the two have no violation in common.
    pub fn record(
        &mut self,
        verdict: Verdict,
        state: Option<ObjectVersion>,
        owners: &Owners,
        cause: impl Into<Cause>,
        now: Timestamp,
    ) -> Option<Delta> {
        let Verdict { key, uid, results, passed, transitions, undecided, .. } = verdict;
        let object = ObjectRef::new(&key, &uid);
        let (mut results, transitions) = (stand(&object, results, now), violations(&object, transitions, now));
        undecided::mark(&mut results, &undecided);
        let passed = self.rules.shared(passed);
        let known = ObjectResults { uid, owner: None, labels: None, results, passed, set: self.set, state };
        self.settle(key, known, transitions, owners, cause.into())
    }

    /// Enters the violations recorded before of an object that exists, whether it has been evaluated by now or not; returns
    /// what is not recorded yet.
    pub fn recall(
        &mut self,
        key: &ObjectKey,
        uid: &Arc<str>,
        recorded: Vec<Violation>,
        owners: &Owners,
    ) -> Option<Delta> {
        let judged = self.take(key);
        if !recorded.is_empty() {
            let (uid, set) = (uid.clone(), self.set);
            let known = ObjectResults {
                uid,
                owner: None,
                labels: None,
                results: recorded,
                passed: Arc::default(),
                set,
                state: None,
            };
            self.put(key.clone(), known);
        }
        let judged = ObjectResults { uid: uid.clone(), ..judged? };
        self.settle(key.clone(), judged, Vec::new(), owners, Lane::Snapshot.into())
    }

    /// Applies exceptions and owners to an object's results again; returns what that changed.
    pub fn reconsider(
        &mut self,
        key: &ObjectKey,
        excuse: impl FnOnce(&mut [Finding]),
        owners: &Owners,
        now: Timestamp,
    ) -> Option<Delta> {
        let ObjectResults { uid, results, passed, set, state, .. } = self.objects.get(key)?;
        let mut findings: Vec<Finding> = results.iter().map(|known| known.finding.clone()).collect();
        excuse(&mut findings);
        // What was recorded is known by ids that the words in the record need not lead to.
        let same = |(known, finding): (&Violation, Finding)| {
            let is_same = known.finding == finding;
            if is_same { known.clone() } else { Violation::new(&ObjectRef::new(key, uid), finding, now) }
        };
        let results = results.iter().zip(findings).map(same).collect();
        let (uid, passed, set, state) = (Arc::clone(uid), Arc::clone(passed), *set, *state);
        let known = ObjectResults { uid, owner: None, labels: None, results, passed, set, state };
        self.settle(key.clone(), known, Vec::new(), owners, Lane::Snapshot.into())
    }

    /// Replaces the results of an object; one that it had before keeps the time when it was first seen.
    fn settle(
        &mut self,
        key: ObjectKey,
        mut now: ObjectResults,
        transitions: Vec<Violation>,
        owners: &Owners,
        cause: Cause,
    ) -> Option<Delta> {
        let before = self.take(&key);
        let only_policies_changed = before.as_ref().is_some_and(|before| {
            before.set != now.set && before.state.is_some() && before.state == now.state && before.uid == now.uid
        });
        let (before, ownership_before) = before.map_or_else(Default::default, |known| {
            let ObjectResults { results, owner, labels, .. } = known;
            (results, (owner, labels))
        });
        now.results.extend(undecided::kept(&before, &now.results));
        // Whether a result was reported, and which owner covered it, is known from the results before.
        for result in &mut now.results {
            (result.unreported, result.covered_by) = (false, None);
        }
        tell_apart(&mut now.results);
        let comparison = rewording::compare(before, &mut now.results, |policy| {
            only_policies_changed && self.object_only.contains(policy)
        });
        let rewording::ResultComparison { mut appeared, mut resolved, mut changed } = comparison;
        now.owner = self.dependents.topmost(owners);
        now.labels.clone_from(&owners.labels);
        changed |= self.roll_up(&key, &mut now.results, &mut appeared, owners);
        self.handovers.end(&resolved);
        self.handovers.hold(&key, &mut appeared, &mut now.results);
        unlisted::retain_ended(&mut resolved, &now.results);
        for violations in [&mut appeared, &mut resolved] {
            violations.retain(Violation::is_reported);
        }
        for ended in &mut resolved {
            let same = now.results.iter().find(|result| result.is_excused(ended));
            ended.finding.excused = same.and_then(|result| result.finding.excused.clone());
        }
        let (uid, silent) = (now.uid.clone(), !changed && transitions.is_empty());
        let results = if silent { Vec::new() } else { now.uncovered().cloned().collect() };
        // The owners of an object without results have not been looked up.
        let ownership = if now.results.is_empty() { ownership_before } else { now.ownership() };
        self.put(key.clone(), now);
        (!silent).then(|| Delta { appeared, resolved, transitions, results, ..Delta::new(key, &uid, ownership, cause) })
    }

    /// Counts an object without results that will not be evaluated again.
    pub fn record_clean(&mut self, passed: &RuleNumbers) {
        self.dropped += 1;
        self.rules.passed(passed);
    }

    /// Returns only the violations by the transition, of a verdict whose object was deleted or will be evaluated with newer
    /// policies.
    pub fn transitions(&self, verdict: Verdict, lane: Lane, now: Timestamp) -> Option<Delta> {
        let Verdict { key, uid, transitions, .. } = verdict;
        let transitions = violations(&ObjectRef::new(&key, &uid), transitions, now);
        let ownership = self.objects.get(&key).map(ObjectResults::ownership).unwrap_or_default();
        (!transitions.is_empty()).then(|| Delta {
            results: self.results(&key, &uid),
            transitions,
            ..Delta::new(key, &uid, ownership, lane)
        })
    }

    /// Moves the results of an object to another key: it is read in another API version.
    pub fn rename(&mut self, old: &ObjectKey, new: ObjectKey) {
        if let Some(known) = self.objects.remove(old) {
            self.dependents.rename(&known.uid, &new);
            self.objects.insert(new, known);
        } else if let Some(passed) = self.clean.remove(old) {
            self.clean.insert(&new, passed);
        }
    }

    /// Returns the results of the object with this key and uid that no owner covers.
    pub fn results(&self, key: &ObjectKey, uid: &Arc<str>) -> Vec<Violation> {
        let known = self.objects.get(key).filter(|known| known.uid == *uid);
        known.map(|known| known.uncovered().cloned().collect()).unwrap_or_default()
    }

    /// Returns all results of the object with this key and uid, also those that its owner covers.
    pub fn results_of(&self, key: &ObjectKey, uid: &Arc<str>) -> &[Violation] {
        let known = self.objects.get(key).filter(|known| known.uid == *uid);
        known.map_or(&[], |known| &known.results)
    }

    /// Forgets a deleted object; returns what that resolves.
    pub fn forget(&mut self, key: &ObjectKey) -> Option<Delta> {
        let ObjectResults { uid, owner, labels, results, .. } = self.take(key)?;
        Self::ended(key.clone(), &uid, (owner, labels), results, Lane::Change)
    }

    /// Returns the delta of results whose object was deleted.
    pub fn gone(key: ObjectKey, uid: &Arc<str>, results: Vec<Violation>, lane: Lane) -> Option<Delta> {
        Self::ended(key, uid, DeltaOwner::default(), results, lane)
    }

    fn ended(
        key: ObjectKey,
        uid: &Arc<str>,
        ownership: DeltaOwner,
        mut resolved: Vec<Violation>,
        lane: Lane,
    ) -> Option<Delta> {
        let silent = resolved.is_empty();
        resolved.retain(Violation::is_reported);
        (!silent).then(|| Delta { resolved, ..Delta::new(key, uid, ownership, lane) })
    }

    fn put(&mut self, key: ObjectKey, known: ObjectResults) {
        self.rules.passed(&known.passed);
        if known.results.is_empty() {
            return self.clean.insert(&key, self.rules.keep(&known.passed));
        }
        self.rules.add(&known.results);
        self.usage.add(key.namespace.as_ref(), known.bytes());
        for result in &known.results {
            match &result.covered_by {
                None => self.counts.add(key.namespace.as_ref(), &result.finding.class()),
                Some(cover) => self.dependents.add(cover),
            }
            if let Some(excused) = &result.finding.excused {
                *self.excused.entry(Arc::clone(&excused.excuse.by)).or_default() += 1;
            }
        }
        self.objects.insert(key, known);
    }

    /// Removes and returns the results of an object. For one without results neither uid nor state are known, on which nothing
    /// depends.
    fn take(&mut self, key: &ObjectKey) -> Option<ObjectResults> {
        let known = self.objects.remove(key).or_else(|| {
            let passed = self.rules.release(self.clean.remove(key)?);
            let (uid, results, set) = ("".into(), Vec::new(), self.set);
            Some(ObjectResults { uid, owner: None, labels: None, results, passed, set, state: None })
        })?;
        self.rules.not_passed(&known.passed);
        self.rules.remove(&known.results);
        self.usage.remove(key.namespace.as_ref(), known.bytes());
        for result in &known.results {
            match &result.covered_by {
                None => self.counts.remove(key.namespace.as_ref(), &result.finding.class()),
                Some(cover) => self.dependents.remove(cover),
            }
            let by = result.finding.excused.as_ref().map(|excused| &excused.excuse.by);
            if let Some(count) = by.and_then(|by| self.excused.get_mut(by)) {
                *count -= 1;
            }
        }
        Some(known)
    }

    /// Gives back the memory of results that no longer exist.
    pub fn shrink(&mut self) {
        if self.objects.capacity() > 4 * self.objects.len() + ROOM {
            self.objects.shrink_to(2 * self.objects.len());
        }
        self.clean.shrink(ROOM);
    }

    /// Returns all objects that have results, in no order.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &ObjectResults)> {
        self.objects.iter()
    }

    /// Returns all open violations that no owner covers, as results of [counted](Self::counted) deltas in which nothing
    /// changed.
    pub fn open_violations(&self) -> Vec<Delta> {
        let violations = |(key, known): (&ObjectKey, &ObjectResults)| {
            let violations = known.uncovered().filter(|result| result.finding.outcome.is_violation());
            let results: Vec<Violation> = violations.cloned().collect();
            (!results.is_empty()).then(|| self.counted(known.delta(key.clone(), results)))
        };
        self.objects.iter().filter_map(violations).collect()
    }

    /// Whether an object was evaluated.
    pub fn knows(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.clean.has(key)
    }

    /// Whether some policy failed on an object. It may succeed the next time, even if nothing that it reads changed.
    pub fn has_errors(&self, key: &ObjectKey) -> bool {
        let results = self.objects.get(key).into_iter().flat_map(|known| &known.results);
        results.into_iter().any(|known| known.finding.outcome == Outcome::Error)
    }

    /// Returns how many objects were evaluated.
    pub fn evaluated(&self) -> usize {
        self.objects.len() + self.clean.len() + self.dropped
    }

    /// Ends the pauses after which violations are reported that an owner covered; returns their objects.
    pub fn end_handovers(&mut self, now: Instant) -> Vec<ObjectKey> {
        self.handovers.take_due(now)
    }

    /// Whether a violation is not reported yet because an owner covered it until a moment ago.
    pub fn is_handed_over(&self, id: Id) -> bool {
        self.handovers.is_held(id)
    }

    /// Returns how many results there are of each class that the policies can find, without those that an owner covers; 0 where
    /// there is none.
    pub fn counts(&self) -> &Totals {
        self.counts.totals()
    }

    /// Returns the same by namespace: "" is what is in none, and [`OTHER`](crate::metrics::recent::OTHER) those that are not among the worst.
    pub fn counts_by_namespace(&mut self) -> Vec<(Arc<str>, Class, usize)> {
        self.counts.by_namespace()
    }

    /// Returns how many results each exception excuses.
    pub fn excused(&self) -> &HashMap<Arc<str>, usize> {
        &self.excused
    }

    /// Returns the (object, rule) pairs that were evaluated without a result.
    pub fn passed(&self) -> usize {
        self.rules.pass()
    }

    /// Returns how many objects each rule applies to, by outcome; without rules that apply to none.
    pub fn rule_counts(&self) -> BTreeMap<RuleName, RuleCounts> {
        self.rules.counts()
    }
}

/// Gives results of one object that have the same message, and so the same id, ids of their own.
fn tell_apart(results: &mut [Violation]) {
    let mut taken = HashSet::new();
    for result in results {
        let first = result.fingerprint;
        while !taken.insert(result.fingerprint) {
            result.fingerprint = result.fingerprint.next();
        }
        if result.id == first {
            result.id = result.fingerprint;
        }
    }
}

fn stand(object: &ObjectRef, findings: impl IntoIterator<Item = Finding>, since: Timestamp) -> Vec<Violation> {
    findings.into_iter().map(|finding| Violation::new(object, finding, since)).collect()
}

/// Errors are counted when they happen; violations by transitions are never open.
fn violations(object: &ObjectRef, transitions: Vec<Finding>, now: Timestamp) -> Vec<Violation> {
    stand(object, transitions.into_iter().filter(|finding| finding.outcome.is_violation()), now)
}

#[cfg(test)]
mod tests;
