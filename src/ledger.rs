//! The standing violations: what a new verdict changes about them, and what is told of it.
//!
//! Invariant: a violation (uid, policy, rule, message) is told once as appeared and once as resolved for each time it
//! stands, whatever is judged how often in between.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    object::ObjectKey,
    verdict::{Finding, Outcome, Severity, Verdict},
};

/// A finding and since when it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// What was found.
    pub finding: Finding,
    /// When it was first seen.
    pub since: Timestamp,
}

/// What recorders are told: never empty.
#[derive(Debug, Clone)]
pub struct Delta {
    /// The object.
    pub object: ObjectKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Violations that were not there before.
    pub appeared: Vec<Violation>,
    /// Violations that are there no more.
    pub resolved: Vec<Violation>,
    /// What the change itself violated: it happened, and nothing of it stands.
    pub moments: Vec<Violation>,
}

/// Everything that is known of one judged object.
#[derive(Debug)]
pub struct Standing {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its results, as in the verdict.
    pub results: Vec<Violation>,
    /// Rules that said nothing.
    pub passed: u32,
}

/// Counts by policy, severity and outcome.
pub type Counts = BTreeMap<(Arc<str>, Option<Severity>, Outcome), usize>;

/// All judged objects.
#[derive(Debug, Default)]
pub struct Ledger {
    objects: HashMap<ObjectKey, Standing>,
    counts: Counts,
    passed: usize,
    /// Objects without results of which nothing else is kept.
    clean: usize,
}

impl Ledger {
    /// Takes in a verdict; returns what it changed. An object that another took the place of is to be forgotten
    /// before, as the two have no violation in common.
    pub fn record(&mut self, verdict: Verdict, now: Timestamp) -> Option<Delta> {
        let Verdict { key, uid, results, passed, moments, .. } = verdict;
        let mut before = self.take(&key).map(|standing| standing.results).unwrap_or_default();
        let mut appeared = Vec::new();
        let results: Vec<_> = results
            .into_iter()
            .map(|finding| {
                let known = before.iter().position(|known| same(&known.finding, &finding));
                let since = known.map_or(now, |index| before.swap_remove(index).since);
                let violation = Violation { finding, since };
                if known.is_none() && violation.finding.outcome.is_violation() {
                    appeared.push(violation.clone());
                }
                violation
            })
            .collect();
        self.passed += passed as usize;
        for result in &results {
            *self.counts.entry(count_key(&result.finding)).or_default() += 1;
        }
        self.objects.insert(key.clone(), Standing { uid: uid.clone(), results, passed });
        before.retain(|violation| violation.finding.outcome.is_violation());
        delta(key, uid, appeared, before, violations(moments, now))
    }

    /// Counts an object without results that will not be judged again.
    pub fn record_clean(&mut self, passed: u32) {
        self.clean += 1;
        self.passed += passed as usize;
    }

    /// Returns what a verdict tells of a change whose object is not known any more.
    pub fn moments(verdict: Verdict, now: Timestamp) -> Option<Delta> {
        delta(verdict.key, verdict.uid, Vec::new(), Vec::new(), violations(verdict.moments, now))
    }

    /// Forgets an object that is gone; returns what that resolves.
    pub fn forget(&mut self, key: &ObjectKey) -> Option<Delta> {
        let Standing { uid, mut results, .. } = self.take(key)?;
        results.retain(|violation| violation.finding.outcome.is_violation());
        delta(key.clone(), uid, Vec::new(), results, Vec::new())
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Standing> {
        let standing = self.objects.remove(key)?;
        self.passed -= standing.passed as usize;
        for result in &standing.results {
            if let Some(count) = self.counts.get_mut(&count_key(&result.finding)) {
                *count -= 1;
            }
        }
        Some(standing)
    }

    /// All judged objects, in no order.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Standing)> {
        self.objects.iter()
    }

