//! A real Prometheus scrapes a running kaudit: the series of dashboard and alerts exist, and the dashboard shows the same
//! figures as the page.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    process::Command,
};

use form_urlencoded::byte_serialize;
use kaudit_controlplane::{ControlPlane, Tool, require, require_tool, shared, tool};
use kaudit_test_support::long_run::get;
use serde_json::{Value, json};

use super::dashboard::{dashboard, query, questions};
use crate::{
    chart::render,
    events::Scene,
    program::Program,
    support::{Running, policies, wait_for},
};

/// Series that exist only after something was dropped, or with a memory limit of the container.
const SOMETIMES: &[&str] = &["kaudit_recorder_drops_total", "kaudit_memory_bytes", "kaudit_memory_limit_bytes"];

/// A Prometheus that scrapes one kaudit every second.
struct Prometheus {
    _program: Program,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(target: SocketAddr, rules: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (config, rules_file) = (folder.path().join("prometheus.yaml"), folder.path().join("rules.yaml"));
        let settings = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [rules_file],
            "scrape_configs": [{"job_name": "kaudit", "static_configs": [{"targets": [target]}]}],
        });
        fs::write(&config, settings.to_string()).unwrap();
        fs::write(&rules_file, rules.to_string()).unwrap();
        let mut command = Command::new(tool(Tool::Prometheus).unwrap());
        command.arg("--web.listen-address=127.0.0.1:0").arg("--log.format=json");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        let (program, address) = Program::start(&mut command, |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line["address"].as_str().filter(|_| line["msg"] == "Listening on")?.parse().ok()
        });
        Self { _program: program, address, _folder: folder }
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let answer: Value = serde_json::from_str(&get(self.address, path)?).ok()?;
        (answer["status"] == "success").then(|| answer["data"].clone())
    }

    /// Returns the current samples of an expression.
    fn samples(&self, expression: &str) -> Vec<Value> {
        let query: String = byte_serialize(expression.as_bytes()).collect();
        let answer = self.ask(&format!("/api/v1/query?query={query}")).unwrap_or_default();
        answer["result"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the current values of an expression.
    fn values(&self, expression: &str) -> Vec<String> {
        self.samples(expression).iter().filter_map(|sample| Some(sample["value"][1].as_str()?.to_owned())).collect()
    }

    /// Returns the current counts of an expression by these labels, which are joined by `/`.
    fn counts(&self, expression: &str, labels: &[&str]) -> BTreeMap<String, usize> {
        let count = |sample: Value| {
            let labels: Vec<&str> = labels.iter().map(|label| sample["metric"][label].as_str().unwrap_or("")).collect();
            (labels.join("/"), sample["value"][1].as_str().unwrap().parse().unwrap())
        };
        self.samples(expression).into_iter().map(count).collect()
    }

    fn answers(&self, expression: &str) -> bool {
        self.values(expression).iter().any(|value| value != "NaN")
    }
}

/// Returns the names of metrics in an expression.
fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("kaudit_"))
}

