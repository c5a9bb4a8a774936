use super::*;
use crate::model::digest::Digest;
use crate::model::{object::Kind, rule_numbers::RuleNumber, verdict::OBJECT_RULE};

/// The state of an object unless a test says otherwise.
const STATE: Option<ObjectVersion> = Some(ObjectVersion::sample(1));

/// Returns the object of the verdicts here.
fn pod() -> ObjectRef {
    let Verdict { key, uid, .. } = verdict(&[]);
    ObjectRef::new(&key, &uid)
}

fn finding(message: &str, outcome: Outcome) -> Finding {
    Finding { outcome, ..Finding::sample(message) }
}

/// Returns rules of a policy `p`.
fn passed(rules: &[&str]) -> RuleNumbers {
    let mut numbers = RuleNumbers::default();
    for rule in rules {
        numbers.insert(RuleNumber::of(&"p".into(), &(*rule).into()));
    }
    numbers
}

fn verdict(messages: &[&str]) -> Verdict {
    let kind = Kind::sample("", "pods", "Pod");
    Verdict {
        key: ObjectKey { kind, namespace: Some("n".into()), name: "a".into(), copy: 0 },
        uid: "u".into(),
        results: messages.iter().map(|message| finding(message, Outcome::Fail)).collect(),
        transitions: Vec::new(),
        passed: passed(&["a", "b"]),
        unfinished: false,
        undecided: Vec::new(),
        shared: None,
        shared_differences: Vec::new(),
        policies: Digest::default(),
        took: std::time::Duration::ZERO,
    }
}

fn reported(delta: Option<Delta>) -> (Vec<String>, Vec<String>) {
    let texts = |list: Vec<Violation>| list.iter().map(|one| one.finding.message.to_string()).collect();
    delta.map_or_else(Default::default, |delta| (texts(delta.appeared), texts(delta.resolved)))
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn tells_each_violation_once_and_again_when_it_comes_back() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(
        reported(ledger.record(verdict(&["x", "y"]), STATE, &Owners::default(), Lane::Change, now)),
        (texts(&["x", "y"]), vec![])
    );
    assert!(ledger.record(verdict(&["x", "y"]), STATE, &Owners::default(), Lane::Change, now).is_none());
    assert_eq!(
        reported(ledger.record(verdict(&["y", "z"]), STATE, &Owners::default(), Lane::Change, now)),
        (texts(&["z"]), texts(&["x"]))
    );
    assert_eq!(
        reported(ledger.record(verdict(&["x"]), STATE, &Owners::default(), Lane::Change, now)),
        (texts(&["x"]), texts(&["y", "z"]))
    );
    assert_eq!(reported(ledger.forget(&verdict(&[]).key)), (vec![], texts(&["x"])));
    assert!(ledger.forget(&verdict(&[]).key).is_none());
    assert_eq!((ledger.passed(), ledger.evaluated(), ledger.counts().values().sum::<usize>()), (0, 0, 0));
}

#[test]
fn clean_objects_are_counted_and_not_kept() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    let record = |ledger: &mut Ledger, messages: &[&str]| {
        ledger.record(verdict(messages), STATE, &Owners::default(), Lane::Change, now)
    };
    let key = verdict(&[]).key;
    let numbers = |ledger: &Ledger| (ledger.objects().count(), ledger.evaluated(), ledger.passed(), ledger.knows(&key));
    for _ in 0..2 {
        assert!(record(&mut ledger, &[]).is_none());
        assert_eq!(numbers(&ledger), (0, 1, 2, true));
    }
    assert_eq!(reported(record(&mut ledger, &["x"])), (texts(&["x"]), vec![]));
    assert_eq!(numbers(&ledger), (1, 1, 2, true));
    assert_eq!(reported(record(&mut ledger, &[])), (vec![], texts(&["x"])));
    assert_eq!(numbers(&ledger), (0, 1, 2, true));
    let other = ObjectKey { name: "b".into(), ..key.clone() };
    ledger.rename(&key, other.clone());
    assert_eq!(numbers(&ledger), (0, 1, 2, false));
    assert!(ledger.knows(&other) && ledger.forget(&other).is_none());
    assert_eq!(numbers(&ledger), (0, 0, 0, false));
}

