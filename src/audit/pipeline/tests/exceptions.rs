//! Exceptions that come, go and end while the pipeline runs.

use super::*;
use crate::{audit::result::Summary, model::exception::ExceptionState};

const EXCUSABLE: &str = "# METADATA\n# custom: {excusable: true}\npackage bad\n\nimport rego.v1\n\n\
                         deny contains \"bad\" if input.metadata.labels.bad\n";

fn exceptions() -> WatchScope {
    let mut kind = Kind::sample("kaudit.dev", "policyexceptions", "PolicyException");
    Arc::make_mut(&mut kind).version = "v1alpha1".to_owned();
    WatchScope { kind, namespace: None }
}

fn exception(namespace: &str, version: u64, expires: &str) -> Object {
    let metadata = json!({"name": "e", "namespace": namespace, "uid": "e", "resourceVersion": version.to_string()});
    let spec = json!({"policies": [{"name": "bad"}], "reason": "legacy", "expiresAt": expires});
    let object = json!({"metadata": metadata, "spec": spec});
    Received::read(&object.to_string()).into_object(&exceptions().kind, Secrets::Full, 0).unwrap()
}

fn bad(namespace: &str, name: &str) -> Object {
    object("Pod", namespace, name, 1, &json!({"metadata": {"labels": {"bad": "yes"}}}))
}

async fn start(objects: Vec<Object>, known: Vec<Object>) -> Live {
    let live = Live::start(load(&[("bad.rego", EXCUSABLE)]), SETTINGS);
    live.send(Change::Appeared(exceptions())).await;
    live.send(Change::Listing(exceptions())).await;
    for exception in known {
        live.send(Change::Seen(exceptions(), exception)).await;
    }
    live.send(Change::Synced(exceptions())).await;
    live.sync(objects).await;
    live
}

fn outcomes(result: &AuditResult) -> Vec<String> {
    let entries = result.results.iter();
    let mut all: Vec<_> = entries.map(|entry| format!("{} {}", entry.resource.name, entry.result.word())).collect();
    all.sort();
    all
}