    /// Whether an object was judged.
    pub fn knows(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Whether some policy failed on an object; it may not the next time, whatever it reads.
    pub fn has_errors(&self, key: &ObjectKey) -> bool {
        let results = self.objects.get(key).into_iter().flat_map(|standing| &standing.results);
        results.into_iter().any(|known| known.finding.outcome == Outcome::Error)
    }

    /// How many objects were judged.
    pub fn judged(&self) -> usize {
        self.objects.len() + self.clean
    }

    /// Standing results by policy, severity and outcome. A count that fell to zero stays, for metrics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// (object, rule) pairs without a result.
    pub fn passed(&self) -> usize {
        self.passed
    }
}

fn count_key(finding: &Finding) -> (Arc<str>, Option<Severity>, Outcome) {
    (finding.policy.clone(), finding.severity, finding.outcome)
}

/// Whether two findings about one object are the same violation.
fn same(a: &Finding, b: &Finding) -> bool {
    a.outcome == b.outcome && a.policy == b.policy && a.rule == b.rule && a.message == b.message
}

/// Errors are counted where they happen; nothing of the moment can stand.
fn violations(moments: Vec<Finding>, now: Timestamp) -> Vec<Violation> {
    let violations = moments.into_iter().filter(|finding| finding.outcome.is_violation());
    violations.map(|finding| Violation { finding, since: now }).collect()
}

fn delta(
    object: ObjectKey,
    uid: Arc<str>,
    appeared: Vec<Violation>,
    resolved: Vec<Violation>,
    moments: Vec<Violation>,
) -> Option<Delta> {
    let silent = appeared.is_empty() && resolved.is_empty() && moments.is_empty();
    (!silent).then_some(Delta { object, uid, appeared, resolved, moments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        object::Kind,
        verdict::{Digest, Source},
    };

    fn finding(message: &str, outcome: Outcome) -> Finding {
        Finding {
            policy: "p".into(),
            rule: "deny".into(),
            outcome,
            severity: None,
            message: message.into(),
            details: None,
            source: Source { file: "p.rego".into(), line: 3 },
        }
    }

    fn verdict(messages: &[&str]) -> Verdict {
        let kind = Kind::sample("", "pods", "Pod");
        Verdict {
            key: ObjectKey { kind, namespace: Some("n".into()), name: "a".into(), copy: 0 },
            uid: "u".into(),
            results: messages.iter().map(|message| finding(message, Outcome::Fail)).collect(),
            moments: Vec::new(),
            passed: 2,
            policies: Digest::default(),
            took: std::time::Duration::ZERO,
        }
    }

    fn told(delta: Option<Delta>) -> (Vec<String>, Vec<String>) {
        let texts = |list: Vec<Violation>| list.iter().map(|one| one.finding.message.to_string()).collect();
        delta.map_or_else(Default::default, |delta| (texts(delta.appeared), texts(delta.resolved)))
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tells_each_violation_once_and_again_when_it_comes_back() {
        let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(told(ledger.record(verdict(&["x", "y"]), now)), (texts(&["x", "y"]), vec![]));
        assert!(ledger.record(verdict(&["x", "y"]), now).is_none());
        assert_eq!(told(ledger.record(verdict(&["y", "z"]), now)), (texts(&["z"]), texts(&["x"])));
        assert_eq!(told(ledger.record(verdict(&["x"]), now)), (texts(&["x"]), texts(&["y", "z"])));
        assert_eq!(told(ledger.forget(&verdict(&[]).key)), (vec![], texts(&["x"])));
        assert!(ledger.forget(&verdict(&[]).key).is_none());
        assert_eq!((ledger.passed(), ledger.judged(), ledger.counts().values().sum::<usize>()), (0, 0, 0));
    }

    #[test]
    fn keeps_the_time_of_first_sight() {
        let (mut ledger, first) = (Ledger::default(), Timestamp::UNIX_EPOCH);
        ledger.record(verdict(&["x"]), first);
        ledger.record(verdict(&["x", "y"]), first + jiff::Span::new().seconds(9));
        let (_, standing) = ledger.objects().next().unwrap();
        let seconds: Vec<_> = standing.results.iter().map(|one| one.since.as_second()).collect();
        assert_eq!(seconds, [0, 9]);
    }

    #[test]
    fn errors_stand_but_are_not_told() {
        let mut ledger = Ledger::default();
        let mut failed = verdict(&[]);
        failed.results = vec![finding("boom", Outcome::Error)];
        assert!(ledger.record(failed, Timestamp::UNIX_EPOCH).is_none());
        assert_eq!(ledger.objects().next().unwrap().1.results.len(), 1);
        assert!(ledger.record(verdict(&[]), Timestamp::UNIX_EPOCH).is_none());
    }

    #[test]
    fn what_the_change_violated_is_told_once_and_never_stands() {
        let mut ledger = Ledger::default();
        let moment = |message: &str| Verdict { moments: vec![finding(message, Outcome::Fail)], ..verdict(&["x"]) };
        let delta = ledger.record(moment("no"), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((delta.appeared.len(), delta.resolved.len(), delta.moments.len()), (1, 0, 1));
        assert!(ledger.record(verdict(&["x"]), Timestamp::UNIX_EPOCH).is_none(), "it is not resolved");
        assert_eq!(ledger.counts().values().sum::<usize>(), 1);
        assert_eq!(Ledger::moments(moment("no"), Timestamp::UNIX_EPOCH).unwrap().moments.len(), 1);
        assert!(Ledger::moments(verdict(&["x"]), Timestamp::UNIX_EPOCH).is_none());
    }
}
