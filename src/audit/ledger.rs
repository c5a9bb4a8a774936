//! The standing violations, and what a new verdict changes about them.
//!
//! Invariant: for each time that a violation (uid, policy, rule, message) stands, one delta says that it appeared and one
//! that it is resolved, however often its object is judged in between.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    audit::queue::Lane,
    model::{
        digest::Digest,
        object::ObjectKey,
        verdict::{Finding, Outcome, Severity, Verdict},
    },
};

/// Identifies a result for as long as it stands, in every record of it: a hash of the object's uid, policy, rule, outcome
/// and message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id([u8; 16]);

impl Id {
    /// Returns the id of a finding about the object with this uid.
    pub fn new(uid: &str, finding: &Finding) -> Self {
        let parts = [uid, &finding.policy, &finding.rule, finding.outcome.word(), &finding.message];
        Self(Digest::of_parts(u64::to_be_bytes, parts).half().to_be_bytes())
    }

    /// Returns the hash as a number, evenly spread over its range.
    pub fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// Reads 32 hex digits, as [`Display`](fmt::Display) writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)?;
        u128::from_str_radix(digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// Shows 32 hex digits.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.number())
    }
}

/// A finding that stands. Its outcome says whether it is a violation: errors and exceptions stand, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The same for as long as it stands, over restarts, too.
    pub id: Id,
    /// What was found.
    pub finding: Finding,
    /// When it was first seen.
    pub since: Timestamp,
}

/// What changed in the results of one object.
#[derive(Debug, Clone)]
pub struct Delta {
    /// The object.
    pub object: ObjectKey,
    /// Its uid.
    pub uid: Arc<str>,
    /// Violations that were not there before.
    pub appeared: Vec<Violation>,
    /// Violations that no longer stand.
    pub resolved: Vec<Violation>,
    /// What the transition violated: reported once, never standing.
    pub transitions: Vec<Violation>,
    /// All results that stand now, errors and exceptions too; none if the object is gone.
    pub results: Vec<Violation>,
    /// Whether it follows a change in the cluster, or comes with many others from a snapshot or new policies.
    pub lane: Lane,
}

/// The verdict that stands on one object.
#[derive(Debug)]
pub struct Standing {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its results, as in the verdict.
    pub results: Vec<Violation>,
    /// Rules that were evaluated without a result.
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
    /// Objects without results that were dropped and only counted.
    clean: usize,
}

impl Ledger {
    /// Enters a verdict; returns what it changed. When another object has taken the name of one that was judged, that one is
    /// to be forgotten first: the two have no violation in common.
    pub fn record(&mut self, verdict: Verdict, lane: Lane, now: Timestamp) -> Option<Delta> {
        let Verdict { key, uid, results, passed, transitions, .. } = verdict;
        let results = stand(&uid, results, now);
        let transitions = violations(&uid, transitions, now);
        self.settle(key, Standing { uid, results, passed }, transitions, lane)
    }

    /// Enters what was recorded before about an object that exists, whether it has been judged by now or not; returns what
    /// is not recorded yet.
    pub fn recall(&mut self, key: &ObjectKey, uid: &Arc<str>, recorded: Vec<Violation>) -> Option<Delta> {
        let judged = self.take(key);
        if judged.is_some() || !recorded.is_empty() {
            self.put(key.clone(), Standing { uid: uid.clone(), results: recorded, passed: 0 });
        }
        self.settle(key.clone(), judged?, Vec::new(), Lane::Snapshot)
    }

    /// Replaces what stood by what is found now; a result that stood already keeps the time of its first sight.
    fn settle(&mut self, key: ObjectKey, mut now: Standing, transitions: Vec<Violation>, lane: Lane) -> Option<Delta> {
        let mut before = self.take(&key).map(|standing| standing.results).unwrap_or_default();
        let (mut appeared, mut changed) = (Vec::new(), false);
        for result in &mut now.results {
            if let Some(index) = before.iter().position(|known| known.id == result.id) {
                let known = before.swap_remove(index);
                result.since = known.since;
                changed |= known.finding != result.finding;
            } else {
                changed = true;
                appeared.extend(result.finding.outcome.is_violation().then(|| result.clone()));
            }
        }
        changed |= !before.is_empty();
        before.retain(|known| known.finding.outcome.is_violation());
        let (uid, silent) = (now.uid.clone(), !changed && transitions.is_empty());
        let results = if silent { Vec::new() } else { now.results.clone() };
        self.put(key.clone(), now);
        (!silent).then_some(Delta { object: key, uid, appeared, resolved: before, transitions, results, lane })
    }

