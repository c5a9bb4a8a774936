//! The chart of the view of all clusters.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use kaudit_controlplane::{NatsServer, Tool, free_port, require, require_tool, shared};
use kaudit_test_support::{child::ChildGuard, long_run};
use serde_json::{Value, json};

use super::Fleet;
use crate::{
    alerts::{dashboard, promtool},
    chart::{Rendered, render_chart},
    support::wait_for,
};

const SERVER: &str = "nats.servers={nats://nats.example.com:4222}";

async fn render(settings: &[&str]) -> Rendered {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/kaudit-fleet");
    render_chart(&chart, "fleet", settings).await
}

fn arguments(rendered: &Rendered) -> Vec<String> {
    let pod = &rendered.of_kinds(&["Deployment"]).next().unwrap()["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kaudit_takes_the_arguments_of_the_chart_and_is_ready() {
    if !require() || !require_tool(Tool::NatsServer) || !require_tool(Tool::Helm) {
        return;
    }
    let plane = shared().await;
    let settings = [SERVER, "clusters={blue*}", "selector=env=prod", "expectClusters={blue,gone}"];
    let rendered = render(&settings).await;
    let namespace = plane.temp_namespace("fleet-chart").await.unwrap();
    let text = rendered.text.replace("namespace: fleet\n", &format!("namespace: {namespace}\n"));
    plane.apply(&text).await.unwrap();
    let fleet = Fleet { server: NatsServer::start("", &[]).await.unwrap(), passwords: tempfile::tempdir().unwrap() };
    let [health, page] = [free_port().unwrap(), free_port().unwrap()];
    let arguments = arguments(&rendered).into_iter().map(|argument| {
        let argument = argument.replace("nats://nats.example.com:4222", &fleet.url());
        argument.replace("0.0.0.0:8080", &format!("127.0.0.1:{health}")).replace("8082", &page.to_string())
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_kaudit"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let view = ChildGuard(command.spawn().unwrap());
    let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    wait_for("the view", || async { long_run::get(at(health), "/readyz") }).await;
    let metrics = long_run::get(at(health), "/metrics").unwrap();
    assert!(metrics.contains("kaudit_fleet_clusters{status=\"missing\"} 2"), "{metrics}");
    assert!(long_run::get(at(page), "/").unwrap().contains("gone"));
    drop(view);
}

#[tokio::test]
async fn files_of_a_secret_become_options() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let login = ["nats.login=nkey", "nats.secret=nats", "nats.ca=true", "nats.clientCertificate=true"];
    let rendered = render(&[&[SERVER][..], &login].concat()).await;
    let options: Vec<String> = arguments(&rendered).into_iter().filter(|option| option.contains("/nats.d/")).collect();
    let wanted = ["nkey=/nats.d/nats.nk", "ca=/nats.d/ca.crt", "cert=/nats.d/tls.crt", "key=/nats.d/tls.key"];
    assert_eq!(options, wanted.map(|file| format!("--nats-{file}")));
}

/// The series of a quiet fleet of two clusters at a time in minutes.
const QUIET: [(&str, &str); 5] = [
    ("kaudit_fleet_clusters{status=\"missing\"}", "0x60"),
    ("kaudit_fleet_connected", "1x60"),
    ("kaudit_fleet_heartbeat_timestamp_seconds{cluster=\"a\"}", "0+60x60"),
    ("kaudit_fleet_heartbeat_timestamp_seconds{cluster=\"b\"}", "0+60x60"),
    ("kaudit_fleet_complete{cluster=\"a\"}", "1x60"),
];

/// What changes, and the alert that fires then.
const CASES: [((&str, &str), &str); 6] = [
    (QUIET[1], ""),
    (("kaudit_fleet_heartbeat_timestamp_seconds{cluster=\"a\"}", "0+60x10 600x50"), "KauditFleetClusterOld"),
    (("kaudit_fleet_complete{cluster=\"a\"}", "0x60"), "KauditFleetClusterIncomplete"),
    (("kaudit_fleet_clusters{status=\"missing\"}", "1x60"), "KauditFleetClusterMissing"),
    (("kaudit_fleet_connected", "0x60"), "KauditFleetDisconnected"),
    (("kaudit_fleet_complete{cluster=\"c\"}", "0x60"), "KauditFleetBucketEmpty"),
];

#[tokio::test]
async fn each_alert_of_a_fleet_fires_only_when_it_should_and_grafana_knows_the_dashboard() {
    if !require_tool(Tool::Helm) || !require_tool(Tool::Promtool) || !require_tool(Tool::GrafanaSchema) {
        return;
    }
    let rendered = render(&[SERVER, "prometheusRule.enabled=true", "dashboard.enabled=true"]).await;
    let rules = rendered.of_kinds(&["PrometheusRule"]).next().unwrap()["spec"].clone();
    let folder = tempfile::tempdir().unwrap();
    let (rules_file, tests_file) = (folder.path().join("rules.yaml"), folder.path().join("tests.yaml"));
    fs::write(&rules_file, rules.to_string()).unwrap();
    promtool(&["check", "rules", "--lint-fatal"], &rules_file);
    let case = |(changed, firing): &((&str, &str), &str)| {
        let same = QUIET.iter().filter(|(name, _)| *name != changed.0);
        let series = same.chain([changed]).map(|(name, values)| json!({"series": name, "values": values}));
        let firing = [firing].into_iter().filter(|name| !name.is_empty());
        let samples: Vec<Value> =
            firing.map(|name| json!({"labels": format!("{{alertname={name:?}}}"), "value": 1})).collect();
        json!({"interval": "1m", "input_series": series.collect::<Vec<_>>(), "promql_expr_test": [{
            "expr": r#"count by (alertname) (ALERTS{alertstate="firing"})"#, "eval_time": "50m", "exp_samples": samples}]})
    };
    let cases: Vec<Value> = CASES.iter().map(case).collect();
    let tests = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases});
    fs::write(&tests_file, tests.to_string()).unwrap();
    promtool(&["test", "rules"], &tests_file);

    let map = rendered.of_kinds(&["ConfigMap"]).next().unwrap();
    let text = map["data"]["kaudit-fleet.json"].as_str().unwrap();
    assert_eq!(dashboard::schema_errors(text), "");
    let expressions = dashboard::questions(&serde_json::from_str(text).unwrap());
    let rule = |(number, expression)| json!({"record": format!("asked:{number}"), "expr": expression});
    let recorded: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    fs::write(&rules_file, json!({"groups": [{"name": "dashboard", "rules": recorded}]}).to_string()).unwrap();
    promtool(&["check", "rules", "--lint=none"], &rules_file);
    // The metrics of the view; `the page` tests that they exist.
    let known = ["clusters", "violations", "heartbeat_timestamp_seconds", "complete", "connected"];
    for expression in
        expressions.iter().chain(rules["groups"][0]["rules"].as_array().unwrap().iter().map(
            |rule| match &rule["expr"] {
                Value::String(expression) => expression,
                other => panic!("{other}"),
            },
        ))
    {
        for word in expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let is_known = word.strip_prefix("kaudit_fleet_").is_none_or(|metric| known.contains(&metric));
            assert!(is_known, "there is no {word}");
        }
    }
}
