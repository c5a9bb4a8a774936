//! Which receivers get what.

use std::collections::BTreeMap;

use super::*;
use crate::{
    audit::{
        ledger::{Violation, dependents::Labels},
        recorded::RecordedObject,
    },
    model::{object::ObjectRef, verdict::Severity},
};

const RECEIVERS: &str = "
receivers:
- {name: all, file: {path: FOLDER/all}}
- {name: severe, file: {path: FOLDER/severe}, match: {minSeverity: high}}
- {name: team-a, file: {path: FOLDER/a}, match: {labelSelector: {matchLabels: {team: a}}}}
- {name: team-z, file: {path: FOLDER/z}, match: {labelSelector: {matchLabels: {team: z}}}}
- {name: not-z, file: {path: FOLDER/n}, match: {labelSelector: {matchExpressions: [{key: team, operator: NotIn, values: [z]}]}}}
- {name: other, file: {path: FOLDER/other}, match: {policies: [other]}}
- {name: shop, file: {path: FOLDER/shop}, match: {namespaces: [shop]}}
- {name: ends, file: {path: FOLDER/ends}, match: {events: [resolved], minSeverity: high}}
";

/// A sink, and what each receiver of it gets.
struct NotifyScene {
    sink: NotifySink,
    incoming: Vec<(String, mpsc::UnboundedReceiver<Arc<Notification>>)>,
}

impl NotifyScene {
    fn new(recorded: &Recorded) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify.yaml");
        std::fs::write(&path, RECEIVERS.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
        let config = NotifyConfig::load(&path).unwrap();
        let (mut receivers, mut incoming) = (Vec::new(), Vec::new());
        for receiver in config.receivers() {
            let (sender, received) = mpsc::unbounded_channel();
            receivers.push((Arc::clone(receiver), sender));
            incoming.push((receiver.name.clone(), received));
        }
        Self { sink: NotifySink { receivers, notified: Notified::new(recorded) }, incoming }
    }

    /// Records a delta; returns the receivers that got a notification, and the delta for other recorders.
    fn record(&mut self, delta: &Delta) -> (Vec<String>, Delta) {
        let mut delta = delta.clone();
        self.sink.record(&mut delta);
        let got = self.incoming.iter_mut().filter_map(|(name, incoming)| {
            let number = std::iter::from_fn(|| incoming.try_recv().ok()).count();
            assert!(number <= 1, "{name}: {number}");
            (number == 1).then(|| name.clone())
        });
        (got.collect(), delta)
    }
}

fn labels(team: &str) -> Labels {
    Arc::new(BTreeMap::from([("team".to_owned(), team.to_owned())]))
}

fn violation(severity: Option<Severity>) -> Violation {
    let mut violation = Violation::sample("a");
    violation.finding.severity = severity;
    violation
}

/// What the next run reads from Events or reports.
fn recorded(violations: Vec<Violation>) -> Recorded {
    let mut recorded = Recorded::default();
    recorded.add(recorded_in(None, "u", violations));
    recorded
}

fn recorded_in(namespace: Option<&str>, uid: &str, results: Vec<Violation>) -> RecordedObject {
    let (api_version, kind) = ("v1".to_owned(), "Pod".to_owned());
    let object = ObjectRef {
        cluster: None,
        api_version,
        kind,
        namespace: namespace.map(Arc::from),
        name: "a".into(),
        uid: uid.into(),
    };
    RecordedObject { object, results }
}

/// A violation that records say was reported to these receivers.
fn notified(names: &str) -> Violation {
    Violation { notified: Some(names.into()), ..violation(Some(Severity::Critical)) }
}

/// The resolution of a violation in a namespace.
fn end_in(namespace: Option<&str>, violation: Violation) -> Delta {
    let mut delta = Delta { resolved: vec![violation], ..Delta::sample() };
    Arc::make_mut(&mut delta.object).namespace = namespace.map(Arc::from);
    delta
}

#[test]
fn forged_records_notify_no_receiver_that_does_not_match() {
    for namespace in [Some("evil"), None] {
        for names in ["shop", "other", "shop,other,unknown"] {
            let mut recorded = Recorded::default();
            recorded.add(recorded_in(namespace, "u", vec![notified(names)]));
            let (got, _) = NotifyScene::new(&recorded).record(&end_in(namespace, notified(names)));
            assert!(got.is_empty(), "{namespace:?} {names}: {got:?}");
        }
    }
    // A receiver that matches gets it as usual.
    let mut recorded = Recorded::default();
    recorded.add(recorded_in(Some("shop"), "u", vec![notified("shop,other")]));
    assert_eq!(NotifyScene::new(&recorded).record(&end_in(Some("shop"), notified("shop,other"))).0, ["shop"]);
}