#[test]
fn recorded_violations_of_an_object_without_results_are_resolved() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    let clean = verdict(&[]);
    let (key, uid) = (clean.key.clone(), clean.uid.clone());
    ledger.record(clean, STATE, &Owners::default(), Lane::Change, now);
    let recorded = vec![Violation::new(&pod(), finding("x", Outcome::Fail), now)];
    let delta = ledger.recall(&key, &uid, recorded, &Owners::default()).unwrap();
    assert_eq!(delta.object.uid, uid);
    assert_eq!(reported(Some(delta)), (vec![], texts(&["x"])));
    assert_eq!((ledger.objects().count(), ledger.evaluated(), ledger.passed()), (0, 1, 2));
}

#[test]
fn objects_are_counted_by_rule_and_its_worst_result_for_them() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    let mut record = |name: &str, results: &[(&str, Outcome)], passing: &[&str]| {
        let found =
            |(rule, outcome): &(&str, Outcome)| Finding { outcome: *outcome, ..Finding::sample_of("p", rule, "x") };
        let key = ObjectKey { name: name.into(), ..verdict(&[]).key };
        let results = results.iter().map(found).collect();
        let verdict = Verdict { key: key.clone(), results, passed: passed(passing), ..verdict(&[]) };
        ledger.record(verdict, STATE, &Owners::default(), Lane::Change, now);
        ledger
            .rule_counts()
            .into_iter()
            .map(|([policy, rule], counts)| {
                let RuleCounts { applicable, failing, excused, error } = counts;
                (format!("{policy}/{rule}"), [applicable, failing, excused, error])
            })
            .collect::<BTreeMap<_, _>>()
    };
    let counts = |counts: &[(&str, [usize; 4])]| {
        counts.iter().map(|(rule, counts)| ((*rule).to_owned(), *counts)).collect::<BTreeMap<_, _>>()
    };
    record("clean", &[], &["a", "b"]);
    record("also clean", &[], &["a", "b"]);
    let both = record("bad", &[("a", Outcome::Skip), ("a", Outcome::Warn), ("b", Outcome::Error)], &["c"]);
    assert_eq!(both, counts(&[("p/a", [3, 1, 0, 0]), ("p/b", [3, 0, 0, 1]), ("p/c", [1, 0, 0, 0])]));
    let excused = record("bad", &[("a", Outcome::Skip)], &["b"]);
    assert_eq!(excused, counts(&[("p/a", [3, 0, 1, 0]), ("p/b", [3, 0, 0, 0])]));
    record("clean", &[], &["b"]);
    assert_eq!(record("also clean", &[], &[]), counts(&[("p/a", [1, 0, 1, 0]), ("p/b", [2, 0, 0, 0])]));
    assert_eq!(ledger.passed(), 2);
}

#[test]
fn keeps_the_time_of_first_sight() {
    let (mut ledger, first) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    ledger.record(verdict(&["x"]), STATE, &Owners::default(), Lane::Change, first);
    ledger.record(verdict(&["x", "y"]), STATE, &Owners::default(), Lane::Change, first + jiff::Span::new().seconds(9));
    let (_, known) = ledger.objects().next().unwrap();
    let seconds: Vec<_> = known.results.iter().map(|one| one.since.as_second()).collect();
    assert_eq!(seconds, [0, 9]);
}

