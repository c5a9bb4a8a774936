//! A run that ends by itself can be stopped earlier.

use std::{io::Read as _, process::Stdio, time::Instant};

use kaudit_controlplane::{require, shared};
use kaudit_test_support::child::ChildGuard;
use serde_json::Value;

use super::{FLUSH, PROMPT, Scene};
use crate::support::{kaudit, wait_for};

const OBJECTS: usize = 600;

/// A `check --once --record=events` that has printed its result and still writes Events, five per second.
struct Recording {
    child: ChildGuard,
    result: Value,
}

impl Recording {
    /// Starts it and waits for its result.
    async fn start(scene: &Scene, more: &[&str]) -> Self {
        let path = scene.policies.path().to_str().unwrap();
        let base = ["check", "--once", "--record=events", "--events-per-second=5", "-o", "json", "--policies", path];
        let arguments = [&base[..], &["-n", &scene.namespace], more].concat();
        let mut command = kaudit(scene.user.kubeconfig_path(), &arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut recording = Self { child: ChildGuard(command.spawn().unwrap()), result: Value::Null };
        let stdout = recording.child.0.stdout.take().unwrap();
        // The result is one document, and standard output stays open while Events are written.
        let first = move || serde_json::Deserializer::from_reader(stdout).into_iter::<Value>().next();
        recording.result = tokio::task::spawn_blocking(first).await.unwrap().unwrap().unwrap();
        recording
    }

    /// Waits for its end; returns its exit code and standard error.
    async fn ended(mut self) -> (Option<i32>, String) {
        let ended = wait_for("kaudit to end", || {
            let ended = self.child.0.try_wait().unwrap();
            async move { ended }
        })
        .await;
        let mut log = String::new();
        self.child.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (ended.code(), log)
    }
}

#[tokio::test]
async fn a_signal_stops_an_audit_that_is_recording() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "stopped").await;
    scene.create((0..OBJECTS).map(|number| format!("object-{number}")), "yes").await;
    for (signal, fail_on, code) in [("TERM", "none", 3), ("INT", "fail", 1)] {
        let recording = Recording::start(&scene, &["--fail-on", fail_on]).await;
        assert_eq!(recording.result["summary"]["fail"], OBJECTS, "what was judged is printed");
        let begin = Instant::now();
        recording.child.signal(signal);
        let (ended, log) = recording.ended().await;
        assert!(begin.elapsed() < FLUSH + PROMPT, "{:?}", begin.elapsed());
        assert_eq!(ended, Some(code), "{log}");
        let missing = OBJECTS - scene.count().await;
        assert!(missing > OBJECTS / 2, "{missing}");
        let warning =
            log.lines().find(|line| line.contains("Events were not written")).unwrap_or_else(|| panic!("{log}"));
        // Requests in flight may have succeeded.
        let counted = |number: &usize| warning.contains(&format!("events={number}"));
        assert!((missing..=missing + 4).any(|number| counted(&number)), "{missing} are missing: {warning}");
    }

    let recording = Recording::start(&scene, &[]).await;
    recording.child.signal("TERM");
    let begin = Instant::now();
    wait_for("the end, after a signal or two more", || async {
        recording.child.signal("TERM");
        // Until its exit status is read, the process can be signalled.
        is_zombie(recording.child.0.id()).then_some(())
    })
    .await;
    assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
    let (ended, log) = recording.ended().await;
    assert_eq!(ended, Some(2), "{log}");
    assert!(log.contains("second signal"), "{log}");
}

/// Whether a process has ended and its exit status was not read.
fn is_zombie(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}