/// Repeatedly causes and resolves violations: a rate needs two scrapes with a change in between.
async fn changes(scene: &Scene) {
    for mark in [None, Some("yes")].into_iter().cycle() {
        scene.mark("b", mark).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
}

async fn watched(scene: &Scene, exceptions: &tempfile::TempDir) -> Running {
    let file = exceptions.path().join("exceptions.yaml");
    let exception = json!({
        "apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException",
        "metadata": {"name": "legacy", "namespace": scene.namespace},
        "spec": {"policies": [{"name": "marked"}], "match": {"names": ["c"]}, "reason": "it is replaced",
                 "expiresAt": "2099-01-01T00:00:00Z"},
    });
    fs::write(&file, exception.to_string()).unwrap();
    scene.start(&["--exceptions", file.to_str().unwrap()]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_dashboard_and_alerts_have_results() {
    if !require() || !require_tool(Tool::Helm) || !require_tool(Tool::Prometheus) {
        return;
    }
    let scene = Scene::new(shared().await, "scraped").await;
    scene.create(["a", "b", "c"].map(str::to_owned), "yes").await;
    let exceptions = tempfile::tempdir().unwrap();
    let kaudit = watched(&scene, &exceptions).await;
    let rendered = render("kaudit", &["dashboard.enabled=true", "prometheusRule.enabled=true"]).await;
    let rules = rendered.of_kinds(&["PrometheusRule"]).next().unwrap()["spec"].clone();
    let prometheus = Prometheus::start(kaudit.address(), &rules);

    let has_limit = kaudit.metric("kaudit_memory_limit_bytes").is_some();
    let queries: Vec<String> = questions(&dashboard(&rendered))
        .into_iter()
        .filter(|queries| has_limit || !metrics(queries).any(|metric| metric.starts_with("kaudit_memory")))
        .collect();
    assert!(queries.len() > 20, "{queries:#?}");
    let answered = async {
        for expression in &queries {
            let answer = || async { prometheus.answers(expression).then_some(()) };
            wait_for(&format!("an answer to {expression}"), answer).await;
        }
    };
    tokio::select! {
        () = answered => {}
        () = changes(&scene) => {}
    }

    let groups = wait_for("the rules to be evaluated", || async {
        let groups = prometheus.ask("/api/v1/rules")?["groups"].clone();
        let evaluated = |rule: &Value| rule["health"] != "unknown";
        groups[0]["rules"].as_array()?.iter().all(evaluated).then_some(groups)
    })
    .await;
    for rule in groups[0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_eq!(rule["state"], "inactive", "nothing is wrong: {rule}");
        for metric in metrics(rule["query"].as_str().unwrap()).filter(|metric| !SOMETIMES.contains(metric)) {
            assert!(prometheus.answers(metric), "there is no {metric}, of which {} is made", rule["name"]);
        }
    }
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Two rules of different severity; the first has two results for some objects.
const GRADED: &str = r#"
package graded

messages := {"both": ["severe", "severe again"], "severe": ["severe"]}

# METADATA
# custom:
#   severity: critical
deny_severe contains msg if some msg in messages[input.metadata.labels["MARK"]]

# METADATA
# custom:
#   severity: low
warn_minor contains "minor" if input.metadata.labels["MARK"] in {"both", "minor"}
"#;

/// Creates objects with violations of [`GRADED`] in two namespaces, and a cluster-scoped one named like the mark.
async fn graded_objects(plane: &ControlPlane, mark: &str, other_namespace: &str) {
    let object = |kind: &str, namespace: Option<&str>, name: &str, value: &str| {
        let api_version = if kind == "ConfigMap" { "v1" } else { "rbac.authorization.k8s.io/v1" };
        let mut metadata = json!({"name": name, "labels": {mark: value}});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}).to_string()
    };
    let objects = [
        object("ConfigMap", Some(mark), "first", "both"),
        object("ConfigMap", Some(mark), "second", "minor"),
        object("ConfigMap", Some(other_namespace), "third", "severe"),
        object("ClusterRole", None, mark, "severe"),
    ];
    plane.apply(&objects.join("\n---\n")).await.unwrap();
}

/// Returns the violations that the page lists, by a key.
fn page_counts(page: SocketAddr, key: impl Fn(&Value) -> String) -> BTreeMap<String, usize> {
    let results = page_results(page);
    let mut counts = BTreeMap::new();
    for result in &results {
        *counts.entry(key(result)).or_default() += 1;
    }
    counts
}

/// Returns the number of failing objects of each rule on the page.
fn failing_objects(page: SocketAddr) -> BTreeMap<String, usize> {
    let mut objects: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for result in page_results(page) {
        let rule = ["policy", "rule"].map(|field| text(&result[field])).join("/");
        objects.entry(rule).or_default().insert(result["resource"].to_string());
    }
    objects.into_iter().map(|(rule, objects)| (rule, objects.len())).collect()
}

fn page_results(page: SocketAddr) -> Vec<Value> {
    let shown: Value = serde_json::from_str(&get(page, "/?format=json").unwrap()).unwrap();
    shown["results"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_shows_the_figures_of_the_page() {
    if !require() || !require_tool(Tool::Helm) || !require_tool(Tool::Prometheus) {
        return;
    }
    let plane = shared().await;
    let scene = Scene::new(plane, "figures").await;
    let (mark, other) = (&scene.namespace, plane.temp_namespace("figures").await.unwrap());
    graded_objects(plane, mark, &other).await;
    let directory = policies(&[("graded.rego", &GRADED.replace("MARK", mark))]);
    let arguments = [
        ["--policies", directory.path().to_str().unwrap()],
        ["--include=configmaps,clusterroles", "--exclude=*"],
        ["--record=events", "--listen-ui=127.0.0.1:0"],
    ];
    let kaudit = Running::start(scene.user.kubeconfig_path(), arguments.as_flattened()).await;
    kaudit.ready().await;
    let page = kaudit.page().await;
    wait_for("all violations on the page", || async { (page_results(page).len() == 6).then_some(()) }).await;

    let dashboard = dashboard(&render("kaudit", &["dashboard.enabled=true"]).await);
    let prometheus = Prometheus::start(kaudit.address(), &json!({"groups": []}));
    let by_severity = page_counts(page, |result| text(&result["severity"]));
    let by_namespace = page_counts(page, |result| text(&result["resource"]["namespace"]));
    let by_policy = page_counts(page, |result| text(&result["policy"]));
    let by_rule = failing_objects(page);
    assert_eq!((by_severity.len(), by_namespace.len(), by_rule.len()), (2, 3, 2), "{by_namespace:?}");
    for (title, labels, expected) in [
        ("Severities", &["severity"][..], &by_severity),
        ("Open violations by severity", &["severity"], &by_severity),
        ("Namespaces", &["resource_namespace"], &by_namespace),
        ("Policies", &["policy"], &by_policy),
        ("Rules", &["policy", "rule"], &by_rule),
    ] {
        let query = query(&dashboard, title);
        let same = || async { (prometheus.counts(&query, labels) == *expected).then_some(()) };
        wait_for(&format!("{title} to show {expected:?}"), same).await;
    }
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["delete", "clusterrole", mark]).await.unwrap();
}