#[test]
fn errors_are_kept_and_are_not_violations() {
    let mut ledger = Ledger::default();
    let mut failed = verdict(&[]);
    failed.results = vec![finding("boom", Outcome::Error)];
    let delta = ledger.record(failed.clone(), STATE, &Owners::default(), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
    assert!(delta.appeared.is_empty() && delta.results.len() == 1, "reports want to know");
    assert!(ledger.record(failed, STATE, &Owners::default(), Lane::Change, Timestamp::UNIX_EPOCH).is_none());
    let delta = ledger.record(verdict(&[]), STATE, &Owners::default(), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
    assert!(delta.resolved.is_empty() && delta.results.is_empty());
}

#[test]
fn violations_recorded_before_are_not_reported_again() {
    let (first, now) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH + jiff::Span::new().seconds(9));
    let recorded = |messages: &[&str]| stand(&pod(), verdict(messages).results, first);
    let (key, uid) = (verdict(&[]).key, Arc::from("u"));
    // Recalled, then evaluated.
    let mut ledger = Ledger::default();
    assert!(ledger.recall(&key, &uid, recorded(&["x", "y"]), &Owners::default()).is_none());
    let delta = ledger.record(verdict(&["y", "z"]), STATE, &Owners::default(), Lane::Change, now).unwrap();
    assert_eq!(delta.results.iter().map(|one| one.since).collect::<Vec<_>>(), [first, now]);
    assert_eq!(reported(Some(delta)), (texts(&["z"]), texts(&["x"])));
    // Evaluated, then recalled.
    let mut ledger = Ledger::default();
    ledger.record(verdict(&["y", "z"]), STATE, &Owners::default(), Lane::Change, now);
    let delta = ledger.recall(&key, &uid, recorded(&["x", "y"]), &Owners::default()).unwrap();
    assert_eq!(delta.results.iter().map(|one| one.since).collect::<Vec<_>>(), [first, now]);
    assert_eq!(reported(Some(delta)), (texts(&["z"]), texts(&["x"])));
    assert_eq!((ledger.passed(), ledger.counts().values().sum::<usize>()), (2, 2));
    // Nothing is known of it on either side.
    assert!(Ledger::default().recall(&key, &uid, Vec::new(), &Owners::default()).is_none());
    assert_eq!(reported(Ledger::gone(key, &uid, recorded(&["x"]), Lane::Snapshot)), (vec![], texts(&["x"])));
}

#[test]
fn open_violations_that_an_earlier_run_did_not_report_are_reported() {
    let (first, now) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH + jiff::Span::new().seconds(9));
    let (key, uid) = (verdict(&[]).key, Arc::from("u"));
    let recorded = || -> Vec<Violation> {
        let unreported = |known: Violation| Violation { unreported: true, ..known };
        stand(&pod(), verdict(&["x", "y"]).results, first).into_iter().map(unreported).collect()
    };
    let mut ledger = Ledger::default();
    ledger.recall(&key, &uid, recorded(), &Owners::default());
    let delta = ledger.record(verdict(&["y", "z"]), STATE, &Owners::default(), Lane::Change, now).unwrap();
    let since: Vec<_> = delta.appeared.iter().map(|one| one.since).collect();
    assert_eq!((reported(Some(delta)), since), ((texts(&["y", "z"]), vec![]), vec![first, now]));
    assert_eq!(reported(ledger.forget(&key)), (vec![], texts(&["y", "z"])), "by now both are reported");
    // Its appearance was not reported, so its resolution is not either; reports have to know.
    assert_eq!(reported(Ledger::gone(key, &uid, recorded(), Lane::Snapshot)), (vec![], vec![]));
}

#[test]
fn violations_that_may_have_ended_stay_or_end_silently() {
    let (first, now) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH + jiff::Span::new().seconds(9));
    let (key, uid) = (verdict(&[]).key, Arc::from("u"));
    let recorded = || -> Vec<Violation> {
        let doubtful = |known: Violation| Violation { may_have_ended: true, ..known };
        stand(&pod(), verdict(&["x", "y"]).results, first).into_iter().map(doubtful).collect()
    };
    // Evaluated before or after it is known what was recorded.
    let mut before = Ledger::default();
    before.recall(&key, &uid, recorded(), &Owners::default());
    let delta = before.record(verdict(&["y"]), STATE, &Owners::default(), Lane::Change, now).unwrap();
    let mut after = Ledger::default();
    after.record(verdict(&["y"]), STATE, &Owners::default(), Lane::Change, now);
    let late = after.recall(&key, &uid, recorded(), &Owners::default()).unwrap();
    for (mut ledger, delta) in [(before, delta), (after, late)] {
        assert_eq!(delta.results.iter().map(|one| one.since).collect::<Vec<_>>(), [first]);
        assert_eq!(reported(Some(delta)), (vec![], vec![]), "neither that y appeared nor that x is resolved");
        assert_eq!(reported(ledger.forget(&key)), (vec![], texts(&["y"])), "by now it is known that it was open");
    }
    assert_eq!(reported(Ledger::gone(key, &uid, recorded(), Lane::Snapshot)), (vec![], vec![]));
}

