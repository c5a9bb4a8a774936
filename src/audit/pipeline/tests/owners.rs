//! Owners and dependents: what is reported about which of them when they come and go.

use super::*;
use crate::model::{body::Body, object::MOST_OWNERS};

/// Names what has the label, in the words of its kind.
const MARKED: &str = r#"
package marked
deny contains sprintf("%v %v is marked", [input.kind, input.metadata.name]) if input.metadata.labels.bad
deny_sidecar contains "has a sidecar" if input.metadata.labels.sidecar
"#;

/// A controller reference to an object in the namespace `n`.
fn reference(kind_name: &str, name: &str) -> Value {
    let (kind, uid) = (kind(kind_name), format!("{kind_name} n/{name}"));
    json!({"apiVersion": kind.api_version(), "kind": kind_name, "name": name, "uid": uid, "controller": true})
}

/// A Deployment is played by an Ingress, its revision by a budget: the pipeline looks at no kind.
fn owned(kind_name: &str, name: &str, version: u64, owner: Option<(&str, &str)>, labels: &Value) -> Object {
    let owners: Vec<_> = owner.map(|(kind_name, name)| reference(kind_name, name)).into_iter().collect();
    object(kind_name, "n", name, version, &json!({"metadata": {"labels": labels, "ownerReferences": owners}}))
}

fn web(version: u64, labels: &Value) -> Object {
    owned("Ingress", "web", version, None, labels)
}

fn revision(version: u64, labels: &Value) -> Object {
    owned("PodDisruptionBudget", "web-1", version, Some(("Ingress", "web")), labels)
}

fn pod(name: &str, version: u64, labels: &Value) -> Object {
    owned("Pod", name, version, Some(("PodDisruptionBudget", "web-1")), labels)
}

fn bad() -> Value {
    json!({"bad": "yes"})
}

/// The uncovered results, each as `name: message` with the number of dependents.
fn shown(result: &AuditResult) -> Vec<String> {
    let result = result.rolled_up();
    let entry = |entry: &crate::audit::result::Entry| {
        format!("{}: {} +{}", entry.resource.name, entry.message, entry.dependents)
    };
    result.results.iter().map(entry).collect()
}

