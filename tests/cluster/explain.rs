//! `kaudit explain` for one object of a cluster, which reads only what it needs.

use std::sync::{Arc, Mutex};

use kaudit_controlplane::{require, shared};
use serde_json::Value;

use crate::{
    proxy::{Act, Proxy},
    reports,
    support::{policies, run},
};

const POLICIES: [(&str, &str); 2] = [
    (
        "policies/owned.rego",
        "package owned\n\ndeny contains \"label owner is missing\" if {\n\tinput.kind == \"ConfigMap\"\n\tnot input.metadata.labels.owner\n\tinput.metadata.labels.explained\n}\n",
    ),
    (
        "policies/named.rego",
        "package named\n\ndeny contains msg if {\n\tsome other in data.kubernetes.serviceaccounts[input.metadata.namespace]\n\tother.metadata.name == input.metadata.name\n\tmsg := sprintf(\"is named like %s\", [other.metadata.name])\n}\n",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn explain_reads_only_the_object_and_its_lookups() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("explain").await.unwrap();
    let map = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{explained: x}}}}\n"
        )
    };
    let account = format!("apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: twin, namespace: {namespace}}}\n");
    plane.apply(&[map("alone"), map("twin"), account].join("---\n")).await.unwrap();
    let folder = policies(&POLICIES);
    let path = folder.path().join("policies").to_str().unwrap().to_owned();
    let requested: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&requested);
    let proxy = Proxy::start(plane, move |request| {
        seen.lock().unwrap().push(request.uri.path().to_owned());
        Act::Pass
    })
    .await;
    let explain = async |what: &[&str]| {
        requested.lock().unwrap().clear();
        let ended = run(proxy.kubeconfig(), &[&["explain", "-p", &path, "-o", "json"], what].concat()).await;
        // Ignore discovery requests.
        let about =
            |path: &String| path.split('/').count() > 3 && path.contains(&namespace) || path.ends_with("accounts");
        let requested: Vec<String> = requested.lock().unwrap().iter().filter(|path| about(path)).cloned().collect();
        (ended, requested)
    };
    let object = |name: &str| format!("{namespace}/{name}");
    let (ended, requested) = explain(&["cm", &object("alone"), "owned/deny"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let explained = ended.json();
    assert_eq!(explained["results"][0]["message"], "label owner is missing");
    assert_eq!(explained["definitions"][0]["bodies"][0]["holds"], 1);
    assert_eq!(requested, [format!("/api/v1/namespaces/{namespace}/configmaps/alone")]);
    let (ended, requested) = explain(&["ConfigMap", &object("twin"), "named/deny"]).await;
    assert_eq!(ended.json()["results"][0]["message"], "is named like twin", "{ended:?}");
    assert_eq!(requested.len(), 2, "the object and one list: {requested:?}");
    // A result of an audit is found by its id.
    let check = ["check", "--once", "-n", &namespace, "-o", "json", "-p", &path];
    let audit = run(&plane.kubeconfig(), &check).await.json();
    let results: Vec<&Value> = audit["results"].as_array().unwrap().iter().collect();
    assert_eq!(results.len(), 4, "the account has its own name, too: {audit}");
    let (ended, _) = explain(&[results[0]["id"].as_str().unwrap()]).await;
    assert_eq!(ended.json()["results"][0], *results[0], "{ended:?}");
    // Suggestions of similar names.
    let (ended, _) = explain(&["configmap", &object("alon"), "owned/deny"]).await;
    assert_eq!(ended.code, Some(2));
    let near = format!("there is no ConfigMap {namespace}/alon; did you mean {namespace}/alone?");
    assert!(ended.stderr.contains(&near), "{ended:?}");
    let (ended, _) = explain(&["confgmap", &object("alone"), "owned/deny"]).await;
    assert!(ended.stderr.contains("the cluster serves no kind confgmap; the nearest name is ConfigMap"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_from_reports_is_shown() {
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    let namespace = plane.temp_namespace("aged").await.unwrap();
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: old, namespace: {namespace}, labels: {{explained: x}}}}\n"
    );
    plane.apply(&map).await.unwrap();
    let folder = policies(&POLICIES[..1]);
    let path = folder.path().join("policies").to_str().unwrap().to_owned();
    let explain = async |more: &[&str]| {
        let what = ["explain", "-p", &path, "cm", &format!("{namespace}/old"), "owned/deny"];
        run(&plane.kubeconfig(), &[&what[..], more].concat()).await
    };
    assert!(!explain(&[]).await.stdout.contains("since "), "nothing is reported yet");
    let check = ["check", "--once", "--record=reports", "-n", &namespace, "-p", &path];
    assert_eq!(run(&plane.kubeconfig(), &check).await.code, Some(1));
    let report = reports::reports_in(&plane, reports::NAMES[0][0], &namespace).await;
    let seconds = report[0]["results"][0]["timestamp"]["seconds"].as_i64().unwrap();
    let explained = explain(&["-o", "json"]).await.json();
    let since: jiff::Timestamp = explained["since"].as_str().unwrap().parse().unwrap();
    assert_eq!(since.as_second(), seconds);
    let text = explain(&[]).await.stdout;
    assert!(text.contains(&format!("\nsince {since:.0}\n")), "{text}");
}
