//! Results that depend on kinds or on exceptions that have not been read: they are errors, or wait; nothing false is reported.

use super::*;
use crate::{audit::result::Entry, model::verdict::Outcome, source::selection::Exclusion};

/// The same in the layout of Gatekeeper.
const BUDGET_AS_GATEKEEPER: &str = r#"
package budgets
deny contains "no PodDisruptionBudget selects this Pod" if {
    input.kind == "Pod"
    not selected
}
selected if {
    some budget in data.inventory.namespace[input.metadata.namespace]["policy/v1"].PodDisruptionBudget
    every key, value in budget.spec.selector { input.metadata.labels[key] == value }
}
"#;

const BUDGET_TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: budgeted}
spec:
  crd: {spec: {names: {kind: Budgeted}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package budgeted
        violation[{"msg": "no PodDisruptionBudget selects this Pod"}] { not selected }
        selected {
          budget := data.inventory.namespace[input.review.namespace][_].PodDisruptionBudget[_]
          budget.spec.selector.app == input.review.object.metadata.labels.app
        }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Budgeted
metadata: {name: pods}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
"#;

/// One rule is evaluated without what it looks up, the other is not.
const OPTIONAL: &str = r#"
package optional

# METADATA
# custom: {lookups: optional}
deny contains "no PodDisruptionBudget selects this Pod" if is_unselected

deny_strictly contains "none at all" if is_unselected

is_unselected if {
    input.kind == "Pod"
    not selected
}
selected if {
    some budget in data.inventory.namespace[input.metadata.namespace]["policy/v1"].PodDisruptionBudget
    budget.spec.selector.app == input.metadata.labels.app
}
"#;

const TEAM: &str = r#"
package team
deny contains "the Namespace has no team" if {
    input.kind == "Pod"
    not data.kubernetes.namespaces[input.metadata.namespace].metadata.labels.team
}
"#;

const SLICES: &str = r#"
package slices
deny contains "no EndpointSlice" if {
    input.kind == "Pod"
    not data.kubernetes.endpointslices[input.metadata.namespace][input.metadata.name]
}
"#;

const LOOKUPS: [(&str, &str); 3] = [("a.rego", BUDGET), ("b.rego", BUDGET_AS_GATEKEEPER), ("c.yaml", BUDGET_TEMPLATE)];

fn pod(name: &str, version: u64) -> Object {
    object("Pod", "n", name, version, &json!({"metadata": {"labels": {"app": "a"}}}))
}

fn budget(app: &str) -> Object {
    object("PodDisruptionBudget", "n", "b", 1, &json!({"spec": {"selector": {"app": app}}}))
}

fn slices() -> WatchScope {
    WatchScope { kind: Kind::sample("discovery.k8s.io", "endpointslices", "EndpointSlice"), namespace: None }
}

fn slice(name: &str) -> Object {
    let metadata = json!({"name": name, "namespace": "n", "uid": "slice", "resourceVersion": "1"});
    let json = json!({"metadata": metadata});
    Received::read(&json.to_string()).into_object(&slices().kind, Secrets::Full, 0).unwrap()
}

pub(super) async fn read(live: &Live, scope: &WatchScope, objects: Vec<Object>) {
    live.send(Change::Listing(scope.clone())).await;
    for object in objects {
        live.send(Change::Seen(scope.clone(), object)).await;
    }
    live.send(Change::Synced(scope.clone())).await;
}

fn selecting(selection: Selection) -> impl FnOnce(&mut Pipeline) {
    |pipeline| pipeline.objects.selection = Some(selection)
}

fn unreadable(state: State) -> Unreadable {
    Unreadable { state, message: "the server says why".into() }
}

/// Begins with Pods that have been read, while the other kind has not.
async fn with_pods(live: &Live, other: &WatchScope, excluded: bool) {
    live.send(Change::Appeared(scope("Pod"))).await;
    if !excluded {
        live.send(Change::Appeared(other.clone())).await;
    }
    read(live, &scope("Pod"), vec![pod("p", 1)]).await;
    let excluded = if excluded { vec![(Arc::clone(&other.kind), "left out".to_owned())] } else { Vec::new() };
    live.send(Change::Discovered(Discovered { excluded, ..Discovered::default() })).await;
}

/// Has the source read `EndpointSlices`, and expects the violation of the one Pod that has none, and no other.
async fn reported_once_slices_are_read(live: &Live) {
    live.send(Change::Appeared(slices())).await;
    live.send(Change::Discovered(Discovered::default())).await;
    live.seen(pod("q", 3)).await;
    read(live, &slices(), vec![slice("p")]).await;
    live.until(&["q: no EndpointSlice"]).await;
    assert_eq!(reported(live), ["+ q: no EndpointSlice"]);
}

async fn until_messages(live: &Live, outcome: Outcome, wanted: &[&str]) {
    let begin = Instant::now();
    loop {
        let result = live.result().await;
        let all = result.results.iter().all(|entry: &Entry| entry.result == outcome);
        let messages: Vec<&str> = result.results.iter().map(|entry| &*entry.message).collect();
        if all && messages == wanted {
            assert_eq!(result.complete, wanted.is_empty() || outcome == Outcome::Fail);
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{messages:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn rules_that_look_up_unreadable_kinds_are_errors_until_they_can_be_read() {
    for (state, word) in [(State::Forbidden, "forbidden"), (State::Failed, "failed"), (State::TimedOut, "timed out")] {
        let live = Live::start(load(&LOOKUPS), SETTINGS);
        let budgets = scope("PodDisruptionBudget");
        with_pods(&live, &budgets, false).await;
        live.send(Change::Unreadable(budgets.clone(), unreadable(state))).await;
        let why = format!("looks up poddisruptionbudgets.policy, which cannot be read: {word}");
        until_messages(&live, Outcome::Error, &[&why, &why, &why]).await;
        read(&live, &budgets, vec![budget("a")]).await;
        until_messages(&live, Outcome::Fail, &[]).await;
        // What was known once counts as read, however it fails later.
        live.send(Change::Unreadable(budgets, unreadable(state))).await;
        live.seen(pod("q", 2)).await;
        live.until_evaluated(3).await;
        assert_eq!((texts(&live.result().await), reported(&live)), (Vec::<String>::new(), Vec::<String>::new()));
    }
}

#[tokio::test]
async fn rules_with_optional_lookups_are_evaluated_without_what_cannot_be_read() {
    let missing = "p: no PodDisruptionBudget selects this Pod";
    for (state, word) in [(State::Forbidden, "forbidden"), (State::Failed, "failed"), (State::TimedOut, "timed out")] {
        let live = Live::start(load(&[("o.rego", OPTIONAL)]), SETTINGS);
        let budgets = scope("PodDisruptionBudget");
        with_pods(&live, &budgets, false).await;
        live.send(Change::Unreadable(budgets.clone(), unreadable(state))).await;
        let why = format!("p: looks up poddisruptionbudgets.policy, which cannot be read: {word}");
        live.until(&[missing, &why]).await;
        assert!(!live.result().await.complete);
        read(&live, &budgets, vec![budget("a")]).await;
        live.until(&[]).await;
    }
    let excluding = Selection { exclude: vec!["poddisruptionbudgets.policy".parse().unwrap()], ..Selection::default() };
    let live = Live::start_with(load(&[("o.rego", OPTIONAL)]), SETTINGS, selecting(excluding));
    with_pods(&live, &scope("PodDisruptionBudget"), true).await;
    live.until(&[missing, "p: looks up poddisruptionbudgets.policy, which are not read: --exclude"]).await;
}

#[tokio::test]
async fn rules_about_missing_objects_are_errors_only_where_they_would_have_a_result() {
    let about = "# METADATA\n# custom: {lookups: complete}\n";
    let policy = format!(
        "package complete\n\n{about}deny contains \"no such PodDisruptionBudget\" if {{\n\tname := input.metadata.labels.app\n\tnot \
         data.inventory.namespace[input.metadata.namespace][\"policy/v1\"].PodDisruptionBudget[name]\n}}\n"
    );
    let live = Live::start(load(&[("c.rego", &policy)]), SETTINGS);
    let budgets = scope("PodDisruptionBudget");
    with_pods(&live, &budgets, false).await;
    live.seen(object("Pod", "n", "plain", 2, &json!({}))).await;
    live.send(Change::Unreadable(budgets.clone(), unreadable(State::Forbidden))).await;
    live.until(&["p: looks up poddisruptionbudgets.policy, which cannot be read: forbidden"]).await;
    read(&live, &budgets, vec![budget("other")]).await;
    live.until(&["p: no such PodDisruptionBudget"]).await;
}

#[tokio::test]
async fn rules_with_optional_lookups_wait_while_a_kind_is_read() {
    let other = "package other\ndeny contains \"never\" if input.kind == \"Never\"\n";
    let live = Live::start_with(load(&[("other.rego", other)]), SETTINGS, selecting(Selection::default()));
    with_pods(&live, &slices(), true).await;
    live.until_evaluated(1).await;
    let policy = SLICES.replace("deny", "# METADATA\n# custom: {lookups: optional}\ndeny");
    live.reload(Ok(load(&[("s.rego", &policy)]))).await;
    live.heard().await;
    assert_eq!(texts(&live.result().await), Vec::<String>::new());
    reported_once_slices_are_read(&live).await;
}

#[tokio::test]
async fn rules_wait_for_a_kind_that_the_first_pass_of_discovery_does_not_name() {
    let other = ("other.rego", "package other\ndeny contains \"own\" if input.kind == \"Ingress\"\n");
    for policy in LOOKUPS.into_iter().chain([("s.rego", SLICES)]) {
        let live = Live::start(load(&[policy, other]), SETTINGS);
        for (kind, object) in [("Pod", pod("p", 1)), ("Ingress", object("Ingress", "n", "i", 1, &json!({})))] {
            live.send(Change::Appeared(scope(kind))).await;
            read(&live, &scope(kind), vec![object]).await;
        }
        live.send(Change::Discovered(Discovered { provisional: true, ..Discovered::default() })).await;
        live.until(&["i: own"]).await;
        assert_eq!(live.metric("kaudit_evaluations_total"), 1, "{}", policy.0);
        // It is not served.
        live.send(Change::Discovered(Discovered::default())).await;
        live.until_evaluated(2).await;
        assert_eq!(live.result().await.results.len(), 2, "{}", policy.0);
    }
}

#[tokio::test]
async fn the_end_of_discovery_is_no_reason_to_evaluate_again() {
    let live = Live::start(load(&[("a.rego", BUDGET)]), SETTINGS);
    live.sync_as(vec![pod("p", 1), budget("other")], true).await;
    live.until_evaluated(2).await;
    live.send(Change::Discovered(Discovered::default())).await;
    while live.metric("kaudit_inventory_update_seconds_count") < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Evaluations that the update causes come before that of a later change.
    live.seen(pod("q", 2)).await;
    let missing = ["p: no PodDisruptionBudget selects this Pod", "q: no PodDisruptionBudget selects this Pod"];
    live.until(&missing).await;
    assert_eq!(live.metric("kaudit_evaluations_total"), 3);
}

/// Objects in the order of their evaluation; only the test below writes to it.
static EVALUATED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[tokio::test]
async fn a_lookup_in_the_own_namespace_is_no_reason_to_evaluate_objects_of_others() {
    let policies = load(&[("a.rego", BUDGET), ("b.rego", BUDGET_AS_GATEKEEPER), ("h.rego", UNIQUE_HOST)]);
    let live = Live::start_with(policies, SETTINGS, |pipeline| {
        pipeline.schedule.judges.evaluate = |job, _| {
            EVALUATED.lock().unwrap().push(job.object.key.to_string());
            crate::judge::evaluate::evaluate(job)
        };
    });
    let pods =
        ["n", "m"].map(|namespace| object("Pod", namespace, "p", 1, &json!({"metadata": {"labels": {"app": "a"}}})));
    live.sync([pods.to_vec(), vec![ingress("n", "i", 1, "x"), ingress("m", "j", 2, "y")]].concat()).await;
    let missing = "p: no PodDisruptionBudget selects this Pod";
    live.until(&[missing; 4]).await;
    live.until_evaluated(4).await;
    let evaluated = || std::mem::take(&mut *EVALUATED.lock().unwrap()).into_iter().collect::<BTreeSet<String>>();
    evaluated();
    live.seen(budget("a")).await;
    live.until(&[missing; 2]).await;
    // By the end of the second change, everything has been evaluated that the first was a reason for.
    live.gone(budget("a")).await;
    live.until(&[missing; 4]).await;
    let expected = ["Pod n/p", "PodDisruptionBudget n/b"].map(str::to_owned).into();
    let found = evaluated();
    assert!(found.contains("Pod n/p") && found.is_subset(&expected), "{found:?}");
    // One that is looked up in all namespaces.
    live.seen(ingress("n", "i", 3, "y")).await;
    let hosts = ["j: host y is also that of n/i", "i: host y is also that of m/j"];
    live.until(&[&hosts[..], &[missing; 4]].concat()).await;
}

#[tokio::test]
async fn lookups_of_excluded_kinds_are_errors_and_the_audit_is_incomplete() {
    let namespaces = BTreeSet::from(["n".to_owned()]);
    let in_namespace = Selection { namespaces, ..Selection::default() };
    let excluding = Selection {
        exclude: vec!["pdb.policy".parse().unwrap(), "poddisruptionbudgets".parse().unwrap()],
        ..Selection::default()
    };
    for (policies, other, selection, why) in [
        (
            &LOOKUPS[..],
            "PodDisruptionBudget",
            excluding,
            "looks up poddisruptionbudgets.policy, which are not read: --exclude",
        ),
        (
            &[("t.rego", TEAM)][..],
            "Namespace",
            in_namespace,
            "looks up namespaces, which are not read with --namespace",
        ),
    ] {
        let live = Live::start_with(load(policies), SETTINGS, selecting(selection));
        let mut other = scope(other);
        Arc::make_mut(&mut other.kind).namespaced = *other.kind.kind != *"Namespace";
        with_pods(&live, &other, true).await;
        until_messages(&live, Outcome::Error, &vec![why; policies.len()]).await;
        assert_eq!(reported(&live), Vec::<String>::new());
    }
}

#[tokio::test]
async fn in_one_namespace_rules_with_lookups_in_it_are_decided() {
    let selection = Selection { namespaces: BTreeSet::from(["n".to_owned()]), ..Selection::default() };
    let policies =
        [("a.rego", BUDGET), ("b.rego", BUDGET_AS_GATEKEEPER), ("c.yaml", BUDGET_TEMPLATE), ("h.rego", UNIQUE_HOST)];
    let live = Live::start_with(load(&policies), SETTINGS, selecting(selection));
    let within = |name: &str| WatchScope { namespace: Some("n".into()), ..scope(name) };
    for name in ["Pod", "Ingress", "PodDisruptionBudget"] {
        live.send(Change::Appeared(within(name))).await;
    }
    read(&live, &within("Pod"), vec![pod("p", 1)]).await;
    read(&live, &within("Ingress"), vec![ingress("n", "a", 1, "x")]).await;
    read(&live, &within("PodDisruptionBudget"), vec![]).await;
    live.send(Change::Discovered(Discovered::default())).await;
    let missing = "p: no PodDisruptionBudget selects this Pod";
    let all = "a: looks up ingresses.networking.k8s.io in all namespaces, which are not read with --namespace";
    live.until(&[all, missing, missing, missing]).await;
    assert!(!live.result().await.complete);
}

#[tokio::test]
async fn a_kind_that_is_left_out_by_default_is_read_for_lookups_only_and_new_policies_wait_for_it() {
    let live = Live::start_with(load(&[("b.rego", BUDGET)]), SETTINGS, selecting(Selection::default()));
    live.send(Change::Appeared(scope("PodDisruptionBudget"))).await;
    read(&live, &scope("PodDisruptionBudget"), vec![budget("a")]).await;
    with_pods(&live, &slices(), true).await;
    live.until_evaluated(2).await;
    live.reload(Ok(load(&[("s.rego", SLICES)]))).await;
    live.heard().await;
    // The source gets the new policies later, and has not read the kind yet.
    assert_eq!(texts(&live.result().await), Vec::<String>::new());
    reported_once_slices_are_read(&live).await;
    let result = live.result().await;
    let coverage = result.coverage.iter().find(|kind| kind.resource == "endpointslices").unwrap();
    assert_eq!((coverage.state, result.complete), (State::Excluded, true));
    assert_eq!(result.summary.objects, 3, "EndpointSlices are not evaluated");
    assert!(Exclusion::Default.unread().contains("default"));
}

#[tokio::test]
async fn recorded_violations_stay_while_a_lookup_cannot_be_read() {
    let recorded = Arc::<Mutex<Vec<Delta>>>::default();
    let live = Live::start(load(&[("b.rego", BUDGET)]), SETTINGS);
    live.sync(vec![pod("p", 1)]).await;
    live.until(&["p: no PodDisruptionBudget selects this Pod"]).await;
    let before: Vec<Delta> = live.reported.lock().unwrap().clone();
    live.kill().await;
    // A restart, while the kind is forbidden.
    let live = Live::recording(load(&[("b.rego", BUDGET)]), SETTINGS, None);
    let mut known = Recorded::default();
    for delta in &before {
        known.add(recorded_object(delta));
    }
    live.term(Term::Begin(known, Box::new(ReportSink(Arc::clone(&recorded))))).await;
    let budgets = scope("PodDisruptionBudget");
    with_pods(&live, &budgets, false).await;
    live.send(Change::Unreadable(budgets.clone(), unreadable(State::Forbidden))).await;
    let unread = "p: looks up poddisruptionbudgets.policy, which cannot be read: forbidden";
    live.until(&["p: no PodDisruptionBudget selects this Pod", unread]).await;
    assert!(recorded.lock().unwrap().iter().all(|delta| delta.resolved.is_empty() && delta.appeared.is_empty()));
    read(&live, &budgets, vec![budget("a")]).await;
    live.until(&[]).await;
    let resolved: usize = recorded.lock().unwrap().iter().map(|delta| delta.resolved.len()).sum();
    assert_eq!(resolved, 1);
}
