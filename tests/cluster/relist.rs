//! Changes missed by watches are found by relists.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};
use kaudit_controlplane::{ControlPlane, Options, require, shared};
use serde_json::json;

use crate::{
    basics::BAD_LABEL,
    proxy::{Act, Proxy},
    support::{Running, bare_plane, denies_marked, marked, policies, results_in, until_violations, wait_for},
};

#[tokio::test]
async fn deletions_missed_by_a_lost_watch_are_resolved() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let directory = policies(&[("demo.rego", BAD_LABEL)]);
    let paths = ["--policies", directory.path().to_str().unwrap(), "--record=none"];
    for name in ["gone", "mended", "stays"] {
        plane.kubectl(&["create", "configmap", name]).await.unwrap();
        plane.kubectl(&["label", "configmap", name, "bad=yes"]).await.unwrap();
    }
    let kaudit = Running::start(&plane.kubeconfig(), &paths).await;
    kaudit.ready().await;
    let open = || {
        let mut names: Vec<String> = results_in(&kaudit.status(), "default")
            .iter()
            .map(|entry| entry["resource"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    wait_for("the three violations", || async { (open().len() == 3).then_some(()) }).await;

    // Frozen and disconnected, so that no watch event arrives, not even in a socket's buffer; then the history needed
    // to resume the watches is removed.
    kaudit.signal("STOP");
    plane.kill_apiserver().unwrap();
    plane.start_apiserver().await.unwrap();
    plane.kubectl(&["delete", "configmap", "gone"]).await.unwrap();
    plane.kubectl(&["label", "configmap", "mended", "bad-"]).await.unwrap();
    plane.kubectl(&["create", "configmap", "new"]).await.unwrap();
    plane.kubectl(&["label", "configmap", "new", "bad=yes"]).await.unwrap();
    plane.compact_etcd().await.unwrap();
    plane.kill_apiserver().unwrap();
    plane.start_apiserver().await.unwrap();
    kaudit.signal("CONT");

    wait_for("the truth", || async { (open() == ["new", "stays"]).then_some(()) }).await;
    let metrics = kaudit.get("/metrics").unwrap();
    let relisted =
        metrics.lines().any(|line| line.starts_with("kaudit_watch_restarts_total{") && line.contains("expired"));
    assert!(relisted, "the test is to make watches expire; log:\n{}", kaudit.log());
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}

/// The number of lists and watches.
#[derive(Default)]
struct Load {
    lists: usize,
    watches: usize,
}

/// Minimum duration of each list.
const HELD_UP: Duration = Duration::from_millis(200);

/// The response to a watch whose resource version is expired.
fn expired() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410});
    let event = json!({"type": "ERROR", "object": status});
    ([(header::CONTENT_TYPE, "application/json")], format!("{event}\n")).into_response()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_watch_does_not_cause_a_loop_of_lists() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("loop").await.unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let load = Arc::new(Mutex::new(Load::default()));
    let counts = load.clone();
    let proxy = Proxy::start(plane, move |request| {
        if request.uri.path() != path {
            return Act::Pass;
        }
        let mut load = counts.lock().unwrap();
        if request.uri.query().is_some_and(|query| query.contains("watch=true")) {
            load.watches += 1;
            return Act::Answer(expired());
        }
        load.lists += 1;
        Act::Pass
    })
    .await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let paths = ["--policies", directory.path().to_str().unwrap(), "--record=none", "--namespace", &namespace];
    let kaudit = Running::start(proxy.kubeconfig(), &paths).await;
    let begin = Instant::now();
    kaudit.ready().await;
    // Immediately, and then after at least one, two and four seconds.
    wait_for("four relists", || async { (load.lock().unwrap().lists >= 5).then_some(()) }).await;
    assert!(begin.elapsed() > Duration::from_secs(7), "{:?}", begin.elapsed());
    // Objects from the lists are still evaluated.
    plane.apply(&marked("v1", "ConfigMap", &namespace, "seen", &namespace)).await.unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    let Load { lists, watches } = *load.lock().unwrap();
    assert!(watches <= lists, "{watches} watches, {lists} lists");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_watches_expire_the_relists_are_spread() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    // The start of each list, which takes at least as long as it is delayed, and the paths of watches that were
    // expired.
    let state = Arc::new(Mutex::new((Vec::<Instant>::new(), BTreeSet::<String>::new())));
    let storm = Arc::new(AtomicBool::new(false));
    let (seen, on) = (state.clone(), storm.clone());
    let proxy = Proxy::start(&plane, move |request| {
        let (path, query) = (request.uri.path().to_owned(), request.uri.query().unwrap_or_default());
        if !on.load(Ordering::Relaxed) {
            return Act::Pass;
        }
        let mut seen = seen.lock().unwrap();
        if query.contains("watch=true") {
            return if seen.1.insert(path) { Act::Answer(expired()) } else { Act::Pass };
        }
        if !query.contains("limit=") {
            return Act::Pass;
        }
        seen.0.push(Instant::now());
        Act::Wait(HELD_UP)
    })
    .await;
    let directory = policies(&[("demo.rego", BAD_LABEL)]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=none"];
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let kinds = kaudit.status()["coverage"].as_array().unwrap().iter().filter(|kind| kind["state"] == "synced").count();
    storm.store(true, Ordering::Relaxed);
    proxy.cut();
    let lists = || async { Some(state.lock().unwrap().0.clone()).filter(|lists| lists.len() >= kinds) };
    let lists = wait_for("all to be listed again", lists).await;
    let together = |begin: &Instant| lists.iter().filter(|other| (*begin..*begin + HELD_UP).contains(*other)).count();
    let most = lists.iter().map(together).max().unwrap();
    assert!((2..=8).contains(&most), "{most} lists at a time of {kinds} kinds");
    assert_eq!(kaudit.stop().await, Some(0));
}
