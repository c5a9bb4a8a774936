//! A failing recorder stops only itself, and is reported.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    http::{StatusCode, request::Parts},
    response::IntoResponse as _,
};
use kaudit_controlplane::{ControlPlane, Options, require};
use serde_json::Value;

use crate::{
    kubectl::until_condition,
    proxy::{Act, Proxy},
    reports::{self, NAMES, OPENREPORTS, reports_in, results},
    support::{Running, denies_marked, establish, establish_audits, policies, run, until_violations, wait_for},
};

/// Responds with 500 to each list of a resource, like a failing conversion webhook.
fn fails(request: &Parts, resource: &str) -> Act {
    if !request.uri.path().ends_with(resource) || request.method != "GET" {
        return Act::Pass;
    }
    Act::refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the conversion webhook is down")
}

async fn objects(plane: &ControlPlane, namespace: &str, kind: &str) -> Vec<Value> {
    let list = plane.kubectl(&["-n", namespace, "get", kind, "-o", "json"]).await.unwrap();
    serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().unwrap().clone()
}

/// Returns the reasons of the Events in a namespace, with the names of the objects, sorted.
async fn events(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = objects(plane, namespace, "events.events.k8s.io").await;
    let mut events: Vec<_> = events
        .iter()
        .map(|event| format!("{} {}", text(&event["regarding"]["name"]), text(&event["reason"])))
        .collect();
    events.sort();
    events
}

async fn until_events(plane: &ControlPlane, namespace: &str, wanted: &[&str]) {
    wait_for(&format!("{wanted:?}"), || async { (events(plane, namespace).await == wanted).then_some(()) }).await;
}

