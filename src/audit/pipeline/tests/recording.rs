//! What is reported when a term of recording begins late, and when policies change.

use super::{lookups::read, *};
use crate::model::verdict::Source;

fn begin(reported: &Arc<Mutex<Vec<Delta>>>) -> Term {
    Term::Begin(Recorded::default(), Box::new(ReportSink(Arc::clone(reported))))
}

#[tokio::test]
async fn transitions_before_a_term_are_reported_when_it_begins_unless_another_leads() {
    for leads in [true, false] {
        let policies = load(&[("changes.rego", CHANGES)]);
        let live = Live::recording(policies, SETTINGS, None);
        if leads {
            live.term(Term::Awaited).await;
            live.result().await;
        }
        let kept = json!({"metadata": {"labels": {"keep": "yes"}}});
        live.sync(vec![ingress("n", "a", 1, "x"), object("Ingress", "n", "b", 1, &kept)]).await;
        live.until_evaluated(2).await;
        live.seen(ingress("n", "a", 2, "y")).await;
        live.gone(object("Ingress", "n", "b", 1, &kept)).await;
        live.until_evaluated(4).await;
        live.until(&[]).await;
        live.term(begin(&live.reported)).await;
        // Commands are carried out one after the other.
        live.result().await;
        live.seen(ingress("n", "a", 3, "z")).await;
        live.until_evaluated(5).await;
        live.until(&[]).await;
        let mut transitions = live.transitions();
        transitions.sort();
        let all = ["spec.host is fixed", "spec.host is fixed", "this must stay"];
        assert_eq!(transitions, if leads { &all[..] } else { &all[..1] });
    }
}

