//! A pipeline fed by hand: what is evaluated when, and that in the end its results are those of a fresh pipeline.

mod exceptions;
mod library;
mod load;
mod lookups;
mod metrics;
mod owners;
mod recording;
mod scale;
mod unsteady;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use futures::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use kaudit_test_support::settings::seed;
use serde_json::{Value, json};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use super::*;
use crate::{
    audit::{
        command::{Record, Reload, ResultQuery, Term},
        ledger::Delta,
        overview::Progress,
        recorded::{Recorded, RecordedObject},
        work::TURN,
    },
    metrics::Metrics,
    model::{
        body::Packing,
        coverage::State,
        object::{Kind, Object, ObjectRef},
        shard::Shard,
    },
    source::{
        change::{Discovered, InFlight, Unreadable, WatchScope},
        received::{Received, Secrets},
    },
};

/// How long anything may take; machines are shared.
const PATIENCE: Duration = Duration::from_mins(1);

const UNIQUE_HOST: &str = r#"
package hosts
deny contains msg if {
    input.kind == "Ingress"
    some namespace, name
    other := data.inventory.namespace[namespace]["networking.k8s.io/v1"].Ingress[name]
    other.spec.host == input.spec.host
    [namespace, name] != [input.metadata.namespace, input.metadata.name]
    msg := sprintf("host %v is also that of %v/%v", [input.spec.host, namespace, name])
}
"#;

const BUDGET: &str = r#"
package kubernetes.budgets
import data.kubernetes.poddisruptionbudgets
deny contains "no PodDisruptionBudget selects this Pod" if {
    input.kind == "Pod"
    not selected
}
selected if {
    some budget in poddisruptionbudgets[input.metadata.namespace]
    every key, value in budget.spec.selector { input.metadata.labels[key] == value }
}
"#;

const CHANGES: &str = r#"
package changes
deny contains "spec.host is fixed" if input.request.object.spec.host != input.request.oldObject.spec.host
deny contains "this must stay" if {
    input.request.operation == "DELETE"
    input.request.oldObject.metadata.labels.keep
}
"#;