#[test]
fn a_record_of_the_same_violation_in_another_namespace_suppresses_no_resolution() {
    for (first, second) in [("shop", "evil"), ("evil", "shop")] {
        let mut recorded = Recorded::default();
        for namespace in [first, second] {
            let names = if namespace == "shop" { "all,shop" } else { "none" };
            recorded.add(recorded_in(Some(namespace), namespace, vec![notified(names)]));
        }
        let mut scene = NotifyScene::new(&recorded);
        assert!(scene.record(&end_in(Some("evil"), notified("none"))).0.is_empty());
        assert_eq!(scene.record(&end_in(Some("shop"), notified("all,shop"))).0, ["all", "shop"]);
    }
}

#[test]
fn a_resolution_goes_to_the_receivers_of_the_appearance_whatever_changed_since() {
    let severities = [Some(Severity::High), Some(Severity::Low), None];
    let teams = [Some(labels("a")), Some(labels("z")), None];
    let beginnings = severities.iter().flat_map(|severity| teams.iter().map(move |team| (*severity, team.clone())));
    let states: Vec<_> = beginnings.collect();
    for (severity, team) in &states {
        for (severity_then, team_then) in &states {
            for restarts in [0, 1, 2] {
                let mut scene = NotifyScene::new(&Recorded::default());
                let began = violation(*severity);
                let appeared = Delta {
                    labels: team.clone(),
                    appeared: vec![began.clone()],
                    results: vec![began],
                    ..Delta::sample()
                };
                let (receivers, mut delta) = scene.record(&appeared);
                assert!(receivers.contains(&"all".to_owned()) && !receivers.contains(&"other".to_owned()));
                assert_eq!(receivers.contains(&"severe".to_owned()), *severity == Some(Severity::High));
                for _ in 0..restarts {
                    assert_eq!(delta.appeared[0].notified, delta.results[0].notified);
                    scene = NotifyScene::new(&recorded(delta.results.clone()));
                    // Its reports are written again.
                    let again = Delta { appeared: Vec::new(), results: vec![violation(*severity_then)], ..delta };
                    let (receivers_again, written) = scene.record(&again);
                    assert!(receivers_again.is_empty(), "{receivers_again:?}");
                    delta = Delta { appeared: written.results.clone(), ..written };
                }
                let resolved =
                    Delta { labels: team_then.clone(), resolved: vec![violation(*severity_then)], ..Delta::sample() };
                let (receivers_then, _) = scene.record(&resolved);
                assert_eq!(
                    receivers, receivers_then,
                    "{severity:?} {team:?} {severity_then:?} {team_then:?} {restarts}"
                );
            }
        }
    }
}

#[test]
fn without_recorded_receivers_a_resolution_goes_to_those_that_match() {
    let mut scene = NotifyScene::new(&recorded(vec![violation(None)]));
    let resolved =
        Delta { labels: Some(labels("a")), resolved: vec![violation(Some(Severity::Critical))], ..Delta::sample() };
    let (receivers, _) = scene.record(&resolved);
    assert_eq!(receivers, ["all", "severe", "team-a", "not-z", "ends"]);
    // Nothing is kept about it now, and it may appear again.
    assert!(scene.sink.notified.of(&None, resolved.resolved[0].id).is_none());
}

#[tokio::test(start_paused = true)]
async fn notifications_that_are_not_sent_before_the_end_count_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (path, disk) = (folder.path().join("notify.yaml"), folder.path().join("disk"));
    let receiver = format!("receivers: [{{name: down, file: {{path: {}/out}}}}]", disk.display());
    std::fs::write(&path, receiver).unwrap();
    std::fs::create_dir(&disk).unwrap();
    let (pipeline, _commands) = mpsc::channel(1);
    let settings = NotifySettings {
        config: NotifyConfig::load(&path).unwrap().into(),
        namespace: "kaudit".to_owned(),
        audit_name: "kaudit".to_owned(),
        pipeline,
        metrics: Arc::default(),
    };
    std::fs::remove_dir_all(&disk).unwrap();
    let health = watch::Sender::new(Health::default());
    let (mut sink, runs) = start(settings, || health.clone());
    sink.record(&mut Delta { appeared: vec![violation(Some(Severity::High))], ..Delta::sample() });
    drop(sink);
    futures::future::join_all(runs).await;
    assert_eq!(health.borrow().lost, "1 notifications were not sent to down");
}
