//! The policy directory disappears, comes back, and is swapped many times.

use std::time::Duration;

use kaudit_controlplane::{require, shared};
use kaudit_test_support::settings::setting;

use super::{Scene, lasts};
use crate::{support::wait_for, truth::WORDS, writer::POLICY};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_vanish_and_are_swapped() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "directory").await;
    let kaudit = scene.start(&plane.kubeconfig()).await;
    let directory = scene.directory.path().to_owned();
    let away = scene.files.path().join("away");
    let vanished = async || {
        std::fs::rename(&directory, &away).unwrap();
        let noticed = || async { kaudit.log().contains("those loaded before stay in force").then_some(()) };
        wait_for("the loss to be noticed", noticed).await;
        std::fs::rename(&away, &directory).unwrap();
    };
    scene.through("the policy directory gone", &kaudit, vanished).await;

    // Most swaps happen before the previous one was loaded; four get time to come into force. Then open violations have
    // the same identity with another message, unless their object changes at the same moment.
    let swaps: u64 = setting("KAUDIT_TEST_SWAPS").unwrap_or(20);
    let rest_after = swaps.div_ceil(4);
    let mut random = scene.random.fork();
    let (new, file) = (directory.join("new"), directory.join("labels.rego"));
    let swapped = async || {
        for (swap, words) in (0..swaps).zip(WORDS.into_iter().cycle()) {
            std::fs::write(&new, POLICY.replace("bad is", words)).unwrap();
            std::fs::rename(&new, &file).unwrap();
            let rests = swap % rest_after == rest_after - 1;
            lasts(Duration::from_millis(if rests { 2_500 } else { random.u64(..300) })).await;
        }
    };
    scene.through(&format!("policies swapped {swaps} times"), &kaudit, swapped).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
