//! Jumps of the wall clock: it is only used in records, never for decisions.

use std::{path::Path, process::Command, time::Duration};

use k8s_openapi::{api::events::v1::Event, jiff::Timestamp};
use kaudit_controlplane::{require, shared};
use kube::{Api, api::ListParams};

use super::{Scene, lasts};
use crate::{
    support::{Running, kaudit, wait_for},
    truth::EventOrder,
};

/// Builds a library that shifts the clock. Machines that build kaudit have a C compiler.
fn shim(directory: &Path) -> std::path::PathBuf {
    let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
    std::fs::write(&source, include_str!("clock.c")).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(compiler).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    library
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_jumps() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "clock").await;
    scene.truth.event_order = EventOrder::AsOften;
    let offset = scene.files.path().join("offset");
    std::fs::write(&offset, "0").unwrap();
    let mut command = kaudit(&plane.kubeconfig(), &[]);
    command.env("LD_PRELOAD", shim(scene.files.path())).env("TEST_CLOCK_OFFSET", &offset);
    let kaudit = Running::launch(command, &scene.arguments()).await;
    scene.truth.gate(&kaudit).await;
    // Replaced atomically, because it is read at any time.
    let new = scene.files.path().join("new");
    let jump = |hours: i32| {
        std::fs::write(&new, (hours * 3_600).to_string()).unwrap();
        std::fs::rename(&new, &offset).unwrap();
    };
    let events: Api<Event> = Api::namespaced(plane.admin().unwrap(), &scene.namespaces[0]);
    let hours = |event: &Event| event.event_time.as_ref().unwrap().0.duration_since(Timestamp::now()).as_hours();
    let jumps = async || {
        for hours_ahead in [24, -24, 1, 0] {
            jump(hours_ahead);
            lasts(Duration::from_secs(2)).await;
            wait_for("an Event of the other time", || async {
                let events = events.list(&ListParams::default()).await.ok()?;
                let near = i64::from(hours_ahead) - 2..i64::from(hours_ahead) + 2;
                events.items.iter().any(|event| near.contains(&hours(event))).then_some(())
            })
            .await;
        }
    };
    scene.through("the clock jumps by days", &kaudit, jumps).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
