//! Connections that are cut, slow, or silently dead.

use std::time::Duration;

use kaudit_controlplane::{require, shared};
use kaudit_test_support::settings::setting;

use super::{Scene, lasts};
use crate::{support::wait_for, wire::Wire};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_cut_each_second_and_slow() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "cut").await;
    let wire = Wire::to(&plane.kubeconfig()).await;
    let kaudit = scene.start(&wire.kubeconfig(&plane.kubeconfig(), scene.files.path())).await;
    let before = wire.connections();
    let cuts = setting("KAUDIT_TEST_CUTS").unwrap_or(10);
    let cut = async || {
        for _ in 0..cuts {
            wire.cut();
            lasts(Duration::from_secs(1)).await;
        }
    };
    scene.through("every connection cut each second", &kaudit, cut).await;
    assert!(wire.connections() > before + 20, "watches are to come back over new connections");

    let slow = async || {
        wire.delay(Duration::from_millis(300));
        wire.cut();
        lasts(Duration::from_secs(5)).await;
        wire.delay(Duration::ZERO);
    };
    scene.through("every byte late", &kaudit, slow).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

/// A connection without even a bookmark for 90 seconds is considered dead. The fault lasts until kaudit has detected
/// that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_fall_silent() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "silent").await;
    let wire = Wire::to(&plane.kubeconfig()).await;
    let kaudit = scene.start(&wire.kubeconfig(&plane.kubeconfig(), scene.files.path())).await;
    let silent = async || {
        wire.silence();
        // `converged` waits for another minute.
        lasts(Duration::from_secs(80)).await;
    };
    scene.through("connections silent", &kaudit, silent).await;
    let recovered = || async { (kaudit.status()["complete"] == true).then_some(()) };
    wait_for("complete coverage", recovered).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
