//! Compares the simulated server with the real one: both get the same random requests.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

mod content;
mod generator;
mod normal;
mod sides;

use futures::{StreamExt as _, stream};
use kaudit_controlplane::{ControlPlane, Options, require};
use kaudit_test_support::settings::setting;

use http::Method;
use serde_json::{Value, json};

use self::{
    generator::Generator,
    normal::Captures,
    sides::{Sides, TestRequest},
};

/// Number of concurrent sequences, each in its own namespaces.
const AT_ONCE: usize = 8;
/// Number of requests per sequence.
const REQUESTS: usize = 150;

#[tokio::test]
async fn both_servers_give_the_same_answers() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let sides = Sides::new(&plane);
    sides.prepare().await;
    let first: u64 = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    let sequences = setting("KAUDIT_TEST_SEQUENCES").unwrap_or(4);
    let compared = stream::iter(first..first + sequences).map(|seed| compare(&sides, seed)).buffer_unordered(AT_ONCE);
    let differences: Vec<String> = compared.filter_map(|compared| async { compared.err() }).collect().await;
    plane.stop().await.unwrap();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test]
async fn both_servers_expire_versions_alike() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let (sides, mut captures) = (Sides::new(&plane), Captures::default());
    sides.prepare().await;
    let mut differences = Vec::new();
    let mut both = async |captures: &mut Captures, method: Method, path: &str, body: Option<Value>| {
        let request = TestRequest::new(method, path.to_owned(), body);
        let [real, simulated] = sides.request_both(&request, captures).await;
        captures.take(&request, &real, &simulated);
        let (expected, found) = (captures.normal(0, &real), captures.normal(1, &simulated));
        if expected != found {
            differences.push(format!("{path}\n  {}", expected.differences(&found).join("\n  ")));
        }
    };
    let collections = [
        ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
        ("/apis/shop.example.com/v1/namespaces/default/things", "shop.example.com/v1", "Thing"),
    ];
    for (path, api_version, kind) in collections {
        for name in ["a", "b", "c"] {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            both(&mut captures, Method::POST, path, Some(object)).await;
        }
    }
    // In both: a page before the compaction, a change, a page after it, and a change.
    for moment in 0..2 {
        if moment == 1 {
            plane.compact_etcd().await.unwrap();
            sides.simulated.compact();
        }
        for (path, ..) in collections {
            both(&mut captures, Method::GET, &format!("{path}?limit=1"), None).await;
            both(&mut captures, Method::DELETE, &format!("{path}/{}", ["b", "c"][moment]), None).await;
        }
    }
    plane.kill_apiserver().unwrap();
    plane.start_apiserver().await.unwrap();
    sides.simulated.restart();
    sides.wait_for_custom_resources().await;
    for (place, (path, ..)) in collections.into_iter().enumerate() {
        both(&mut captures, Method::GET, path, None).await;
        for moment in [place, place + 2] {
            both(&mut captures, Method::GET, &format!("{path}?limit=1&continue={{c{moment}}}"), None).await;
            // The first has expired, and the response has a token to continue with.
            let last = captures.tokens.len() - 1;
            both(&mut captures, Method::GET, &format!("{path}?limit=1&continue={{c{last}}}"), None).await;
            let exact = format!("{path}?resourceVersion={{l{moment}}}&resourceVersionMatch=Exact");
            both(&mut captures, Method::GET, &exact, None).await;
            let watch = format!("{path}?watch=1&timeoutSeconds=1&resourceVersion={{l{moment}}}");
            both(&mut captures, Method::GET, &watch, None).await;
        }
    }
    plane.stop().await.unwrap();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

/// Sends a sequence of requests to both servers; fails with the first difference of the responses.
async fn compare(sides: &Sides, seed: u64) -> Result<(), String> {
    let (mut generator, mut captures) = (Generator::new(seed), Captures::default());
    for number in 0..REQUESTS {
        let request = generator.next(&captures);
        let [real, simulated] = sides.request_both(&request, &captures).await;
        captures.take(&request, &real, &simulated);
        if request.path.contains("rbac.authorization.k8s.io") {
            sides.wait_for_rights(&request.path).await;
        }
        let (expected, found) = (captures.normal(0, &real), captures.normal(1, &simulated));
        if expected != found {
            let differences = expected.differences(&found).join("\n  ");
            let text = format!("seed {seed}, request {number}: {request:?}\n  {differences}");
            // After the first difference, the states of the servers differ.
            return Err(text);
        }
    }
    Ok(())
}
