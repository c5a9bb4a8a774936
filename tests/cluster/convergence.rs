//! The promise of convergence: when the cluster is quiet, the live verdicts equal those of a fresh audit, and the
//! Events have told each appearance and each end once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use k8s_openapi::api::events::v1::Event;
use kaudit_controlplane::{ControlPlane, Options};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, policies, run, wait_for};

const NAMESPACES: usize = 50;
const OBJECTS: usize = 2_000;
const WRITES_AT_A_TIME: usize = 8;
/// Operations a second; half of what the server can do here.
const WRITES_PER_SECOND: u64 = 100;

/// Any object with the label `bad` is denied, with `meh` warned of; the labels' values are in the messages.
const POLICY: &str = r#"
package labels
deny contains {"msg": sprintf("bad is %v", [input.metadata.labels.bad]), "details": {"kind": input.kind}}
warn_meh contains sprintf("meh is %v", [input.metadata.labels.meh])
"#;

const CRDS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Cluster
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
";

/// API version, kind, and the least that the server takes. The last one is cluster-scoped.
fn kinds() -> Vec<(&'static str, &'static str, Value)> {
    let labels = json!({"app": "a"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "registry.example.com/c:1"}]}});
    let mut once = pod.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let workload = json!({"spec": {"selector": {"matchLabels": labels}, "template": pod}});
    vec![
        ("v1", "ConfigMap", json!({"data": {"k": "v"}})),
        ("v1", "Secret", json!({"stringData": {"k": "v"}})),
        ("v1", "Service", json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}})),
        ("v1", "ServiceAccount", json!({})),
        ("apps/v1", "Deployment", workload.clone()),
        ("apps/v1", "StatefulSet", workload.clone()),
        ("apps/v1", "DaemonSet", workload),
        ("batch/v1", "Job", json!({"spec": {"template": once}})),
        ("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
        ("networking.k8s.io/v1", "NetworkPolicy", json!({"spec": {"podSelector": {}}})),
        (
            "networking.k8s.io/v1",
            "Ingress",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        ),
        ("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})),
        ("shop.example.com/v1", "Widget", json!({"spec": {}})),
        ("shop.example.com/v1", "Gadget", json!({"spec": {}})),
    ]
}

/// Writes objects of all kinds.
struct Writer {
    client: Client,
    kinds: Vec<(&'static str, &'static str, Value)>,
}

impl Writer {
    fn api(&self, number: usize) -> Api<DynamicObject> {
        let (api_version, kind, _) = &self.kinds[number % self.kinds.len()];
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if *kind == "Gadget" {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), &format!("n{}", number % NAMESPACES), &resource)
    }

    /// Creates object `number`.
    async fn create(&self, number: usize, labels: &Value) {
        let (api_version, kind, rest) = &self.kinds[number % self.kinds.len()];
        let mut object = rest.clone();
        object["apiVersion"] = (*api_version).into();
        object["kind"] = (*kind).into();
        object["metadata"] = json!({"name": name(number), "labels": labels});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        match self.api(number).create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => panic!("creating {kind} {}: {error}", name(number)),
        }
    }

    async fn label(&self, number: usize, labels: &Value) {
        let patch = json!({"metadata": {"labels": labels}});
        match self.api(number).patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("labelling {}: {error}", name(number)),
        }
    }

    async fn delete(&self, number: usize) {
        match self.api(number).delete(&name(number), &DeleteParams::background()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => panic!("deleting {}: {error}", name(number)),
        }
    }

    /// Does one random thing to a random object.
    async fn step(&self, mut random: fastrand::Rng) {
        let number = random.usize(..OBJECTS);
        let value = random.u8(..3).to_string();
        match random.u8(..10) {
            0 | 1 => self.create(number, &json!({"bad": value})).await,
            2..=4 => self.label(number, &json!({"bad": value})).await,
            5 => self.label(number, &json!({"meh": value})).await,
            6 | 7 => self.label(number, &json!({"bad": null, "meh": null})).await,
            8 => self.delete(number).await,
            _ => {
                self.delete(number).await;
                self.create(number, &json!({"bad": value, "meh": value})).await;
            }
        }
    }
}

fn name(number: usize) -> String {
    format!("o{number}")
}

/// How often a violation was told of, in the order of the Events: what it is about, then true for appeared.
type Told = BTreeMap<(String, String), Vec<bool>>;

async fn told(client: &Client) -> Told {
    let api: Api<Event> = Api::all(client.clone());
    let mut events = Vec::new();
    let mut page = ListParams::default().limit(500);
    loop {
        let list = api.list(&page).await.unwrap();
        let next = list.metadata.continue_.clone().filter(|token| !token.is_empty());
        events.extend(list.items);
        match next {
            Some(token) => page = ListParams::default().limit(500).continue_token(&token),
            None => break,
        }
    }
    events.retain(|event| event.reporting_controller.as_deref() == Some("kaudit"));
    events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    let mut told = Told::new();
    for event in events {
        let regarding = event.regarding.unwrap();
        let about = (regarding.uid.unwrap(), event.note.unwrap());
        told.entry(about).or_default().push(match event.reason.as_deref().unwrap() {
            "PolicyViolation" => true,
            "PolicyResolved" => false,
            other => panic!("an Event with the reason {other}"),
        });
    }
    told
}