#[tokio::test]
async fn recorded_kinds_that_discovery_lacks_are_kept_until_it_is_believed() {
    let provisional = || Change::Discovered(Discovered { provisional: true, ..Discovered::default() });
    let recorded = || {
        let mut recorded = Recorded::default();
        for kind in ["Gone", "Late"] {
            let violation = crate::audit::ledger::Violation::sample(kind);
            let mut object = recorded_object(&Delta { results: vec![violation], ..Delta::sample() });
            (object.object.kind, object.object.api_version) = (kind.into(), "example.com/v1".into());
            (object.object.name, object.object.namespace) = (kind.into(), Some("n".into()));
            recorded.add(object);
        }
        recorded
    };
    let late = WatchScope { kind: Kind::sample("example.com", "lates", "Late"), namespace: None };
    for begins_late in [false, true] {
        let live = Live::recording(load(&[("hosts.rego", UNIQUE_HOST)]), SETTINGS, None);
        let begin = Term::Begin(recorded(), Box::new(ReportSink(Arc::clone(&live.reported))));
        let mut begin = Some(begin);
        if !begins_late {
            live.term(begin.take().unwrap()).await;
        }
        live.send(provisional()).await;
        live.sync_as(vec![ingress("n", "a", 1, "x")], true).await;
        live.until_evaluated(1).await;
        if let Some(begin) = begin {
            live.term(begin).await;
        }
        live.send(provisional()).await;
        live.send(Change::Discovered(Discovered { may_lack_former_kinds: true, ..Discovered::default() })).await;
        live.result().await;
        assert_eq!(reported(&live), [""; 0], "begins late: {begins_late}");
        live.send(Change::Appeared(late.clone())).await;
        live.send(Change::Discovered(Discovered::default())).await;
        let started = Instant::now();
        let mut resolved = Vec::new();
        while resolved.is_empty() {
            assert!(started.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
            resolved = reported(&live);
        }
        assert_eq!(resolved, ["- Gone: Gone"], "begins late: {begins_late}");
    }
}

#[tokio::test]
async fn recorded_violations_of_rules_that_need_a_namespace_stay_open_until_namespaces_are_read() {
    let pod = || object("Pod", "n", "p", 1, &json!({}));
    let namespace = |stage| object("Namespace", "", "n", 2, &json!({"metadata": {"labels": {"stage": stage}}}));
    let live = Live::recording(load(&[("prod.yaml", IN_PROD)]), SETTINGS, None);
    live.term(begin(&live.reported)).await;
    live.sync(vec![namespace("prod"), pod()]).await;
    live.until(&["p: p is in production"]).await;
    let recorded = || {
        let mut recorded = Recorded::default();
        live.reported.lock().unwrap().iter().for_each(|delta| recorded.add(recorded_object(delta)));
        recorded
    };
    for (stage, reported_in_the_end) in [("prod", &[][..]), ("test", &["- p: p is in production"])] {
        let again = Live::recording(load(&[("prod.yaml", IN_PROD)]), SETTINGS, None);
        again.term(Term::Begin(recorded(), Box::new(ReportSink(Arc::clone(&again.reported))))).await;
        for kind in ["Namespace", "Pod"] {
            again.send(Change::Appeared(scope(kind))).await;
        }
        let why = Unreadable { state: State::Failed, message: "down".to_owned() };
        again.send(Change::Unreadable(scope("Namespace"), why)).await;
        read(&again, &scope("Pod"), vec![pod()]).await;
        again.send(Change::Discovered(Discovered::default())).await;
        let unknown = "p: cannot be matched: its namespaceSelector needs the Namespace n, which was not found";
        again.until(&["p: p is in production", unknown]).await;
        assert_eq!(reported(&again), [""; 0], "{stage}");
        read(&again, &scope("Namespace"), vec![namespace(stage)]).await;
        again.until(if stage == "prod" { &["p: p is in production"] } else { &[] }).await;
        assert_eq!(reported(&again), reported_in_the_end, "{stage}");
    }
}

#[tokio::test]
async fn no_violation_is_older_than_its_object_whatever_was_recorded() {
    const CREATED: &str = "2026-11-21T10:00:00Z";
    let policies = || load(&[("items.rego", &items("is wrong"))]);
    let pod = |metadata: &Value| object("Pod", "n", "p", 1, &json!({"metadata": metadata, "spec": {"items": ["a"]}}));
    let created = json!({"creationTimestamp": CREATED});
    for (metadata, recorded_since, since) in [
        (&created, "1970-01-01T00:00:00Z", CREATED),
        (&created, "2026-11-21T09:58:59Z", CREATED),
        // The clocks of the API server and of kaudit differ.
        (&created, "2026-11-21T09:59:30Z", "2026-11-21T09:59:30Z"),
        (&created, "2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z"),
        (&json!({}), "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
    ] {
        for begins_late in [false, true] {
            let first = Live::start(policies(), SETTINGS);
            first.sync(vec![pod(metadata)]).await;
            first.until(&["p: item a is wrong"]).await;
            let deltas = std::mem::take(&mut *first.reported.lock().unwrap());
            first.kill().await;
            let mut object = recorded_object(&deltas[0]);
            object.results[0].since = recorded_since.parse().unwrap();
            // As in reports and Events.
            Arc::make_mut(&mut object.results[0].finding.rule).source = Source { file: "".into(), line: 0 };
            let mut recorded = Recorded::default();
            recorded.add(object);

            let live = Live::recording(policies(), SETTINGS, None);
            let mut begin = Some(Term::Begin(recorded, Box::new(ReportSink(Arc::clone(&live.reported)))));
            if !begins_late {
                live.term(begin.take().unwrap()).await;
            }
            live.sync(vec![pod(metadata)]).await;
            live.until_evaluated(1).await;
            if let Some(begin) = begin {
                live.term(begin).await;
            }
            live.until(&["p: item a is wrong"]).await;
            let result = live.result().await;
            assert_eq!(result.results[0].since, Some(since.parse().unwrap()), "{recorded_since}, late: {begins_late}");
            let deltas = std::mem::take(&mut *live.reported.lock().unwrap());
            assert!(deltas.iter().all(|delta| delta.appeared.is_empty() && delta.resolved.is_empty()), "{deltas:#?}");
            // The record is corrected, too.
            let again = deltas.last().map(|delta| delta.results[0].since.to_string());
            assert_eq!(again.as_deref(), Some(since), "late: {begins_late}");
        }
    }
}

/// Denies each item of an object, in words that are given.
fn items(words: &str) -> String {
    format!(
        r#"
package items
deny contains msg if {{
    some item in input.spec.items
    msg := sprintf("item %v {words}", [item])
}}
"#
    )
}

/// Counts the pods that an Ingress is about, in words that are given.
fn looking(words: &str) -> String {
    format!(
        r#"
package looking
deny contains msg if {{
    input.kind == "Ingress"
    some name
    data.inventory.namespace[input.metadata.namespace]["v1"].Pod[name]
    msg := sprintf("%v {words}", [name])
}}
"#
    )
}

fn pod(version: u64, phase: &str, items: &[&str]) -> Object {
    object("Pod", "n", "p", version, &json!({"spec": {"items": items}, "status": {"phase": phase}}))
}

#[tokio::test]
async fn a_reload_that_rewords_messages_reports_nothing() {
    let live = Live::start(load(&[("items.rego", &items("is wrong"))]), SETTINGS);
    live.sync(vec![pod(1, "Pending", &["a", "b"])]).await;
    live.until(&["p: item a is wrong", "p: item b is wrong"]).await;
    assert_eq!(reported(&live), ["+ p: item a is wrong", "+ p: item b is wrong"]);
    // No policy can see the status: the verdict is about this state, too.
    live.seen(pod(2, "Running", &["a", "b"])).await;
    live.reload(Ok(load(&[("items.rego", &items("must go"))]))).await;
    live.until(&["p: item a must go", "p: item b must go"]).await;
    let deltas = std::mem::take(&mut *live.reported.lock().unwrap());
    let [delta] = &deltas[..] else { panic!("{deltas:#?}") };
    assert!(delta.appeared.is_empty() && delta.resolved.is_empty());
    assert!(delta.results.iter().all(|result| result.id != result.fingerprint), "reports have the new words");

    // Real changes are reported, with their message and id.
    live.seen(pod(3, "Running", &["a", "c"])).await;
    live.until(&["p: item a must go", "p: item c must go"]).await;
    let deltas = std::mem::take(&mut *live.reported.lock().unwrap());
    let [change] = &deltas[..] else { panic!("{deltas:#?}") };
    assert_eq!((change.appeared.len(), change.resolved.len()), (1, 1));
    assert_eq!((&change.resolved[0].id, &change.resolved[0].since), (&delta.results[1].id, &delta.results[1].since));

    // The next process that records recognises what was recorded of it.
    let mut recorded = Recorded::default();
    recorded.add(recorded_object(change));
    live.term(Term::End).await;
    live.term(Term::Begin(recorded, Box::new(ReportSink(Arc::clone(&live.reported))))).await;
    live.result().await;
    assert_eq!(live.reported.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_reload_hides_no_change_that_comes_with_it() {
    let policies = |words: &str| load(&[("items.rego", &items(words)), ("looking.rego", &looking(words))]);
    let live = Live::start(policies("is wrong"), SETTINGS);
    live.sync(vec![pod(1, "", &["a"]), ingress("n", "i", 1, "x")]).await;
    live.until(&["i: p is wrong", "p: item a is wrong"]).await;
    live.seen(pod(2, "", &["b"])).await;
    live.until(&["i: p is wrong", "p: item b is wrong"]).await;
    reported(&live);
    // The object changes with the policies; and for a policy with lookups it is not known why its results changed.
    live.reload(Ok(policies("must go"))).await;
    live.seen(pod(3, "", &["c"])).await;
    live.until(&["i: p must go", "p: item c must go"]).await;
    let all = reported(&live);
    let has = |text: &str| all.iter().any(|change| change == text);
    assert!(has("+ i: p must go") && has("- i: p is wrong"), "{all:#?}");
    // In the old words or the new ones, whichever came first.
    let count = |start: &str| all.iter().filter(|change| change.starts_with(start)).count();
    assert_eq!((count("+ p: item c"), count("- p: item c"), count("+ p: item b"), count("- p: item b")), (1, 0, 0, 1));
}
