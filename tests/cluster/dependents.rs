//! What a verdict depends on besides its object: other objects, the Namespace, the clock, and the change itself, in all
//! dialects from one directory.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use kaudit_controlplane::{ControlPlane, Options, require, shared};
use kaudit_test_support::settings::{seed, setting};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, denies_marked, marked, policies, results_in, run, wait_for};

/// Conftest dialect with Gatekeeper's inventory layout.
const UNIQUE_HOST: &str = r#"
package hosts
deny contains msg if {
    input.kind == "Ingress"
    host := input.spec.rules[_].host
    some namespace, name
    other := data.inventory.namespace[namespace]["networking.k8s.io/v1"].Ingress[name]
    other.spec.rules[_].host == host
    [namespace, name] != [input.metadata.namespace, input.metadata.name]
    msg := sprintf("host %v is also that of %v/%v", [host, namespace, name])
}
"#;

/// OPA admission dialect with kube-mgmt's layout.
const BUDGET: &str = r#"
package kubernetes.budgets
import data.kubernetes.poddisruptionbudgets
deny contains msg if {
    input.request.kind.kind == "Pod"
    not selected
    msg := sprintf("no PodDisruptionBudget selects Pod %v", [input.request.name])
}
selected if {
    some budget in poddisruptionbudgets[input.request.namespace]
    every key, value in budget.spec.selector.matchLabels { input.request.object.metadata.labels[key] == value }
}
"#;

/// A Kubescape rule that relates objects of a namespace, its metadata, and a rule for single objects.
const UNPROTECTED: &str = r#"
package armo_builtins
import rego.v1
deny contains result if {
    pod := input[_]
    pod.kind == "Pod"
    budgets := [budget | budget := input[_]; budget.kind == "PodDisruptionBudget"; selects(budget, pod)]
    count(budgets) == 0
    result := {"alertMessage": "no budget protects it", "alertObject": {"k8sApiObjects": [pod]}}
}
selects(budget, pod) if budget.spec.selector.matchLabels.app == pod.metadata.labels.app
"#;
const OF_APP: &str = r#"
package armo_builtins
deny[result] {
    pod := input[_]
    pod.metadata.labels.app == "1"
    result := {"alertMessage": "app 1", "reviewPaths": ["metadata.labels.app"], "alertObject": {"k8sApiObjects": [pod]}}
}
"#;

/// A rule that relates all objects of the cluster.
const SAME_HOST: &str = r#"
package armo_builtins
import rego.v1
deny contains result if {
    ingress := input[_]
    other := input[_]
    other.spec.rules[_].host == ingress.spec.rules[_].host
    [other.metadata.namespace, other.metadata.name] != [ingress.metadata.namespace, ingress.metadata.name]
    result := {"alertMessage": "its host is also that of another", "alertObject": {"k8sApiObjects": [ingress]}}
}
"#;

fn metadata(name: &str, kinds: &[(&str, &str)]) -> String {
    let of = |(group, kind): &(&str, &str)| json!({"apiGroups": [group], "apiVersions": ["v1"], "resources": [kind]});
    json!({"name": name, "ruleLanguage": "Rego", "match": kinds.iter().map(of).collect::<Vec<_>>()}).to_string()
}

fn control(id: &str, rule: &str, whole: bool) -> String {
    let attributes = json!({"requiresWholeClusterInput": whole});
    json!({"controlID": id, "name": id, "rulesNames": [rule], "baseScore": 5.0, "attributes": attributes}).to_string()
}

const PODS: [(&str, &str); 2] = [("", "Pod"), ("policy", "PodDisruptionBudget")];

/// A policy about changes, limited to objects with the label `fixed`.
const CHANGES: &str = r#"
package changes
deny contains msg if {
    old := input.request.oldObject
    old.metadata.labels.fixed
    input.request.object.data != old.data
    msg := sprintf("%v must stay as it is", [input.request.name])
}
deny contains msg if {
    input.request.operation == "DELETE"
    input.request.oldObject.metadata.labels.fixed
    msg := sprintf("%v must not be deleted", [input.request.name])
}
"#;

