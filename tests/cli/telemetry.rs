//! Traces and metrics by OTLP, to the receiver of the OpenTelemetry Collector.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use kaudit_controlplane::{Tool, require_tool};
use kaudit_test_support::otlp::{Collector, TOKEN, attribute};
use serde_json::Value;

use crate::kaudit;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn check() -> Command {
    kaudit(
        Path::new(env!("CARGO_MANIFEST_DIR")),
        &["check", "-f", "examples/manifests", "-p", "policies", "-o", "json"],
    )
}

/// Returns the output of a run without OTLP.
fn plain() -> Output {
    check().output().unwrap()
}

fn metrics(collector: &Collector) -> Vec<Value> {
    until("metrics", || {
        let metrics = collector.parts("metrics", &["resourceMetrics", "scopeMetrics", "metrics"]);
        Some(metrics).filter(|metrics| !metrics.is_empty())
    })
}

fn until<T>(what: &str, probe: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn a_run_joins_the_trace_of_its_caller_and_exports_final_metrics() {
    if !require_tool(Tool::OtlpReceiver) {
        return;
    }
    let collector = Collector::start();
    let mut command = check();
    command.envs(collector.environment()).env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"));
    command.env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip").env("KAUDIT_LOG", "trace");
    let output = command.output().unwrap();
    let plain = plain();
    assert_eq!((output.status.code(), text(&output.stdout)), (plain.status.code(), text(&plain.stdout)));
    let log = text(&output.stderr);
    assert!(!log.contains(TOKEN) && !log.contains("WARN"), "{log}");

    let spans = until("spans", || Some(collector.spans()).filter(|spans| !spans.is_empty()));
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["load policies", "sync", "judge", "write results", "check"]);
    let (root, phases) = spans.split_last().unwrap();
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&TRACE.into(), &CALLER.into()));
    assert_eq!(attribute(root, "process.exit.code").unwrap(), "1");
    for phase in phases {
        assert_eq!((&phase["traceId"], &phase["parentSpanId"]), (&root["traceId"], &root["spanId"]));
        assert!(phase["startTimeUnixNano"].as_str() >= root["startTimeUnixNano"].as_str());
        assert!(phase["endTimeUnixNano"].as_str() <= root["endTimeUnixNano"].as_str());
    }
    assert!(attribute(&spans[0], "kaudit.rules").unwrap().parse::<usize>().unwrap() > 30);

    let metrics = metrics(&collector);
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let evaluations = &metric("kaudit_evaluations_total")["sum"];
    assert_eq!((&evaluations["isMonotonic"], &evaluations["dataPoints"][0]["asInt"]), (&true.into(), &"17".into()));
    let violations = metric("kaudit_violations")["gauge"]["dataPoints"].as_array().unwrap();
    let failed = violations.iter().filter(|point| attribute(point, "result").as_deref() == Some("fail"));
    let failed: usize = failed.map(|point| point["asInt"].as_str().unwrap().parse::<usize>().unwrap()).sum();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(failed, usize::try_from(json["summary"]["fail"].as_u64().unwrap()).unwrap());
    let latency = metric("kaudit_evaluation_seconds");
    assert_eq!((&latency["unit"], &latency["histogram"]["dataPoints"][0]["count"]), (&"s".into(), &"17".into()));

    let resources = [("traces", "resourceSpans"), ("metrics", "resourceMetrics")];
    let resources = resources.map(|(signal, resources)| collector.parts(signal, &[resources])[0]["resource"].clone());
    for resource in resources {
        assert_eq!(attribute(&resource, "service.name").unwrap(), "kaudit");
        assert_eq!(attribute(&resource, "service.version").unwrap(), env!("CARGO_PKG_VERSION"));
        assert!(attribute(&resource, "service.instance.id").is_some_and(|id| !id.is_empty()));
    }
}

#[test]
fn the_environment_configures_signals_and_resource() {
    if !require_tool(Tool::OtlpReceiver) {
        return;
    }
    let collector = Collector::start();
    let mut command = check();
    command.envs(collector.environment()).env("OTEL_TRACES_EXPORTER", "none").env("OTEL_SERVICE_NAME", "audit");
    command.env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.instance.id=one");
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    assert!(!metrics(&collector).is_empty());
    let resource = &collector.parts("metrics", &["resourceMetrics"])[0]["resource"];
    let attributes = ["service.name", "service.instance.id", "deployment.environment.name"];
    let attributes = attributes.map(|key| attribute(resource, key).unwrap());
    assert_eq!(attributes, ["audit", "one", "test"]);
    let mut command = check();
    command.envs(collector.environment()).env("OTEL_METRICS_EXPORTER", "none").env("OTEL_TRACES_SAMPLER", "always_off");
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    assert_eq!(collector.spans(), [Value::Null; 0]);
}

/// Whether a run connects to an endpoint that never answers.
fn connects(variables: &[(&str, &str)]) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut command = check();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", listener.local_addr().unwrap()));
    command.envs(variables.iter().copied());
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    listener.accept().is_ok()
}

#[test]
fn nothing_is_exported_by_default() {
    assert!(connects(&[]));
    assert!(!connects(&[("OTEL_SDK_DISABLED", "true")]));
    assert!(!connects(&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]));
    assert!(!connects(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]));
}

#[test]
fn a_silent_collector_has_no_effect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let began = Instant::now();
    let plain = plain();
    let takes = began.elapsed();
    for (address, why) in [(silent, "did not respond before shutdown"), (gone, "refused")] {
        let mut command = check();
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://user:{TOKEN}@{address}/?key={TOKEN}"));
        command.env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization=Bearer%20{TOKEN}")).env("KAUDIT_LOG", "trace");
        let began = Instant::now();
        let output = command.output().unwrap();
        let delay = began.elapsed().saturating_sub(takes);
        assert!(delay < Duration::from_secs(8), "{delay:?} longer");
        assert_eq!((output.status.code(), text(&output.stdout)), (plain.status.code(), text(&plain.stdout)));
        let log = text(&output.stderr);
        let lines: BTreeSet<&str> = log.lines().filter(|line| line.contains("are not sent")).collect();
        assert!(lines.len() == 2 && log.matches("are not sent").count() == 2, "each signal once: {log}");
        assert!(lines.iter().all(|line| line.contains(why) && line.contains(&address.to_string())), "{log}");
        assert!(!log.contains(TOKEN), "{log}");
    }
}