/// Returns the names of the objects with results in reports.
async fn reported(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let reports = reports_in(plane, NAMES[0][0], namespace).await;
    let names =
        results(&reports).into_values().map(|result| result["resources"][0]["name"].as_str().unwrap().to_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

async fn until_reported(plane: &ControlPlane, namespace: &str, wanted: &[&str]) {
    wait_for(&format!("reports of {wanted:?}"), || async {
        (reported(plane, namespace).await == wanted).then_some(())
    })
    .await;
}

async fn create(plane: &ControlPlane, namespace: &str, name: &str) {
    plane.kubectl(&["-n", namespace, "create", "configmap", name]).await.unwrap();
    plane.kubectl(&["-n", namespace, "label", "configmap", name, &format!("{namespace}=yes")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_records_stop_only_their_own_recorder() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("recorders").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let failing = Arc::new(Mutex::new("/reports"));
    let trouble = Arc::new(AtomicBool::new(false));
    let (resource, in_trouble) = (Arc::clone(&failing), Arc::clone(&trouble));
    let rule = move |request: &Parts| {
        let resource = *resource.lock().unwrap();
        if in_trouble.load(Ordering::SeqCst) { fails(request, resource) } else { Act::Pass }
    };
    let proxy = Proxy::start(&plane, rule).await;
    let arguments = ["-p", directory.path().to_str().unwrap(), "-n", &namespace, "--record=events,reports,status"];
    for name in ["goes", "stays"] {
        create(&plane, &namespace, name).await;
    }
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    until_events(&plane, &namespace, &["goes PolicyViolation", "stays PolicyViolation"]).await;
    until_reported(&plane, &namespace, &["goes", "stays"]).await;

    // The status is written again after it was deleted or changed.
    until_condition(&plane, "default", "Recording", "True").await;
    plane.kubectl(&["-n", "default", "delete", "audit", "kaudit"]).await.unwrap();
    until_condition(&plane, "default", "Recording", "True").await;
    let emptied = [
        "-n",
        "default",
        "patch",
        "audit",
        "kaudit",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status": {"conditions": [], "summary": {"fail": 77}}}"#,
    ];
    plane.kubectl(&emptied).await.unwrap();
    until_condition(&plane, "default", "Recording", "True").await;
    assert_eq!(kaudit.stop().await, Some(0));

    // Reports cannot be read at the start, but later.
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "goes"]).await.unwrap();
    trouble.store(true, Ordering::SeqCst);
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    create(&plane, &namespace, "comes").await;
    until_violations(&kaudit, &namespace, 2).await;
    let mut wanted =
        vec!["comes PolicyViolation", "goes PolicyResolved", "goes PolicyViolation", "stays PolicyViolation"];
    until_events(&plane, &namespace, &wanted).await;
    let condition = until_condition(&plane, "default", "Recording", "False").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("reports") && message.contains("the conversion webhook is down"), "{message}");
    assert!(kaudit.metric(r#"kaudit_recorder_retries_total{recorder="reports"}"#) > Some(0));
    assert_eq!(reported(&plane, &namespace).await, ["goes", "stays"], "nothing is written blindly");
    trouble.store(false, Ordering::SeqCst);
    until_reported(&plane, &namespace, &["comes", "stays"]).await;
    until_condition(&plane, "default", "Recording", "True").await;
    assert_eq!(events(&plane, &namespace).await, wanted, "nothing is repeated");
    assert_eq!(kaudit.stop().await, Some(0));

    // The same for Events.
    *failing.lock().unwrap() = "/events";
    trouble.store(true, Ordering::SeqCst);
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "comes"]).await.unwrap();
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    create(&plane, &namespace, "late").await;
    until_reported(&plane, &namespace, &["late", "stays"]).await;
    let condition = until_condition(&plane, "default", "Recording", "False").await;
    assert!(condition["message"].as_str().unwrap().contains("no events are written"), "{condition}");
    assert_eq!(events(&plane, &namespace).await, wanted, "nothing is written blindly");
    trouble.store(false, Ordering::SeqCst);
    wanted.extend(["comes PolicyResolved", "late PolicyViolation"]);
    wanted.sort_unstable();
    until_events(&plane, &namespace, &wanted).await;
    until_condition(&plane, "default", "Recording", "True").await;
    assert_eq!(kaudit.stop().await, Some(0));

    // `--once` prints its results, and warns that they could not be recorded.
    *failing.lock().unwrap() = "/reports";
    trouble.store(true, Ordering::SeqCst);
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "--all"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "clean"]).await.unwrap();
    let began = Instant::now();
    let once = ["check", "--once", "-o", "json", "-p", arguments[1], "-n", &namespace, "--record=reports"];
    let ended = run(proxy.kubeconfig(), &once).await;
    assert_eq!((ended.code, &ended.json()["summary"]["fail"]), (Some(3), &0.into()), "{ended:?}");
    assert!(ended.stderr.contains("the conversion webhook is down"), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_run_reports_failed_writes() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("unwritten").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    create(&plane, &namespace, "bad").await;
    let refused = |request: &Parts| {
        if request.method == "GET" {
            return Act::Pass;
        }
        Act::refuse(StatusCode::FORBIDDEN, "Forbidden", "you may not write here")
    };
    let proxy = Proxy::start(&plane, refused).await;
    let policies = directory.path().to_str().unwrap();
    for (record, what) in [
        ("events", "1 Events were not written"),
        ("reports", "reports in namespace"),
        ("status", "the status was not written"),
    ] {
        let record = format!("--record={record}");
        let once = ["check", "--once", "-p", policies, "-n", &namespace, "--fail-on=none", &record];
        let ended = run(proxy.kubeconfig(), &once).await;
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let line = ended.stderr.lines().find(|line| line.contains("Not everything was recorded"));
        let line = line.unwrap_or_else(|| panic!("{ended:?}"));
        assert!(line.contains(what) && line.contains("you may not write here"), "{line}");
        let ended = run(&plane.kubeconfig(), &once).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failed_discovery_of_a_report_api_does_not_reset_reports() {
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    let namespace = plane.temp_namespace("answer").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let arguments = ["-p", policies, "-n", &namespace, "--record=reports", "--report-api=openreports"];
    create(&plane, &namespace, "one").await;
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    until_reported(&plane, &namespace, &["one"]).await;
    assert_eq!(kaudit.stop().await, Some(0));
    let since = async || {
        let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
        let [result] = &results(&reports).into_values().collect::<Vec<_>>()[..] else { panic!("{reports:#?}") };
        result["timestamp"].clone()
    };
    let before = since().await;

    let requested = Arc::new(AtomicBool::new(false));
    let was_requested = Arc::clone(&requested);
    let rule = move |request: &Parts| {
        let is_first =
            request.uri.path() == "/apis/openreports.io/v1alpha1" && !was_requested.swap(true, Ordering::SeqCst);
        if is_first { Act::Answer(StatusCode::NOT_FOUND.into_response()) } else { Act::Pass }
    };
    let proxy = Proxy::start(&plane, rule).await;
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    create(&plane, &namespace, "two").await;
    until_reported(&plane, &namespace, &["one", "two"]).await;
    assert!(requested.load(Ordering::SeqCst));
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "two"]).await.unwrap();
    until_reported(&plane, &namespace, &["one"]).await;
    assert_eq!(since().await, before);
    assert_eq!(kaudit.stop().await, Some(0));
}