    /// Counts an object without results that will not be judged again.
    pub fn record_clean(&mut self, passed: u32) {
        self.clean += 1;
        self.passed += passed as usize;
    }

    /// Returns only what a verdict says about the transition: its object is gone, or is to be judged by newer policies.
    pub fn transitions(&self, verdict: Verdict, lane: Lane, now: Timestamp) -> Option<Delta> {
        let transitions = violations(&verdict.uid, verdict.transitions, now);
        let standing = self.objects.get(&verdict.key).filter(|standing| standing.uid == verdict.uid);
        (!transitions.is_empty()).then(|| Delta {
            object: verdict.key,
            uid: verdict.uid,
            appeared: Vec::new(),
            resolved: Vec::new(),
            transitions,
            lane,
            results: standing.map(|standing| standing.results.clone()).unwrap_or_default(),
        })
    }

    /// Knows an object by another key from now on: it is read in another API version.
    pub fn rename(&mut self, old: &ObjectKey, new: ObjectKey) {
        if let Some(standing) = self.objects.remove(old) {
            self.objects.insert(new, standing);
        }
    }

    /// Forgets an object that is gone; returns what is resolved by that.
    pub fn forget(&mut self, key: &ObjectKey) -> Option<Delta> {
        let Standing { uid, results, .. } = self.take(key)?;
        Self::gone(key.clone(), uid, results, Lane::Change)
    }

    /// Returns the delta of results whose object is gone.
    pub fn gone(object: ObjectKey, uid: Arc<str>, mut results: Vec<Violation>, lane: Lane) -> Option<Delta> {
        let silent = results.is_empty();
        results.retain(|known| known.finding.outcome.is_violation());
        (!silent).then(|| Delta {
            object,
            uid,
            appeared: Vec::new(),
            resolved: results,
            transitions: Vec::new(),
            results: Vec::new(),
            lane,
        })
    }

    fn put(&mut self, key: ObjectKey, standing: Standing) {
        self.passed += standing.passed as usize;
        for result in &standing.results {
            *self.counts.entry(count_key(&result.finding)).or_default() += 1;
        }
        self.objects.insert(key, standing);
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

    /// Returns all judged objects, in no order.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Standing)> {
        self.objects.iter()
    }

