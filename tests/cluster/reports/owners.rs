//! Ownership of reports: it includes the namespace of the `Audit`.

use std::path::Path;

use jiff::Timestamp;
use kaudit_controlplane::{ControlPlane, require};
use serde_json::{Value, json};

use super::{NAMES, list, mark, plane, reports_in, results};
use crate::{
    kubectl::operator,
    support::{denies_marked, policies, run},
};

/// Audits everything and writes reports; the result is in the reports.
async fn audit(kubeconfig: &Path, directory: &tempfile::TempDir, more: &[&str]) {
    let path = directory.path().to_str().unwrap();
    let base = ["check", "--once", "-o", "json", "--record=reports", "--policies", path];
    let ended = run(kubeconfig, &[&base, more].concat()).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
}

/// Returns the messages in the reports of a namespace, sorted.
async fn messages(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let reports = reports_in(plane, NAMES[0][0], namespace).await;
    let mut messages: Vec<String> =
        results(&reports).values().map(|result| result["message"].as_str().unwrap().to_owned()).collect();
    messages.sort();
    messages
}

#[tokio::test]
async fn kaudits_with_one_name_in_two_namespaces_do_not_interfere() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let team = plane.temp_namespace("team").await.unwrap();
    mark(&plane, &team, "one", "yes").await;
    mark(&plane, &team, "two", "yes").await;
    let mut kaudits = Vec::new();
    for words in ["first says", "second says"] {
        let namespace = plane.temp_namespace("audit").await.unwrap();
        let user = operator(&plane, &namespace).await;
        let policy = denies_marked(&team).replace("marked %v", &format!("{words} %v"));
        kaudits.push((user, policies(&[("marked.rego", &policy)])));
    }
    let both = ["first says yes", "first says yes", "second says yes", "second says yes"];
    for layout in ["namespace", "resource"] {
        let layout = format!("--report-layout={layout}");
        for (user, directory) in &kaudits {
            audit(user.kubeconfig_path(), directory, &[&layout]).await;
        }
        assert_eq!(messages(&plane, &team).await, both, "{layout}");
        // Neither takes over or removes the other's reports.
        let before = list(&plane, NAMES[0][0]).await;
        for (user, directory) in &kaudits {
            audit(user.kubeconfig_path(), directory, &[&layout]).await;
        }
        assert_eq!(list(&plane, NAMES[0][0]).await, before, "{layout}");
    }
}

/// Returns a report as written by earlier versions: with another name, and violations first seen at `since`.
fn of_an_earlier_version(report: &Value, name: &str, since: &Value) -> Value {
    let mut results = report["results"].clone();
    results.as_array_mut().unwrap().iter_mut().for_each(|result| result["timestamp"] = since.clone());
    let labels = json!({"app.kubernetes.io/managed-by": "kaudit", "app.kubernetes.io/instance": "kaudit"});
    let namespace = &report["metadata"]["namespace"];
    json!({"apiVersion": report["apiVersion"], "kind": report["kind"], "results": results,
        "metadata": {"name": name, "namespace": namespace, "labels": labels}})
}

#[tokio::test]
async fn reports_of_an_earlier_version_are_taken_over() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let team = plane.temp_namespace("upgraded").await.unwrap();
    mark(&plane, &team, "one", "yes").await;
    let directory = policies(&[("marked.rego", &denies_marked(&team))]);
    let name = |report: &Value| report["metadata"]["name"].as_str().unwrap().to_owned();
    audit(&plane.kubeconfig(), &directory, &[]).await;
    let [report] = &reports_in(&plane, NAMES[0][0], &team).await[..] else { panic!() };
    assert_eq!(name(report), "kaudit.default");
    plane.kubectl(&["-n", &team, "delete", NAMES[0][0], "--all"]).await.unwrap();
    // A recognizable time, not before the object was created: no violation is recorded as older than its object.
    let created = plane
        .kubectl(&["-n", &team, "get", "configmap", "one", "-o", "jsonpath={.metadata.creationTimestamp}"])
        .await
        .unwrap();
    let since = json!({"seconds": created.parse::<Timestamp>().unwrap().as_second(), "nanos": 7});
    plane.apply(&of_an_earlier_version(report, "kaudit", &since).to_string()).await.unwrap();
    audit(&plane.kubeconfig(), &directory, &[]).await;
    let [upgraded] = &reports_in(&plane, NAMES[0][0], &team).await[..] else { panic!() };
    assert_eq!((name(upgraded), &upgraded["results"][0]["timestamp"]), (name(report), &since));
    assert_eq!(upgraded["metadata"]["labels"]["kaudit.dev/audit-namespace"], "default");
}
