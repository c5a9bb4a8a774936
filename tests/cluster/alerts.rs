//! The alerts of the chart, evaluated by promtool: each fires when it should, and no other.

pub(crate) mod dashboard;
mod scraped;

use std::{collections::BTreeSet, process::Command};

use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::{Value, json};

use crate::chart::render;

/// The snapshot with the names of all metrics.
const METRICS: &str =
    include_str!("../../src/metrics/snapshots/kaudit__metrics__tests__names_and_labels_are_a_contract.snap");

/// Series of two quiet, healthy hours, minute by minute.
const QUIET: &[(&str, &str)] = &[
    ("kaudit_build_info{}", "1x120"),
    ("kaudit_start_time_seconds{}", "1x120"),
    ("kaudit_recording_start_time_seconds{}", "1x120"),
    ("kaudit_gate_open{}", "1x120"),
    ("kaudit_leader{}", "1x120"),
    ("kaudit_queue_length{}", "0x120"),
    ("kaudit_policies_refused{}", "0x120"),
    ("kaudit_bundles_stale{}", "0x120"),
    ("kaudit_last_change_timestamp_seconds{}", "1x120"),
    (r#"kaudit_watch_activity_timestamp_seconds{group="",resource="nodes"}"#, "0+60x120"),
    (r#"kaudit_watch_activity_timestamp_seconds{group="",resource="pods"}"#, "0+60x120"),
    (r#"kaudit_kind_state{group="",resource="pods",state="synced"}"#, "1x120"),
    (r#"kaudit_kind_state{group="",resource="pods",state="forbidden"}"#, "0x120"),
    (r#"kaudit_violations{policy="p",severity="critical",result="fail"}"#, "3x120"),
    (r#"kaudit_violations_appeared_total{policy="p",severity="critical",result="fail",lane="change"}"#, "7x120"),
    (r#"kaudit_violations_appeared_total{policy="p",severity="critical",result="fail",lane="snapshot"}"#, "7x120"),
    (BY_RULE, "7x120"),
    (r#"kaudit_exceptions{state="expired"}"#, "0x120"),
    (r#"kaudit_exceptions{state="unused"}"#, "1x120"),
    // A hundred days after the start.
    ("kaudit_exceptions_next_end_timestamp_seconds{}", "8640000x120"),
    (r#"kaudit_recorder_writes_total{recorder="events"}"#, "5x120"),
    (r#"kaudit_recorder_retries_total{recorder="events"}"#, "1x120"),
    (r#"kaudit_recorder_drops_total{recorder="events",reason="forbidden"}"#, "1x120"),
    ("kaudit_memory_bytes{}", "80x120"),
    ("kaudit_memory_limit_bytes{}", "100x120"),
    ("kaudit_shared_verdict_differences_total{}", "0x120"),
];

const CHANGE: &str = r#"kaudit_violations_appeared_total{policy="p",severity="critical",result="fail",lane="change"}"#;
const BY_RULE: &str = r#"kaudit_violations_appeared_by_rule_total{resource_namespace="shop",policy="p",rule="r",severity="critical",result="fail",lane="change"}"#;
/// A series that starts with its first violation.
const OTHER_RULE: &str = r#"kaudit_violations_appeared_by_rule_total{resource_namespace="bank",policy="p",rule="s",severity="critical",result="fail",lane="change"}"#;
const SNAPSHOT_BY_RULE: &str = r#"kaudit_violations_appeared_by_rule_total{resource_namespace="bank",policy="p",rule="s",severity="critical",result="fail",lane="snapshot"}"#;
const LOW: &str = r#"kaudit_violations_appeared_total{policy="p",severity="low",result="fail",lane="change"}"#;
const SNAPSHOT: &str =
    r#"kaudit_violations_appeared_total{policy="p",severity="critical",result="fail",lane="snapshot"}"#;
const RETRIES: &str = r#"kaudit_recorder_retries_total{recorder="events"}"#;
const WRITES: &str = r#"kaudit_recorder_writes_total{recorder="events"}"#;
const ACTIVITY: &str = r#"kaudit_watch_activity_timestamp_seconds{group="",resource="pods"}"#;

/// Changes to [`QUIET`], and the alert that fires after two hours; empty if none.
const CASES: &[(&[(&str, &str)], &str)] = &[
    (&[], ""),
    (&[("kaudit_start_time_seconds{}", "0+60x120")], "KauditRestarts"),
    (&[("kaudit_start_time_seconds{}", "1x100 6000x20")], ""),
    (&[("kaudit_gate_open{}", "0x120")], "KauditGateShut"),
    (&[("kaudit_gate_open{}", "1x110 0x10")], ""),
    (&[("kaudit_leader{}", "0x120")], "KauditNoLeader"),
    (&[("kaudit_leader{}", "1x117 0x3")], ""),
    (&[(ACTIVITY, "0x120")], "KauditSilent"),
    (&[(ACTIVITY, "6600x120")], ""),
    (&[("kaudit_queue_length{}", "2000x120")], "KauditBehind"),
    (&[("kaudit_queue_length{}", "0x115 2000x5")], ""),
    (&[(r#"kaudit_kind_state{group="",resource="pods",state="forbidden"}"#, "1x120")], "KauditKindsNotJudged"),
    (&[(r#"kaudit_kind_state{group="a",resource="*",state="failed"}"#, "1x100 0x20")], ""),
    (&[("kaudit_policies_refused{}", "2x120")], "KauditPoliciesRefused"),
    (&[("kaudit_bundles_stale{}", "1x120")], "KauditBundlesStale"),
    (&[(r#"kaudit_violations{policy="p",severity="",result="error"}"#, "1x120")], "KauditPolicyErrors"),
    (&[(CHANGE, "7x115 8x5"), (BY_RULE, "7x115 8x5")], "KauditNewViolations"),
    (&[(CHANGE, "7x115 8x5"), (OTHER_RULE, "_x115 1x5")], "KauditNewViolations"),
    // Prometheus was down a quarter of an hour ago: no violation is new.
    (&[(BY_RULE, "7x98 _x14 7x8")], ""),
    (&[(LOW, "7x115 8x5")], ""),
    (&[(SNAPSHOT, "7x115 8x5"), (SNAPSHOT_BY_RULE, "_x115 1x5")], "KauditNewViolations"),
    // Violations found at the start existed before.
    (
        &[
            (SNAPSHOT, "0x112 500x8"),
            (SNAPSHOT_BY_RULE, "_x112 500x8"),
            ("kaudit_recording_start_time_seconds{}", "6600x120"),
        ],
        "",
    ),
    (&[("kaudit_exceptions_next_end_timestamp_seconds{}", "266400x120")], "KauditExceptionsEndSoon"),
    (&[(r#"kaudit_exceptions{state="expired"}"#, "1x120")], "KauditExceptionsNotInForce"),
    (&[(r#"kaudit_exceptions{state="invalid"}"#, "1x120")], "KauditExceptionsNotInForce"),
    (&[(RETRIES, "0+1x120")], "KauditWritesFail"),
    (&[(RETRIES, "0+1x120"), (WRITES, "0+1x120")], ""),
    (&[(r#"kaudit_recorder_drops_total{recorder="events",reason="forbidden"}"#, "0+1x120")], "KauditRecordsDropped"),
    (&[(r#"kaudit_recorder_drops_total{recorder="reports",reason="no_api"}"#, "0+1x120")], ""),
    (&[("kaudit_memory_bytes{}", "95x120")], "KauditMemoryHigh"),
    (&[("kaudit_shared_verdict_differences_total{}", "0x110 1x10")], "KauditSharedResultDiffers"),
];

/// Returns a series with the labels added by scraping.
fn series(labels: &str, (series, values): (&str, &str)) -> Value {
    let (name, own) = series.split_once('{').unwrap();
    let own = own.trim_end_matches('}');
    let comma = if own.is_empty() { "" } else { "," };
    json!({"series": format!("{name}{{{labels}{comma}{own}}}"), "values": values})
}

fn case(input: &[Value], firing: &str) -> Value {
    let samples: Vec<Value> = [firing]
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| json!({"labels": format!("{{alertname={name:?}}}"), "value": 1}))
        .collect();
    let firing = r#"count by (alertname) (ALERTS{alertstate="firing"})"#;
    json!({"interval": "1m", "input_series": input, "promql_expr_test": [
        {"expr": firing, "eval_time": "120m", "exp_samples": samples}]})
}

/// Violations of two rules in two namespaces cause two alerts with their locations.
fn where_it_is(labels: &str) -> Value {
    let input = [(CHANGE, "7x115 9x5"), (BY_RULE, "7x115 8x5"), (OTHER_RULE, "_x115 1x5")];
    let input: Vec<Value> = input.iter().map(|known| series(labels, *known)).collect();
    let firing = r#"count by (resource_namespace, rule) (ALERTS{alertname="KauditNewViolations",alertstate="firing"})"#;
    let sample =
        |namespace, rule| json!({"labels": format!("{{resource_namespace={namespace:?}, rule={rule:?}}}"), "value": 1});
    json!({"interval": "1m", "input_series": input, "promql_expr_test": [
        {"expr": firing, "eval_time": "120m", "exp_samples": [sample("bank", "s"), sample("shop", "r")]}]})
}

/// Returns all cases for a kaudit that is scraped with these labels.
fn cases(labels: &str) -> Vec<Value> {
    let changed = CASES.iter().map(|(changes, firing)| {
        let same = QUIET.iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        case(&same.chain(changes.iter()).map(|known| series(labels, *known)).collect::<Vec<_>>(), firing)
    });
    changed.chain([case(&[series(labels, ("other{}", "1x120"))], "KauditDown"), where_it_is(labels)]).collect()
}

/// Whether kaudit has a metric of this name.
fn is_metric(name: &str) -> bool {
    METRICS.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
}

/// Runs promtool, which must succeed.
pub(crate) fn promtool(arguments: &[&str], file: &std::path::Path) {
    let output = Command::new(tool(Tool::Promtool).unwrap()).args(arguments).arg(file).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[tokio::test]
async fn each_alert_fires_only_when_it_should() {
    if !require_tool(Tool::Helm) || !require_tool(Tool::Promtool) {
        return;
    }
    let enabled = "prometheusRule.enabled=true";
    for (settings, labels) in [
        // With the labels of the ServiceMonitor, and of any other configuration.
        (&[enabled, "serviceMonitor.enabled=true"][..], r#"namespace="kaudit",job="kaudit",pod="a",instance="b""#),
        (&[enabled], r#"job="any",instance="b""#),
    ] {
        let rendered = render("kaudit", settings).await;
        let rules = rendered.of_kinds(&["PrometheusRule"]).next().unwrap()["spec"].clone();
        let folder = tempfile::tempdir().unwrap();
        let rules_file = folder.path().join("rules.yaml");
        std::fs::write(&rules_file, rules.to_string()).unwrap();
        promtool(&["check", "rules", "--lint-fatal"], &rules_file);
        let tests = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases(labels)});
        let tests_file = folder.path().join("tests.yaml");
        std::fs::write(&tests_file, tests.to_string()).unwrap();
        // promtool resolves paths relative to the file.
        promtool(&["test", "rules"], &tests_file);

        let alerts = rules["groups"][0]["rules"].as_array().unwrap();
        let names: BTreeSet<&str> = alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect();
        let tested = CASES.iter().map(|(_, firing)| *firing).chain(["KauditDown"]);
        assert_eq!(names, tested.filter(|name| !name.is_empty()).collect(), "each alert has a case in which it fires");
        for alert in alerts {
            let expression = alert["expr"].as_str().unwrap();
            for metric in expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
                let known = !metric.starts_with("kaudit_") || is_metric(metric);
                assert!(known, "there is no {metric}, of which {} is made", alert["alert"]);
            }
            assert!(["critical", "warning", "info"].iter().any(|word| alert["labels"]["severity"] == *word), "{alert}");
        }
    }
}

#[tokio::test]
async fn alerts_can_be_disabled_and_have_labels_and_thresholds() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let settings = [
        "prometheusRule.enabled=true",
        "prometheusRule.disabled={KauditBehind}",
        "prometheusRule.alertLabels.team=platform",
        "prometheusRule.labels.release=prometheus",
        "prometheusRule.thresholds.memoryPercent=50",
        "prometheusRule.selector=job=\"mine\"",
        "shards=3",
        "clusterName=prod",
        "notify.externalURL=https://kaudit.example.com/",
        "prometheusRule.runbookURL=https://docs.example.com/kaudit",
    ];
    let rendered = render("kaudit", &settings).await;
    let rule = rendered.of_kinds(&["PrometheusRule"]).next().unwrap();
    assert_eq!(rule["metadata"]["labels"]["release"], "prometheus");
    let alerts = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    let alert = |name: &str| alerts.iter().find(|alert| alert["alert"] == name);
    assert!(alert("KauditBehind").is_none());
    assert!(alerts.iter().all(
        |alert| alert["labels"]["team"] == "platform" && alert["expr"].as_str().unwrap().contains(r#"job="mine""#)
    ));
    for alert in alerts {
        let (labels, annotations) = (&alert["labels"], &alert["annotations"]);
        assert_eq!(labels["cluster"], "prod");
        let section = alert["alert"].as_str().unwrap().to_lowercase();
        assert_eq!(annotations["runbook_url"], format!("https://docs.example.com/kaudit#{section}"));
        let page = annotations["page"].as_str().unwrap();
        let filtered = alert["alert"] == "KauditNewViolations";
        assert!(page.starts_with("https://kaudit.example.com/") && page.contains("?policy=") == filtered, "{page}");
    }
    assert!(alert("KauditMemoryHigh").unwrap()["expr"].as_str().unwrap().ends_with("> 50"));
    assert!(alert("KauditNoLeader").unwrap()["expr"].as_str().unwrap().ends_with("< 3"));
    assert_eq!(render("kaudit", &[]).await.of_kinds(&["PrometheusRule"]).count(), 0, "off by default");
    let bare = render("kaudit", &["prometheusRule.enabled=true", "prometheusRule.runbookURL="]).await;
    assert!(!["runbook_url", "page:", "cluster:"].iter().any(|name| bare.text.contains(name)), "{}", bare.text);
}