/// What stands according to a result: (uid, note).
fn standing(result: &Value) -> BTreeSet<(String, String)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    let note = |entry: &Value| format!("{}/{}: {}", text(entry, "policy"), text(entry, "rule"), text(entry, "message"));
    let entries = result["results"].as_array().unwrap().iter();
    entries.map(|entry| (text(&entry["resource"], "uid"), note(entry))).collect()
}

/// Whether each violation was told by turns, and its last turn is as things stand.
fn tells_the_truth(told: &Told, standing: &BTreeSet<(String, String)>) -> Result<(), String> {
    for (about, turns) in told {
        let by_turns = turns.iter().enumerate().all(|(index, appeared)| *appeared == (index % 2 == 0));
        if !by_turns {
            return Err(format!("{about:?} was told as {turns:?}"));
        }
        if turns.last() == Some(&true) && !standing.contains(about) {
            return Err(format!("the end of {about:?} was not told"));
        }
    }
    match standing.iter().find(|about| told.get(*about).and_then(|turns| turns.last()) != Some(&true)) {
        Some(about) => Err(format!("{about:?} was not told")),
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_verdicts_converge_to_those_of_a_fresh_audit() {
    if !kaudit_controlplane::require() {
        return;
    }
    let seed =
        std::env::var("KAUDIT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let seconds = std::env::var("KAUDIT_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    println!("KAUDIT_TEST_SEED={seed} repeats this run");
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    let writer = Writer { client: client.clone(), kinds: kinds() };
    plane.apply(CRDS).await.unwrap();
    plane.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).await.unwrap();
    let namespaces: Vec<String> =
        (0..NAMESPACES).map(|n| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: n{n}}}\n")).collect();
    plane.apply(&namespaces.join("---\n")).await.unwrap();
    // A third is in violation from the start.
    let labels = |number: usize| if number.is_multiple_of(3) { json!({"bad": "0"}) } else { json!({}) };
    let create = |number| {
        let (writer, labels) = (&writer, labels(number));
        async move { writer.create(number, &labels).await }
    };
    stream::iter(0..OBJECTS).map(create).buffer_unordered(WRITES_AT_A_TIME).collect::<()>().await;

    let directory = policies(&[("labels.rego", POLICY)]);
    let paths = ["--policies", directory.path().to_str().unwrap()];
    let kaudit =
        Running::start(&plane.kubeconfig(), &[paths[0], paths[1], "--events-per-second=1000", "--record=events"]).await;
    wait_for("the gate", || async {
        let open = kaudit.metric("kaudit_gate_open") == Some(1.0);
        if !open {
            // Asked after: had anything been judged before the gate opened, it would show here or in the Events.
            if let Some(status) = kaudit.get("/status").filter(|_| kaudit.metric("kaudit_gate_open") == Some(0.0)) {
                let status: Value = serde_json::from_str(&status).unwrap();
                assert_eq!(status["summary"]["objects"], 0, "judged before the gate opened");
                assert!(told(&client).await.is_empty(), "told before the gate opened");
            }
        }
        open.then_some(())
    })
    .await;
    let expected = OBJECTS.div_ceil(3);
    wait_for("every violation at the gate", || async { (told(&client).await.len() >= expected).then_some(()) }).await;
    let first = told(&client).await;
    assert_eq!((first.len(), first.values().map(Vec::len).sum::<usize>()), (expected, expected), "each exactly once");

    let mut random = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut beat = tokio::time::interval(Duration::from_millis(1_000 / WRITES_PER_SECOND));
    let steps = stream::poll_fn(|context| {
        std::task::ready!(beat.poll_tick(context));
        std::task::Poll::Ready((Instant::now() < end).then(|| random.fork()))
    });
    let written = steps.map(|random| writer.step(random)).buffer_unordered(WRITES_AT_A_TIME).count().await;
    println!("{written} random writes");

    // Until it is quiet the two may differ; then they must not.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let fresh = run(&plane.kubeconfig(), &["check", "--once", "-o", "json", paths[0], paths[1]]).await;
        assert_eq!(fresh.code, Some(1), "{}", fresh.stderr);
        let (fresh, live) = (fresh.json(), kaudit.status());
        let truth = tells_the_truth(&told(&client).await, &standing(&live));
        if fresh["results"] == live["results"] && fresh["summary"] == live["summary"] && truth.is_ok() {
            println!("{} standing, {} told", standing(&live).len(), told(&client).await.len());
            break;
        }
        assert!(
            Instant::now() < deadline,
            "no convergence: {truth:?}\nlive {}\nfresh {}",
            live["summary"],
            fresh["summary"]
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let metrics = kaudit.get("/metrics").unwrap();
    let held_back: Vec<_> = metrics.lines().filter(|line| line.starts_with("kaudit_recorder_drops_total{")).collect();
    assert!(held_back.is_empty(), "{held_back:?}");
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