/// Returns a template for Pods, and a Constraint for Namespaces with this value of the label `stage`.
fn in_stage(stage: &str, message: &str) -> String {
    format!(
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: stageapps}}
spec:
  crd: {{spec: {{names: {{kind: StageApps}}}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package stageapps
        violation[{{"msg": msg}}] {{
          app := input.review.object.metadata.labels.app
          others := {{name | data.inventory.namespace[input.review.namespace]["v1"].Pod[name].metadata.labels.app == app}}
          count(others) > 2
          msg := sprintf("{message} %v of %v", [count(others), app])
        }}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: StageApps
metadata: {{name: few}}
spec:
  match:
    kinds: [{{apiGroups: [""], kinds: [Pod]}}]
    namespaceSelector: {{matchLabels: {{stage: {stage}}}}}
"#
    )
}

const NAMESPACES: usize = 6;
const NAMES: usize = 12;
const WRITES_AT_A_TIME: usize = 4;
/// Operations per second.
const WRITES_PER_SECOND: u64 = 40;

/// Writes to Ingresses, budgets, Pods and Namespaces.
struct DependentsWriter {
    client: Client,
}

impl DependentsWriter {
    fn api(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Creates an object, or patches it if it exists.
    async fn put(&self, api_version: &str, kind: &str, namespace: &str, mut object: Value, name: &str) {
        let api = self.api(api_version, kind, Some(namespace));
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        match api.create(&PostParams::default(), &parsed).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => panic!("creating {kind} {namespace}/{name}: {error}"),
        }
        // Hardly more than the labels of an existing Pod can change.
        let patch = if kind == "Pod" { json!({"metadata": object["metadata"]}) } else { object };
        tolerate(api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop), name);
    }

    async fn status(&self, api_version: &str, kind: &str, namespace: &str, name: &str, status: Value) {
        let api = self.api(api_version, kind, Some(namespace));
        let patch = Patch::Merge(json!({"status": status}));
        tolerate(api.patch_status(name, &PatchParams::default(), &patch).await.map(drop), name);
    }

    async fn stage(&self, namespace: &str, stage: &str) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"stage": stage}}}));
        let api = self.api("v1", "Namespace", None);
        tolerate(api.patch(namespace, &PatchParams::default(), &patch).await.map(drop), namespace);
    }

    async fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        // Without a grace period: no kubelet runs the Pods.
        let parameters = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
        let deleted = self.api(api_version, kind, Some(namespace)).delete(name, &parameters).await;
        tolerate(deleted.map(drop), name);
    }

    async fn ingress(&self, namespace: &str, name: &str, host: &str) {
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        let rule = json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}});
        self.put("networking.k8s.io/v1", "Ingress", namespace, json!({"spec": {"rules": [rule]}}), name).await;
    }

    async fn pod(&self, namespace: &str, name: &str, app: &str) {
        let spec = json!({"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "registry.example.com/c:1"}]});
        self.put("v1", "Pod", namespace, json!({"metadata": {"labels": {"app": app}}, "spec": spec}), name).await;
    }

    async fn budget(&self, namespace: &str, name: &str, app: &str) {
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": app}}});
        self.put("policy/v1", "PodDisruptionBudget", namespace, json!({"spec": spec}), name).await;
    }

    async fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let list = self.api(api_version, kind, None).list(&ListParams::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// Computes without Rego which objects violate which policy, for Constraints on `stage`.
    async fn wanted(&self, stage: &str) -> [(&'static str, BTreeSet<String>); 5] {
        let ingresses = self.list("networking.k8s.io/v1", "Ingress").await;
        let budgets = self.list("policy/v1", "PodDisruptionBudget").await;
        let (pods, namespaces) = (self.list("v1", "Pod").await, self.list("v1", "Namespace").await);
        let shares = |object: &Value, list: &[Value], parts: &[&str]| {
            let same = |other: &&Value| parts.iter().all(|part| other.pointer(part) == object.pointer(part));
            list.iter().filter(same).count()
        };
        let (namespace, app) = ("/metadata/namespace", "/metadata/labels/app");
        let twice = |ingress: &&Value| shares(ingress, &ingresses, &["/spec/rules/0/host"]) > 1;
        let alone = |pod: &&Value| {
            let selects = |budget: &&Value| {
                budget.pointer(namespace) == pod.pointer(namespace)
                    && budget.pointer("/spec/selector/matchLabels/app") == pod.pointer(app)
            };
            !budgets.iter().any(|budget| selects(&budget))
        };
        let staged = |pod: &&Value| {
            let of = |other: &&Value| {
                Some(&other["metadata"]["name"]) == pod.pointer(namespace)
                    && other["metadata"]["labels"]["stage"] == stage
            };
            namespaces.iter().any(|other| of(&other)) && shares(pod, &pods, &[namespace, app]) > 2
        };
        let places = |list: Vec<&Value>| list.into_iter().map(|object| place(&object["metadata"])).collect();
        [
            ("hosts", places(ingresses.iter().filter(twice).collect())),
            ("kubernetes.budgets", places(pods.iter().filter(alone).collect())),
            ("unprotected", places(pods.iter().filter(alone).collect())),
            ("of-app", places(pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "1").collect())),
            ("StageApps", places(pods.iter().filter(staged).collect())),
        ]
    }

    /// Performs one random operation.
    async fn step(&self, mut random: fastrand::Rng) {
        let namespace = &format!("n{}", random.usize(..NAMESPACES));
        let name = &format!("o{}", random.usize(..NAMES));
        let app = &random.u8(..3).to_string();
        match random.u8(..12) {
            0 | 1 => self.ingress(namespace, name, &format!("h{}.example.com", random.u8(..40))).await,
            2 => self.budget(namespace, name, app).await,
            3 | 4 => self.pod(namespace, name, app).await,
            5 => self.delete("networking.k8s.io/v1", "Ingress", namespace, name).await,
            6 => self.delete("policy/v1", "PodDisruptionBudget", namespace, name).await,
            7 => self.delete("v1", "Pod", namespace, name).await,
            8 => self.stage(namespace, if random.bool() { "prod" } else { "test" }).await,
            9 => self.status("v1", "Pod", namespace, name, json!({"message": random.u32(..).to_string()})).await,
            _ => {
                let generation = json!({"observedGeneration": random.u16(..)});
                self.status("policy/v1", "PodDisruptionBudget", namespace, name, generation).await;
            }
        }
    }
}

/// Returns `namespace/name`.
fn place(names: &Value) -> String {
    format!("{}/{}", names["namespace"].as_str().unwrap(), names["name"].as_str().unwrap())
}

/// Ignores errors caused by concurrent writes.
fn tolerate(result: kube::Result<()>, name: &str) {
    match result {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => panic!("{name}: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_dialects_converge_with_and_without_the_update_filter() {
    if !require() {
        return;
    }
    let (seed, seconds) = (seed(), setting("KAUDIT_TEST_SECONDS").unwrap_or(20));
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let writer = DependentsWriter { client: plane.admin().unwrap() };
    for number in 0..NAMESPACES {
        let account =
            format!("---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: default, namespace: n{number}}}\n");
        plane.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{number}}}\n")).await.unwrap();
        plane.apply(&account).await.unwrap();
    }
    let directory = policies(&[
        ("hosts.rego", UNIQUE_HOST),
        ("budgets/budgets.rego", BUDGET),
        ("changes.rego", CHANGES),
        ("stage.yaml", &in_stage("prod", "already")),
        ("rules/unprotected/rule.metadata.json", &metadata("unprotected", &PODS)),
        ("rules/unprotected/raw.rego", UNPROTECTED),
        ("rules/of-app/rule.metadata.json", &metadata("of-app", &PODS)),
        ("rules/of-app/raw.rego", OF_APP),
    ]);
    // Rules that relate objects: only objects whose results change are evaluated again.
    let relating = policies(&[
        ("controls/1.json", &control("unprotected", "unprotected", false)),
        ("controls/2.json", &control("hosts", "same-host", true)),
        ("rules/unprotected/rule.metadata.json", &metadata("unprotected", &PODS)),
        ("rules/unprotected/raw.rego", UNPROTECTED),
        ("rules/same-host/rule.metadata.json", &metadata("same-host", &[("networking.k8s.io", "Ingress")])),
        ("rules/same-host/raw.rego", SAME_HOST),
    ]);
    let mut live = Vec::new();
    for (directory, filter) in
        [(&directory, "--update-filter=on"), (&directory, "--update-filter=off"), (&relating, "--update-filter=on")]
    {
        let path = directory.path().to_str().unwrap();
        let arguments = ["--policies", path, "--record=none", filter];
        live.push((path.to_owned(), Running::start(&plane.kubeconfig(), &arguments).await));
    }
    for (_, kaudit) in &live {
        kaudit.ready().await;
    }

    let mut random = fastrand::Rng::with_seed(seed);
    // Reloads in between: the template gets another message and selects Pods in other Namespaces; then another policy
    // is removed.
    let edits: [&dyn Fn(); 3] = [
        &|| std::fs::write(directory.path().join("stage.yaml"), in_stage("test", "there are")).unwrap(),
        &|| std::fs::remove_file(directory.path().join("changes.rego")).unwrap(),
        &|| {},
    ];
    for edit in edits {
        let end = Instant::now() + Duration::from_secs(seconds) / 3;
        let mut beat = tokio::time::interval(Duration::from_millis(1_000 / WRITES_PER_SECOND));
        let steps = stream::poll_fn(|context| {
            std::task::ready!(beat.poll_tick(context));
            std::task::Poll::Ready((Instant::now() < end).then(|| random.fork()))
        });
        let written = steps.map(|random| writer.step(random)).buffer_unordered(WRITES_AT_A_TIME).count().await;
        println!("{written} random writes");
        edit();
    }

    let quiet = Instant::now();
    for (policies, kaudit) in &live {
        let fresh = loop {
            let fresh = run(&plane.kubeconfig(), &["check", "--once", "-o", "json", "--policies", policies]).await;
            assert_eq!(fresh.code, Some(1), "{}", fresh.stderr);
            let (fresh, state) = (fresh.json(), kaudit.status());
            if state["results"] == fresh["results"] && state["summary"] == fresh["summary"] {
                break fresh;
            }
            assert!(quiet.elapsed() < PATIENCE, "no convergence: live {state:#?}\nfresh {fresh:#}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        };
        println!("converged {:?} after the last write", quiet.elapsed());
        let of_rules = *policies == relating.path().to_str().unwrap();
        for (policy, wanted) in writer.wanted("test").await {
            if of_rules && !["unprotected", "hosts"].contains(&policy) {
                continue;
            }
            let found: BTreeSet<String> = fresh["results"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|entry| entry["policy"] == policy)
                .map(|entry| place(&entry["resource"]))
                .collect();
            assert_eq!(found, wanted, "{policy}");
            println!("{} objects violate {policy}", found.len());
        }
    }
    for (policies, kaudit) in live {
        let numbers = ["evaluations_total", "changes_skipped_total", "inventory_update_seconds_count"];
        println!("{:?}", numbers.map(|name| (name, kaudit.metric(&format!("kaudit_{name}")))));
        let reloaded = kaudit.log().contains("Policies loaded");
        assert!(reloaded || policies == relating.path().to_str().unwrap(), "it was reloaded");
        assert_eq!(kaudit.stop().await, Some(0));
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn lookups_of_other_objects_are_followed_within_seconds() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("hosts").await.unwrap();
    let writer = DependentsWriter { client: plane.admin().unwrap() };
    // Unique hosts: the rule looks up all namespaces, and other tests use the same cluster.
    let [shared_host, other_host] = ["a", "b"].map(|name| format!("{name}.{namespace}.example.com"));
    writer.ingress(&namespace, "one", &shared_host).await;
    let directory = policies(&[("hosts.rego", UNIQUE_HOST)]);
    let paths = ["--policies", directory.path().to_str().unwrap(), "--record=none"];
    let kaudit = Running::start(&plane.kubeconfig(), &paths).await;
    kaudit.ready().await;
    for round in 0..3 {
        for (host, violations) in [(&shared_host, 2), (&other_host, 0)] {
            writer.ingress(&namespace, "two", host).await;
            let begin = Instant::now();
            wait_for("those who look it up to follow", || async {
                (results_in(&kaudit.status(), &namespace).len() == violations).then_some(())
            })
            .await;
            println!("round {round}: {violations} violations {:?} after the write", begin.elapsed());
        }
    }
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn status_changes_alone_are_not_evaluated() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("status").await.unwrap();
    let writer = DependentsWriter { client: plane.admin().unwrap() };
    plane.kubectl(&["-n", &namespace, "create", "serviceaccount", "default"]).await.unwrap();
    writer.pod(&namespace, "one", "a").await;
    writer.budget(&namespace, "one", "b").await;
    let directory = policies(&[("hosts.rego", UNIQUE_HOST), ("budgets.rego", BUDGET)]);
    let paths = ["--policies", directory.path().to_str().unwrap(), "--namespace", &namespace, "--record=none"];
    let kaudit = Running::start(&plane.kubeconfig(), &paths).await;
    kaudit.ready().await;
    wait_for("the violation", || async { (results_in(&kaudit.status(), &namespace).len() == 1).then_some(()) }).await;
    let before = kaudit.metric("kaudit_evaluations_total");
    for number in 0..50 {
        writer.status("v1", "Pod", &namespace, "one", json!({"message": number.to_string()})).await;
        let generation = json!({"observedGeneration": number + 100});
        writer.status("policy/v1", "PodDisruptionBudget", &namespace, "one", generation).await;
    }
    wait_for("all changes to be seen", || async {
        (kaudit.metric("kaudit_changes_skipped_total") == Some(100)).then_some(())
    })
    .await;
    // The inventory is updated, and no object needs evaluation.
    wait_for("the inventory", || async {
        (kaudit.metric("kaudit_inventory_update_seconds_count") >= Some(2)).then_some(())
    })
    .await;
    assert_eq!(kaudit.metric("kaudit_evaluations_total"), before, "none of them is judged");
    writer.budget(&namespace, "one", "a").await;
    wait_for("its end", || async { results_in(&kaudit.status(), &namespace).is_empty().then_some(()) }).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn namespace_labels_affect_objects_in_the_namespace() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("stage").await.unwrap();
    let writer = DependentsWriter { client: plane.admin().unwrap() };
    plane.kubectl(&["-n", &namespace, "create", "serviceaccount", "default"]).await.unwrap();
    for name in ["one", "two", "three"] {
        writer.pod(&namespace, name, "a").await;
    }
    // A unique stage, because other tests use the same cluster.
    let directory = policies(&[("stage.yaml", &in_stage(&namespace, "already"))]);
    let paths = ["--policies", directory.path().to_str().unwrap(), "--record=none"];
    let kaudit = Running::start(&plane.kubeconfig(), &paths).await;
    kaudit.ready().await;
    let found = |number: usize| {
        let results = results_in(&kaudit.status(), &namespace);
        async move { (results.len() == number).then_some(results) }
    };
    for _ in 0..2 {
        writer.stage(&namespace, &namespace).await;
        let results = wait_for("three violations", || found(3)).await;
        assert_eq!(results[0]["message"], "already 3 of a");
        writer.stage(&namespace, "other").await;
        wait_for("their end", || found(0)).await;
    }
    writer.stage(&namespace, &namespace).await;
    wait_for("three violations", || found(3)).await;
    writer.delete("v1", "Pod", &namespace, "two").await;
    wait_for("their end", || found(0)).await;
    assert_eq!(kaudit.stop().await, Some(0));

    // If Namespaces cannot be read, the results are errors.
    let once = ["check", "--once", "-o", "json", paths[0], paths[1], "--namespace", &namespace];
    let once = run(&plane.kubeconfig(), &once).await;
    assert_eq!(once.code, Some(3), "{once:?}");
    let results = results_in(&once.json(), &namespace);
    let unknown = |entry: &Value| entry["result"] == "error" && entry["message"].as_str().unwrap().contains(&namespace);
    assert!(results.len() == 2 && results.iter().all(unknown), "{results:?}");
}

#[tokio::test]
async fn a_forbidden_change_is_one_event_and_does_not_stay_open() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("changes").await.unwrap();
    let directory = policies(&[("changes.rego", CHANGES), ("marked.rego", &denies_marked(&namespace))]);
    let paths = ["--policies", directory.path().to_str().unwrap(), "--namespace", &namespace, "--record=events"];
    let config_map = |text: &str| {
        let metadata = json!({"name": "one", "namespace": namespace, "labels": {"fixed": "yes"}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}).to_string()
    };
    plane.apply(&config_map("a")).await.unwrap();
    plane.apply(&marked("v1", "ConfigMap", &namespace, "stands", &namespace)).await.unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &paths).await;
    kaudit.ready().await;
    let notes = || async {
        let list = plane.kubectl(&["-n", &namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        let notes = list["items"].as_array().unwrap().iter();
        let mut notes: Vec<_> =
            notes.map(|event| format!("{} {}", text(event, "reason"), text(event, "note"))).collect();
        notes.sort();
        notes
    };
    let stands = "PolicyViolation marked/deny: marked yes";
    let changed = "PolicyViolation changes/deny: one must stay as it is";
    let deleted = "PolicyViolation changes/deny: one must not be deleted";
    // It records: what was recorded before is read while objects are evaluated, and until then transitions are not
    // recorded.
    wait_for("the Event of the open violation", || async { (notes().await == [stands]).then_some(()) }).await;

    plane.apply(&config_map("b")).await.unwrap();
    wait_for("the Event of the change", || async { (notes().await == [changed, stands]).then_some(()) }).await;
    // Evaluated again because of another change, which is allowed.
    let evaluations = kaudit.metric("kaudit_evaluations_total");
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", "other=yes"]).await.unwrap();
    wait_for("the next verdict", || async { (kaudit.metric("kaudit_evaluations_total") > evaluations).then_some(()) })
        .await;
    assert_eq!(results_in(&kaudit.status(), &namespace).len(), 1, "nothing else is open");
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "one"]).await.unwrap();
    wait_for("the Event of the deletion", || async { (notes().await.len() == 3).then_some(()) }).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(notes().await, [deleted, changed, stands], "nothing is resolved");
}

#[tokio::test]
async fn time_alone_triggers_evaluation() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("clock").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    // Violated from five seconds after creation on.
    let policy = r#"
package clock
deny contains "old" if {
    input.kind == "ConfigMap"
    time.now_ns() > time.parse_rfc3339_ns(input.metadata.annotations.until)
}
"#;
    let until = jiff::Timestamp::now() + Duration::from_secs(5);
    let until = format!("until={until:.0}");
    plane.kubectl(&["-n", &namespace, "annotate", "configmap", "one", &until]).await.unwrap();
    let directory = policies(&[("clock.rego", policy)]);
    let scope = ["--policies", directory.path().to_str().unwrap(), "--namespace", &namespace, "--record=none"];
    let kaudit = Running::start(&plane.kubeconfig(), &[&scope[..], &["--rejudge-every=1s"]].concat()).await;
    kaudit.ready().await;
    wait_for("the time", || async { (results_in(&kaudit.status(), &namespace).len() == 1).then_some(()) }).await;
    let evaluations = kaudit.metric("kaudit_evaluations_total").unwrap();
    wait_for("more verdicts", || async {
        (kaudit.metric("kaudit_evaluations_total") > Some(evaluations + 1)).then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}
