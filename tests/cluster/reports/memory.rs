//! State that a run reads from earlier ones: Events that were deleted since, and results with other messages.

use std::path::Path;

use axum::{
    http::{StatusCode, request::Parts},
    response::IntoResponse as _,
};
use kaudit_controlplane::{ControlPlane, Options, require};
use serde_json::Value;

use super::{NAMES, OPENREPORTS, mark, plane, policy, reports_in, results, until_messages};
use crate::{
    proxy::{Act, Proxy},
    support::{Running, establish, policies, wait_for},
};

/// Returns the Events in a namespace as `reason name: note`, sorted.
async fn events(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let events = plane.kubectl(&["-n", namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
    let events: Value = serde_json::from_str(&events).unwrap();
    let text = |event: &Value| {
        let [reason, name, note] =
            [&event["reason"], &event["regarding"]["name"], &event["note"]].map(|field| field.as_str().unwrap());
        format!("{reason} {name}: {note}")
    };
    let mut events: Vec<_> = events["items"].as_array().unwrap().iter().map(text).collect();
    events.sort();
    events
}

async fn until_events(plane: &ControlPlane, namespace: &str, what: &str, wanted: impl Fn(&[String]) -> bool) {
    wait_for(what, || async { wanted(&events(plane, namespace).await).then_some(()) }).await;
}

/// Starts a kaudit that records Events and reports of one namespace.
async fn start(plane: &ControlPlane, namespace: &str, directory: &tempfile::TempDir) -> Running {
    let path = directory.path().to_str().unwrap();
    start_by(&plane.kubeconfig(), &["--policies", path, "--record=events,reports", "-n", namespace]).await
}

async fn start_by(kubeconfig: &Path, arguments: &[&str]) -> Running {
    let kaudit = Running::start(kubeconfig, arguments).await;
    kaudit.ready().await;
    kaudit
}

#[tokio::test]
async fn expired_events_are_not_written_again() {
    if !require() {
        return;
    }
    let apiserver_args = vec!["--event-ttl=10s".to_owned()];
    let plane = ControlPlane::start(Options { apiserver_args, ..Options::default() }).await.unwrap();
    establish(&plane, OPENREPORTS, &NAMES[0]).await;
    let namespace = plane.temp_namespace("forgotten").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    mark(&plane, &namespace, "old", "yes").await;
    let path = directory.path().to_str().unwrap();
    let arguments = ["--policies", path, "--record=events,reports", "-n", &namespace, "--event-ttl=10s"];
    let kaudit = start_by(&plane.kubeconfig(), &arguments).await;
    until_events(&plane, &namespace, "the first Event", |events| events.len() == 1).await;
    until_messages(&plane, &namespace, &["old marked yes"]).await;
    until_events(&plane, &namespace, "the Event to be deleted", <[String]>::is_empty).await;
    mark(&plane, &namespace, "young", "yes").await;
    until_messages(&plane, &namespace, &["old marked yes", "young marked yes"]).await;
    until_events(&plane, &namespace, "the second Event", |events| events.len() == 1).await;
    assert_eq!(kaudit.stop().await, Some(0));

    // The next run finds one Event and two results, and has a new violation to record, which shows that it records.
    mark(&plane, &namespace, "new", "yes").await;
    let kaudit = start_by(&plane.kubeconfig(), &arguments).await;
    let recorded = |events: &[String]| events.iter().any(|event| event.contains(" new:"));
    until_events(&plane, &namespace, "the Event of what is new", recorded).await;
    wait_for("all to be recorded", || async { kaudit.metric("kaudit_events_pending").filter(|pending| *pending == 0) })
        .await;
    assert_eq!(kaudit.stop().await, Some(0));
    let written = kaudit_writes(&plane, &namespace);
    assert_eq!(written, 3, "one of each object");
    plane.stop().await.unwrap();
}

/// Returns the number of Events written in a namespace, including deleted ones.
fn kaudit_writes(plane: &ControlPlane, namespace: &str) -> usize {
    let log = plane.audit_log().unwrap();
    log.iter()
        .filter(|record| record.verb == "create" && record.resource == "events" && record.namespace == namespace)
        .count()
}

#[tokio::test]
async fn violations_not_recorded_by_an_earlier_run_are_recorded_if_still_open() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("unreported").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    let all = ["older", "over", "stands"];
    let kaudit = start(&plane, &namespace, &directory).await;
    for (index, name) in all.into_iter().enumerate() {
        mark(&plane, &namespace, name, "yes").await;
        until_events(&plane, &namespace, name, |events| events.len() == index + 1).await;
    }
    until_messages(&plane, &namespace, &all.map(|name| format!("{name} marked yes")).each_ref().map(String::as_str))
        .await;
    assert_eq!(kaudit.stop().await, Some(0));
    // As if the earlier run had been killed before writing these.
    for name in ["over", "stands"] {
        let about = format!("--field-selector=regarding.name={name}");
        plane.kubectl(&["-n", &namespace, "delete", "events.events.k8s.io", &about]).await.unwrap();
    }
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "over"]).await.unwrap();
    let kaudit = start(&plane, &namespace, &directory).await;
    until_messages(&plane, &namespace, &["older marked yes", "stands marked yes"]).await;
    until_events(&plane, &namespace, "the open violation to be recorded", |events| events.len() == 2).await;
    assert_eq!(kaudit.stop().await, Some(0));
    let reported = ["older", "stands"].map(|name| format!("PolicyViolation {name}: high marked/deny: marked yes"));
    assert_eq!(events(&plane, &namespace).await, reported, "the other one was never reported as new");
}