    /// Whether an object was judged.
    pub fn knows(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Whether some policy failed on an object. It may succeed the next time, even if nothing that it reads changed.
    pub fn has_errors(&self, key: &ObjectKey) -> bool {
        let results = self.objects.get(key).into_iter().flat_map(|standing| &standing.results);
        results.into_iter().any(|known| known.finding.outcome == Outcome::Error)
    }

    /// Returns how many objects were judged.
    pub fn judged(&self) -> usize {
        self.objects.len() + self.clean
    }

    /// Returns the standing results by policy, severity and outcome. A count that fell to zero stays, for metrics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the (object, rule) pairs that were evaluated without a result.
    pub fn passed(&self) -> usize {
        self.passed
    }
}

fn count_key(finding: &Finding) -> (Arc<str>, Option<Severity>, Outcome) {
    (finding.policy.clone(), finding.severity, finding.outcome)
}

fn stand(uid: &str, findings: impl IntoIterator<Item = Finding>, since: Timestamp) -> Vec<Violation> {
    let violation = |finding: Finding| Violation { id: Id::new(uid, &finding), finding, since };
    findings.into_iter().map(violation).collect()
}

/// Errors are counted when they happen; what a transition violates never stands.
fn violations(uid: &str, transitions: Vec<Finding>, now: Timestamp) -> Vec<Violation> {
    stand(uid, transitions.into_iter().filter(|finding| finding.outcome.is_violation()), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{object::Kind, verdict::Source};

    fn finding(message: &str, outcome: Outcome) -> Finding {
        Finding {
            policy: "p".into(),
            rule: "deny".into(),
            outcome,
            severity: None,
            category: None,
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
            transitions: Vec::new(),
            passed: 2,
            unfinished: false,
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
        assert_eq!(told(ledger.record(verdict(&["x", "y"]), Lane::Change, now)), (texts(&["x", "y"]), vec![]));
        assert!(ledger.record(verdict(&["x", "y"]), Lane::Change, now).is_none());
        assert_eq!(told(ledger.record(verdict(&["y", "z"]), Lane::Change, now)), (texts(&["z"]), texts(&["x"])));
        assert_eq!(told(ledger.record(verdict(&["x"]), Lane::Change, now)), (texts(&["x"]), texts(&["y", "z"])));
        assert_eq!(told(ledger.forget(&verdict(&[]).key)), (vec![], texts(&["x"])));
        assert!(ledger.forget(&verdict(&[]).key).is_none());
        assert_eq!((ledger.passed(), ledger.judged(), ledger.counts().values().sum::<usize>()), (0, 0, 0));
    }

    #[test]
    fn keeps_the_time_of_first_sight() {
        let (mut ledger, first) = (Ledger::default(), Timestamp::UNIX_EPOCH);
        ledger.record(verdict(&["x"]), Lane::Change, first);
        ledger.record(verdict(&["x", "y"]), Lane::Change, first + jiff::Span::new().seconds(9));
        let (_, standing) = ledger.objects().next().unwrap();
        let seconds: Vec<_> = standing.results.iter().map(|one| one.since.as_second()).collect();
        assert_eq!(seconds, [0, 9]);
    }

    #[test]
    fn errors_stand_and_are_no_violations() {
        let mut ledger = Ledger::default();
        let mut failed = verdict(&[]);
        failed.results = vec![finding("boom", Outcome::Error)];
        let delta = ledger.record(failed.clone(), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
        assert!(delta.appeared.is_empty() && delta.results.len() == 1, "reports want to know");
        assert!(ledger.record(failed, Lane::Change, Timestamp::UNIX_EPOCH).is_none());
        let delta = ledger.record(verdict(&[]), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
        assert!(delta.resolved.is_empty() && delta.results.is_empty());
    }

    #[test]
    fn what_was_recorded_before_is_not_told_again() {
        let (first, now) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH + jiff::Span::new().seconds(9));
        let recorded = |messages: &[&str]| stand("u", verdict(messages).results, first);
        let (key, uid) = (verdict(&[]).key, Arc::from("u"));
        // Recalled, then judged.
        let mut ledger = Ledger::default();
        assert!(ledger.recall(&key, &uid, recorded(&["x", "y"])).is_none());
        let delta = ledger.record(verdict(&["y", "z"]), Lane::Change, now).unwrap();
        assert_eq!(delta.results.iter().map(|one| one.since).collect::<Vec<_>>(), [first, now]);
        assert_eq!(told(Some(delta)), (texts(&["z"]), texts(&["x"])));
        // Judged, then recalled.
        let mut ledger = Ledger::default();
        ledger.record(verdict(&["y", "z"]), Lane::Change, now);
        let delta = ledger.recall(&key, &uid, recorded(&["x", "y"])).unwrap();
        assert_eq!(delta.results.iter().map(|one| one.since).collect::<Vec<_>>(), [first, now]);
        assert_eq!(told(Some(delta)), (texts(&["z"]), texts(&["x"])));
        assert_eq!((ledger.passed(), ledger.counts().values().sum::<usize>()), (2, 2));
        // Nothing is known of it on either side.
        assert!(Ledger::default().recall(&key, &uid, Vec::new()).is_none());
        assert_eq!(told(Ledger::gone(key, uid, recorded(&["x"]), Lane::Snapshot)), (vec![], texts(&["x"])));
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        let id = Id::new("u", &finding("x", Outcome::Fail));
        assert_eq!(Id::parse(&id.to_string()), Some(id));
        assert_ne!(id, Id::new("u", &finding("x", Outcome::Warn)));
        assert!(Id::parse("+0000000000000000000000000000001").is_none() && Id::parse("").is_none());
    }

    #[test]
    fn what_the_change_violated_is_told_once_and_never_stands() {
        let mut ledger = Ledger::default();
        let denied = |message: &str| Verdict { transitions: vec![finding(message, Outcome::Fail)], ..verdict(&["x"]) };
        let delta = ledger.record(denied("no"), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((delta.appeared.len(), delta.resolved.len(), delta.transitions.len()), (1, 0, 1));
        assert!(ledger.record(verdict(&["x"]), Lane::Change, Timestamp::UNIX_EPOCH).is_none(), "it is not resolved");
        assert_eq!(ledger.counts().values().sum::<usize>(), 1);
        let outdated = ledger.transitions(denied("no"), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((outdated.transitions.len(), outdated.results.len()), (1, 1), "what stands goes on to stand");
        assert!(ledger.transitions(verdict(&["x"]), Lane::Change, Timestamp::UNIX_EPOCH).is_none());
        ledger.forget(&verdict(&[]).key);
        assert!(ledger.transitions(denied("no"), Lane::Change, Timestamp::UNIX_EPOCH).unwrap().results.is_empty());
    }
}
