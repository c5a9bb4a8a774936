//! Violations shared by an owner and its dependents: one Event, one result in reports and one line in the output, at
//! the topmost owner.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kaudit_controlplane::{ControlPlane, Options, require};
use kaudit_test_support::{
    long_run::get,
    settings::{seed, setting},
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::{
    reports::{self, NAMES, OPENREPORTS, reports_in},
    support::{Running, establish, establish_audits, policies, results_in, run, wait_for},
    truth::{EventOrder, Truth, policy_arguments, violation_events},
    writer::POLICY,
};

/// Number of Deployments of the random writer, each with two revisions of three Pods.
const DEPLOYMENTS: usize = 24;
const REVISIONS: usize = 2;
const PODS: usize = 3;
const WRITES_AT_A_TIME: usize = 8;
const WRITES_PER_SECOND: u64 = 60;

/// One object of a tree of Deployments, their revisions and Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeObject {
    Deployment(usize),
    Revision(usize, usize),
    Pod(usize, usize, usize),
}

impl TreeObject {
    fn random(random: &mut fastrand::Rng) -> Self {
        let deployment = random.usize(..DEPLOYMENTS);
        let (revision, pod) = (random.usize(..REVISIONS), random.usize(..PODS));
        match random.u8(..6) {
            0 => Self::Deployment(deployment),
            1 | 2 => Self::Revision(deployment, revision),
            _ => Self::Pod(deployment, revision, pod),
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..DEPLOYMENTS).flat_map(|deployment| {
            let revisions = (0..REVISIONS).flat_map(move |revision| {
                let pods = (0..PODS).map(move |pod| Self::Pod(deployment, revision, pod));
                [Self::Revision(deployment, revision)].into_iter().chain(pods)
            });
            [Self::Deployment(deployment)].into_iter().chain(revisions)
        })
    }

    fn owner(self) -> Option<Self> {
        match self {
            Self::Deployment(_) => None,
            Self::Revision(deployment, _) => Some(Self::Deployment(deployment)),
            Self::Pod(deployment, revision, _) => Some(Self::Revision(deployment, revision)),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Deployment(deployment) => format!("d{deployment}"),
            Self::Revision(deployment, revision) => format!("d{deployment}-{revision}"),
            Self::Pod(deployment, revision, pod) => format!("d{deployment}-{revision}-{pod}"),
        }
    }

    fn kind(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Deployment(_) => ("apps", "v1", "Deployment"),
            Self::Revision(..) => ("apps", "v1", "ReplicaSet"),
            Self::Pod(..) => ("", "v1", "Pod"),
        }
    }

    fn spec(self) -> Value {
        let pod = json!({"containers": [{"name": "c", "image": "registry.example.com/c:1"}]});
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
        match self {
            Self::Pod(..) => pod,
            _ => json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}),
        }
    }
}

/// A writer to a tree in a namespace.
struct TreeWriter {
    client: Client,
    namespace: String,
}

