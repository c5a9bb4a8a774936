//! A comparison of two policy sets for a cluster, from one download.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use kaudit_controlplane::{require, shared};
use serde_json::Value;

use crate::{
    proxy::{Act, Proxy},
    support::{policies, run},
};

/// Denies `ConfigMaps` by a label, with a lookup, so that both sides need an inventory.
fn denies(label: &str) -> String {
    format!(
        "package {label}\n\ndeny contains \"{label} is set\" if {{\n\tinput.kind == \"ConfigMap\"\n\tinput.metadata.labels[\"{label}\"]\n\t\
         data.inventory.namespace[input.metadata.namespace].v1.ConfigMap[input.metadata.name]\n}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_evaluate_one_download() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("diff").await.unwrap();
    let map = |name: &str, labels: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\n"
        )
    };
    plane.apply(&[map("a", "old: x"), map("b", "new: x"), map("c", "old: x, new: x")].join("---\n")).await.unwrap();
    let folder = policies(&[("old/p.rego", &denies("old")), ("new/p.rego", &denies("new"))]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lists: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let seen = Arc::clone(&lists);
    let proxy = Proxy::start(plane, move |request| {
        let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
        // Count the pages of a list once.
        if query.contains("limit=") && !query.contains("continue=") || query.contains("watch=") {
            *seen.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        }
        Act::Pass
    })
    .await;
    let arguments = ["diff", &path("old"), &path("new"), "--once", "-n", &namespace, "-o", "json"];
    let ended = run(proxy.kubeconfig(), &arguments).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let diff = ended.json();
    let names = |class: &str| -> Vec<String> {
        let entries = diff[class].as_array().unwrap().iter();
        entries.map(|entry| entry["resource"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names("appears"), names("resolves")), (vec!["b".into(), "c".into()], vec!["a".into(), "c".into()]));
    assert_eq!(diff["complete"], Value::Bool(true), "{diff}");
    let lists = lists.lock().unwrap().clone();
    let twice: Vec<_> = lists.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty() && lists.len() > 10, "{lists:?}");
    // Each side equals an audit with these policies alone.
    for (policies, class) in [("new", "appears"), ("old", "resolves")] {
        let check = ["check", "--once", "-n", &namespace, "-o", "json", "-p", &path(policies)];
        let alone = run(&plane.kubeconfig(), &check).await.json();
        assert_eq!(alone["results"], diff[class], "{policies}");
    }
}
