//! `-o openreport`: reports applied by a pipeline equal those of the long run.

use std::collections::BTreeMap;

use kaudit_controlplane::{ControlPlane, require};
use serde_json::{Value, json};

use super::{NAMES, list, mark, once, plane, policy};
use crate::support::policies;

/// Returns the non-empty reports of one writer, by kind and namespace, without names, labels and times. A check also
/// writes empty ones for namespaces without results.
async fn written_by(plane: &ControlPlane, instance: &str) -> BTreeMap<String, Value> {
    let all = [list(plane, NAMES[0][0]).await, list(plane, NAMES[0][1]).await].concat();
    let own = all.into_iter().filter(|report| report["metadata"]["labels"]["app.kubernetes.io/instance"] == instance);
    let own = own.filter(|report| report["results"].as_array().is_some_and(|results| !results.is_empty()));
    own.map(|mut report| {
        for result in report["results"].as_array_mut().unwrap() {
            result.as_object_mut().unwrap().remove("timestamp");
        }
        let key = format!("{} {}", report["kind"], report["metadata"]["namespace"]);
        (key, ["source", "configuration", "summary", "results"].map(|field| report[field].clone()).into())
    })
    .collect()
}

#[tokio::test]
async fn reports_of_a_check_can_be_applied_and_equal_those_of_the_long_run() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("applied").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    for (name, value) in [("one", "yes"), ("two", "warn"), ("three", "broken")] {
        mark(&plane, &namespace, name, value).await;
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": namespace, "labels": {&namespace: "yes"}}, "rules": []});
    plane.apply(&role.to_string()).await.unwrap();
    let file = directory.path().join("reports.json");
    let output = format!("openreport={}", file.display());
    let ended = once(&plane, &directory, &["--report-api=openreports", "-o", &output]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let apply = ["apply", "--validate=strict", "-f", file.to_str().unwrap()];
    plane.kubectl(&apply).await.unwrap();
    let (live, applied) = (written_by(&plane, "kaudit").await, written_by(&plane, "kaudit-check").await);
    assert_eq!(applied.len(), 2, "{applied:#?}");
    assert_eq!(applied, live);

    // No other writer takes them over, and applying them again changes nothing.
    once(&plane, &directory, &["--report-api=openreports"]).await;
    assert_eq!(written_by(&plane, "kaudit-check").await, applied);
    let again = plane.kubectl(&apply).await.unwrap();
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    for kind in NAMES[0] {
        let own = "app.kubernetes.io/instance=kaudit-check";
        let scope: &[&str] = if kind.starts_with("cluster") { &[] } else { &["-A"] };
        plane.kubectl(&[&["delete", kind, "-l", own][..], scope].concat()).await.unwrap();
    }
    plane.kubectl(&["delete", "clusterrole", &namespace]).await.unwrap();
    once(&plane, &directory, &[]).await;
}
