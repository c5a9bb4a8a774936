//! Behaviour of the simulated server that is not compared with the real one: faults, controllers, backups, and
//! determinism.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::TryStreamExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use kaudit_simulation::server::{
    ADMIN, ApiServer, Faults, NoFaults, RequestFault, RequestInfo, Settings, WatchFault, Write,
};
use kube::{Client, Error, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Applies one fault to each request, and one to each watch event.
struct Always(RequestFault, WatchFault);

impl Faults for Always {
    fn decide(&self, _: &RequestInfo) -> RequestFault {
        self.0.clone()
    }

    fn deliver(&self, _: &RequestInfo, number: usize) -> WatchFault {
        if number == 1 { self.1 } else { WatchFault::None }
    }
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "n"}})
}

fn client(server: &ApiServer, faults: impl Faults + 'static) -> Client {
    Client::new(server.service(ADMIN, &(Arc::new(faults) as _)), "default")
}

async fn get(client: &Client, path: &str) -> Result<Value, Error> {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await
}

async fn post(client: &Client, object: &Value) -> Result<Value, Error> {
    let body = object.to_string().into_bytes();
    client.request(Request::post(PODS).body(body).unwrap()).await
}

/// Returns the lines of a watch of Pods until it ends.
async fn watch(client: &Client) -> Result<String, String> {
    let request =
        Request::get(format!("{PODS}?watch=1&resourceVersion=1&timeoutSeconds=5")).body(Body::empty()).unwrap();
    let body = client.send(request).await.map_err(|error| error.to_string())?.into_body();
    let lines: Vec<u8> = body
        .into_data_stream()
        .try_fold(Vec::new(), |mut all, bytes| async move {
            all.extend_from_slice(&bytes);
            Ok(all)
        })
        .await
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8(lines).unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_request_fault_is_injected() {
    let code = |answer: Result<Value, Error>| match answer {
        Ok(_) => "answered".to_owned(),
        Err(Error::Api(status)) => {
            format!("{} {}", status.code, status.details.map_or(0, |details| details.retry_after_seconds))
        }
        Err(Error::Service(error)) => error.to_string(),
        Err(Error::SerdeError(_)) => "cut".to_owned(),
        Err(error) => format!("broken: {error}"),
    };
    let cases = [
        (RequestFault::None, "answered", true),
        (RequestFault::Refuse(429, Some(7)), "429 7", false),
        (RequestFault::Refuse(503, None), "503 0", false),
        (RequestFault::ConnectError, "connection refused", false),
        (RequestFault::LoseAnswer, "connection reset by peer", true),
        (RequestFault::Truncate(9), "cut", true),
        (RequestFault::CutBody(9), "unexpected EOF", true),
        (RequestFault::Hang, "silent", false),
        (RequestFault::HangAnswer, "silent", true),
        (RequestFault::Stall(9), "silent", true),
    ];
    for (fault, expected, carried_out) in cases {
        let server = ApiServer::new(Settings::default());
        let client = client(&server, Always(fault.clone(), WatchFault::None));
        let answer = timeout(Duration::from_mins(1), post(&client, &pod("a"))).await;
        let found = answer.map_or_else(|_| "silent".to_owned(), code);
        assert!(found.starts_with(expected), "{fault:?}: {found}");
        assert_eq!(server.get(("v1", "Pod", "default", "a")).is_ok(), carried_out, "{fault:?}");
        let journal = server.take_requests();
        assert_eq!((journal.len(), journal[0].carried_out), (1, carried_out), "{fault:?}");
    }
    for fault in [RequestFault::Delay(Duration::from_secs(3)), RequestFault::DelayAnswer(Duration::from_secs(3))] {
        let server = ApiServer::new(Settings::default());
        let begun = Instant::now();
        post(&client(&server, Always(fault, WatchFault::None)), &pod("a")).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
}

#[tokio::test(start_paused = true)]
async fn every_watch_fault_is_injected() {
    let server = ApiServer::new(Settings::default());
    for name in ["a", "b", "c"] {
        server.create(&pod(name)).unwrap();
    }
    let cases = [
        (WatchFault::None, 3, "}\n"),
        (WatchFault::Delay(Duration::from_secs(2)), 3, "}\n"),
        (WatchFault::End, 1, "}\n"),
        (WatchFault::Expire, 2, "}}\n"),
    ];
    for (fault, lines, end) in cases {
        let seen = watch(&client(&server, Always(RequestFault::None, fault))).await.unwrap();
        assert_eq!(seen.lines().count(), lines, "{fault:?}: {seen}");
        assert!(seen.ends_with(end), "{fault:?}: {seen}");
    }
    let cut = watch(&client(&server, Always(RequestFault::None, WatchFault::Cut))).await.unwrap();
    assert!(cut.lines().count() == 2 && !cut.ends_with('\n'), "{cut}");
    assert!(watch(&client(&server, Always(RequestFault::None, WatchFault::Break))).await.is_err());
    let client = client(&server, Always(RequestFault::None, WatchFault::Hang));
    assert!(timeout(Duration::from_mins(1), watch(&client)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_receives_changes_and_ends_with_its_server() {
    let server = ApiServer::new(Settings::default());
    let client = client(&server, NoFaults);
    let world = async {
        server.create(&pod("a")).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.merge(("v1", "Pod", "default", "a"), &json!({"metadata": {"labels": {"x": "y"}}})).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.restart();
    };
    let begun = Instant::now();
    let (seen, ()) = tokio::join!(watch(&client), world);
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    let seen = seen.unwrap();
    let kinds: Vec<Value> =
        seen.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED"]);
}

/// Runs the controllers until they have nothing to do.
fn settle(server: &ApiServer) {
    for _ in 0..50 {
        if !server.tick() {
            return;
        }
    }
}

#[test]
fn namespaces_are_emptied_before_deletion() {
    let server = ApiServer::new(Settings::default());
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    server.create(&namespace("n")).unwrap();
    let map = |name: &str, finalizers: &[&str]| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "finalizers": finalizers}});
    server.create(&map("a", &[])).unwrap();
    server.create(&map("b", &["example.com/wait"])).unwrap();
    server.delete(("v1", "Namespace", "", "n"), &Value::Null).unwrap();
    assert_eq!(server.create(&map("c", &[])).unwrap_err().code, 403);
    settle(&server);
    let left = server.list("v1", "ConfigMap", "n").unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(server.get(("v1", "Namespace", "", "n")).unwrap()["status"]["phase"], "Terminating");
    server.merge(("v1", "ConfigMap", "n", "b"), &json!({"metadata": {"finalizers": null}})).unwrap();
    settle(&server);
    assert_eq!(server.get(("v1", "Namespace", "", "n")).unwrap_err().code, 404);
    assert_eq!(server.create(&map("c", &[])).unwrap_err().code, 404);
    server.create(&namespace("n")).unwrap();
}

#[test]
fn dependents_are_deleted_with_their_owners() {
    let server = ApiServer::new(Settings::default());
    let object = |kind: &str, name: &str, owner: Option<&Value>| {
        let owners: Vec<Value> = owner
            .map(|owner| {
                json!({"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"]})
            })
            .into_iter()
            .collect();
        json!({"apiVersion": if kind == "Pod" { "v1" } else { "apps/v1" }, "kind": kind,
            "metadata": {"name": name, "ownerReferences": owners}, "spec": {}})
    };
    let count =
        || server.list("v1", "Pod", "").unwrap().len() + server.list("apps/v1", "ReplicaSet", "").unwrap().len();
    let deployment = || ("apps/v1", "Deployment", "default", "d");
    for (policy, left) in [("Background", 0), ("Foreground", 0), ("Orphan", 2)] {
        let owner = server.create(&object("Deployment", "d", None)).unwrap();
        let set = server.create(&object("ReplicaSet", "s", Some(&owner))).unwrap();
        server.create(&object("Pod", "p", Some(&set))).unwrap();
        settle(&server);
        assert_eq!(count(), 2, "{policy}");
        server.delete(deployment(), &json!({"propagationPolicy": policy})).unwrap();
        settle(&server);
        assert_eq!(count(), left, "{policy}");
        assert!(server.get(deployment()).is_err(), "{policy}");
    }
}

#[test]
fn definitions_can_be_added_changed_and_removed() {
    let server = ApiServer::new(Settings::default());
    let definition = |versions: &[&str]| {
        let version = |name: &&str| {
            json!({"name": name, "served": true, "storage": *name == versions[0],
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.shop.example.com"}, "spec": {"group": "shop.example.com", "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"}, "versions": versions.iter().map(version).collect::<Vec<_>>()}})
    };
    server.create(&definition(&["v1"])).unwrap();
    let thing = json!({"apiVersion": "shop.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    assert_eq!(server.create(&thing).unwrap_err().code, 404, "it is not established");
    settle(&server);
    server.create(&thing).unwrap();
    server.replace(&definition(&["v2"])).unwrap();
    settle(&server);
    assert!(server.get(("shop.example.com/v1", "Thing", "default", "a")).is_err());
    let read = server.get(("shop.example.com/v2", "Thing", "default", "a")).unwrap();
    assert_eq!(read["apiVersion"], "shop.example.com/v2");
    server
        .delete(("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.shop.example.com"), &Value::Null)
        .unwrap();
    settle(&server);
    assert!(server.get(("shop.example.com/v2", "Thing", "default", "a")).is_err());
    server.create(&definition(&["v2"])).unwrap();
    settle(&server);
    assert!(server.list("shop.example.com/v2", "Thing", "").unwrap().is_empty(), "its objects were deleted with it");
}

#[test]
fn an_earlier_state_is_restored_with_its_revision() {
    let server = ApiServer::new(Settings::default());
    server.create(&pod("a")).unwrap();
    let (backup, revision) = (server.backup(), server.revision());
    server.create(&pod("b")).unwrap();
    server.purge(("v1", "Pod", "default", "a")).unwrap();
    server.restore(&backup);
    assert_eq!(server.revision(), revision);
    let names: Vec<Value> =
        server.list("v1", "Pod", "").unwrap().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["a"]);
    let uid = |name: &str| server.get(("v1", "Pod", "default", name)).unwrap()["metadata"]["uid"].clone();
    server.create(&pod("b")).unwrap();
    assert_ne!(uid("a"), uid("b"), "uids are unique");
}

#[test]
fn a_webhook_can_reject_writes() {
    let server = ApiServer::new(Settings::default());
    let dislikes = |write: &Write<'_>| {
        (write.operation == "CREATE" && write.object["metadata"]["name"] == "bad").then(|| "no".to_owned())
    };
    server.set_admission(Some(Arc::new(dislikes)));
    let refused = server.create(&pod("bad")).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    server.create(&pod("good")).unwrap();
    server.set_admission(None);
    server.create(&pod("bad")).unwrap();
}

/// Counts the discoveries of a client, and hides a group from the second on.
#[derive(Default)]
struct Hides(Mutex<usize>);

impl Faults for Hides {
    fn missing_groups(&self, request: &RequestInfo) -> Vec<String> {
        if request.path != "/apis" {
            return Vec::new();
        }
        let mut passes = self.0.lock().unwrap();
        *passes += 1;
        if *passes == 2 { vec!["apps".to_owned()] } else { Vec::new() }
    }
}

#[tokio::test]
async fn a_group_may_be_missing_from_one_discovery() {
    let server = ApiServer::new(Settings::default());
    let client = client(&server, Hides::default());
    for expected in [true, false, true] {
        let groups = get(&client, "/apis").await.unwrap();
        let found = groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "apps");
        assert_eq!(found, expected);
    }
}

#[test]
fn the_same_writes_give_the_same_cluster() {
    let cluster = || {
        let server = ApiServer::new(Settings::default());
        for _ in 0..20 {
            let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
            server.create(&generated).unwrap();
        }
        let objects = server.everything().into_iter();
        let identities = objects.map(|object| {
            let metadata = &object["metadata"];
            (metadata["name"].clone(), metadata["uid"].clone(), metadata["resourceVersion"].clone())
        });
        identities.collect::<Vec<_>>()
    };
    assert_eq!(cluster(), cluster());
}
