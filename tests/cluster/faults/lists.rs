//! Lists that hang or always expire affect only their own kinds.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::request::Parts;
use kaudit_controlplane::{require, shared};
use serde_json::Value;

use super::answers::expired;
use crate::{
    proxy::{Act, Proxy},
    support::{Running, denies_marked, policies, results_in, run, state_of, until_violations, wait_for},
};

/// More kinds than are listed concurrently.
const HANGING: [&str; 12] = [
    "controllerrevisions",
    "cronjobs",
    "daemonsets",
    "deployments",
    "horizontalpodautoscalers",
    "jobs",
    "limitranges",
    "persistentvolumeclaims",
    "podtemplates",
    "replicasets",
    "replicationcontrollers",
    "resourcequotas",
];
const EXPIRING: &str = "secrets";

/// Returns the response to a list during the fault.
fn act(request: &Parts) -> Act {
    let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
    let resource = path.rsplit('/').next().unwrap_or_default();
    if !path.contains("/namespaces/") || query.contains("watch=true") {
        Act::Pass
    } else if HANGING.contains(&resource) {
        Act::Hold
    } else if resource == EXPIRING {
        Act::Answer(expired("The provided continue parameter is too old"))
    } else {
        Act::Pass
    }
}

/// Returns the kinds in the coverage with this state.
fn in_state(result: &Value, state: &str) -> BTreeSet<String> {
    let kinds = result["coverage"].as_array().unwrap().iter().filter(|kind| kind["state"] == state);
    kinds.map(|kind| kind["resource"].as_str().unwrap().to_owned()).collect()
}

fn assert_others_are_read(result: &Value) {
    assert_eq!(in_state(result, "timedOut"), HANGING.map(str::to_owned).into());
    assert_eq!(in_state(result, "failed"), [EXPIRING.to_owned()].into());
    assert_eq!(in_state(result, "syncing"), [].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_or_expiring_lists_affect_only_their_own_kinds() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("lists").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "bad"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "bad", &format!("{namespace}=yes")]).await.unwrap();
    let trouble = Arc::new(AtomicBool::new(true));
    let in_trouble = Arc::clone(&trouble);
    let rule = move |request: &Parts| if in_trouble.load(Ordering::SeqCst) { act(request) } else { Act::Pass };
    let proxy = Proxy::start(plane, rule).await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments = ["-p", directory.path().to_str().unwrap(), "-n", &namespace, "--sync-timeout=8s", "--record=none"];

    let began = Instant::now();
    let once = run(proxy.kubeconfig(), &[&["check", "--once", "-o", "json"], &arguments[..]].concat()).await;
    let took = began.elapsed();
    let result = once.json();
    assert_others_are_read(&result);
    assert_eq!((once.code, results_in(&result, &namespace).len()), (Some(1), 1), "{once:?}");
    assert!(took < Duration::from_secs(80), "{took:?}");

    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    until_violations(&kaudit, &namespace, 1).await;
    assert_others_are_read(&kaudit.status());
    trouble.store(false, Ordering::SeqCst);
    proxy.release();
    wait_for("all kinds", || async {
        let status = kaudit.status();
        let synced = in_state(&status, "synced");
        let all = HANGING.iter().all(|resource| synced.contains(*resource));
        (all && state_of(&status, "", EXPIRING) == "synced").then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}
