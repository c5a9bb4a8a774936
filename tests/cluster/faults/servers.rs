//! API server and etcd crash, freeze and lose history.

use std::time::{Duration, Instant};

use kaudit_controlplane::{ControlPlane, Options, require};
use kaudit_test_support::settings::setting;

use super::{Scene, lasts};
use crate::{
    reports::{NAMES, OPENREPORTS},
    support::establish,
    writer::POLICY,
};

/// How long a request to kaudit may take while the API server does not respond: kaudit never blocks on it.
const AT_ONCE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_crash_freeze_and_lose_history() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let mut scene = Scene::reported(&plane, "servers").await;
    let kaudit = scene.start(&plane.kubeconfig()).await;

    let killed = async || {
        plane.kill_apiserver().unwrap();
        lasts(Duration::from_secs(3)).await;
        plane.start_apiserver().await.unwrap();
    };
    scene.through("API server killed", &kaudit, killed).await;

    // The client considers a connection dead after 90 seconds; test that with KAUDIT_TEST_FREEZE=100.
    let freeze = Duration::from_secs(setting("KAUDIT_TEST_FREEZE").unwrap_or(20));
    let labels = scene.directory.path().join("labels.rego");
    let frozen = async || {
        plane.pause_apiserver().unwrap();
        let (begin, mut longest, mut under_new_policies) = (Instant::now(), Duration::ZERO, None);
        std::fs::write(&labels, POLICY.replace("bad is", "bad was")).unwrap();
        while begin.elapsed() < freeze {
            let begin = Instant::now();
            let messages = kaudit.status()["results"].to_string();
            longest = longest.max(begin.elapsed());
            if messages.contains("bad was") && !messages.contains("bad is") {
                under_new_policies.get_or_insert(begin.elapsed());
            }
            lasts(Duration::from_millis(50)).await;
        }
        let under_new_policies = under_new_policies.unwrap_or(freeze);
        println!("while frozen: new policies in force after {under_new_policies:.1?}, /status within {longest:.1?}");
        assert!(longest < AT_ONCE && under_new_policies < 2 * AT_ONCE);
        plane.resume_apiserver().unwrap();
    };
    scene.through("API server frozen", &kaudit, frozen).await;

    let etcd = async || {
        plane.kill_etcd().unwrap();
        lasts(Duration::from_secs(5)).await;
        plane.start_etcd().await.unwrap();
        plane.wait_ready(Duration::from_mins(1)).await.unwrap();
    };
    scene.through("etcd killed", &kaudit, etcd).await;

    let before = expired(&kaudit.get("/metrics").unwrap());
    let compacted = async || {
        plane.kill_apiserver().unwrap();
        plane.compact_etcd().await.unwrap();
        plane.start_apiserver().await.unwrap();
    };
    scene.through("etcd compacted", &kaudit, compacted).await;
    let after = expired(&kaudit.get("/metrics").unwrap());
    assert!(after > before, "the test is to make watches expire");

    let gone = async || {
        let crds = NAMES[0].map(|name| format!("crd/{name}"));
        plane.kubectl(&["delete", &crds[0], &crds[1]]).await.unwrap();
        lasts(Duration::from_secs(8)).await;
        establish(&plane, OPENREPORTS, &NAMES[0]).await;
    };
    scene.through("the kinds of reports gone", &kaudit, gone).await;

    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}

/// Returns the number of lists and watches that expired.
fn expired(metrics: &str) -> u64 {
    let restarts = metrics.lines().filter(|line| line.starts_with("kaudit_watch_restarts_total{"));
    let expired = restarts.filter(|line| line.contains("reason=\"expired\""));
    expired.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
