//! What must not show: a kind that is read in another version, changes of several kinds that come one after the other,
//! threads that panic, evaluations that get no CPU.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::{
    audit::inventory::Update,
    judge::{evaluate::Job, sharing::SharedVerdicts},
    model::verdict::Verdict,
};

const BAD: &str = "package bad\ndeny contains sprintf(\"%v is bad\", [input.apiVersion]) if input.metadata.labels.bad\n\
                   deny contains \"bad\" if input.metadata.labels.bad";

const BAD_NAMESPACE: &str = "package bad\ndeny contains \"bad\" if {\n    input.kind == \"Namespace\"\n    \
                          input.metadata.labels.bad\n}";

/// `Ingress`, as another version of its group has it.
fn other_version() -> WatchScope {
    let mut scope = scope("Ingress");
    Arc::make_mut(&mut scope.kind).version = "v2".to_owned();
    scope
}

fn labelled(scope: &WatchScope, name: &str, version: u64, bad: bool) -> Object {
    let labels = if bad { json!({"bad": "yes"}) } else { json!({}) };
    let metadata = json!({
        "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(), "labels": labels,
    });
    Received::read(&json!({"metadata": metadata}).to_string()).into_object(&scope.kind, Secrets::Full, 0).unwrap()
}

#[tokio::test]
async fn an_object_that_is_read_in_another_version_is_the_same_object() {
    for initial in [InitialObjects::Judge, InitialObjects::Skip] {
        let policies = load(&[("bad.rego", "package bad\ndeny contains \"bad\" if input.metadata.labels.bad")]);
        let live = Live::start(policies, PipelineSettings { initial, ..SETTINGS });
        let (old, new) = (scope("Ingress"), other_version());
        live.sync(vec![labelled(&old, "stays", 1, true), labelled(&old, "goes", 2, true)]).await;
        let judged = initial == InitialObjects::Judge;
        live.until(if judged { &["goes: bad", "stays: bad"] } else { &[] }).await;
        let first = reported(&live);
        assert_eq!(first.len(), if judged { 2 } else { 0 });

        live.send(Change::Appeared(new.clone())).await;
        live.send(Change::Succeeds(new.clone(), old.clone())).await;
        live.send(Change::Listing(new.clone())).await;
        live.send(Change::Seen(new.clone(), labelled(&new, "stays", 1, true))).await;
        // The old version is read until all is known in the new one.
        live.send(Change::Seen(old.clone(), labelled(&old, "late", 3, true))).await;
        live.until(if judged { &["goes: bad", "late: bad", "stays: bad"] } else { &["late: bad"] }).await;
        live.send(Change::Seen(new.clone(), labelled(&new, "late", 3, true))).await;
        live.send(Change::Synced(new.clone())).await;
        live.send(Change::Vanished(old.clone())).await;
        live.until(if judged { &["late: bad", "stays: bad"] } else { &["late: bad"] }).await;
        // What came late from the old version counts no more.
        live.send(Change::Seen(old.clone(), labelled(&old, "stays", 4, false))).await;
        live.send(Change::Seen(new.clone(), labelled(&new, "late", 5, false))).await;
        live.until(if judged { &["stays: bad"] } else { &[] }).await;
        let wanted: &[_] =
            if judged { &["+ late: bad", "- goes: bad", "- late: bad"] } else { &["+ late: bad", "- late: bad"] };
        let mut all = reported(&live);
        all.sort();
        assert_eq!(all, wanted);
        let result = live.result().await;
        let versions: Vec<_> = result.coverage.iter().filter(|kind| kind.kind == "Ingress").collect();
        assert_eq!(versions.len(), 1, "{versions:?}");
        assert_eq!((&*versions[0].version, versions[0].objects, result.complete), ("v2", 2, true));
    }
}

#[tokio::test]
async fn a_new_version_of_a_kind_is_evaluated_in_its_own_form() {
    let live = Live::start(load(&[("bad.rego", BAD)]), SETTINGS);
    live.sync(vec![labelled(&scope("Ingress"), "a", 1, true)]).await;
    live.until(&["a: bad", "a: networking.k8s.io/v1 is bad"]).await;
    let new = other_version();
    live.send(Change::Appeared(new.clone())).await;
    live.send(Change::Succeeds(new.clone(), scope("Ingress"))).await;
    live.send(Change::Listing(new.clone())).await;
    live.send(Change::Seen(new.clone(), labelled(&new, "a", 1, true))).await;
    live.send(Change::Synced(new)).await;
    live.until(&["a: bad", "a: networking.k8s.io/v2 is bad"]).await;
}

