use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;

use super::{
    super::{
        annotations::MESSAGE,
        queue::{EventContent, ViolationChange},
        writer::EventWriter,
    },
    *,
};
use crate::model::verdict::{Finding, Outcome, RuleDescriptor, RuleInfo, Severity};

const FIRST: &str = "2026-11-21T10:00:00.123456789Z";
const SECOND: &str = "2026-11-21T10:00:01Z";

fn finding_of(message: &str, outcome: Outcome) -> Finding {
    let rule = Arc::new(RuleDescriptor::named("pod.security", "deny"));
    Finding { rule, outcome, ..Finding::sample(message) }
}

/// An Event about a violation of [`ObjectRef::sample`].
fn event(finding: &Finding, reason: &str, since: &str) -> Event {
    let object = ObjectRef::sample();
    let violation = Violation::new(&object, finding.clone(), since.parse().unwrap());
    let lifecycle = if reason == RESOLVED { Lifecycle::Resolved } else { Lifecycle::Appeared };
    let mut annotations = annotations::of(&violation, lifecycle);
    annotations.insert(AUDIT.to_owned(), "kaudit/kaudit".to_owned());
    let metadata = ObjectMeta {
        name: Some(lifecycle_name_of(lifecycle, violation.id, violation.since)),
        namespace: Some("shop".to_owned()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    Event { metadata, reason: Some(reason.to_owned()), regarding: Some((&object).into()), ..Event::default() }
}

/// Sets an annotation of an Event; `None` removes it.
fn annotate(event: &mut Event, name: &str, value: Option<String>) {
    let annotations = event.metadata.annotations.as_mut().unwrap();
    annotations.remove(name);
    annotations.extend(value.map(|value| (name.to_owned(), value)));
}

fn objects(events: impl IntoIterator<Item = Event>) -> Vec<RecordedObject> {
    written(events).recorded.objects().cloned().collect()
}

/// Adds Events as the server delivers them.
fn appearances(events: impl IntoIterator<Item = Event>) -> Appearances {
    let mut appearances = Appearances::default();
    for event in events {
        let json = serde_json::to_string(&event).unwrap();
        appearances.add(serde_json::from_str(&json).unwrap(), "kaudit/kaudit");
    }
    appearances
}

fn written(events: impl IntoIterator<Item = Event>) -> WrittenEvents {
    appearances(events).written(EventFilter::All)
}

/// The same for a run that writes no Events about resolutions.
fn only_appearances(events: impl IntoIterator<Item = Event>) -> WrittenEvents {
    appearances(events).written(EventFilter::Appeared)
}

/// A server that refuses to list Events with this status for so many seconds, and then has none.
fn refusing(code: u16, seconds: u64) -> Client {
    let began = tokio::time::Instant::now();
    let answer = move |request: http::Request<kube::client::Body>| async move {
        let is_list = request.uri().path().ends_with("/events");
        let refuses = is_list && began.elapsed().as_secs() < seconds;
        let body = match (is_list, refuses) {
            (true, true) => {
                serde_json::json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Forbidden", "message": "no"})
            }
            (true, false) => {
                serde_json::json!({"kind": "EventList", "metadata": {"resourceVersion": "1"}, "items": []})
            }
            (false, _) => {
                serde_json::json!({"major": "1", "minor": "36", "gitVersion": "", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
            }
        };
        let answer = http::Response::builder().status(if refuses { code } else { 200 });
        Ok::<_, std::convert::Infallible>(answer.body(axum::body::Body::from(body.to_string())).unwrap())
    };
    Client::new(tower::service_fn(answer), "default")
}

#[tokio::test(start_paused = true)]
async fn a_short_refusal_is_retried_and_a_lasting_one_is_accepted() {
    use crate::{metrics::Metrics, record::earlier::Attempts};
    let metrics = Metrics::default();
    for (attempts, refused_for, waits) in [
        (Attempts::Patient, 5, 5..15),
        (Attempts::Limited, 5, 5..15),
        (Attempts::Patient, u64::MAX, 20..30),
        (Attempts::Limited, u64::MAX, 20..30),
        (Attempts::One, u64::MAX, 0..1),
    ] {
        let (client, began) = (refusing(403, refused_for), tokio::time::Instant::now());
        let records = EarlierRecords { client: &client, metrics: &metrics, recorder: "events", attempts };
        assert!(load(&records, &[], "kaudit/kaudit", EventFilter::All).await.is_ok());
        let seconds = began.elapsed().as_secs();
        assert!(waits.contains(&seconds), "{attempts:?} {refused_for}: {seconds}");
    }
}

#[test]
fn without_resolution_events_only_violations_in_reports_are_known_to_be_open() {
    let (a, b) = (finding_of("a", Outcome::Fail), finding_of("b", Outcome::Fail));
    let doubtful = |recorded: &Recorded| -> Vec<(String, bool)> {
        let results = recorded.objects().flat_map(|object| &object.results);
        results.map(|result| (result.finding.message.to_string(), result.may_have_ended)).collect()
    };
    let events = || only_appearances([event(&a, APPEARED, FIRST), event(&b, APPEARED, FIRST)]);
    let alone = reconcile(Recorded::default(), events(), Timestamp::MIN);
    let mut both = doubtful(&alone);
    both.sort();
    assert_eq!(both, [("a".to_owned(), true), ("b".to_owned(), true)]);
    let reported = written([event(&a, APPEARED, FIRST)]).recorded;
    let with_report = reconcile(reported, events(), Timestamp::MIN);
    assert_eq!(doubtful(&with_report), [("a".to_owned(), false), ("b".to_owned(), true)]);
    assert!(with_report.objects().flat_map(|object| &object.results).all(|result| !result.unreported));
    // It was resolved, without an Event, and appeared again.
    let again = written([event(&a, APPEARED, SECOND)]).recorded;
    let recorded = reconcile(again, events(), Timestamp::MIN);
    let result = &recorded.objects().next().unwrap().results[0];
    assert_eq!((result.unreported, result.since), (true, SECOND.parse().unwrap()));
}

#[test]
fn events_that_others_may_have_written_are_ignored() {
    let a = finding_of("a", Outcome::Fail);
    let changed = |change: fn(&mut Event)| {
        let mut event = event(&a, APPEARED, FIRST);
        change(&mut event);
        event
    };
    let wrong = [
        changed(|event| event.metadata.name = Some("kaudit-601d5476e2ccfe2c87a2bba7a3226597".to_owned())),
        changed(|event| event.metadata.name = None),
        changed(|event| event.metadata.namespace = Some("attacker".to_owned())),
        changed(|event| event.reason = Some(RESOLVED.to_owned())),
        // Another time than the one in its name.
        changed(|event| {
            annotate(event, "kaudit.dev/since", Some("2020-01-01T00:00:00Z".to_owned()));
        }),
    ];
    assert!(objects(wrong).is_empty());
    // With the right name in another namespace it is about an object there, and about no other.
    let elsewhere = changed(|event| {
        event.metadata.namespace = Some("attacker".to_owned());
        event.regarding.as_mut().unwrap().namespace = Some("attacker".to_owned());
    });
    let reported = written([event(&a, APPEARED, SECOND)]).recorded;
    let recorded = reconcile(reported, written([elsewhere]), Timestamp::MIN);
    let own = recorded.objects().find(|object| object.object.namespace.as_deref() == Some("shop")).unwrap();
    assert_eq!((own.results[0].unreported, own.results[0].since), (true, SECOND.parse().unwrap()));
}

#[test]
fn the_events_of_one_namespace_take_a_bounded_share_of_the_memory() {
    let small = |number: usize, namespace: &str| {
        // The violation of a resolution is not read: the digest of a long message takes long to compute.
        let mut event = event(&finding_of(&format!("{number}"), Outcome::Fail), RESOLVED, FIRST);
        event.metadata.namespace = Some(namespace.to_owned());
        event.regarding.as_mut().unwrap().namespace = Some(namespace.to_owned());
        event
    };
    let stored =
        |event: &Event| -> StoredEvent { serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap() };
    let large = |number: usize, namespace: &str| {
        let mut event = stored(&small(number, namespace));
        event.metadata.annotations.get_or_insert_default().insert(MESSAGE.to_owned(), "x".repeat(EVENT_BYTES - 256));
        event
    };
    let add = |appearances: &mut Appearances, event| appearances.add(event, "kaudit/kaudit");
    // Events that are larger than any of kaudit are ignored: large in an annotation, in a name, in the note of an
    // earlier version.
    let mut annotated = small(0, "shop");
    annotate(&mut annotated, "kaudit.dev/receivers", Some("r".repeat(1_300_000)));
    let mut long_name = small(1, "shop");
    long_name.regarding.as_mut().unwrap().name = Some("n".repeat(1_300_000));
    let mut long_note = Event { note: Some("x".repeat(1_300_000)), ..small(2, "shop") };
    annotate(&mut long_note, MESSAGE, None);
    let too_large = appearances([annotated, long_name, long_note]);
    assert_eq!((too_large.by_violation.len(), too_large.bytes), (0, 0));
    // One namespace cannot take the share of another.
    let mut found = Appearances::default();
    (0..1_200).for_each(|number| add(&mut found, large(number, "attacker")));
    add(&mut found, stored(&small(2_000, "shop")));
    let is_in = |(_, namespace, _): &&EventSubject, name| namespace.as_deref() == Some(name);
    let kept = |name| found.by_violation.keys().filter(|subject| is_in(subject, name)).count();
    assert!((900..1_100).contains(&kept("attacker")), "{}", kept("attacker"));
    assert_eq!(kept("shop"), 1);
    assert!(found.left_out.iter().eq(["attacker"]) && found.bytes <= NAMESPACE_BYTES + 2 * OVERHEAD);
    let mut found = Appearances::default();
    (0..4_500).for_each(|number| add(&mut found, large(number, &format!("n{}", number % 5))));
    assert!(found.bytes <= TOTAL_BYTES && found.left_out.len() == 5, "{} {:?}", found.bytes, found.left_out);
    // Events that were read before count, as namespaces are read one after the other.
    let mut next = Appearances { bytes: found.bytes, ..Appearances::default() };
    add(&mut next, large(0, "last"));
    found.join(next);
    assert!(found.left_out.contains("last") && found.bytes <= TOTAL_BYTES);
}

#[tokio::test]
async fn an_event_holds_all_that_a_notification_of_the_resolution_needs() {
    let unreachable = |_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no answer"))
    };
    let writer = EventWriter {
        client: Client::new(tower::service_fn(unreachable), "default"),
        instance: "kaudit-local".to_owned(),
        own: ObjectRef::default(),
        audit: "kaudit/kaudit".to_owned(),
    };
    let object = Arc::new(ObjectRef::sample());
    let titled = RuleInfo { title: Some("Root: no".into()), id: Some("A-1".into()), category: None };
    let any_text = "resolved: \u{0}\"\n: b (and 3 dependents)".repeat(80);
    for (dependents, about, message) in [
        (0, titled.clone(), "a: b (and more)"),
        (1, RuleInfo { id: None, ..titled }, &*any_text),
        (7, RuleInfo::default(), ""),
    ] {
        let info = Arc::new(RuleInfo { category: Some("Pods".into()), ..about.clone() });
        let finding = Finding {
            rule: Arc::new(RuleDescriptor { info, ..RuleDescriptor::named("pod/security: a", "deny") }),
            severity: Some(Severity::High),
            ..finding_of(message, Outcome::Warn)
        };
        let violation = Violation::new(&ObjectRef::sample(), finding, FIRST.parse().unwrap());
        let violation = Violation { dependents, notified: Some("a,b".into()), ..violation };
        let change = ViolationChange {
            object: Arc::clone(&object),
            violation: violation.clone(),
            lifecycle: Lifecycle::Appeared,
            at: SECOND.parse().unwrap(),
        };
        // The note is for people.
        let event = Event { note: None, ..writer.event(&EventContent::Violation(Box::new(change))) };
        let [object] = &objects([event])[..] else { panic!() };
        assert_eq!(object.results, [Violation { dependents: 0, ..violation }]);
    }
}

#[test]
fn a_violation_that_was_not_resolved_since_its_appearance_is_open() {
    let (a, b) = (finding_of("a: b", Outcome::Warn), finding_of("c/d", Outcome::Fail));
    let [object] = &objects([event(&a, APPEARED, FIRST), event(&b, APPEARED, SECOND)])[..] else { panic!() };
    assert_eq!(
        (object.object.api_version.as_str(), object.object.kind.as_str(), &*object.object.name),
        ("apps/v1", "Deployment", "api")
    );
    let mut results = object.results.clone();
    results.sort_by_key(|result| result.since);
    assert_eq!(results[0], Violation::new(&ObjectRef::sample(), a.clone(), FIRST.parse().unwrap()));
    assert_eq!(results[1].finding, b);
    // In any order.
    assert!(objects([event(&a, RESOLVED, FIRST), event(&a, APPEARED, FIRST)]).is_empty());
    assert!(objects([event(&a, RESOLVED, FIRST)]).is_empty(), "the server has forgotten that it appeared");
}

#[test]
fn the_event_that_was_written_last_decides() {
    let a = finding_of("a", Outcome::Fail);
    let since = |events: &[(&str, &str)]| {
        let events = events.iter().zip(9..).map(|((reason, since), version)| {
            let mut event = event(&a, reason, since);
            event.metadata.resource_version = Some(format!("{version}"));
            event
        });
        // The server lists them by name.
        let events: Vec<_> = events.collect();
        let open = objects(events.into_iter().rev());
        open.first().map(|object| object.results[0].since.to_string())
    };
    // Even if the clock was set back in between.
    assert_eq!(since(&[(APPEARED, SECOND), (RESOLVED, SECOND), (APPEARED, FIRST)]).unwrap(), FIRST);
    // A run was killed while it wrote the first Event, so the next run did not find it.
    let twice = [(APPEARED, FIRST), (APPEARED, SECOND), (RESOLVED, SECOND)];
    assert_eq!((since(&twice[..2]).unwrap(), since(&twice)), (SECOND.to_owned(), None));
    assert_eq!(since(&[(APPEARED, FIRST), (APPEARED, SECOND), (RESOLVED, FIRST)]).unwrap(), SECOND);
}

#[test]
fn events_take_precedence_over_an_outdated_report() {
    let a = finding_of("a", Outcome::Fail);
    let reported = |since| written([event(&a, APPEARED, since)]).recorded;
    let reconciled = |reported, events: Vec<Event>| {
        let recorded = reconcile(reported, written(events), Timestamp::MIN);
        let object = recorded.objects().next().unwrap();
        (object.results[0].unreported, object.results[0].since)
    };
    let (first, second): (Timestamp, Timestamp) = (FIRST.parse().unwrap(), SECOND.parse().unwrap());
    assert_eq!(reconciled(reported(SECOND), vec![event(&a, APPEARED, FIRST)]), (false, first));
    let over = || vec![event(&a, APPEARED, FIRST), event(&a, RESOLVED, FIRST)];
    assert_eq!(reconciled(reported(SECOND), over()), (true, second));
    // There is already an Event with this name.
    let (unreported, since) = reconciled(reported(FIRST), over());
    assert!(unreported && since > second, "{since}");
}

#[test]
fn transitions_and_the_events_of_others_are_ignored() {
    let a = finding_of("a", Outcome::Fail);
    let without = |name: &str| {
        let mut event = event(&a, APPEARED, FIRST);
        annotate(&mut event, name, None);
        event
    };
    let needed = ["violation", "since", "audit", "policy", "rule", "result"];
    assert!(objects(needed.map(|name| without(&format!("kaudit.dev/{name}")))).is_empty());
    let mut other = event(&a, APPEARED, FIRST);
    annotate(&mut other, AUDIT, Some("team/kaudit".to_owned()));
    assert!(objects([other]).is_empty());
    assert!(objects([event(&a, "EventsHeldBack", FIRST)]).is_empty());
}

#[test]
fn a_violation_with_a_shortened_message_keeps_its_id() {
    let whole = finding_of(&"x".repeat(5_000), Outcome::Fail);
    let [object] = &objects([event(&whole, APPEARED, FIRST)])[..] else { panic!() };
    let Violation { id, finding, .. } = &object.results[0];
    assert_eq!((*id, finding.message.len()), (Id::new(&ObjectRef::sample(), &whole), 4_096));
}

#[test]
fn the_message_is_read_from_the_note_of_an_event_of_an_earlier_version() {
    let a = finding_of("a: b", Outcome::Fail);
    let mut earlier = event(&a, APPEARED, FIRST);
    annotate(&mut earlier, MESSAGE, None);
    earlier.note = Some("pod.security/deny: a: b (and 2 dependents)".to_owned());
    let [object] = &objects([earlier])[..] else { panic!() };
    assert_eq!(object.results, [Violation::new(&ObjectRef::sample(), a, FIRST.parse().unwrap())]);
}

#[test]
fn violations_that_the_previous_run_wrote_no_event_about_are_unreported() {
    let (a, b, c) = (finding_of("a", Outcome::Fail), finding_of("b", Outcome::Fail), finding_of("c", Outcome::Fail));
    let reported = || written([event(&a, APPEARED, FIRST), event(&b, APPEARED, FIRST)]).recorded;
    let made = |at: &str, mut event: Event| {
        event.metadata.creation_timestamp = Some(Time(at.parse().unwrap()));
        event
    };
    let others = |at| made(at, Event::default());
    let mine = || [event(&b, APPEARED, FIRST), made(SECOND, event(&c, APPEARED, SECOND))];
    let unreported = |recorded: &Recorded| -> Vec<String> {
        let results = recorded.objects().flat_map(|object| &object.results).filter(|result| result.unreported);
        results.map(|result| result.finding.message.to_string()).collect()
    };
    let reconcile = |reported, events| reconcile(reported, events, Timestamp::MAX);
    let recorded = reconcile(reported(), written(mine()));
    let objects: Vec<_> = recorded.objects().collect();
    assert_eq!((objects.len(), objects[0].results.len()), (1, 3), "one object with a, b and c");
    assert_eq!(unreported(&recorded), ["a"]);
    // The oldest Event of the server is newer, or there is none.
    for events in [vec![others("2026-11-21T10:00:06Z")], vec![]] {
        let recorded = reconcile(reported(), written(events));
        assert!(unreported(&recorded).is_empty() && recorded.objects().count() == 1);
    }
    let long_ago = others("2026-11-20T10:00:00Z");
    let recorded = reconcile(reported(), written([long_ago, others("2026-11-21T10:00:06Z")]));
    assert_eq!(unreported(&recorded).len(), 2, "it keeps them for days");
    assert!(unreported(&reconcile(Recorded::default(), written(mine()))).is_empty());
    // No Event at all was written: that is certain for as long as the server keeps Events.
    let first: Timestamp = FIRST.parse().unwrap();
    assert_eq!(unreported(&super::reconcile(reported(), written([]), first)).len(), 2);
    assert_eq!(unreported(&super::reconcile(reported(), written([]), SECOND.parse().unwrap())).len(), 0);
}
