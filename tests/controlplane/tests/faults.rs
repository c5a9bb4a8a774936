//! Separate control planes that are killed and frozen.

use std::time::{Duration, Instant};

use http::Request;
use kaudit_controlplane::{ControlPlane, Options, require};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn killed_servers_come_back_with_their_data() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane");
    let url = plane.url();
    let namespace = plane.temp_namespace("kept").await.expect("a namespace");

    plane.kill_apiserver().expect("a server to kill");
    plane.kubectl(&["get", "namespaces"]).await.expect_err("no server");
    plane.kill_apiserver().expect_err("killed already");
    plane.start_apiserver().await.expect("a server");
    plane.kubectl(&["get", "namespace", &namespace]).await.expect("the namespace is there");

    plane.kill_etcd().expect("a server to kill");
    plane.start_etcd().await.expect("a server");
    plane.wait_ready(Duration::from_mins(1)).await.expect("ready again");
    plane.kubectl(&["get", "namespace", &namespace]).await.expect("the namespace is there");

    assert_eq!(plane.url(), url);
    let log = plane.audit_log().expect("a log");
    assert!(log.iter().any(|record| record.verb == "create" && record.name == namespace));
    plane.stop().await.expect("an end");
}

#[tokio::test]
async fn frozen_server_answers_nothing_until_resumed() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane");
    let client = plane.admin().expect("a client");
    let get = || client.request_text(Request::get("/readyz").body(Vec::new()).expect("a request"));

    plane.pause_apiserver().expect("a server to pause");
    timeout(Duration::from_millis(500), get()).await.expect_err("no answer");
    plane.resume_apiserver().expect("a server to resume");
    plane.wait_ready(Duration::from_mins(1)).await.expect("ready again");

    plane.pause_etcd().expect("a server to pause");
    plane.resume_etcd().expect("a server to resume");
    plane.wait_ready(Duration::from_mins(1)).await.expect("ready again");
    plane.stop().await.expect("an end");
}

#[tokio::test]
async fn compacted_server_refuses_old_versions() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane");
    let watch = format!("/api/v1/namespaces?watch=1&timeoutSeconds=5&resourceVersion={}", version(&plane).await);
    let namespace = plane.temp_namespace("new").await.expect("a namespace");
    let events = plane.kubectl(&["get", "--raw", &watch]).await.expect("events");
    assert!(events.contains(&namespace), "{events}");

    plane.compact_etcd().await.expect("a compaction");
    plane.kill_apiserver().expect("a server to kill");
    for _ in 0..2 {
        plane.compact_etcd().await.expect("a compaction, though nothing is written");
    }
    plane.start_apiserver().await.expect("a server");
    let answer = plane.kubectl(&["get", "--raw", &watch]).await;
    let answer = answer.unwrap_or_else(|error| error.to_string());
    assert!(answer.contains("too old resource version"), "{answer}");
    plane.stop().await.expect("an end");
}

async fn version(plane: &ControlPlane) -> String {
    let list = plane.kubectl(&["get", "--raw", "/api/v1/namespaces?limit=1"]).await.expect("a list");
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
}

#[tokio::test]
async fn controllers_delete_namespaces() {
    if !require() {
        return;
    }
    let options = Options { controller_manager: true, anonymous: false, ..Options::default() };
    let plane = ControlPlane::start(options).await.expect("a control plane");
    let namespace = plane.temp_namespace("gone").await.expect("a namespace");
    plane.kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await.expect("a deletion");
    let deadline = Instant::now() + Duration::from_mins(1);
    while plane.kubectl(&["get", "namespace", &namespace]).await.is_ok() {
        assert!(Instant::now() < deadline, "{namespace} is still there");
        sleep(Duration::from_millis(100)).await;
    }
    plane.stop().await.expect("an end");
}

#[tokio::test]
async fn bad_argument_is_explained_by_the_log() {
    if !require() {
        return;
    }
    let options = Options { apiserver_args: vec!["--no-such-flag".to_owned()], ..Options::default() };
    let error = ControlPlane::start(options).await.err().expect("no control plane");
    assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}");
}