impl TreeWriter {
    fn api(&self, place: TreeObject) -> Api<DynamicObject> {
        let (group, version, kind) = place.kind();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Returns the owner references of an object, if its owner exists.
    async fn owners(&self, place: TreeObject) -> Value {
        let Some(owner) = place.owner() else { return json!([]) };
        let Some(found) = self.api(owner).get_opt(&owner.name()).await.unwrap() else { return json!([]) };
        let (_, _, kind) = owner.kind();
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": owner.name(), "uid": found.metadata.uid, "controller": true}])
    }

    async fn create(&self, place: TreeObject, labels: &Value) {
        let (group, version, kind) = place.kind();
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": place.name(), "labels": labels, "ownerReferences": self.owners(place).await},
            "spec": place.spec(),
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        expect(self.api(place).create(&PostParams::default(), &object).await.map(drop));
    }

    async fn patch(&self, place: TreeObject, patch: Value) {
        let patched = self.api(place).patch(&place.name(), &PatchParams::default(), &Patch::Merge(&patch)).await;
        expect(patched.map(drop));
    }

    async fn label(&self, place: TreeObject, bad: Option<&str>) {
        self.patch(place, json!({"metadata": {"labels": {"bad": bad}}})).await;
    }

    async fn delete(&self, place: TreeObject) {
        // Dependents stay: there is no garbage collector.
        let now = DeleteParams::background().grace_period(0);
        expect(self.api(place).delete(&place.name(), &now).await.map(drop));
    }

    /// Performs a random operation on a random object.
    async fn step(&self, mut random: fastrand::Rng) {
        let place = TreeObject::random(&mut random);
        let value = random.u8(..3).to_string();
        match random.u8(..12) {
            0..=3 => self.label(place, Some(&value)).await,
            4 | 5 => self.label(place, None).await,
            6 => self.delete(place).await,
            7 | 8 => self.create(place, &json!({"app": "a", "bad": value})).await,
            9 => self.patch(place, json!({"metadata": {"ownerReferences": null}})).await,
            10 => self.patch(place, json!({"metadata": {"ownerReferences": self.owners(place).await}})).await,
            _ if matches!(place, TreeObject::Revision(..)) => {
                self.patch(place, json!({"spec": {"replicas": random.u8(..2)}})).await;
            }
            _ => {}
        }
    }
}

/// Ignores conflicts and missing objects, which are expected in random writes.
fn expect(done: kube::Result<()>) {
    match done {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        done => done.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_and_dependents_converge_and_nothing_is_recorded_twice() {
    if !require() {
        return;
    }
    let (seed, seconds) = (seed(), setting("KAUDIT_TEST_SECONDS").unwrap_or(30));
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    let client = plane.admin().unwrap();
    let tree = TreeWriter { client: client.clone(), namespace: plane.temp_namespace("owners").await.unwrap() };
    for place in TreeObject::all() {
        tree.create(place, &json!({"app": "a", "bad": "0"})).await;
    }
    let directory = policies(&[("labels.rego", POLICY)]);
    let truth = Truth {
        kubeconfig: plane.kubeconfig(),
        client: client.clone(),
        arguments: policy_arguments(directory.path()),
        namespaces: Vec::new(),
        event_order: EventOrder::ByTurns,
        reports: true,
    };
    let paths = truth.arguments.clone();
    let arguments = [&paths[0], &paths[1], "--events-per-second=1000", "--record=events,reports"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    truth.converged(&kaudit, Instant::now()).await;
    let first = violation_events(&client, &[]).await;
    assert_eq!(first.len(), DEPLOYMENTS, "one Event for each Deployment: {first:#?}");

    let mut random = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut beat = tokio::time::interval(Duration::from_millis(1_000 / WRITES_PER_SECOND));
    let steps = stream::poll_fn(|context| {
        std::task::ready!(beat.poll_tick(context));
        std::task::Poll::Ready((Instant::now() < end).then(|| random.fork()))
    });
    let written = steps.map(|random| tree.step(random)).buffer_unordered(WRITES_AT_A_TIME).count().await;
    let took = truth.converged(&kaudit, Instant::now()).await;
    println!("{written} random writes, converged {took:?} after the last");
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}

/// Returns the Events about violations in a namespace, in order: reason, object, note.
async fn events(plane: &ControlPlane, namespace: &str) -> Vec<[String; 3]> {
    let list = plane.kubectl(&["-n", namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let mut events: Vec<_> = list["items"].as_array().unwrap().iter().collect();
    events.sort_by_key(|event| event["eventTime"].to_string());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.iter().map(|event| [&event["reason"], &event["regarding"]["name"], &event["note"]].map(text)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_covers_its_pods_until_it_is_fixed() {
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    let namespace = plane.temp_namespace("rollup").await.unwrap();
    let tree = TreeWriter { client: plane.admin().unwrap(), namespace: namespace.clone() };
    let places =
        [TreeObject::Deployment(0), TreeObject::Revision(0, 0), TreeObject::Pod(0, 0, 0), TreeObject::Pod(0, 0, 1)];
    for place in places {
        tree.create(place, &json!({"app": "a", "bad": "0"})).await;
    }
    let directory = policies(&[("labels.rego", POLICY)]);
    let scope = ["-p", directory.path().to_str().unwrap(), "-n", &namespace];
    let recording = [&scope[..], &["--audit-name", &namespace]].concat();
    let kaudit = Running::start(&plane.kubeconfig(), &recording).await;
    kaudit.ready().await;
    let reported = async || {
        let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
        let results = reports.iter().flat_map(|report| report["results"].as_array().cloned().unwrap_or_default());
        let shown = |result: Value| {
            let name = result["resources"][0]["name"].as_str().unwrap().to_owned();
            (name, result["properties"]["dependents"].as_str().map(str::to_owned))
        };
        results.map(shown).collect::<Vec<_>>()
    };
    let until_reported = async |wanted: &[(&str, Option<&str>)]| {
        let wanted: Vec<_> =
            wanted.iter().map(|(name, count)| ((*name).to_owned(), count.map(str::to_owned))).collect();
        wait_for(&format!("{wanted:?}"), || async { (reported().await == wanted).then_some(()) }).await;
    };
    until_reported(&[("d0", Some("3"))]).await;
    let recorded =
        wait_for("the Event", || async { Some(events(&plane, &namespace).await).filter(|all| !all.is_empty()) }).await;
    // An Event counts the dependents that were evaluated at that time, while others may be in progress; the report
    // counts all.
    let [wanted] = &recorded[..] else { panic!("{recorded:#?}") };
    let counted =
        ["1 dependent", "2 dependents", "3 dependents"].map(|count| format!("labels/deny: bad is 0 (and {count})"));
    assert!(wanted[..2] == ["PolicyViolation", "d0"] && counted.contains(&wanted[2]), "{recorded:#?}");

    // The text output shows one entry, JSON all.
    let once = async |more: &[&str]| {
        let check = [&["check", "--once"][..], &scope, more].concat();
        run(&plane.kubeconfig(), &check).await
    };
    let text = once(&[]).await;
    assert!(text.stdout.contains("bad is 0 (and 3 dependents)") && !text.stdout.contains("Pod "), "{}", text.stdout);
    assert!(text.stdout.contains("1 failure in") && text.stdout.contains("3 covered by"), "{}", text.stdout);
    let each = once(&["--group-by", "object"]).await;
    assert!(each.stdout.contains("4 failures in") && each.stdout.contains("Pod "), "{}", each.stdout);
    let all = results_in(&once(&["-o", "json"]).await.json(), &namespace);
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|entry| entry["owner"]["name"] == "d0" || entry["dependents"] == 3), "{all:#?}");

    // After the Deployment is fixed, only the old revision's Pods are in violation, and nothing once it is scaled to 0.
    tree.label(TreeObject::Deployment(0), None).await;
    until_reported(&[("d0-0", Some("2"))]).await;
    for pod in [TreeObject::Pod(0, 0, 0), TreeObject::Pod(0, 0, 1)] {
        tree.delete(pod).await;
    }
    tree.patch(TreeObject::Revision(0, 0), json!({"spec": {"replicas": 0}})).await;
    until_reported(&[]).await;
    let resolved = ["PolicyResolved", "d0", "resolved: labels/deny: bad is 0"].map(str::to_owned);
    wait_for("the end of it", || async {
        (events(&plane, &namespace).await == [wanted.clone(), resolved.clone()]).then_some(())
    })
    .await;
    let over = once(&["-o", "json"]).await.json();
    let revisions = over["coverage"].as_array().unwrap().iter().find(|kind| kind["resource"] == "replicasets").unwrap();
    assert_eq!((&revisions["inactive"], over["results"].as_array().unwrap().len()), (&json!(1), 0));
    assert_eq!(once(&["--inactive", "judge"]).await.code, Some(1));
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Returns the first number after a text.
fn number_behind(text: &str, before: &str) -> usize {
    let behind = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}")).1;
    behind.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_violation_counts_once_in_every_view() {
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("views").await.unwrap();
    let tree = TreeWriter { client: plane.admin().unwrap(), namespace: namespace.clone() };
    // One Pod has its own violation only, and one has an additional violation.
    for (place, labels) in [
        (TreeObject::Deployment(0), json!({"app": "a", "bad": "0"})),
        (TreeObject::Revision(0, 0), json!({"app": "a", "bad": "0"})),
        (TreeObject::Pod(0, 0, 0), json!({"app": "a", "bad": "1"})),
        (TreeObject::Pod(0, 0, 1), json!({"app": "a", "bad": "0", "meh": "0"})),
    ] {
        tree.create(place, &labels).await;
    }
    let (fail, warn, covered) = (2, 1, 2);
    let directory = policies(&[("labels.rego", POLICY)]);
    let scope = ["-p", directory.path().to_str().unwrap(), "-n", &namespace];

    let file = |format: &str| directory.path().join(format).to_str().unwrap().to_owned();
    let formats = ["json", "ndjson", "sarif", "junit", "markdown", "github", "gitlab", "html", "openreport"];
    let outputs: Vec<String> = formats.iter().map(|format| format!("--output={format}={}", file(format))).collect();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let once = run(&plane.kubeconfig(), &[&["check", "--once", "-o", "text"][..], &outputs, &scope].concat()).await;
    assert_eq!(once.code, Some(1), "{}", once.stderr);
    let counted = format!("{fail} failures and {warn} warning in ");
    assert!(
        once.stdout.contains(&counted) && once.stdout.contains(&format!("{covered} covered by")),
        "{}",
        once.stdout
    );
    let read = |format: &str| std::fs::read_to_string(file(format)).unwrap();
    let json_of = |format: &str| serde_json::from_str::<Value>(&read(format)).unwrap();
    let is_summary = |summary: &Value| {
        assert_eq!(
            ["fail", "warn", "covered"].map(|key| summary[key].as_u64()),
            [fail, warn, covered].map(Some),
            "{summary}"
        );
    };
    let audit = json_of("json");
    is_summary(&audit["summary"]);
    assert_eq!(audit["results"].as_array().unwrap().len() as u64, fail + warn + covered);
    is_summary(&serde_json::from_str::<Value>(read("ndjson").lines().last().unwrap()).unwrap()["summary"]);
    let open = usize::try_from(fail + warn).unwrap();
    assert_eq!(json_of("sarif")["runs"][0]["results"].as_array().unwrap().len(), open);
    assert_eq!(json_of("gitlab").as_array().unwrap().len(), open);
    assert_eq!(number_behind(&read("junit"), "failures=\""), open);
    let annotations = |level: &str| read("github").lines().filter(|line| line.starts_with(level)).count() as u64;
    assert_eq!((annotations("::error "), annotations("::warning ")), (fail, warn));
    for format in ["markdown", "html"] {
        assert!(read(format).contains(&format!("{fail} fail, {warn} warn")), "{}", read(format));
    }
    let of_reports = |reports: &[Value]| {
        let sum = |key: &str| reports.iter().map(|report| report["summary"][key].as_u64().unwrap()).sum::<u64>();
        (sum("fail"), sum("warn"))
    };
    let documents = json_of("openreport");
    let documents = documents["items"].as_array().cloned().unwrap_or_else(|| vec![documents.clone()]);
    assert_eq!(of_reports(&documents), (fail, warn));

    let live = [&scope[..], &["--audit-name", &namespace, "--listen-ui=127.0.0.1:0"]].concat();
    let kaudit = Running::start(&plane.kubeconfig(), &live).await;
    kaudit.ready().await;
    wait_for("the status", || async { (kaudit.status()["results"] == audit["results"]).then_some(()) }).await;
    is_summary(&kaudit.status()["summary"]);
    wait_for("the reports", || async {
        (of_reports(&reports_in(&plane, NAMES[0][0], &namespace).await) == (fail, warn)).then_some(())
    })
    .await;
    let audit = ["get", "audit", &namespace, "-o", "json"];
    let summary = wait_for("the Audit", || async {
        let audit: Value = serde_json::from_str(&plane.kubectl(&audit).await.ok()?).unwrap();
        Some(audit["status"]["summary"].clone()).filter(|summary| summary["fail"] == fail && summary["warn"] == warn)
    })
    .await;
    is_summary(&summary);
    let sum_of = |result: &str| {
        let metrics = kaudit.get("/metrics").unwrap();
        let is_it =
            |line: &&str| line.starts_with("kaudit_violations{") && line.contains(&format!("result=\"{result}\""));
        metrics.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    wait_for("the metrics", || async { ((sum_of("fail"), sum_of("warn")) == (fail, warn)).then_some(()) }).await;
    assert_eq!(kaudit.metric("kaudit_violations_covered "), usize::try_from(covered).ok());
    let page = kaudit.page().await;
    let shown: Value = serde_json::from_str(&get(page, "/?format=json").unwrap()).unwrap();
    is_summary(&shown["summary"]);
    assert_eq!(shown["results"].as_array().unwrap().len(), open);
    assert!(get(page, "/").unwrap().contains(&format!("{fail} failures, {warn} warning")));
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Prints the cost of 500 Deployments with 38 Pods each, all in violation. Takes minutes: `cargo test --test cluster --
/// --ignored --nocapture five_hundred`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement that takes minutes"]
async fn five_hundred_deployments_and_their_pods_in_violation() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    for number in 0..50 {
        plane.kubectl(&["create", "namespace", &format!("n{number}")]).await.unwrap();
    }
    let client = plane.admin().unwrap();
    let create = |number: usize| {
        let tree = TreeWriter { client: client.clone(), namespace: format!("n{}", number % 50) };
        async move {
            let labels = json!({"app": "a", "bad": "0"});
            for place in [TreeObject::Deployment(number), TreeObject::Revision(number, 0)] {
                tree.create(place, &labels).await;
            }
            for pod in 0..38 {
                tree.create(TreeObject::Pod(number, 0, pod), &labels).await;
            }
        }
    };
    stream::iter(0..500).map(create).buffer_unordered(WRITES_AT_A_TIME).collect::<()>().await;
    let directory = policies(&[("labels.rego", POLICY)]);
    let bytes = async |kind: &str| {
        let list: Value =
            serde_json::from_str(&plane.kubectl(&["get", kind, "-A", "-o", "json"]).await.unwrap()).unwrap();
        let items = list["items"].as_array().unwrap().clone();
        (items.len(), items.iter().map(|item| item.to_string().len()).sum::<usize>())
    };
    let mut before = [(0, 0); 2];
    for what in ["owner", "object"] {
        let begin = Instant::now();
        let path = directory.path().to_str().unwrap();
        let check = ["check", "--once", "--record=events,reports", "--events-per-second=1000", "-p", path];
        let ended = run(&plane.kubeconfig(), &[&check[..], &["--audit-name", what, "--group-by", what]].concat()).await;
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let after = [bytes("events.events.k8s.io").await, bytes(NAMES[0][0]).await];
        for (kind, (before, after)) in ["Events", "reports"].iter().zip(before.iter().zip(&after)) {
            println!("--group-by {what}: {} {kind}, {} bytes as JSON", after.0 - before.0, after.1 - before.1);
        }
        println!("{:?}", begin.elapsed());
        before = after;
    }
    plane.stop().await.unwrap();
}