#[tokio::test]
async fn violations_only_in_reports_of_an_earlier_run_get_events() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("silent").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    mark(&plane, &namespace, "one", "yes").await;
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let rule = move |request: &Parts| match (request.method.as_str(), request.uri.path() == path) {
        ("POST", true) => Act::Answer(StatusCode::SERVICE_UNAVAILABLE.into_response()),
        _ => Act::Pass,
    };
    let proxy = Proxy::start(&plane, rule).await;
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=events,reports", "-n", &namespace];
    let kaudit = start_by(proxy.kubeconfig(), &arguments).await;
    until_messages(&plane, &namespace, &["one marked yes"]).await;
    kaudit.kill();
    assert!(events(&plane, &namespace).await.is_empty());

    let kaudit = start(&plane, &namespace, &directory).await;
    until_events(&plane, &namespace, "the Event", |events| events.len() == 1).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn changed_messages_update_reports_without_events() {
    if !require() {
        return;
    }
    let plane = plane().await;
    let namespace = plane.temp_namespace("reworded").await.unwrap();
    let directory = policies(&[("marked.rego", &policy(&namespace))]);
    mark(&plane, &namespace, "one", "yes").await;
    mark(&plane, &namespace, "two", "yes").await;
    let kaudit = start(&plane, &namespace, &directory).await;
    until_events(&plane, &namespace, "both Events", |events| events.len() == 2).await;
    let before = until_messages(&plane, &namespace, &["one marked yes", "two marked yes"]).await;

    let reworded = policy(&namespace).replace("\"marked %v\"", "\"has the mark %v\"");
    std::fs::write(directory.path().join("marked.rego"), reworded).unwrap();
    let after = until_messages(&plane, &namespace, &["one has the mark yes", "two has the mark yes"]).await;
    let times = |reports: &[Value]| -> Vec<(String, String)> {
        results(reports).into_iter().map(|(id, result)| (id, result["timestamp"].to_string())).collect()
    };
    assert_eq!(times(&before), times(&after), "they are the same");
    mark(&plane, &namespace, "three", "yes").await;
    until_events(&plane, &namespace, "a third Event", |events| events.len() == 3).await;

    // The next run also knows that; and resolutions are recorded.
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "one"]).await.unwrap();
    let kaudit = start(&plane, &namespace, &directory).await;
    until_events(&plane, &namespace, "the end of one", |events| events.len() == 4).await;
    mark(&plane, &namespace, "four", "yes").await;
    until_events(&plane, &namespace, "a fourth object", |events| events.len() == 5).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(
        events(&plane, &namespace).await,
        [
            "PolicyResolved one: resolved: high marked/deny: has the mark yes",
            "PolicyViolation four: high marked/deny: has the mark yes",
            "PolicyViolation one: high marked/deny: marked yes",
            "PolicyViolation three: high marked/deny: has the mark yes",
            "PolicyViolation two: high marked/deny: marked yes",
        ]
    );
    assert_eq!(results(&reports_in(&plane, NAMES[0][0], &namespace).await).len(), 3);
}
