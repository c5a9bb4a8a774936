//! Lists and watches of the simulated API server agree with each other.

use std::{collections::BTreeMap, time::Duration};

use clap::Parser;
use futures::{AsyncBufReadExt, TryStreamExt};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use super::{Options, Server, serve};

const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// A server that ends with its owner.
struct TestServer {
    client: Client,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const LISTS: [&str; 9] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
];

impl TestServer {
    async fn start(arguments: &[&str]) -> Self {
        let small = ["serve", "--objects=800", "--namespaces=30"];
        let Line { options } = Line::parse_from(small.iter().chain(arguments));
        let (ready, address) = oneshot::channel();
        let task = tokio::spawn(serve(Server::new(options).unwrap(), |address| {
            ready.send(address).unwrap();
            Ok(())
        }));
        let mut config = Config::new(format!("http://{}", address.await.unwrap()).parse().unwrap());
        // Errors must be printed.
        config.default_retry = false;
        Self { client: Client::try_from(config).unwrap(), task }
    }

    async fn try_get(&self, path: &str) -> Result<Value, String> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        match timeout(PATIENCE, self.client.request(request)).await.unwrap() {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(format!("{} {}", status.code, status.reason)),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn get(&self, path: &str) -> Value {
        self.try_get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    async fn post(&self, path: &str) -> Value {
        self.client.request(Request::post(path).body(Vec::new()).unwrap()).await.unwrap()
    }

    /// Makes changes and waits for them; returns the version after them.
    async fn change(&self, count: u32, status_share: u32) -> u64 {
        let before = self.post("/simulated/changes?per-second=0").await["resourceVersion"].as_u64().unwrap();
        self.post(&format!("/simulated/changes?per-second=100000&status-share={status_share}&count={count}")).await;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let now = self.get("/simulated/counters").await["made"].as_u64().unwrap();
            let version = self.get("/simulated/counters").await["resourceVersion"].as_u64().unwrap();
            if now == u64::from(count) && version > before {
                return version;
            }
            assert!(tokio::time::Instant::now() < deadline, "{now} of {count} changes");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Reads a list page by page; returns its version and its objects.
    async fn pages(&self, path: &str, parameters: &str, limit: usize) -> (u64, Vec<Value>) {
        let (mut items, mut next) = (Vec::new(), parameters.to_owned());
        loop {
            let page = self.get(&format!("{path}?limit={limit}{next}")).await;
            let found = page["items"].as_array().unwrap();
            items.extend(found.iter().cloned());
            let Some(token) = page["metadata"]["continue"].as_str() else { return (version(&page), items) };
            assert_eq!(found.len(), limit);
            next = format!("&continue={token}");
        }
    }

    /// Applies the events of a watch to a list, up to a version.
    async fn follow(&self, path: &str, from: u64, items: Vec<Value>, upto: u64) -> Vec<Value> {
        let mut objects: BTreeMap<_, _> = items.into_iter().map(|item| (key(&item), item)).collect();
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let stream = self.client.request_stream(Request::get(uri).body(Vec::new()).unwrap()).await.unwrap();
        let mut lines = Box::pin(stream.lines());
        let mut seen = from;
        while seen < upto {
            let line = timeout(PATIENCE, lines.try_next()).await.unwrap().unwrap().unwrap();
            let event: Value = serde_json::from_str(&line).unwrap();
            let mut object = event["object"].clone();
            let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            assert!(version >= seen, "{path}: {version} came after {seen}");
            seen = version;
            if version > upto {
                break;
            }
            assert!(object["kind"].is_string() && object["apiVersion"].is_string(), "{line}");
            for field in ["kind", "apiVersion"] {
                object.as_object_mut().unwrap().remove(field);
            }
            let key = key(&object);
            match event["type"].as_str().unwrap() {
                "ADDED" => assert!(objects.insert(key, object).is_none(), "{line}"),
                "MODIFIED" => assert!(objects.insert(key, object).is_some(), "{line}"),
                "DELETED" => assert_eq!(objects.remove(&key).unwrap()["metadata"]["uid"], object["metadata"]["uid"]),
                "BOOKMARK" => {}
                other => panic!("{other}: {line}"),
            }
        }
        objects.into_values().collect()
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn version(list: &Value) -> u64 {
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_list_and_the_watch_from_there_are_a_later_list() {
    let server = TestServer::start(&["--bookmark-seconds=0"]).await;
    let mut before = Vec::new();
    for path in LISTS {
        before.push(server.pages(path, "", 70).await);
    }
    let middle = server.change(700, 20).await;
    let end = server.change(900, 50).await;
    for (path, (from, items)) in LISTS.into_iter().zip(before) {
        let at_middle = server.follow(path, from, items, middle).await;
        let exact = server.pages(path, &format!("&resourceVersion={middle}&resourceVersionMatch=Exact"), 64).await;
        assert_eq!((middle, &at_middle), (exact.0, &exact.1), "{path}");
        let at_end = server.follow(path, middle, at_middle, end).await;
        assert_eq!((end, at_end), server.pages(path, "", 500).await, "{path}");
    }
}

#[tokio::test]
async fn all_ways_to_list_agree() {
    let server = TestServer::start(&[]).await;
    server.change(400, 30).await;
    let mut count = 0;
    let namespaces = server.pages("/api/v1/namespaces", "", 500).await.1;
    for path in LISTS {
        let (_, pages) = server.pages(path, "", 33).await;
        for parameters in [
            "",
            "?resourceVersion=0",
            "?resourceVersion=0&limit=5",
            "?resourceVersion=7&resourceVersionMatch=NotOlderThan",
        ] {
            assert_eq!(server.get(&format!("{path}{parameters}")).await["items"], json!(pages), "{path}{parameters}");
        }
        assert!(pages.is_sorted_by_key(key), "{path}");
        count += pages.len();
        let Some((group, plural)) = path.rsplit_once('/').filter(|_| pages[0]["metadata"]["namespace"].is_string())
        else {
            continue;
        };
        let mut of_each = Vec::new();
        for namespace in &namespaces {
            let path = format!("{group}/namespaces/{}/{plural}", namespace["metadata"]["name"].as_str().unwrap());
            of_each.extend(server.pages(&path, "", 20).await.1);
        }
        assert_eq!(of_each, pages, "{path}");
        let (namespace, name) = key(&pages[pages.len() / 3]);
        let mut one = server.get(&format!("{group}/namespaces/{namespace}/{plural}/{name}")).await;
        one.as_object_mut().unwrap().retain(|field, _| field != "kind" && field != "apiVersion");
        assert_eq!(one, pages[pages.len() / 3]);
    }
    assert_eq!(count, 800);
    let page = server.get("/api/v1/pods?limit=10").await;
    let pods = server.get("/api/v1/pods").await;
    assert_eq!(page["metadata"]["remainingItemCount"], pods["items"].as_array().unwrap().len() - 10);
    assert_eq!(server.try_get("/api/v1/pods/nothing").await.unwrap_err(), "404 NotFound");
    assert_eq!(server.get("/api/v1/namespaces/nowhere/pods").await["items"], json!([]));
}

#[tokio::test]
async fn what_a_real_server_refuses_is_refused() {
    let server = TestServer::start(&["--history=100", "--continue-seconds=0"]).await;
    let old = version(&server.get("/api/v1/pods?limit=1").await);
    let token = server.get("/api/v1/pods?limit=1").await["metadata"]["continue"].as_str().unwrap().to_owned();
    let now = server.change(200, 100).await;
    for (parameters, refusal) in [
        (format!("limit=1&continue={token}"), "410 Expired"),
        ("limit=1&continue=nonsense".into(), "400 BadRequest"),
        (format!("limit=1&continue={token}&resourceVersion=5&resourceVersionMatch=Exact"), "422 Invalid"),
        (format!("resourceVersion={old}&resourceVersionMatch=Exact"), "410 Expired"),
        (format!("resourceVersion={}&resourceVersionMatch=Exact", now + 1), "504 Timeout"),
        ("resourceVersionMatch=Exact".into(), "422 Invalid"),
        ("labelSelector=a".into(), "400 BadRequest"),
        ("limit=many".into(), "400 BadRequest"),
        ("watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".into(), "422 Invalid"),
    ] {
        assert_eq!(server.try_get(&format!("/api/v1/pods?{parameters}")).await.unwrap_err(), refusal, "{parameters}");
    }
    let uri = format!("/api/v1/pods?watch=true&resourceVersion={old}");
    let error = server.get(&uri).await;
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[tokio::test]
async fn leases_are_kept_and_events_are_counted() {
    let server = TestServer::start(&[]).await;
    let send = async |method: &str, path: &str, body: &Value| {
        let request = Request::builder().method(method).uri(path).body(serde_json::to_vec(body).unwrap()).unwrap();
        server.client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status) => status.code,
            other => panic!("{other}"),
        })
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "one"}, "spec": {"holderIdentity": "a"}});
    let created = send("POST", leases, &lease).await.unwrap();
    assert_eq!(send("POST", leases, &lease).await, Err(409));
    let renewed = send("PUT", &format!("{leases}/one"), &created).await.unwrap();
    assert_ne!(created["metadata"]["resourceVersion"], renewed["metadata"]["resourceVersion"]);
    assert_eq!(send("PUT", &format!("{leases}/one"), &created).await, Err(409));
    assert_eq!(server.get(&format!("{leases}/one")).await, renewed);
    assert_eq!(server.get(&format!("{leases}?labelSelector=a%3Db")).await["items"], json!([renewed]));
    let event = json!({"metadata": {"name": "e"}, "reason": "PolicyViolation"});
    send("POST", "/apis/events.k8s.io/v1/namespaces/default/events", &event).await.unwrap();
    let counters = server.get("/simulated/counters").await;
    assert_eq!((&counters["requests"]["create events"], &counters["inFlight"]["now"]), (&json!(1), &json!(0)));
}
