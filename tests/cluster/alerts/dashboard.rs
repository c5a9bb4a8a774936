//! The dashboard of the chart: Grafana knows all of its fields, and Prometheus its queries.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::{Value, json};

use super::{METRICS, is_metric, promtool};
use crate::chart::{Rendered, render};

/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;

/// Changes of the dashboard that Grafana would ignore or refuse, with the path of the error.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("\"refresh\": \"1m\"", "\"refreshes\": \"1m\"", "unexpected field 'refreshes'"),
    ("\"refresh\": 2", "\"refresh\": \"2\"", "templating.list[1].refresh"),
    ("\"w\": 24", "\"w\": \"24\"", "panels[0].gridPos.w"),
    ("\"type\": \"stat\"", "\"type\": \"stats\"", "panels[1].type"),
    ("\"graphMode\"", "\"graph\"", "panels[1].options"),
    ("\"legendFormat\"", "\"legend\"", "panels[1].targets[0]"),
    ("\"datasource\": {\"type\": \"prometheus\"", "\"datasource\": {\"type\": \"other\"", "panels[1].targets[0]"),
    ("\"unit\": \"s\"", "\"units\": \"s\"", "panels[5].fieldConfig.defaults"),
    ("\"matcher\"", "\"match\"", "panels[8].fieldConfig.overrides[0]"),
    ("\"fillOpacity\": 20", "\"fillOpacity\": \"20\"", "panels[10].fieldConfig.defaults.custom.fillOpacity"),
];

/// Returns the text of the dashboard of a release.
fn dashboard_text(rendered: &Rendered) -> &str {
    let map = rendered.of_kinds(&["ConfigMap"]).find(|object| object["data"]["kaudit.json"].is_string()).unwrap();
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    map["data"]["kaudit.json"].as_str().unwrap()
}

/// Returns the dashboard of a release.
pub(super) fn dashboard(rendered: &Rendered) -> Value {
    serde_json::from_str(dashboard_text(rendered)).unwrap()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

/// Returns the queries of a panel, with Grafana's variables filled in.
fn queries_of(panel: &Value) -> Vec<String> {
    let filled = |target: &Value| {
        let mut expression = target["expr"].as_str().unwrap().to_owned();
        for (variable, value) in
            [("$__rate_interval", "5m"), ("$resource_namespace", ".*"), ("$cluster", ".*"), ("$job", ".*")]
        {
            expression = expression.replace(variable, value);
        }
        assert!(!expression.contains('$'), "{expression}");
        expression
    };
    panel["targets"].as_array().into_iter().flatten().map(filled).collect()
}

/// Returns all queries of the dashboard, with Grafana's variables filled in.
pub(crate) fn questions(dashboard: &Value) -> Vec<String> {
    panels(dashboard).iter().flat_map(queries_of).collect()
}

/// Returns the only query of the panel with this title.
pub(super) fn query(dashboard: &Value, title: &str) -> String {
    let panel = panels(dashboard).iter().find(|panel| panel["title"] == title);
    let queries = queries_of(panel.unwrap_or_else(|| panic!("there is no panel {title}")));
    let [query] = &queries[..] else { panic!("{title} has the queries {queries:?}") };
    query.clone()
}

/// Returns the errors that the types published by Grafana find in a dashboard; empty without errors.
pub(crate) fn schema_errors(dashboard: &str) -> String {
    let mut command = Command::new(tool(Tool::GrafanaSchema).unwrap());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(dashboard.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), errors.is_empty(), "{}: {errors}", output.status);
    errors
}

#[tokio::test]
async fn grafana_knows_every_field_of_the_dashboard() {
    if !require_tool(Tool::Helm) || !require_tool(Tool::GrafanaSchema) {
        return;
    }
    let rendered = render("kaudit", &["dashboard.enabled=true"]).await;
    let text = dashboard_text(&rendered);
    assert_eq!(schema_errors(text), "");
    for (right, wrong, path) in MISTAKES {
        let changed = text.replace(right, wrong);
        assert_ne!(changed, text, "the dashboard has no {right}");
        let errors = schema_errors(&changed);
        assert!(errors.contains(path), "{wrong} causes {errors:?}, which does not name {path}");
    }
}

#[tokio::test]
async fn panels_of_the_dashboard_have_their_own_ids_and_places() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let dashboard = dashboard(&render("kaudit", &["dashboard.enabled=true"]).await);
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "another panel has the id of {}", panel["title"]);
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|field| panel["gridPos"][field].as_u64().unwrap());
        assert!(x + width <= COLUMNS, "{} is too wide", panel["title"]);
        for cell in (x..x + width).flat_map(|column| (y..y + height).map(move |row| (column, row))) {
            assert!(cells.insert(cell), "{} covers another panel", panel["title"]);
        }
    }
}

/// Returns the words in an expression.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

#[tokio::test]
async fn prometheus_accepts_the_queries_of_the_dashboard() {
    if !require_tool(Tool::Helm) || !require_tool(Tool::Promtool) {
        return;
    }
    let rendered = render("kaudit", &["dashboard.enabled=true", "dashboard.annotations.grafana_folder=Security"]).await;
    let dashboard = dashboard(&rendered);
    let expressions = questions(&dashboard);
    assert!(expressions.len() > 20, "{expressions:#?}");
    let rule = |(number, expression)| json!({"record": format!("asked:{number}"), "expr": expression});
    let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string()).unwrap();
    promtool(&["check", "rules", "--lint=none"], &file);
    for metric in expressions.iter().flat_map(|text| words(text)).filter(|word| word.starts_with("kaudit_")) {
        assert!(is_metric(metric), "there is no {metric}");
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(definition) = variable["definition"].as_str() else { continue };
        assert_eq!(variable["query"]["query"], definition, "{variable}");
        let values = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = values.and_then(|values| values.split_once(", ")).unwrap();
        assert!(is_metric(metric), "there is no {metric}");
        // Prometheus adds the other labels.
        let series = METRICS.lines().find(|line| line.starts_with(&format!("{metric}{{"))).unwrap();
        let is_known = ["cluster", "job"].contains(&label) || series.contains(&format!("{label}="));
        assert!(is_known, "{metric} has no label {label}");
    }
}