#[tokio::test]
async fn no_result_is_about_a_state_that_the_cluster_never_had() {
    let live = Live::start(load(&[("budgets.rego", BUDGET)]), SETTINGS);
    live.sync(vec![]).await;
    live.until(&[]).await;
    let label = |name: &str| json!({"metadata": {"labels": {"app": name}}});
    let budget = |name: &str, version| {
        object("PodDisruptionBudget", "n", name, version, &json!({"spec": {"selector": {"app": name}}}))
    };
    // A busy machine may delay the second change for longer than the test waits, so not every attempt counts.
    let mut evaluated = 0;
    let mut attempts = 0..5;
    let attempt = loop {
        let attempt = attempts.next().expect("every attempt was too slow");
        for number in 0..10 {
            let name = format!("pod-{attempt}-{number}");
            let (pod, budget) = (object("Pod", "n", &name, 1, &label(&name)), budget(&name, 1));
            // Each kind has a watch of its own: what happened first may come second.
            let (first, second) = if number % 2 == 0 { (budget, pod) } else { (pod, budget) };
            live.seen(first).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            live.seen(second).await;
            evaluated += 2;
        }
        live.until_evaluated(evaluated).await;
        live.until(&[]).await;
        if reported(&live).is_empty() {
            break attempt;
        }
    };
    let gone = format!("pod-{attempt}-3");
    live.gone(budget(&gone, 1)).await;
    live.until(&[&format!("{gone}: no PodDisruptionBudget selects this Pod")]).await;
}

#[tokio::test]
async fn a_panic_in_the_evaluation_affects_one_object_until_it_is_retried() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    fn evaluate(job: &Job, _: &SharedVerdicts) -> Verdict {
        assert!(&*job.object.key.name != "odd" || PANICS.fetch_add(1, Ordering::Relaxed) > 0, "it is odd");
        crate::judge::evaluate::evaluate(job)
    }
    let policies = load(&[("bad.rego", "package bad\ndeny contains \"bad\" if input.metadata.labels.bad")]);
    let live = Live::start_with(policies, SETTINGS, |pipeline| pipeline.schedule.judges.evaluate = evaluate);
    let ingresses = scope("Ingress");
    live.sync(["even", "odd"].map(|name| labelled(&ingresses, name, 1, true)).into()).await;
    live.until(&["even: bad", "odd: kaudit failed while evaluating it, which is a bug: it is odd"]).await;
    assert!(!live.result().await.complete);
    // The next time comes by itself.
    live.until(&["even: bad", "odd: bad"]).await;
    assert!(live.result().await.complete);
}

#[tokio::test]
async fn an_inventory_that_is_lost_is_built_again() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let live = Live::start_with(load(&[("hosts.rego", UNIQUE_HOST)]), SETTINGS, |pipeline| {
        pipeline.schedule.inventory.run = |update, states, all| {
            assert!(PANICS.fetch_add(1, Ordering::Relaxed) != 1, "the second update");
            Update::run(update, states, all)
        };
    });
    live.sync(vec![ingress("n", "a", 1, "x")]).await;
    live.until(&[]).await;
    live.seen(ingress("n", "b", 2, "x")).await;
    let begin = Instant::now();
    while live.result().await.complete {
        assert!(begin.elapsed() < PATIENCE, "the audit is not complete without the inventory");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.until(&["a: host x is also that of n/b", "b: host x is also that of n/a"]).await;
    assert!(live.result().await.complete);
}

#[tokio::test]
async fn policies_without_lookups_do_not_wait_for_the_inventory() {
    static HELD: AtomicBool = AtomicBool::new(true);
    let files = [("hosts.rego", UNIQUE_HOST), ("budgets.rego", BUDGET), ("bad.rego", BAD_NAMESPACE)];
    let live = Live::start_with(load(&files), SETTINGS, |pipeline| {
        pipeline.schedule.inventory.run = |update, states, all| {
            while HELD.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Update::run(update, states, all)
        };
    });
    let namespace = object("Namespace", "", "n", 5, &json!({"metadata": {"labels": {"bad": "yes"}}}));
    live.sync(vec![namespace, ingress("n", "a", 1, "x"), ingress("n", "b", 2, "x")]).await;
    live.until(&["n: bad"]).await;
    assert_eq!(live.metric("kaudit_evaluations_total"), 1);
    HELD.store(false, Ordering::Relaxed);
    live.until(&["a: host x is also that of n/b", "b: host x is also that of n/a", "n: bad"]).await;
}

#[tokio::test]
async fn files_may_have_a_kind_in_several_versions() {
    let live = Live::start(load(&[("bad.rego", BAD)]), SETTINGS);
    let (one, two) = (scope("Ingress"), other_version());
    for scope in [&one, &two] {
        live.send(Change::Appeared(scope.clone())).await;
        live.send(Change::Listing(scope.clone())).await;
        live.send(Change::Seen(scope.clone(), labelled(scope, "a", 1, true))).await;
    }
    for scope in [&one, &two] {
        live.send(Change::Synced(scope.clone())).await;
    }
    live.send(Change::Discovered(Discovered::default())).await;
    assert_eq!(live.end().await.summary.fail, 4, "two of each version");
}