const IN_PROD: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: notinprod}
spec:
  crd: {spec: {names: {kind: NotInProd}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package notinprod
        violation[{"msg": msg}] { msg := sprintf("%v is in production", [input.review.object.metadata.name]) }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NotInProd
metadata: {name: pods}
spec:
  match:
    kinds: [{apiGroups: [""], kinds: [Pod]}]
    namespaceSelector: {matchLabels: {stage: prod}}
"#;

const SETTINGS: PipelineSettings = PipelineSettings {
    initial: InitialObjects::Judge,
    sync_timeout: PATIENCE,
    rejudge_every: None,
    update_filter: true,
    shard: Shard::WHOLE,
    roll_up: true,
    handover: Duration::ZERO,
    metrics_namespaces: 1,
    team_label: None,
    logs_unread: true,
    judge_inactive: false,
    memory: None,
};

fn load(files: &[(&str, &str)]) -> Arc<PolicySet> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    Arc::new(PolicySet::load(&[directory.path().to_owned()]).unwrap())
}

fn kind(name: &str) -> Arc<Kind> {
    let (group, plural) = match name {
        "Ingress" => ("networking.k8s.io", "ingresses"),
        "PodDisruptionBudget" => ("policy", "poddisruptionbudgets"),
        "Namespace" => ("", "namespaces"),
        _ => ("", "pods"),
    };
    Kind::sample(group, plural, name)
}

const KINDS: [&str; 4] = ["Ingress", "PodDisruptionBudget", "Namespace", "Pod"];

fn scope(name: &str) -> WatchScope {
    WatchScope { kind: kind(name), namespace: None }
}

/// A state of an object; without a namespace it is a Namespace.
fn object(kind_name: &str, namespace: &str, name: &str, version: u64, rest: &Value) -> Object {
    let mut all = rest.clone();
    all["metadata"]["name"] = name.into();
    all["metadata"]["uid"] = format!("{kind_name} {namespace}/{name}").into();
    all["metadata"]["resourceVersion"] = version.to_string().into();
    if !namespace.is_empty() {
        all["metadata"]["namespace"] = namespace.into();
    }
    Received::read(&all.to_string()).into_object(&kind(kind_name), Secrets::Redact, 0).unwrap()
}

fn ingress(namespace: &str, name: &str, version: u64, host: &str) -> Object {
    object("Ingress", namespace, name, version, &json!({"spec": {"host": host}}))
}

/// A pipeline under way.
struct Live {
    changes: mpsc::Sender<Change>,
    commands: mpsc::Sender<Command>,
    reported: Arc<Mutex<Vec<Delta>>>,
    metrics: Arc<Metrics>,
    running: JoinHandle<AuditResult>,
}

/// Keeps the deltas that are reported.
struct ReportSink(Arc<Mutex<Vec<Delta>>>);

impl Record for ReportSink {
    fn record(&mut self, delta: &mut Delta) {
        self.0.lock().unwrap().push(delta.clone());
    }
}

impl Live {
    fn start(policies: Arc<PolicySet>, settings: PipelineSettings) -> Self {
        Self::start_with(policies, settings, |_| {})
    }

    /// Starts it after a change of its parts.
    fn start_with(policies: Arc<PolicySet>, settings: PipelineSettings, change: impl FnOnce(&mut Pipeline)) -> Self {
        let reported = Arc::<Mutex<Vec<Delta>>>::default();
        let live = Self::changed(policies, settings, Some(Box::new(ReportSink(Arc::clone(&reported)))), change);
        Self { reported, ..live }
    }

    /// Starts it with another recorder, or with none until a term begins.
    fn recording(policies: Arc<PolicySet>, settings: PipelineSettings, record: Option<Box<dyn Record>>) -> Self {
        Self::changed(policies, settings, record, |_| {})
    }

    fn changed(
        policies: Arc<PolicySet>,
        settings: PipelineSettings,
        record: Option<Box<dyn Record>>,
        change: impl FnOnce(&mut Pipeline),
    ) -> Self {
        Self::spawned(policies, settings, record, change, |task| tokio::spawn(task))
    }

    fn spawned(
        policies: Arc<PolicySet>,
        settings: PipelineSettings,
        record: Option<Box<dyn Record>>,
        change: impl FnOnce(&mut Pipeline),
        spawn: impl FnOnce(BoxFuture<'static, AuditResult>) -> JoinHandle<AuditResult>,
    ) -> Self {
        let (changes, change_receiver) = mpsc::channel(1_024);
        let (commands, command_receiver) = mpsc::channel(2);
        if let Some(record) = record {
            commands.try_send(Command::Record(Term::Begin(Recorded::default(), record))).ok().unwrap();
        }
        let metrics = Arc::<Metrics>::default();
        let stop = CancellationToken::new();
        let inputs =
            Inputs { changes: change_receiver, commands: command_receiver, stop, selection: None, cluster: None };
        let outputs = Outputs {
            progress: watch::channel(Progress::default()).0,
            policies: watch::channel(Arc::clone(&policies)).0,
            overview: watch::channel(None).0,
            delta_recorded: watch::Sender::default(),
            metrics: Arc::clone(&metrics),
            packing: Packing::default(),
            in_flight: InFlight::default(),
            labels: BTreeSet::new(),
        };
        let mut pipeline = Pipeline::new(policies, Exceptions::default(), settings, outputs);
        // With so few objects nothing would be left to do after the first turn.
        pipeline.agenda.turn = 2;
        change(&mut pipeline);
        let running = spawn(pipeline.run(inputs, false).boxed());
        Self { changes, commands, reported: Arc::default(), metrics, running }
    }

    async fn send(&self, change: Change) {
        self.changes.send(change).await.unwrap();
    }

    async fn seen(&self, object: Object) {
        self.send(Change::Seen(WatchScope { kind: object.key.kind.clone(), namespace: None }, object)).await;
    }

    async fn gone(&self, object: Object) {
        self.send(Change::Gone(WatchScope { kind: object.key.kind.clone(), namespace: None }, object)).await;
    }

    /// Delivers first lists of all kinds.
    async fn sync(&self, objects: Vec<Object>) {
        self.sync_as(objects, false).await;
    }

    /// The same, after a pass of discovery that may be incomplete.
    async fn sync_as(&self, objects: Vec<Object>, provisional: bool) {
        self.sync_after(objects, Discovered { provisional, ..Discovered::default() }).await;
    }

    /// The same, after this pass of discovery.
    async fn sync_after(&self, objects: Vec<Object>, discovered: Discovered) {
        for kind in KINDS {
            self.send(Change::Appeared(scope(kind))).await;
            self.send(Change::Listing(scope(kind))).await;
        }
        for object in objects {
            self.seen(object).await;
        }
        for kind in KINDS {
            self.send(Change::Synced(scope(kind))).await;
        }
        self.send(Change::Discovered(discovered)).await;
    }

    async fn result(&self) -> AuditResult {
        let (answer, result) = oneshot::channel();
        self.command(Command::Result(ResultQuery { known: None, answer })).await;
        let mut result = result.await.unwrap().unwrap().result;
        result.sort();
        result
    }

    async fn command(&self, command: Command) {
        self.commands.send(command).await.ok().unwrap();
    }

    async fn reload(&self, reload: Reload) {
        self.command(Command::Reload(reload)).await;
    }

    async fn term(&self, term: Term) {
        self.command(Command::Record(term)).await;
    }

    /// Waits until these violations stand, each as `name: message`.
    async fn until(&self, wanted: &[&str]) {
        let begin = Instant::now();
        loop {
            let standing = texts(&self.result().await);
            if standing == wanted {
                return println!("{wanted:?} after {:?}", begin.elapsed());
            }
            assert!(begin.elapsed() < PATIENCE, "standing: {standing:#?}\nwanted: {wanted:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn metric(&self, series: &str) -> u64 {
        let text = self.metrics.encode();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {series} in {text}"))
    }

    /// Waits until `number` evaluations were made in all.
    async fn until_evaluated(&self, number: u64) {
        let begin = Instant::now();
        while self.metric("kaudit_evaluations_total") < number {
            assert!(begin.elapsed() < PATIENCE, "{} evaluations", self.metric("kaudit_evaluations_total"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn transitions(&self) -> Vec<String> {
        let reported = self.reported.lock().unwrap();
        reported
            .iter()
            .flat_map(|delta| &delta.transitions)
            .map(|transition| transition.finding.message.to_string())
            .collect()
    }

    /// Waits until every command was received.
    async fn heard(&self) {
        let begin = Instant::now();
        while self.commands.capacity() < self.commands.max_capacity() {
            assert!(begin.elapsed() < PATIENCE);
            tokio::task::yield_now().await;
        }
    }

    /// Ends it as a signal does that cannot be caught.
    async fn kill(self) {
        self.running.abort();
        // Also when it has just ended by itself.
        drop(self.running.await);
    }

    /// Ends the sources, as files do, and returns the result when everything has been evaluated.
    async fn end(self) -> AuditResult {
        drop(self.changes);
        self.running.await.unwrap()
    }
}

fn texts(result: &AuditResult) -> Vec<String> {
    let entries = result.results.iter();
    entries.map(|entry| format!("{}: {}", entry.resource.name, entry.message)).collect()
}

#[tokio::test]
async fn lookups_of_other_objects_are_followed() {
    let live = Live::start(load(&[("hosts.rego", UNIQUE_HOST)]), SETTINGS);
    live.sync(vec![ingress("n", "a", 1, "x"), ingress("m", "b", 2, "y")]).await;
    live.until(&[]).await;
    live.seen(ingress("m", "b", 3, "x")).await;
    live.until(&["b: host x is also that of n/a", "a: host x is also that of m/b"]).await;
    live.gone(ingress("n", "a", 1, "x")).await;
    live.until(&[]).await;
    let result = live.end().await;
    assert!(result.complete && result.summary.objects == 1);
}

#[tokio::test]
async fn one_namespace_does_not_fill_the_memory() {
    const MANY: &str =
        "package many\ndeny contains sprintf(\"%d is wrong\", [i]) if some i in numbers.range(1, input.spec.results)\n";
    let pod = |namespace: &str, name: &str, version, results: u32, bytes: usize| {
        let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(bytes).collect();
        object("Pod", namespace, name, version, &json!({"spec": {"results": results, "text": text}}))
    };
    let settings = PipelineSettings { memory: Some(400_000), ..SETTINGS };
    let live = Live::start(load(&[("many.rego", MANY)]), settings);
    // 100,000 bytes for each namespace.
    live.sync(vec![pod("a", "p1", 1, 1, 70_000), pod("a", "p2", 1, 1, 70_000), pod("b", "p3", 1, 20, 1_000)]).await;
    let mut expected = vec!["p1: 1 is wrong".to_owned()];
    expected.extend((1..=20).map(|number| format!("p3: {number} is wrong")));
    let until = async |expected: &mut Vec<String>| {
        expected.sort();
        live.until(&expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
    };
    until(&mut expected).await;
    live.seen(pod("b", "p4", 1, 12, 1_000)).await;
    live.seen(pod("c", "p5", 1, 1, 70_000)).await;
    expected.push("p5: 1 is wrong".to_owned());
    expected.push(
        "p4: 12 results of this object are not kept: the namespace uses 1 of the 1 MiB of memory that it may"
            .to_owned(),
    );
    until(&mut expected).await;
    // What got room is evaluated when it changes.
    live.seen(pod("b", "p4", 2, 2, 1_000)).await;
    live.seen(pod("a", "p2", 2, 1, 1_000)).await;
    expected.retain(|text| !text.starts_with("p4"));
    expected.extend(["p2: 1 is wrong", "p4: 1 is wrong", "p4: 2 is wrong"].map(str::to_owned));
    until(&mut expected).await;
    let result = live.end().await;
    assert!(result.complete, "{:?}", result.coverage);
}

#[tokio::test]
async fn files_are_their_own_inventory() {
    let files = [("hosts.rego", UNIQUE_HOST), ("budgets.rego", BUDGET), ("prod.yaml", IN_PROD)];
    let live = Live::start(load(&files), SETTINGS);
    let namespace = object("Namespace", "", "n", 5, &json!({"metadata": {"labels": {"stage": "prod"}}}));
    let pod = object("Pod", "n", "p", 3, &json!({"metadata": {"labels": {"app": "a"}}}));
    let other = object("Pod", "n", "q", 3, &json!({"metadata": {"labels": {"app": "b"}}}));
    let budget = object("PodDisruptionBudget", "n", "p", 4, &json!({"spec": {"selector": {"app": "a"}}}));
    live.sync(vec![ingress("n", "a", 1, "x"), ingress("m", "b", 2, "x"), pod, other, budget, namespace]).await;
    let wanted = [
        "b: host x is also that of n/a",
        "a: host x is also that of m/b",
        "p: p is in production",
        "q: q is in production",
        "q: no PodDisruptionBudget selects this Pod",
    ];
    assert_eq!(texts(&live.end().await), wanted);
}

#[tokio::test]
async fn a_reload_that_looks_up_other_kinds_has_them() {
    let live = Live::start(load(&[("hosts.rego", UNIQUE_HOST)]), SETTINGS);
    live.sync(vec![ingress("n", "a", 1, "x"), object("Pod", "n", "p", 2, &json!({}))]).await;
    live.until(&[]).await;
    live.reload(Ok(load(&[("budgets.rego", BUDGET)]))).await;
    live.until(&["p: no PodDisruptionBudget selects this Pod"]).await;
    live.seen(object("PodDisruptionBudget", "n", "p", 3, &json!({"spec": {"selector": {}}}))).await;
    live.until(&[]).await;
}

#[tokio::test]
async fn objects_that_depend_on_a_namespace_follow_its_labels() {
    let live = Live::start(load(&[("prod.yaml", IN_PROD)]), SETTINGS);
    let namespace = |version, labels| object("Namespace", "", "n", version, &json!({"metadata": {"labels": labels}}));
    live.sync(vec![namespace(1, json!({})), object("Pod", "n", "p", 2, &json!({}))]).await;
    live.until(&[]).await;
    live.seen(namespace(3, json!({"stage": "prod"}))).await;
    live.until(&["p: p is in production"]).await;
    live.seen(namespace(4, json!({"stage": "test"}))).await;
    live.until(&[]).await;
    live.gone(namespace(4, json!({"stage": "test"}))).await;
    let unknown = "p: cannot be matched: its namespaceSelector needs the Namespace n, which was not found";
    live.until(&[unknown]).await;
    // What failed may not the next time, whatever it was that changed.
    let before = live.metric("kaudit_evaluations_total");
    live.seen(object("Pod", "n", "p", 5, &json!({"status": {"phase": "Running"}}))).await;
    live.until_evaluated(before + 1).await;
    live.seen(namespace(6, json!({"stage": "test"}))).await;
    live.until(&[]).await;
}

#[tokio::test]
async fn objects_that_depend_on_a_namespace_follow_only_the_fields_that_are_read() {
    let owned = IN_PROD.replace("notinprod", "owned").replace("NotInProd", "Owned").replace(
        "violation[{\"msg\": msg}] { ",
        "violation[{\"msg\": msg}] { not input.review.namespaceObject.metadata.annotations.owner; ",
    );
    let live = Live::start(load(&[("prod.yaml", IN_PROD), ("owned.yaml", &owned)]), SETTINGS);
    let namespace = |version, stage: &str, annotations| {
        let metadata = json!({"labels": {"stage": stage}, "annotations": annotations});
        object("Namespace", "", "n", version, &json!({"metadata": metadata}))
    };
    let annotated = json!({"owner": "a", "note": "x"});
    live.sync(vec![namespace(1, "prod", annotated.clone()), object("Pod", "n", "p", 2, &json!({}))]).await;
    live.until(&["p: p is in production"]).await;
    live.until_evaluated(2).await;
    let before = live.metric("kaudit_evaluations_total");
    for version in 3..20 {
        live.seen(namespace(version, "prod", json!({"owner": "a", "note": version}))).await;
    }
    while live.metric("kaudit_changes_skipped_total") < 17 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.until(&["p: p is in production"]).await;
    assert_eq!(live.metric("kaudit_evaluations_total"), before);
    live.seen(namespace(20, "prod", json!({"note": "x"}))).await;
    live.until(&["p: p is in production", "p: p is in production"]).await;
    live.seen(namespace(21, "test", annotated)).await;
    live.until(&[]).await;
}

#[tokio::test]
async fn transitions_are_reported_once_and_never_for_lists() {
    let live = Live::start(load(&[("changes.rego", CHANGES)]), SETTINGS);
    let kept = |version, host| {
        object("Ingress", "n", "a", version, &json!({"metadata": {"labels": {"keep": "yes"}}, "spec": {"host": host}}))
    };
    live.sync(vec![kept(1, "x")]).await;
    live.until_evaluated(1).await;
    live.seen(kept(2, "y")).await;
    live.until_evaluated(2).await;
    // A change or deletion that a list finds happened at an unknown time.
    live.send(Change::Listing(scope("Ingress"))).await;
    live.seen(kept(3, "z")).await;
    live.send(Change::Synced(scope("Ingress"))).await;
    live.until_evaluated(3).await;
    live.seen(kept(4, "z")).await;
    live.until_evaluated(4).await;
    live.gone(kept(4, "z")).await;
    live.until_evaluated(5).await;
    live.seen(kept(5, "z")).await;
    live.until_evaluated(6).await;
    live.send(Change::Listing(scope("Ingress"))).await;
    live.send(Change::Synced(scope("Ingress"))).await;
    live.until(&[]).await;
    assert_eq!(live.transitions(), ["spec.host is fixed", "this must stay"]);
    let transitions =
        live.reported.lock().unwrap().iter().map(|delta| delta.appeared.len() + delta.resolved.len()).sum::<usize>();
    assert_eq!(transitions, 0, "none is open");
}

#[tokio::test]
async fn several_changes_before_an_evaluation_are_one_from_the_first_state() {
    let live = Live::start(load(&[("changes.rego", CHANGES)]), SETTINGS);
    live.sync(vec![ingress("n", "a", 1, "x")]).await;
    live.until_evaluated(1).await;
    // In one go: the last state alone is as it was, the first is not.
    for (version, host) in [(2, "y"), (3, "x"), (4, "z")] {
        live.seen(ingress("n", "a", version, host)).await;
    }
    live.until_evaluated(2).await;
    live.until(&[]).await;
    let transitions = live.transitions();
    assert!(
        !transitions.is_empty() && transitions.iter().all(|transition| transition == "spec.host is fixed"),
        "{transitions:?}"
    );
    let reported = live.reported.lock().unwrap().iter().filter(|delta| !delta.transitions.is_empty()).count();
    assert_eq!(reported, transitions.len());
}

#[tokio::test]
async fn results_that_depend_on_the_clock_are_evaluated_again() {
    let clock = "package clock\ndeny contains \"late\" if { input.kind == \"Pod\"; time.now_ns() < 0 }\n";
    let settings = PipelineSettings { rejudge_every: Some(Duration::from_millis(200)), ..SETTINGS };
    let live = Live::start(load(&[("clock.rego", clock)]), settings.clone());
    live.sync(vec![object("Pod", "n", "p", 1, &json!({}))]).await;
    live.until_evaluated(4).await;
    let never = Live::start(load(&[("hosts.rego", UNIQUE_HOST)]), settings);
    never.sync(vec![object("Pod", "n", "p", 1, &json!({}))]).await;
    never.until_evaluated(1).await;
    live.until_evaluated(8).await;
    assert_eq!(never.metric("kaudit_evaluations_total"), 1, "it does not depend on the time");
}

#[tokio::test]
async fn an_object_skipped_at_the_start_is_evaluated_at_any_change() {
    let settings = PipelineSettings { initial: InitialObjects::Skip, ..SETTINGS };
    let live = Live::start(load(&[("budgets.rego", BUDGET)]), settings);
    let pod = |version, phase| object("Pod", "n", "p", version, &json!({"status": {"phase": phase}}));
    live.sync(vec![pod(1, "Pending")]).await;
    while live.metric("kaudit_gate_open") == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.seen(object("Ingress", "n", "a", 2, &json!({}))).await;
    live.until_evaluated(1).await;
    assert_eq!(texts(&live.result().await), [""; 0]);
    live.seen(pod(3, "Running")).await;
    live.until(&["p: no PodDisruptionBudget selects this Pod"]).await;
}

/// The same object with another status.
fn with_status(kind: &str, version: u64, spec: &Value) -> Object {
    object(kind, "n", "a", version, &json!({"spec": spec, "status": {"seen": version}}))
}

#[tokio::test]
async fn changes_that_no_policy_reads_cause_no_evaluation() {
    let files = [("hosts.rego", UNIQUE_HOST), ("budgets.rego", BUDGET)];
    for update_filter in [true, false] {
        let live = Live::start(load(&files), PipelineSettings { update_filter, ..SETTINGS });
        let states = |version| {
            let ingress = with_status("Ingress", version, &json!({"host": "x"}));
            let budget = with_status("PodDisruptionBudget", version, &json!({"selector": {"app": "a"}}));
            [ingress, budget, with_status("Pod", version, &json!({}))]
        };
        live.sync(states(1).into()).await;
        live.until_evaluated(3).await;
        for version in 2..20 {
            for object in states(version) {
                live.seen(object).await;
            }
        }
        if update_filter {
            while live.metric("kaudit_changes_skipped_total") < 3 * 18 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // What is looked up comes later, if it does.
            while live.metric("kaudit_inventory_update_seconds_count") < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            live.until(&["a: no PodDisruptionBudget selects this Pod"]).await;
            assert_eq!(live.metric("kaudit_evaluations_total"), 3);
        } else {
            // At least once more; what can be looked up may be part of that.
            live.until_evaluated(6).await;
            assert_eq!(live.metric("kaudit_changes_skipped_total"), 0);
        }
        // The filter sees what matters.
        live.seen(with_status("PodDisruptionBudget", 20, &json!({"selector": {}}))).await;
        live.until(&[]).await;
    }
}

#[tokio::test]
async fn an_error_that_a_fresh_evaluation_has_too_ends_the_violations_of_its_rule() {
    let live = Live::start(load(&[("prod.yaml", IN_PROD)]), SETTINGS);
    let namespace = object("Namespace", "", "n", 1, &json!({"metadata": {"labels": {"stage": "prod"}}}));
    live.sync(vec![namespace.clone(), object("Pod", "n", "p", 2, &json!({}))]).await;
    live.until(&["p: p is in production"]).await;
    live.gone(namespace).await;
    live.until(&["p: cannot be matched: its namespaceSelector needs the Namespace n, which was not found"]).await;
}

/// Random changes of a live pipeline; in the end its results are those of a fresh one that only sees the last states.
#[tokio::test]
async fn any_changes_converge_to_the_verdicts_of_the_last_states() {
    let seed = seed();
    let all =
        [("hosts.rego", UNIQUE_HOST), ("budgets.rego", BUDGET), ("prod.yaml", IN_PROD), ("changes.rego", CHANGES)];
    for (round, update_filter) in [(0, true), (1, false), (2, true)] {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let policies = [load(&all), load(&all[..3])];
        let live = Live::start(policies[0].clone(), PipelineSettings { update_filter, ..SETTINGS });
        live.sync(Vec::new()).await;
        let mut present: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        for version in 1..400 {
            let object = random_object(&mut random, version);
            match present.remove(&object.key) {
                Some(last) if random.u8(..4) == 0 => live.gone(last).await,
                _ => {
                    live.seen(object.clone()).await;
                    present.insert(object.key.clone(), object);
                }
            }
            if version % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(random.u64(..400))).await;
            }
            if version == 200 {
                live.reload(Ok(policies[1].clone())).await;
            }
        }
        let fresh = Live::start(policies[1].clone(), SETTINGS);
        fresh.sync(present.into_values().collect()).await;
        let fresh = texts(&fresh.end().await);
        let wanted: Vec<&str> = fresh.iter().map(String::as_str).collect();
        assert!(wanted.len() > 5, "the test is to find something: {wanted:?}");
        live.until(&wanted).await;
    }
}

fn random_object(random: &mut fastrand::Rng, version: u64) -> Object {
    let labels = |random: &mut fastrand::Rng| json!({"app": random.u8(..3).to_string()});
    let namespace = format!("n{}", random.u8(..3));
    let name = random.u8(..5).to_string();
    let status = json!({"phase": random.u8(..).to_string()});
    match random.u8(..8) {
        0 | 1 => {
            let host = random.u8(..4).to_string();
            object("Ingress", &namespace, &name, version, &json!({"spec": {"host": host}, "status": status}))
        }
        2 => {
            let selector = labels(random);
            object("PodDisruptionBudget", &namespace, &name, version, &json!({"spec": {"selector": selector}}))
        }
        3 => {
            let stage = if random.bool() { "prod" } else { "test" };
            object("Namespace", "", &namespace, version, &json!({"metadata": {"labels": {"stage": stage}}}))
        }
        _ => {
            let labels = labels(random);
            object("Pod", &namespace, &name, version, &json!({"metadata": {"labels": labels}, "status": status}))
        }
    }
}

/// The part of an open result that a report keeps.
fn recorded_object(delta: &Delta) -> RecordedObject {
    RecordedObject { object: ObjectRef::clone(&delta.object), results: delta.results.clone() }
}

/// Returns what was reported, each `+ name: message` or `- name: message`, sorted.
fn reported(live: &Live) -> Vec<String> {
    let deltas = std::mem::take(&mut *live.reported.lock().unwrap());
    let text = |sign: &str, delta: &Delta, violation: &crate::audit::ledger::Violation| {
        format!("{sign} {}: {}", delta.object.name, violation.finding.message)
    };
    let mut texts: Vec<String> = deltas
        .iter()
        .flat_map(|delta| {
            let appeared = delta.appeared.iter().map(|violation| text("+", delta, violation));
            appeared.chain(delta.resolved.iter().map(|violation| text("-", delta, violation)))
        })
        .collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn a_term_begins_where_the_last_one_ended() {
    let policies = load(&[("hosts.rego", UNIQUE_HOST)]);
    let first = Live::start(Arc::clone(&policies), SETTINGS);
    first.sync(vec![ingress("n", "a", 1, "x"), ingress("m", "b", 1, "x"), ingress("n", "c", 1, "x")]).await;
    let all = |name: &str, others: [&str; 2]| others.map(|other| format!("{name}: host x is also that of {other}"));
    let begun = Instant::now();
    while first.reported.lock().unwrap().len() < 3 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let recorded = || {
        let mut recorded = Recorded::default();
        first.reported.lock().unwrap().iter().for_each(|delta| recorded.add(recorded_object(delta)));
        // Of kinds that are not served any more, and of one that cannot be read.
        for kind in ["Gone", "Unread"] {
            let mut other = recorded_object(&first.reported.lock().unwrap()[0]);
            (other.object.kind, other.object.api_version, other.object.name) =
                (kind.into(), "example.com/v1".into(), kind.into());
            recorded.add(other);
        }
        recorded
    };
    let unread = WatchScope { kind: Kind::sample("example.com", "unreads", "Unread"), namespace: None };
    // Another replica: it has seen that `c` was deleted, and reports nothing until its term.
    let second = Live::start(Arc::clone(&policies), SETTINGS);
    second.send(Change::Appeared(unread.clone())).await;
    second.send(Change::Unreadable(unread, Unreadable { state: State::Forbidden, message: "no".into() })).await;
    second.term(Term::End).await;
    second.heard().await;
    second.sync(vec![ingress("n", "a", 1, "x"), ingress("m", "b", 1, "x")]).await;
    second.until(&["b: host x is also that of n/a", "a: host x is also that of m/b"]).await;
    assert_eq!(reported(&second), [""; 0]);
    second.term(Term::Begin(recorded(), Box::new(ReportSink(Arc::clone(&second.reported))))).await;
    second.result().await;
    let gone_kind = |message: &str| format!("- Gone: {}", message.split_once(": ").unwrap().1);
    let mut wanted: Vec<String> = all("c", ["m/b", "n/a"]).iter().map(|text| format!("- {text}")).collect();
    wanted.push("- a: host x is also that of n/c".to_owned());
    wanted.push("- b: host x is also that of n/c".to_owned());
    let former = recorded_object(&first.reported.lock().unwrap()[0]);
    wanted.extend(former.results.iter().map(|result| gone_kind(&format!("x: {}", result.finding.message))));
    wanted.sort();
    let begun = Instant::now();
    let mut all_reported = Vec::new();
    while all_reported.len() < wanted.len() {
        assert!(begun.elapsed() < PATIENCE, "{all_reported:#?}");
        all_reported.extend(reported(&second));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    all_reported.sort();
    assert_eq!(all_reported, wanted);
    // A third, which begins its term before it has read anything, has nothing to add.
    let third = Live::start(policies, SETTINGS);
    third.term(Term::Begin(recorded(), Box::new(ReportSink(Arc::clone(&third.reported))))).await;
    third.heard().await;
    third.sync(vec![ingress("n", "a", 1, "x"), ingress("m", "b", 1, "x"), ingress("n", "c", 1, "x")]).await;
    third.until_evaluated(3).await;
    let sink = Arc::clone(&third.reported);
    assert_eq!(third.end().await.results.len(), 6);
    assert!(sink.lock().unwrap().iter().all(|delta| delta.appeared.is_empty()));
}

#[tokio::test]
async fn a_shard_judges_and_tells_of_its_own_namespaces_only() {
    let named = "package named\ndeny contains \"a Namespace\" if input.kind == \"Namespace\"";
    let policies = load(&[("hosts.rego", UNIQUE_HOST), ("prod.yaml", IN_PROD), ("named.rego", named)]);
    let first = Live::start(Arc::clone(&policies), SETTINGS);
    // `shop` belongs to the second of two shards, `billing` and what is in no namespace to the first.
    let namespace = |name: &str| object("Namespace", "", name, 5, &json!({"metadata": {"labels": {"stage": "prod"}}}));
    let elsewhere = ["b", "c"].map(|name| ingress("billing", name, 1, "x"));
    let here = ["a", "gone"].map(|name| ingress("shop", name, 1, "y"));
    first.sync([&elsewhere[..], &here, &[namespace("billing")]].concat()).await;
    let begun = Instant::now();
    let mut recorded = Recorded::default();
    while first.reported.lock().unwrap().len() < 5 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.reported.lock().unwrap().iter().for_each(|delta| recorded.add(recorded_object(delta)));

    let shard = Shard::parse("1/2", None).unwrap();
    let second = Live::recording(policies, PipelineSettings { shard, ..SETTINGS }, None);
    let sink = Arc::<Mutex<Vec<Delta>>>::default();
    let second = Live { reported: Arc::clone(&sink), ..second };
    second.term(Term::Begin(recorded, Box::new(ReportSink(sink)))).await;
    let pod = object("Pod", "shop", "p", 3, &json!({}));
    second.sync(vec![here[0].clone(), pod, namespace("shop"), namespace("billing")]).await;
    // Whether another shard has an Ingress with its host is not known here: what was recorded stays.
    let unread = "a: looks up ingresses.networking.k8s.io in all namespaces, which are read by other shards";
    second.until(&["a: host y is also that of shop/gone", unread, "p: p is in production"]).await;
    let begun = Instant::now();
    let mut all = Vec::new();
    while all.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{all:#?}");
        all.extend(reported(&second));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    second.until_evaluated(2).await;
    all.extend(reported(&second));
    all.sort();
    assert_eq!(all, ["+ p: p is in production", "- gone: host y is also that of shop/a"]);
    assert_eq!(second.end().await.summary.objects, 2);
}