#[test]
fn ids_are_read_as_they_are_written() {
    let id = Id::new(&pod(), &finding("x", Outcome::Fail));
    assert_eq!(Id::parse(&id.to_string()), Some(id));
    assert_ne!(id, Id::new(&pod(), &finding("x", Outcome::Warn)));
    let project = ObjectRef { api_version: "project.openshift.io/v1".to_owned(), kind: "Project".to_owned(), ..pod() };
    assert_ne!(id, Id::new(&project, &finding("x", Outcome::Fail)), "one object that is served as two kinds");
    assert!(Id::parse("+0000000000000000000000000000001").is_none() && Id::parse("").is_none());
}

#[test]
fn violations_by_a_transition_are_reported_once_and_never_open() {
    let mut ledger = Ledger::default();
    let denied = |message: &str| Verdict { transitions: vec![finding(message, Outcome::Fail)], ..verdict(&["x"]) };
    let delta = ledger.record(denied("no"), STATE, &Owners::default(), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((delta.appeared.len(), delta.resolved.len(), delta.transitions.len()), (1, 0, 1));
    assert!(
        ledger.record(verdict(&["x"]), STATE, &Owners::default(), Lane::Change, Timestamp::UNIX_EPOCH).is_none(),
        "it is not resolved"
    );
    assert_eq!(ledger.counts().values().sum::<usize>(), 1);
    let outdated = ledger.transitions(denied("no"), Lane::Change, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((outdated.transitions.len(), outdated.results.len()), (1, 1), "open violations stay open");
    assert!(ledger.transitions(verdict(&["x"]), Lane::Change, Timestamp::UNIX_EPOCH).is_none());
    ledger.forget(&verdict(&[]).key);
    assert!(ledger.transitions(denied("no"), Lane::Change, Timestamp::UNIX_EPOCH).unwrap().results.is_empty());
}

/// What a ledger reports when an object is evaluated in this state.
fn report(ledger: &mut Ledger, messages: &[&str], state: Option<u64>) -> (usize, usize) {
    let state = state.map(ObjectVersion::sample);
    let delta = ledger.record(verdict(messages), state, &Owners::default(), Lane::Snapshot, Timestamp::UNIX_EPOCH);
    delta.map_or((0, 0), |delta| (delta.appeared.len(), delta.resolved.len()))
}

#[test]
fn rewording_is_expected_once_from_new_policies_for_the_same_state() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("p.rego"), "package p\ndeny contains \"x\" if input.kind == \"Pod\"").unwrap();
    let policies = PolicySet::load(&[directory.path().to_owned()]).unwrap();
    let judged = |state| {
        let mut ledger = Ledger::default();
        report(&mut ledger, &["a"], state);
        ledger.set_policies(&policies);
        ledger
    };
    assert_eq!(report(&mut judged(Some(1)), &["b"], Some(1)), (0, 0));
    assert_eq!(report(&mut judged(Some(1)), &["b"], Some(2)), (1, 1), "the object changed, too");
    assert_eq!(report(&mut judged(None), &["b"], None), (1, 1), "it is not known whether it changed");
    // Once it has been evaluated with the new policies, another message is another violation.
    let mut ledger = judged(Some(1));
    report(&mut ledger, &["a"], Some(1));
    assert_eq!(report(&mut ledger, &["b"], Some(1)), (1, 1));
    // No policy saw that the state was another.
    let mut ledger = judged(Some(1));
    ledger.holds_for(&verdict(&[]).key, Some(ObjectVersion::sample(2)));
    assert_eq!(report(&mut ledger, &["b"], Some(2)), (0, 0));
    // What was recorded by an earlier run is of a state that is not known.
    let mut ledger = Ledger::default();
    ledger.recall(
        &verdict(&[]).key,
        &"u".into(),
        stand(&pod(), verdict(&["a"]).results, Timestamp::UNIX_EPOCH),
        &Owners::default(),
    );
    ledger.set_policies(&policies);
    ledger.holds_for(&verdict(&[]).key, Some(ObjectVersion::sample(1)));
    assert_eq!(report(&mut ledger, &["b"], Some(1)), (1, 1));
}