async fn until_outcomes(live: &Live, wanted: &[&str]) {
    let begin = Instant::now();
    loop {
        let found = outcomes(&live.result().await);
        if found == wanted {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn excused_violations_are_resolved_and_appear_again_when_the_exception_is_deleted() {
    let live = start(vec![bad("n", "a"), bad("m", "b")], vec![]).await;
    until_outcomes(&live, &["a fail", "b fail"]).await;
    assert_eq!(reported(&live), ["+ a: bad", "+ b: bad"]);
    live.send(Change::Seen(exceptions(), exception("n", 2, "2999-01-01"))).await;
    until_outcomes(&live, &["a skip", "b fail"]).await;
    live.send(Change::Gone(exceptions(), exception("n", 2, "2999-01-01"))).await;
    until_outcomes(&live, &["a fail", "b fail"]).await;
    assert_eq!(reported(&live), ["+ a: bad", "- a: bad"]);
    assert_eq!(live.metric("kaudit_evaluations_total"), 2, "nothing is evaluated for it");
    assert_eq!(live.result().await.summary.fail, 2);
}

#[tokio::test]
async fn violations_excused_from_the_start_are_never_reported_until_the_exception_ends() {
    let soon = Timestamp::now() + Duration::from_secs(3);
    let live = start(vec![bad("n", "a")], vec![exception("n", 1, &soon.to_string())]).await;
    until_outcomes(&live, &["a skip"]).await;
    let result = live.result().await;
    assert_eq!((result.summary.skip, result.summary.fail, result.exceptions[0].results), (1, 0, 1));
    assert_eq!(result.results[0].excuse.as_ref().unwrap().reason, "legacy".into());
    assert!(result.coverage.iter().any(|kind| kind.kind == "PolicyException" && kind.objects == 1));
    assert_eq!(reported(&live), <[&str; 0]>::default());
    until_outcomes(&live, &["a fail"]).await;
    assert_eq!(reported(&live), ["+ a: bad"]);
    assert_eq!(live.result().await.exceptions[0].message, format!("expired at {soon:.0}"));
}

#[tokio::test]
async fn exceptions_read_after_a_manifest_excuse_it() {
    let live =
        Live::start(load(&[("bad.rego", EXCUSABLE)]), PipelineSettings { initial: InitialObjects::Stream, ..SETTINGS });
    let pods = scope("Pod");
    live.send(Change::Appeared(pods.clone())).await;
    for name in ["a", "b"] {
        live.send(Change::Seen(pods.clone(), bad("n", name))).await;
    }
    live.until_evaluated(2).await;
    live.send(Change::Appeared(exceptions())).await;
    let mut only_b = exception("n", 1, "2999-01-01");
    let spec = json!({"policies": [{"name": "bad"}], "reason": "r", "expiresAt": "2999-01-01",
        "match": {"names": ["b"], "labelSelector": {"matchLabels": {"bad": "yes"}}}});
    let json = json!({"apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "metadata": {"name": "e", "namespace": "n"}, "spec": spec});
    only_b.body = crate::model::body::Body::plain(json.to_string().as_bytes());
    live.send(Change::Seen(exceptions(), only_b)).await;
    until_outcomes(&live, &["a fail", "b skip"]).await;
}

fn exception_for(version: u64, matching: &Value) -> Object {
    let spec = json!({"policies": [{"name": "bad"}], "reason": "r", "expiresAt": "2999-01-01", "match": matching});
    let metadata = json!({"name": "e", "namespace": "n", "uid": "e", "resourceVersion": version.to_string()});
    let json = json!({"metadata": metadata, "spec": spec});
    Received::read(&json.to_string()).into_object(&exceptions().kind, Secrets::Full, 0).unwrap()
}

#[tokio::test]
async fn labels_that_only_an_exception_reads_are_followed() {
    let pod = |version: u64, team: &str| {
        object("Pod", "n", "a", version, &json!({"metadata": {"labels": {"bad": "yes", "team": team}}}))
    };
    let known = exception_for(1, &json!({"labelSelector": {"matchLabels": {"team": "a"}}}));
    let live = start(vec![pod(1, "a")], vec![known]).await;
    until_outcomes(&live, &["a skip"]).await;
    live.seen(pod(2, "b")).await;
    until_outcomes(&live, &["a fail"]).await;
    live.seen(pod(3, "a")).await;
    until_outcomes(&live, &["a skip"]).await;
}

#[tokio::test]
async fn an_exception_for_an_owner_excuses_its_dependents() {
    let web = |version: u64, team: &str| {
        object("Ingress", "n", "web", version, &json!({"metadata": {"labels": {"team": team}}}))
    };
    let reference = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web", "uid": "Ingress n/web",
        "controller": true});
    let pod =
        object("Pod", "n", "a", 1, &json!({"metadata": {"labels": {"bad": "yes"}, "ownerReferences": [reference]}}));
    let live = start(vec![pod.clone()], vec![]).await;
    until_outcomes(&live, &["a fail"]).await;
    live.send(Change::Seen(exceptions(), exception_for(1, &json!({"kinds": ["Ingress"], "names": ["web"]})))).await;
    live.seen(web(1, "a")).await;
    until_outcomes(&live, &["a skip"]).await;
    // By the owner's labels, too.
    let selector = json!({"labelSelector": {"matchLabels": {"team": "a"}}});
    live.send(Change::Seen(exceptions(), exception_for(2, &selector))).await;
    until_outcomes(&live, &["a skip"]).await;
    live.seen(web(2, "b")).await;
    until_outcomes(&live, &["a fail"]).await;
    live.send(Change::Seen(exceptions(), exception_for(3, &json!({"names": ["web"]})))).await;
    until_outcomes(&live, &["a skip"]).await;
    live.gone(web(2, "b")).await;
    until_outcomes(&live, &["a fail"]).await;
}

#[tokio::test]
async fn exceptions_that_name_no_policy_leave_those_before_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let of_policy = async |policy: &str| {
        let path = directory.path().join(policy);
        let spec = json!({"policies": [{"name": policy}], "reason": "legacy", "expiresAt": "2999-01-01"});
        let metadata = json!({"name": "e", "namespace": "n"});
        let document =
            json!({"apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "metadata": metadata, "spec": spec});
        std::fs::write(&path, document.to_string()).unwrap();
        tokio::task::spawn_blocking(move || Exceptions::load(&[path]).unwrap()).await.unwrap()
    };
    let live = start(vec![bad("n", "a")], vec![]).await;
    live.command(Command::Except(Ok(of_policy("bad").await))).await;
    until_outcomes(&live, &["a skip"]).await;
    let states = async || {
        let exceptions = live.result().await.exceptions;
        exceptions.into_iter().map(|known| (known.name, known.state)).collect::<Vec<_>>()
    };
    let active = ("n/e".to_owned(), ExceptionState::Active);
    live.command(Command::Except(Err(anyhow::anyhow!("e.yaml:1: broken")))).await;
    assert_eq!(states().await, [("--exceptions".to_owned(), ExceptionState::Invalid), active.clone()]);
    assert_eq!(outcomes(&live.result().await), ["a skip"], "those loaded before stay in force");
    live.command(Command::Except(Ok(of_policy("later").await))).await;
    until_outcomes(&live, &["a fail"]).await;
    assert_eq!(states().await, [("n/e".to_owned(), ExceptionState::Invalid)]);
    // The rule comes after its exception.
    let later = EXCUSABLE.replace("package bad", "package later");
    live.command(Command::Reload(Ok(load(&[("later.rego", &later)])))).await;
    until_outcomes(&live, &["a skip"]).await;
    assert_eq!(states().await, [active]);
}

#[tokio::test]
async fn an_exception_that_is_read_in_another_version_ends_with_its_object() {
    let in_version = |version: &str| {
        let mut scope = exceptions();
        Arc::make_mut(&mut scope.kind).version = version.to_owned();
        scope
    };
    let of = |scope: &WatchScope| {
        let mut exception = exception("n", 1, "2999-01-01");
        exception.key.kind = Arc::clone(&scope.kind);
        exception
    };
    let (old, new) = (exceptions(), in_version("v1beta1"));
    let live = start(vec![bad("n", "a")], vec![of(&old)]).await;
    until_outcomes(&live, &["a skip"]).await;
    live.send(Change::Appeared(new.clone())).await;
    live.send(Change::Succeeds(new.clone(), old.clone())).await;
    live.send(Change::Listing(new.clone())).await;
    live.send(Change::Seen(new.clone(), of(&new))).await;
    live.send(Change::Synced(new.clone())).await;
    live.send(Change::Vanished(old)).await;
    live.send(Change::Gone(new.clone(), of(&new))).await;
    until_outcomes(&live, &["a fail"]).await;
    assert_eq!(live.result().await.exceptions.len(), 0);
}

/// A Pod that an Ingress controls, both of which violate the rule.
fn controlled(owner: &str, name: &str) -> Object {
    let reference = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": owner,
        "uid": format!("Ingress n/{owner}"), "controller": true});
    object("Pod", "n", name, 1, &json!({"metadata": {"labels": {"bad": "yes"}, "ownerReferences": [reference]}}))
}

#[tokio::test]
async fn covered_violations_are_not_reported_when_an_exception_for_owner_and_dependent_ends() {
    let owners = ["a", "b", "c", "d", "e", "f"];
    let objects: Vec<Object> = owners
        .iter()
        .flat_map(|owner| {
            let pods = (0..3).map(|pod| controlled(owner, &format!("{owner}-{pod}")));
            let owner = object("Ingress", "n", owner, 1, &json!({"metadata": {"labels": {"bad": "yes"}}}));
            pods.chain([owner]).collect::<Vec<_>>()
        })
        .collect();
    let soon = Timestamp::now() + Duration::from_secs(4);
    let live = start(objects, vec![exception("n", 1, &soon.to_string())]).await;
    live.until_evaluated(24).await;
    let skipped = live.result().await.summary.skip;
    assert_eq!((skipped, reported(&live)), (6, vec![]), "dependents are covered");
    let appeared: Vec<String> = owners.iter().map(|owner| format!("+ {owner}: bad")).collect();
    let until_fail = async |fail: usize| {
        let begin = Instant::now();
        let counts = |summary: Summary| (summary.fail, summary.skip);
        while counts(live.result().await.summary) != (fail, 6 - fail) {
            assert!(begin.elapsed() < PATIENCE, "{:?}", live.result().await.summary);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until_fail(6).await;
    assert_eq!(reported(&live), appeared, "it ended");
    live.send(Change::Seen(exceptions(), exception("n", 2, "2999-01-01"))).await;
    until_fail(0).await;
    assert_eq!(reported(&live).len(), 6);
    live.send(Change::Gone(exceptions(), exception("n", 2, "2999-01-01"))).await;
    until_fail(6).await;
    assert_eq!(reported(&live), appeared, "it was deleted");
}

#[tokio::test]
async fn counts_are_published_again_when_an_exception_has_ended_though_nothing_else_happens() {
    let soon = Timestamp::now() + Duration::from_secs(4);
    let pods = (0..30).map(|pod| bad("n", &pod.to_string())).collect();
    let live = start(pods, vec![exception("n", 1, &soon.to_string())]).await;
    let count = |outcome: &str| {
        let text = live.metrics.encode();
        let mut lines = text.lines().filter(|line| line.starts_with("kaudit_violations{"));
        let of_outcome = lines.find(|line| line.contains(r#"namespace="n""#) && line.contains(outcome));
        of_outcome.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
    };
    let begin = Instant::now();
    while count(r#"result="fail""#) != Some(30.0) {
        assert!(begin.elapsed() < PATIENCE, "{}", live.metrics.encode());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(Timestamp::now() >= soon);
}

#[tokio::test]
async fn exceptions_that_cannot_be_read_are_needed_once_a_violation_may_be_excused() {
    let selecting = |pipeline: &mut Pipeline| pipeline.objects.selection = Some(Selection::default());
    let live = Live::start_with(load(&[("bad.rego", EXCUSABLE)]), SETTINGS, selecting);
    live.send(Change::Appeared(exceptions())).await;
    let forbidden = Unreadable { state: State::Forbidden, message: "why".into() };
    live.send(Change::Unreadable(exceptions(), forbidden)).await;
    live.sync(vec![object("Pod", "n", "good", 1, &json!({}))]).await;
    live.until_evaluated(1).await;
    let state = async || {
        let result = live.result().await;
        let known = result.coverage.iter().find(|kind| kind.resource == "policyexceptions").unwrap();
        (known.state, known.message.clone(), result.complete)
    };
    assert_eq!(state().await, (State::Excluded, "forbidden, and not needed: why".to_owned(), true));
    live.seen(bad("n", "bad")).await;
    until_outcomes(&live, &["bad error"]).await;
    assert_eq!(state().await, (State::Forbidden, "why".to_owned(), false));
    live.gone(bad("n", "bad")).await;
    until_outcomes(&live, &[]).await;
    assert_eq!(state().await.0, State::Excluded);
}

#[tokio::test]
async fn violations_that_may_be_excused_are_not_reported_before_exceptions_have_been_read() {
    let fixed = "package fixed\n\ndeny contains \"not excusable\" if input.metadata.labels.bad\n";
    for state in [State::Forbidden, State::Failed, State::TimedOut] {
        let live = Live::start(load(&[("bad.rego", EXCUSABLE), ("fixed.rego", fixed)]), SETTINGS);
        live.send(Change::Appeared(exceptions())).await;
        live.send(Change::Unreadable(exceptions(), Unreadable { state, message: "why".into() })).await;
        live.sync(vec![bad("n", "a"), bad("n", "b")]).await;
        until_outcomes(&live, &["a error", "a fail", "b error", "b fail"]).await;
        assert_eq!(reported(&live), ["+ a: not excusable", "+ b: not excusable"]);
        assert!(!live.result().await.complete);
        live.send(Change::Listing(exceptions())).await;
        let matching = json!({"names": ["a"]});
        live.send(Change::Seen(exceptions(), exception_for(1, &matching))).await;
        live.send(Change::Synced(exceptions())).await;
        until_outcomes(&live, &["a fail", "a skip", "b fail", "b fail"]).await;
        assert_eq!(reported(&live), ["+ b: bad"]);
        assert!(live.result().await.complete);
    }
}

#[tokio::test]
async fn violations_that_may_be_excused_wait_until_discovery_finds_exceptions_or_is_believed() {
    for exist in [true, false] {
        let live = Live::start(load(&[("bad.rego", EXCUSABLE)]), SETTINGS);
        let lacking = Discovered { provisional: true, may_lack_exceptions: true, ..Discovered::default() };
        live.sync_after(vec![bad("n", "a"), bad("n", "b")], lacking).await;
        until_outcomes(&live, &["a error", "b error"]).await;
        assert_eq!(reported(&live), [""; 0]);
        if exist {
            live.send(Change::Appeared(exceptions())).await;
        }
        live.send(Change::Discovered(Discovered::default())).await;
        if exist {
            live.send(Change::Listing(exceptions())).await;
            live.send(Change::Seen(exceptions(), exception_for(1, &json!({"names": ["a"]})))).await;
            live.send(Change::Synced(exceptions())).await;
        }
        until_outcomes(&live, if exist { &["a skip", "b fail"] } else { &["a fail", "b fail"] }).await;
        assert_eq!(reported(&live), if exist { &["+ b: bad"][..] } else { &["+ a: bad", "+ b: bad"] });
    }
}