async fn until_shown(live: &Live, wanted: &[&str]) {
    let begin = Instant::now();
    loop {
        let shown = shown(&live.result().await);
        if shown == wanted {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "shown: {shown:#?}\nwanted: {wanted:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn violations_of_owners_are_reported_at_the_topmost() {
    let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
    let with_sidecar = json!({"bad": "yes", "sidecar": "yes"});
    live.sync(vec![pod("a", 1, &bad()), pod("b", 1, &with_sidecar), revision(1, &bad()), web(1, &bad())]).await;
    until_shown(&live, &["web: Ingress web is marked +3", "b: has a sidecar +0"]).await;
    assert_eq!(reported(&live), ["+ b: has a sidecar", "+ web: Ingress web is marked"]);
    let result = live.result().await;
    assert_eq!((result.summary.fail, result.summary.covered, result.results.len()), (2, 3, 5));
    let owner = |entry: &crate::audit::result::Entry| entry.owner.as_ref().map(|owner| owner.name.to_string());
    let owners: Vec<_> = result.results.iter().map(owner).collect();
    assert_eq!(owners.iter().flatten().count(), 4, "all but the topmost have an owner: {owners:?}");
    // It is fixed; the rest of the revision's violations are open at the revision, and are reported there.
    live.seen(web(2, &json!({}))).await;
    until_shown(&live, &["web-1: PodDisruptionBudget web-1 is marked +2", "b: has a sidecar +0"]).await;
    assert_eq!(reported(&live), ["+ web-1: PodDisruptionBudget web-1 is marked", "- web: Ingress web is marked"]);
    // Its end leaves the Pods to themselves.
    live.gone(revision(1, &bad())).await;
    until_shown(&live, &["a: Pod a is marked +0", "b: Pod b is marked +0", "b: has a sidecar +0"]).await;
    assert_eq!(
        reported(&live),
        ["+ a: Pod a is marked", "+ b: Pod b is marked", "- web-1: PodDisruptionBudget web-1 is marked"]
    );
}

#[tokio::test]
async fn an_owner_that_comes_later_ends_nothing_and_repeats_nothing() {
    let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
    live.sync(vec![pod("a", 1, &bad())]).await;
    until_shown(&live, &["a: Pod a is marked +0"]).await;
    assert_eq!(reported(&live), ["+ a: Pod a is marked"]);
    live.seen(revision(1, &json!({}))).await;
    live.seen(web(1, &bad())).await;
    until_shown(&live, &["web: Ingress web is marked +1"]).await;
    assert_eq!(reported(&live), ["+ web: Ingress web is marked"], "the Pod's was reported, and is not resolved");
    live.seen(web(2, &json!({}))).await;
    until_shown(&live, &["a: Pod a is marked +0"]).await;
    assert_eq!(reported(&live), ["- web: Ingress web is marked"], "the Pod's was reported already");
    live.gone(pod("a", 1, &bad())).await;
    until_shown(&live, &[]).await;
    assert_eq!(reported(&live), ["- a: Pod a is marked"]);
}

#[tokio::test]
async fn an_adopted_object_is_its_owners_and_an_orphan_its_own() {
    let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
    let orphan = |version| owned("Pod", "a", version, None, &bad());
    live.sync(vec![orphan(1), web(1, &bad())]).await;
    until_shown(&live, &["web: Ingress web is marked +0", "a: Pod a is marked +0"]).await;
    live.seen(owned("Pod", "a", 2, Some(("Ingress", "web")), &bad())).await;
    until_shown(&live, &["web: Ingress web is marked +1"]).await;
    live.seen(orphan(3)).await;
    until_shown(&live, &["web: Ingress web is marked +0", "a: Pod a is marked +0"]).await;
    assert_eq!(reported(&live), ["+ a: Pod a is marked", "+ web: Ingress web is marked"]);
}

#[tokio::test]
async fn an_owner_in_another_namespace_covers_nothing() {
    let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
    let beside = owned("Pod", "beside", 1, Some(("Ingress", "web")), &bad());
    let metadata = json!({"labels": bad(), "ownerReferences": [reference("Ingress", "web")]});
    let apart = object("Pod", "other", "apart", 1, &json!({"metadata": metadata}));
    live.sync(vec![web(1, &bad()), beside, apart]).await;
    until_shown(&live, &["web: Ingress web is marked +1", "apart: Pod apart is marked +0"]).await;
    assert_eq!(reported(&live), ["+ apart: Pod apart is marked", "+ web: Ingress web is marked"]);
}

#[tokio::test]
async fn owners_in_a_circle_cover_nothing_of_each_other() {
    let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
    let circle = owned("Ingress", "web", 1, Some(("PodDisruptionBudget", "web-1")), &bad());
    let own = owned("Pod", "own", 1, Some(("Pod", "own")), &bad());
    live.sync(vec![circle.clone(), revision(1, &bad()), pod("a", 1, &bad()), own]).await;
    // The Pod below the circle is covered by one of both.
    let apart = ["web-1: PodDisruptionBudget web-1 is marked +0", "own: Pod own is marked +0"];
    until_shown(&live, &["web: Ingress web is marked +1", apart[0], apart[1]]).await;
    let result = live.result().await;
    assert_eq!((result.summary.fail, result.summary.covered), (3, 1));
    // The circle is opened at one place and closed at another.
    live.seen(web(2, &bad())).await;
    until_shown(&live, &["web: Ingress web is marked +2", apart[1]]).await;
    live.seen(owned("Ingress", "web", 3, Some(("Pod", "a")), &bad())).await;
    until_shown(&live, &["web: Ingress web is marked +0", apart[0], "a: Pod a is marked +0", apart[1]]).await;
}

#[tokio::test]
async fn a_chain_that_is_too_long_covers_nothing_at_its_end() {
    let number = 2 * MOST_OWNERS;
    let link = |index: usize, last: usize| {
        let owner = format!("p{}", if index == 0 { last } else { index - 1 });
        let owner = (index > 0 || last > 0).then_some(("Pod", &*owner));
        owned("Pod", &format!("p{index}"), 1, owner, &json!({"sidecar": "yes"}))
    };
    for (last, listed) in [(0, number - MOST_OWNERS), (number - 1, number)] {
        let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
        live.sync((0..number).map(|index| link(index, last)).collect()).await;
        let result = live.end().await;
        assert_eq!(result.summary.fail, listed, "{last}");
        assert_eq!((result.rolled_up().results.len(), result.summary.fail + result.summary.covered), (listed, number));
    }
}

/// Names each part, and says where it is.
const PARTS: &str = r#"
package parts
deny contains {"msg": sprintf("part %v of %v", [part, input.metadata.name]), "details": {"field": field}} if {
    part := input.spec.parts[i]
    field := sprintf("%vspec.parts[%v]", [input.spec.at, i])
}
"#;

#[tokio::test]
async fn violations_that_only_a_dependent_has_are_listed_at_it() {
    let of = |kind_name: &str, name: &str, owner: Option<&str>, parts: &[&str]| {
        let at = if kind_name == "Pod" { "" } else { "spec.template." };
        let mut object = owned(kind_name, name, 1, owner.map(|owner| ("Ingress", owner)), &json!({}));
        let mut body: Value = serde_json::from_slice(&object.body.json().unwrap()).unwrap();
        body["spec"] = json!({"parts": parts, "at": at});
        object.body = Body::plain(body.to_string().as_bytes());
        object
    };
    let live = Live::start(load(&[("parts.rego", PARTS)]), SETTINGS);
    let pods = [("web-5d8f-a", &["sidecar", "app"][..]), ("web-5d8f-b", &["app"]), ("web-5d8f-c", &["app", "app"])];
    let pods = pods.iter().map(|(name, parts)| of("Pod", name, Some("web"), parts));
    live.sync(pods.chain([of("Ingress", "web", None, &["app"])]).collect()).await;
    until_shown(
        &live,
        &[
            "web: part app of web +3",
            "web-5d8f-a: part sidecar of web-5d8f-a +0",
            "web-5d8f-c: part app of web-5d8f-c +0",
        ],
    )
    .await;
}

#[tokio::test]
async fn violations_that_end_soon_after_their_owner_are_listed_and_never_reported() {
    let settings = PipelineSettings { handover: PATIENCE, ..SETTINGS };
    let live = Live::start(load(&[("marked.rego", MARKED)]), settings);
    live.sync(vec![pod("a", 1, &bad()), revision(1, &bad()), web(1, &bad())]).await;
    until_shown(&live, &["web: Ingress web is marked +2"]).await;
    live.seen(web(2, &json!({}))).await;
    until_shown(&live, &["web-1: PodDisruptionBudget web-1 is marked +1"]).await;
    let result = live.result().await;
    assert!(result.results.iter().all(|entry| entry.is_handed_over == entry.covered_by.is_none()));
    live.gone(revision(1, &bad())).await;
    live.gone(pod("a", 1, &bad())).await;
    until_shown(&live, &[]).await;
    assert_eq!(reported(&live), ["+ web: Ingress web is marked", "- web: Ingress web is marked"]);
    assert!(live.result().await.ended.iter().all(|ended| &*ended.entry.resource.name == "web"));
    // What an owner that was not evaluated yet seemed to cover is reported at once.
    live.seen(pod("b", 1, &json!({"sidecar": "yes"}))).await;
    live.seen(revision(2, &json!({}))).await;
    until_shown(&live, &["b: has a sidecar +0"]).await;
    assert_eq!(reported(&live), ["+ b: has a sidecar"]);
}

#[tokio::test]
async fn violations_left_after_their_owner_is_fixed_are_reported_once_after_the_delay() {
    let settings = PipelineSettings { handover: Duration::from_millis(300), ..SETTINGS };
    let live = Live::start(load(&[("marked.rego", MARKED)]), settings);
    live.sync(vec![revision(1, &bad()), web(1, &bad())]).await;
    until_shown(&live, &["web: Ingress web is marked +1"]).await;
    live.seen(web(2, &json!({}))).await;
    live.seen(revision(2, &json!({"bad": "still"}))).await;
    until_shown(&live, &["web-1: PodDisruptionBudget web-1 is marked +0"]).await;
    let begin = Instant::now();
    while live.result().await.results.iter().any(|entry| entry.is_handed_over) {
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        reported(&live),
        [
            "+ web-1: PodDisruptionBudget web-1 is marked",
            "+ web: Ingress web is marked",
            "- web: Ingress web is marked"
        ]
    );
    live.gone(revision(3, &bad())).await;
    until_shown(&live, &[]).await;
    assert_eq!(reported(&live), ["- web-1: PodDisruptionBudget web-1 is marked"]);
}

#[tokio::test]
async fn without_roll_up_every_object_lists_its_own_violations() {
    let live = Live::start(load(&[("marked.rego", MARKED)]), PipelineSettings { roll_up: false, ..SETTINGS });
    live.sync(vec![revision(1, &bad()), web(1, &bad())]).await;
    until_shown(&live, &["web: Ingress web is marked +0", "web-1: PodDisruptionBudget web-1 is marked +0"]).await;
    let owner = live.result().await.results[1].owner.clone().unwrap();
    assert_eq!(&*owner.name, "web");
}

#[tokio::test]
async fn inactive_objects_are_counted_and_not_evaluated() {
    let finished = |version: u64| {
        let rest = json!({"metadata": {"labels": bad()}, "status": {"phase": "Succeeded"}});
        object("Pod", "n", "done", version, &rest)
    };
    let running =
        object("Pod", "n", "done", 1, &json!({"metadata": {"labels": bad()}, "status": {"phase": "Running"}}));
    let live = Live::start(load(&[("marked.rego", MARKED)]), SETTINGS);
    live.sync(vec![running]).await;
    live.until(&["done: Pod done is marked"]).await;
    live.seen(finished(2)).await;
    live.until(&[]).await;
    assert_eq!(reported(&live), ["+ done: Pod done is marked", "- done: Pod done is marked"]);
    let result = live.result().await;
    let pods = result.coverage.iter().find(|kind| kind.kind == "Pod").unwrap();
    assert_eq!((pods.objects, pods.inactive, result.summary.objects), (1, 1, 0));
    let judging = Live::start(load(&[("marked.rego", MARKED)]), PipelineSettings { judge_inactive: true, ..SETTINGS });
    judging.sync(vec![finished(1)]).await;
    judging.until(&["done: Pod done is marked"]).await;
    assert_eq!(judging.result().await.coverage.iter().map(|kind| kind.inactive).sum::<usize>(), 0);
}