#[test]
fn nothing_is_resolved_while_its_rule_is_undecided() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    let with_errors = |messages: &[&str], rules: &[[&str; 2]]| {
        let mut verdict = verdict(messages);
        verdict.undecided = rules.iter().map(|rule| rule.map(Arc::from)).collect();
        verdict.results.extend(rules.iter().map(|[policy, rule]| Finding {
            outcome: Outcome::Error,
            ..Finding::sample_of(policy, rule, "took longer than 1 s")
        }));
        verdict
    };
    let mut record = |verdict| reported(ledger.record(verdict, STATE, &Owners::default(), Lane::Change, now));
    let [policy, rule] = ["p", "deny"];
    record(verdict(&["x", "y"]));
    for error in [[policy, rule], ["kaudit", "object"]] {
        assert_eq!(record(with_errors(&[], &[error])), (vec![], vec![]), "{error:?}");
        // One that is found again is there once.
        assert_eq!(record(with_errors(&["x", "z"], &[error])), (texts(&["z"]), vec![]), "{error:?}");
        assert_eq!(record(verdict(&["x", "y"])), (vec![], texts(&["z"])), "{error:?}");
    }
    // The error of another rule decides nothing about this one.
    assert_eq!(record(with_errors(&["x"], &[[policy, "other"], ["q", rule]])), (vec![], texts(&["y"])));
    // An error that the same object always has is a decision.
    let decided = Verdict { undecided: Vec::new(), ..with_errors(&[], &[[policy, rule]]) };
    assert_eq!(record(decided), (vec![], texts(&["x"])));
}

#[test]
fn nothing_that_others_crowd_out_of_the_list_is_resolved() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    let with_rest = |messages: &[&str], rest: &str, of_object: bool| {
        let mut verdict = verdict(messages);
        let [policy, rule] = if of_object { OBJECT_RULE } else { ["p", "deny"] };
        verdict.results.push(Finding::sample_of(policy, rule, rest));
        verdict
    };
    let mut record = |verdict| reported(ledger.record(verdict, STATE, &Owners::default(), Lane::Change, now));
    for (of_object, what) in
        [(false, "more results of this rule for this object"), (true, "more results for this object")]
    {
        let rest = |count: usize| format!("{count} {what} are not listed");
        assert_eq!(record(verdict(&["x", "y"])), (texts(&["x", "y"]), vec![]));
        assert_eq!(record(with_rest(&["a", "x"], &rest(1), of_object)), (vec!["a".to_owned(), rest(1)], vec![]));
        // The count goes on with another number.
        assert_eq!(record(with_rest(&["a", "b"], &rest(2), of_object)), (texts(&["b"]), vec![]));
        // Within the bounds, all that is not there has ended.
        assert_eq!(record(verdict(&["b"])), (vec![], vec!["a".to_owned(), rest(2)]));
        assert_eq!(record(verdict(&[])), (vec![], texts(&["b"])));
    }
    // That of one rule decides nothing about another, nor do words that only look like a count.
    let mut other = with_rest(&["x"], "1 more results of this rule for this object are not listed", false);
    Arc::make_mut(&mut other.results[1].rule).name = "deny_other".into();
    assert_eq!(record(other.clone()).0.len(), 2);
    other.results.remove(0);
    assert_eq!(record(other), (vec![], texts(&["x"])));
    record(verdict(&["x"]));
    for words in ["more results for this object are not listed", "some more results for this object are not listed"] {
        assert_eq!(record(with_rest(&[], words, true)).1.first().map(String::as_str), Some("x"));
        record(verdict(&["x"]));
    }
}

#[test]
fn a_violation_that_is_excused_beside_an_error_of_its_rule_does_not_stay_open() {
    let (mut ledger, now) = (Ledger::default(), Timestamp::UNIX_EPOCH);
    let error = finding("took longer than 1 s", Outcome::Error);
    ledger.record(verdict(&["x"]), STATE, &Owners::default(), Lane::Change, now);
    let mut excused = verdict(&[]);
    excused.undecided = vec![[&error.rule.policy, &error.rule.name].map(Arc::clone)];
    excused.results.extend([finding("x", Outcome::Skip), error]);
    let key = excused.key.clone();
    ledger.record(excused, STATE, &Owners::default(), Lane::Change, now);
    let outcomes: Vec<_> = ledger.results_of(&key, &"u".into()).iter().map(|result| result.finding.outcome).collect();
    assert_eq!(outcomes, [Outcome::Skip, Outcome::Error]);
}
