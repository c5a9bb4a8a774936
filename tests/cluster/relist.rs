//! What happened while nobody watched comes out when everything is listed anew.

use kaudit_controlplane::{ControlPlane, Options};

use crate::{
    basics::BAD_LABEL,
    support::{Running, policies, results_in, wait_for},
};

#[tokio::test]
async fn what_vanished_behind_a_lost_watch_is_resolved() {
    if !kaudit_controlplane::require() {
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
    let standing = || {
        let mut names: Vec<String> = results_in(&kaudit.status(), "default")
            .iter()
            .map(|entry| entry["resource"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    wait_for("the three violations", || async { (standing().len() == 3).then_some(()) }).await;

    // Frozen and cut off, so that no watch event arrives, not even into a socket's buffer; then the history that the
    // watches would go on from is thrown away.
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

    wait_for("the truth", || async { (standing() == ["new", "stays"]).then_some(()) }).await;
    let metrics = kaudit.get("/metrics").unwrap();
    let relisted =
        metrics.lines().any(|line| line.starts_with("kaudit_watch_restarts_total{") && line.contains("expired"));
    assert!(relisted, "the test is to make watches expire; log:\n{}", kaudit.log());
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
