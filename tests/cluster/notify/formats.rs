//! Notifications in each format, as specified by the receiver's documentation.

use std::collections::BTreeSet;

use kaudit_controlplane::{require, shared};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{config, receiver::Receiver, start, webhook};
use crate::{
    events::Scene,
    support::{denies_marked, wait_for},
};

/// Returns `name event` of `CloudEvents`, from their subject and type.
fn notified(events: &[Value]) -> Vec<String> {
    let part = |value: &Value, separator| value.as_str().unwrap().rsplit(separator).next().unwrap().to_owned();
    let mut notified: Vec<_> =
        events.iter().map(|event| format!("{} {}", part(&event["subject"], '/'), part(&event["type"], '.'))).collect();
    notified.sort();
    notified
}

/// Asserts that an event in the JSON format has the required attributes.
fn check(event: &Value) {
    assert_eq!(event["specversion"], "1.0");
    for required in ["id", "source", "type"] {
        assert!(event[required].as_str().is_some_and(|text| !text.is_empty()), "{required} of {event}");
    }
    assert!(event["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{event}");
    assert_eq!(event["datacontenttype"], "application/json");
    let plain = |name: &String| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    assert!(event.as_object().unwrap().keys().all(plain), "{event}");
}

/// Writes the times of `events` in one form: with nanoseconds that end with 0, header and JSON have different ones.
fn without_trailing_zeros(mut events: Vec<Value>) -> Vec<Value> {
    for event in &mut events {
        event["time"] = event["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().to_string().into();
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloudevents_slack_and_files_are_notified_once_in_their_format() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-formats").await;
    let rego = denies_marked(&scene.namespace).replace("marked %v", "<!channel> & co: %v");
    std::fs::write(scene.policies.path().join("marked.rego"), rego).unwrap();
    scene.create(["a".to_owned()], "yes").await;
    let receiver = Receiver::start().await;
    let events = |mode: &str| {
        let url = receiver.url(&format!("/{mode}"));
        json!({"name": mode, "cloudEvents": {"url": url, "mode": mode}, "batch": {"maxWait": 0}})
    };
    let config = config(&json!({"receivers": [
        events("structured"), events("batched"), events("binary"),
        {"name": "people", "slack": {"url": {"file": "SECRETS/slack"}}, "batch": {"maxWait": 0}},
        {"name": "disk", "file": {"path": "SECRETS/out.ndjson", "maxSize": "1Ki", "maxFiles": 3}, "batch": {"maxWait": 0}},
    ]}));
    std::fs::write(config.path().join("slack"), receiver.url("/services/T0/B0/hidden")).unwrap();
    let kaudit = start(&scene, &config).await;
    let at = |path: &str| -> Vec<_> { receiver.taken().into_iter().filter(|request| request.path == path).collect() };
    let number = || ["/structured", "/batched", "/binary", "/services/T0/B0/hidden"].map(|path| at(path).len());
    wait_for("all to be notified", || async { (number() == [1; 4]).then_some(()) }).await;
    scene.mark("a", None).await;
    wait_for("all to be notified of the end", || async { (number() == [2; 4]).then_some(()) }).await;
    wait_for("both lines", || async {
        (std::fs::read_to_string(config.path().join("out.ndjson")).ok()?.contains("resolved")).then_some(())
    })
    .await;
    assert!(!kaudit.log().contains("hidden") && !kaudit.get("/status").unwrap().contains("hidden"));
    assert_eq!(kaudit.stop().await, Some(0));

    let wanted = ["a appeared", "a resolved"];
    let structured: Vec<Value> = at("/structured").iter().map(super::receiver::Request::json).collect();
    assert!(at("/structured")[0].header("content-type").starts_with("application/cloudevents+json"));
    let batched = at("/batched");
    assert!(batched[0].header("content-type").starts_with("application/cloudevents-batch+json"));
    let batched: Vec<Value> = batched.iter().flat_map(|request| request.json().as_array().unwrap().clone()).collect();
    let binary = at("/binary");
    let binary: Vec<Value> = binary
        .iter()
        .map(|request| {
            let names = ["specversion", "id", "source", "type", "subject", "time"];
            let mut event: serde_json::Map<_, _> =
                names.iter().map(|name| ((*name).to_owned(), request.header(&format!("ce-{name}")).into())).collect();
            event.insert("datacontenttype".to_owned(), request.header("content-type").into());
            event.insert("data".to_owned(), request.json());
            event.into()
        })
        .collect();
    for events in [&structured, &batched, &binary] {
        events.iter().for_each(check);
        assert_eq!(notified(events), wanted);
    }
    assert_eq!(without_trailing_zeros(structured.clone()), without_trailing_zeros(binary));

    let slack = at("/services/T0/B0/hidden");
    let text = slack[0].json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("*1 violation appeared*\n"), "{text}");
    assert!(text.contains("&lt;!channel&gt; &amp; co") && !text.contains('<'), "{text}");
    assert!(slack[1].json()["text"].as_str().unwrap().starts_with("*1 violation resolved*"));

    // 1 KiB has room for one line.
    let files = ["out.ndjson.1", "out.ndjson"].map(|name| std::fs::read_to_string(config.path().join(name)));
    let lines: String = files.into_iter().filter_map(Result::ok).collect();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: BTreeSet<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, structured.iter().map(|event| event["id"].as_str().unwrap()).collect());
    assert_eq!(lines.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn teams_are_notified_by_labels_also_of_deleted_objects() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-teams").await;
    // With a severity: without one, routes with a minimum severity do not match.
    let rego =
        denies_marked(&scene.namespace).replace("\npackage", "\n# METADATA\n# custom: {severity: high}\npackage");
    std::fs::write(scene.policies.path().join("marked.rego"), rego).unwrap();
    let receiver = Receiver::start().await;
    let team = |name: &str, matching: Value| {
        let mut hook = webhook(&receiver.url(&format!("/{name}")));
        hook["name"] = name.into();
        hook["match"] = matching;
        hook
    };
    let labels = |team: &str| json!({"labelSelector": {"matchLabels": {"team": team}}});
    let config = config(&json!({"receivers": [
        team("shop", labels("shop")),
        team("billing", labels("billing")),
        team("worst", json!({"minSeverity": "critical"})),
        team("elsewhere", json!({"namespaces": ["other-*"]})),
        team("ends", json!({"events": ["resolved"], "policies": ["mark*"], "minSeverity": "high"})),
    ]}));
    let kaudit = start(&scene, &config).await;
    scene.create(["owner".to_owned()], "").await;
    let label = json!({"metadata": {"labels": {"team": "shop"}}});
    let owner = scene.objects().patch("owner", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    let uid = owner.metadata.uid.unwrap();
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": true});
    let dependent = json!({"metadata": {"name": "owned", "ownerReferences": [reference],
        "labels": {"team": "billing", &scene.namespace: "yes"}}});
    scene.objects().create(&PostParams::default(), &serde_json::from_value(dependent).unwrap()).await.unwrap();
    let notified = |name: &str| -> Vec<String> {
        let path = format!("/{name}");
        let requests = receiver.taken().into_iter().filter(|request| request.path == path);
        let notified = requests.flat_map(|request| request.json()["notifications"].as_array().unwrap().clone());
        notified
            .map(|notified| format!("{} {}", notified["resource"]["name"], notified["event"]).replace('"', ""))
            .collect()
    };
    wait_for("the owner's team to be notified", || async { (notified("shop") == ["owned appeared"]).then_some(()) })
        .await;
    scene.delete("owned").await;
    let both = ["owned appeared", "owned resolved"];
    wait_for("the end to be notified", || async {
        (notified("shop") == both && notified("ends") == both[1..]).then_some(())
    })
    .await;
    // The team of an object applies if it has no owner.
    let labels = json!({"team": "billing", &scene.namespace: "yes"});
    let alone = serde_json::from_value(json!({"metadata": {"name": "alone", "labels": labels}})).unwrap();
    scene.objects().create(&PostParams::default(), &alone).await.unwrap();
    wait_for("the other team to be notified", || async { (notified("billing") == ["alone appeared"]).then_some(()) })
        .await;
    scene.mark("alone", None).await;
    let both = ["alone appeared", "alone resolved"];
    wait_for("the other team to be notified of the end", || async { (notified("billing") == both).then_some(()) })
        .await;
    assert_eq!((notified("shop").len(), notified("worst").len(), notified("elsewhere").len()), (2, 0, 0));
    assert_eq!(kaudit.stop().await, Some(0));
}
