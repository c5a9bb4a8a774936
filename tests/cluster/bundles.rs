//! Policies published as a bundle and followed by a long run.

use std::{fs, path::Path};

use kaudit_controlplane::{Tool, require, require_tool, shared};
use kaudit_test_support::registry::Registry;
use serde_json::Value;

use crate::support::{Running, results_in, run, wait_for};

/// Publishes a module; returns its digest.
pub(crate) async fn publish(kubeconfig: &Path, reference: &str, module: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("own.rego"), module).unwrap();
    let pushed = run(kubeconfig, &["push", reference, directory.path().to_str().unwrap()]).await;
    pushed.stdout.trim().rsplit_once('@').unwrap_or_else(|| panic!("{}", pushed.stderr)).1.to_owned()
}

fn denies(namespace: &str, message: &str) -> String {
    format!(
        "package own\n\ndeny contains {message:?} if {{\n\tinput.kind == \"ConfigMap\"\n\tinput.metadata.namespace == \
         {namespace:?}\n\tinput.metadata.name == \"bare\"\n}}\n"
    )
}

fn messages(result: &Value, namespace: &str) -> Vec<String> {
    results_in(result, namespace).iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect()
}

async fn until(kaudit: &Running, namespace: &str, message: &str) {
    let found = || messages(&kaudit.status(), namespace);
    wait_for(&format!("{message} instead of {:?}", found()), || async { (found() == [message]).then_some(()) }).await;
}

async fn until_bundle(kaudit: &Running, what: &str, is: impl Fn(&Value) -> bool) {
    wait_for(what, || async { is(&kaudit.status()["bundles"][0]).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_is_followed_and_the_last_valid_one_stays() {
    if !require() || !require_tool(Tool::Registry) {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("bundle").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "bare"]).await.unwrap();
    let mut registry = Registry::open();
    let (reference, config) = (registry.artifact("policies:v1"), plane.kubeconfig());
    let first = publish(&config, &reference, &denies(&namespace, "the first")).await;
    let policies = ["-p", &reference, "-n", &namespace];
    let kaudit = Running::start(&config, &[&["--record=none", "--poll=200ms"], &policies[..]].concat()).await;
    kaudit.ready().await;
    until(&kaudit, &namespace, "the first").await;
    until_bundle(&kaudit, "the digest", |bundle| bundle["digest"] == *first && bundle.get("stale").is_none()).await;

    let second = publish(&config, &reference, &denies(&namespace, "the second")).await;
    until(&kaudit, &namespace, "the second").await;
    let once = run(&config, &[&["check", "--once", "-o", "json"], &policies[..]].concat()).await;
    assert_eq!(messages(&once.json(), &namespace), ["the second"], "{}", once.stderr);

    // A bundle that does not load leaves the previous one in force and is named.
    let broken = publish(&config, &reference, "package own\n\ndeny[").await;
    until_bundle(&kaudit, "the broken bundle to be named", |bundle| {
        bundle["digest"] == *second && bundle["stale"].as_str().is_some_and(|why| why.contains(&broken))
    })
    .await;
    assert_eq!(messages(&kaudit.status(), &namespace), ["the second"]);
    assert!(kaudit.log().contains("the last valid version of the bundle stays in force"), "{}", kaudit.log());
    let listed: Value = serde_json::from_str(&kaudit.get("/policies").unwrap()).unwrap();
    assert_eq!(listed["bundles"][0]["digest"], *second);

    publish(&config, &reference, &denies(&namespace, "the third")).await;
    until(&kaudit, &namespace, "the third").await;
    until_bundle(&kaudit, "the newest", |bundle| bundle.get("stale").is_none()).await;

    registry.stop();
    until_bundle(&kaudit, "the registry to be missed", |bundle| bundle.get("stale").is_some()).await;
    plane.kubectl(&["-n", &namespace, "label", "configmap", "bare", "touched=yes"]).await.unwrap();
    until(&kaudit, &namespace, "the third").await;
}
