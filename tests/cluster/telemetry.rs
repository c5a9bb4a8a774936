//! A long run with OTLP: its spans are received by the OpenTelemetry Collector's receiver, its metrics by Prometheus.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use kaudit_controlplane::{Tool, require, require_tool, shared, tool};
use kaudit_test_support::{
    child::ChildGuard,
    long_run::get,
    otlp::{Collector, TOKEN, attribute},
};
use serde_json::Value;

use crate::{
    events::Scene,
    support::{Running, kaudit, wait_for},
};

/// Starts a kaudit in a scene with a short export interval.
async fn start(scene: &Scene, variables: impl IntoIterator<Item = (&'static str, String)>) -> Running {
    let mut command = kaudit(scene.user.kubeconfig_path(), &[]);
    command.envs(variables).envs([("OTEL_BSP_SCHEDULE_DELAY", "50"), ("OTEL_METRIC_EXPORT_INTERVAL", "200")]);
    let path = scene.policies.path().to_str().unwrap();
    let arguments = ["--include=configmaps", "--exclude=*", "--policies", path, "-n", &scene.namespace];
    let running = Running::launch(command, &[&arguments[..], &["--record=events", "--log-level=debug"]].concat()).await;
    running.ready().await;
    running
}

/// Waits for a span, and returns it.
async fn span(collector: &Collector, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, || async { collector.spans().into_iter().find(|span| is_it(span)) }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_cover_startup_changes_with_writes_and_reloads() {
    if !require() || !require_tool(Tool::OtlpReceiver) {
        return;
    }
    let scene = Scene::new(shared().await, "otlp-traces").await;
    scene.create(["old", "new"].map(str::to_owned), "").await;
    scene.mark("old", Some("yes")).await;
    let collector = Collector::start();
    let kaudit = start(&scene, collector.environment()).await;

    let start = span(&collector, "the start", |span| span["name"] == "start").await;
    let of_start = |span: &&Value| span["traceId"] == start["traceId"];
    let names: Vec<String> =
        collector.spans().iter().filter(of_start).map(|span| span["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["load policies", "connect", "sync", "judge", "start"]);
    // Existing objects cause no spans of their own.
    assert!(!collector.spans().iter().any(|span| span["name"] == "change"));

    scene.mark("new", Some("Canary-value")).await;
    let is_new = |span: &Value| span["name"] == "change" && attribute(span, "kaudit.object.name").unwrap() == "new";
    let change = span(&collector, "the change", is_new).await;
    assert_eq!(attribute(&change, "kaudit.object.kind").unwrap(), "ConfigMap");
    assert_eq!(attribute(&change, "k8s.namespace.name").unwrap(), scene.namespace);
    assert_eq!(attribute(&change, "kaudit.results").unwrap(), "1");
    for name in ["judge", "write event"] {
        let belongs = |span: &Value| span["name"] == name && span["parentSpanId"] == change["spanId"];
        let part = span(&collector, name, belongs).await;
        assert_eq!(part["traceId"], change["traceId"]);
    }

    let more = "package more\n\ndeny_more contains \"more\" if input.kind == \"Other\"\n";
    std::fs::write(scene.policies.path().join("more.rego"), more).unwrap();
    let is_reload = |span: &Value| span["name"] == "load policies" && span["traceId"] != start["traceId"];
    let reload = span(&collector, "the reload", is_reload).await;
    assert_eq!(attribute(&reload, "kaudit.rules").unwrap(), "2");

    // Spans contain neither values of objects nor messages, and the log does not contain the token for the collector.
    let (log, spans) = (kaudit.log(), format!("{:?}", collector.spans()));
    assert!(!log.contains(TOKEN) && !spans.contains("Canary-value") && !spans.contains("marked"), "{spans}");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_of_a_cluster_is_one_trace() {
    if !require() || !require_tool(Tool::OtlpReceiver) {
        return;
    }
    let scene = Scene::new(shared().await, "otlp-once").await;
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let collector = Collector::start();
    let path = scene.policies.path().to_str().unwrap();
    let arguments = ["check", "--once", "--record=events", "--include=configmaps", "--exclude=*", "-p", path];
    let mut command = kaudit(scene.user.kubeconfig_path(), &arguments);
    command.args(["-n", &scene.namespace]).envs(collector.environment());
    let ended = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    let root = span(&collector, "the run", |span| span["name"] == "check").await;
    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load policies", "connect", "sync", "judge", "write results", "record", "check"]);
    assert!(spans.iter().all(|span| span["traceId"] == root["traceId"]), "{spans:#?}");
}

/// A Prometheus that takes OTLP; ends with the test.
struct Prometheus {
    _process: ChildGuard,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("prometheus.yaml");
        std::fs::write(&config, "global: {}\n").unwrap();
        // It does not report a dynamic port.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(tool(Tool::Prometheus).unwrap());
        command.arg("--web.enable-otlp-receiver").arg(format!("--web.listen-address={address}"));
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let prometheus = Self { _process: ChildGuard(process), address, _folder: folder };
        wait_for("Prometheus", || async { get(address, "/-/ready") }).await;
        prometheus
    }

    /// Returns every series of kaudit with its current value, without target labels.
    fn series(&self) -> BTreeMap<String, f64> {
        let answer = get(self.address, "/api/v1/query?query=%7B__name__%3D~%22kaudit_.*%22%7D").unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let series = answer["data"]["result"].as_array().unwrap().iter().map(|series| {
            let labels: BTreeMap<&str, &str> = series["metric"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(label, value)| (label.as_str(), value.as_str().unwrap()))
                .filter(|(label, _)| !["job", "instance", "__name__"].contains(label))
                .collect();
            let name = series["metric"]["__name__"].as_str().unwrap();
            (known(name, labels), series["value"][1].as_str().unwrap().parse().unwrap())
        });
        series.collect()
    }
}

/// Normalizes a series: without empty labels, with numeric bounds.
fn known<'a>(name: &str, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let labels: BTreeMap<&str, String> = labels
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(label, value)| match value.parse::<f64>() {
            Ok(bound) if label == "le" => (label, bound.to_string()),
            _ => (label, value.to_owned()),
        })
        .collect();
    format!("{name}{labels:?}")
}

/// Returns every series of `/metrics` with its value.
fn served(kaudit: &Running) -> BTreeMap<String, f64> {
    let text = kaudit.get("/metrics").unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        // No label value here contains a comma.
        let labels = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once('='));
        (known(name, labels.map(|(label, value)| (label, value.trim_matches('"')))), value.parse().unwrap())
    });
    series.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn otlp_metrics_equal_scraped_metrics() {
    if !require() || !require_tool(Tool::Prometheus) {
        return;
    }
    let scene = Scene::new(shared().await, "otlp-metrics").await;
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let prometheus = Prometheus::start().await;
    let endpoint = format!("http://{}/api/v1/otlp/v1/metrics", prometheus.address);
    let kaudit = start(&scene, [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint)]).await;
    wait_for("Events", || async {
        kaudit.metric("kaudit_event_latency_seconds_count").filter(|written| *written == 2)
    })
    .await;
    // Ignore series that change during the comparison.
    let steady = |series: BTreeMap<String, f64>| {
        let changes =
            |name: &str| name.contains("timestamp") || name.contains("memory_bytes") || name.contains("queue");
        series.into_iter().filter(|(name, _)| !changes(name)).collect::<BTreeMap<_, _>>()
    };
    wait_for("the same series", || async {
        let (pushed, scraped) = (prometheus.series(), served(&kaudit));
        let same = pushed.keys().eq(scraped.keys()) && steady(pushed) == steady(scraped);
        same.then_some(())
    })
    .await;
    // The last values are sent at the end.
    scene.mark("a", None).await;
    let resolved = || async { kaudit.metric("kaudit_event_latency_seconds_count").filter(|written| *written == 3) };
    wait_for("the Event", resolved).await;
    assert_eq!(kaudit.stop().await, Some(0));
    let events = prometheus.series()["kaudit_event_latency_seconds_count{}"];
    assert!((events - 3.0).abs() < f64::EPSILON, "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_collector_delays_shutdown_by_seconds_at_most() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "otlp-silent").await;
    scene.create(["a".to_owned()], "yes").await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "300".to_owned());
    let kaudit = start(&scene, [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), timeout]).await;
    let warnings = |kaudit: &Running| kaudit.log().matches("are not sent").count();
    // Both signals fail repeatedly, and each is logged once.
    wait_for("both to be said", || async { (warnings(&kaudit) == 2).then_some(()) }).await;
    for number in [1, 2] {
        wait_for("an Event", || async { (scene.events(None).await.len() == number).then_some(()) }).await;
        scene.mark("a", None).await;
    }
    assert_eq!(warnings(&kaudit), 2);
    let began = Instant::now();
    assert_eq!(kaudit.stop().await, Some(0));
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
}
