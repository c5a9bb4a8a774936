//! kaudit is killed at random times.

use std::time::{Duration, Instant};

use kaudit_controlplane::{ControlPlane, Options, require};
use kaudit_test_support::settings::setting;

use super::Scene;
use crate::{support::Running, truth::EventOrder};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kaudit_is_killed_at_random() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let deaths: usize = setting("KAUDIT_TEST_DEATHS").unwrap_or(6);
    let mut scene = Scene::reported(&plane, "deaths").await;
    scene.truth.event_order = EventOrder::ButFor(deaths);
    let mut random = scene.random.fork();
    let writing = scene.write();
    for death in 0..deaths {
        if death % 2 == 0 {
            // Before or after the gate opens.
            let kaudit = Running::start(&plane.kubeconfig(), &scene.arguments()).await;
            tokio::time::sleep(Duration::from_millis(random.u64(..1_000))).await;
            kaudit.kill();
        } else {
            let kaudit = scene.start(&plane.kubeconfig()).await;
            tokio::time::sleep(Duration::from_millis(random.u64(..2_000))).await;
            kaudit.kill();
        }
    }
    let begin = Instant::now();
    let kaudit = scene.start(&plane.kubeconfig()).await;
    let opened = begin.elapsed();
    let written = writing.stop().await;
    let took = scene.truth.converged(&kaudit, Instant::now()).await;
    println!(
        "{deaths} deaths: judging {opened:.1?} after the last, right {took:.1?} after the last of {written} writes"
    );
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
