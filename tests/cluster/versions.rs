//! Kinds that are added, removed and change their version, with API servers whose answers may be inconsistent.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{http::header, response::IntoResponse as _};
use kaudit::source::discovery::Discovery;
use kaudit_controlplane::{ControlPlane, require};
use serde_json::{Value, json};

use crate::{
    proxy::{Act, Proxy},
    reports,
    support::{
        Running, bare_plane, coverage_of, crd, denies_marked, establish, marked, policies, results_in, run,
        until_violations, wait_for,
    },
};

/// Returns the reasons of all Events in a namespace.
async fn reasons(plane: &ControlPlane, namespace: &str) -> Vec<String> {
    let events = plane.kubectl(&["-n", namespace, "get", "events", "-o", "jsonpath={.items[*].reason}"]).await.unwrap();
    events.split_whitespace().map(str::to_owned).collect()
}

async fn until_version(kaudit: &Running, group: &str, resource: &str, version: &str) {
    wait_for(&format!("{resource} to be read as {version}"), || async {
        let status = kaudit.status();
        let kinds = status["coverage"].as_array().unwrap().iter().filter(|kind| kind["resource"] == resource).count();
        let kind = coverage_of(&status, group, resource)?;
        (kinds == 1 && kind["version"] == version && kind["state"] == "synced").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_with_a_new_preferred_version_stays_the_same_kind() {
    const OBJECTS: usize = 20;
    if !require() {
        return;
    }
    let plane = reports::plane().await;
    let namespace = plane.temp_namespace("versions").await.unwrap();
    // A unique group, because the control plane is shared.
    let (group, name) = (format!("{namespace}.example.com"), format!("carts.{namespace}.example.com"));
    let mut definition: Value =
        serde_json::from_str(crd(&group, "carts", "Cart", "v1beta1").trim().trim_start_matches("---")).unwrap();
    establish(&plane, &definition.to_string(), &[&name]).await;
    let cart = |number| marked(&format!("{group}/v1beta1"), "Cart", &namespace, &format!("cart-{number}"), &namespace);
    let carts: String = (0..OBJECTS).map(cart).collect();
    plane.apply(&carts).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=events,reports"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    until_violations(&kaudit, &namespace, OBJECTS).await;
    let recorded = || async {
        let recorded = reasons(&plane, &namespace).await.len();
        let reports = reports::reports_in(&plane, "reports.openreports.io", &namespace).await;
        (recorded == OBJECTS && reports::results(&reports).len() == OBJECTS).then_some(())
    };
    wait_for("Events and reports", recorded).await;
    let (position, evaluated) = (plane.audit_position().unwrap(), kaudit.metric("kaudit_evaluations_total").unwrap());

    let mut better = definition["spec"]["versions"][0].clone();
    better["name"] = json!("v1");
    better["storage"] = json!(false);
    definition["spec"]["versions"].as_array_mut().unwrap().push(better);
    plane.apply(&definition.to_string()).await.unwrap();
    until_version(&kaudit, &group, "carts", "v1").await;
    let again = || async { kaudit.metric("kaudit_evaluations_total").filter(|now| *now >= evaluated + OBJECTS) };
    wait_for("all to be judged in the new version", again).await;
    let api_versions = || {
        let results = results_in(&kaudit.status(), &namespace);
        assert_eq!(results.len(), OBJECTS);
        results.iter().all(|result| result["resource"]["apiVersion"] == format!("{group}/v1"))
    };
    assert!(api_versions(), "{}", kaudit.status());
    // A later Event about a change shows that all earlier ones were written.
    plane.kubectl(&["-n", &namespace, "label", &name, "cart-0", &format!("{namespace}-")]).await.unwrap();
    let resolved = || async { reasons(&plane, &namespace).await.contains(&"PolicyResolved".to_owned()).then_some(()) };
    wait_for("the Event of a change", resolved).await;
    let recorded = reasons(&plane, &namespace).await;
    assert_eq!(recorded.iter().filter(|reason| *reason == "PolicyViolation").count(), OBJECTS, "{recorded:?}");
    assert_eq!(recorded.len(), OBJECTS + 1, "{recorded:?}");
    let cart_0 = || async {
        let reports = reports::reports_in(&plane, "reports.openreports.io", &namespace).await;
        (reports::results(&reports).len() == OBJECTS - 1).then_some(())
    };
    wait_for("the report without it", cart_0).await;
    let mut writes = reports::writes_since(&plane, position);
    writes.retain(|write| write.namespace == namespace);
    assert_eq!(writes.len(), 1, "only the one that cart-0 is in: {writes:#?}");
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["delete", "crd", &name]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_missing_from_discovery_stays_while_its_objects_can_be_read() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("flap").await.unwrap();
    let name = "flaps.flap.example.com";
    establish(&plane, &crd("flap.example.com", "flaps", "Flap", "v1"), &[name]).await;
    plane.apply(&marked("flap.example.com/v1", "Flap", &namespace, "a", &namespace)).await.unwrap();

    // The response of a server that does not know the group, and how often it is sent.
    let without = without_group(&plane, "flap.example.com").await;
    let (odd, requests) = (Arc::new(Mutex::new(0_usize)), Arc::new(AtomicUsize::new(0)));
    let (left, count, body) = (odd.clone(), requests.clone(), without);
    let proxy = Proxy::start(&plane, move |request| {
        if request.uri.path() != "/apis" {
            return Act::Pass;
        }
        count.fetch_add(1, Ordering::Relaxed);
        let mut left = left.lock().unwrap();
        if *left == 0 {
            return Act::Pass;
        }
        *left -= 1;
        Act::Answer(([(header::CONTENT_TYPE, "application/json")], body.clone()).into_response())
    })
    .await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=events"];
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    until_violations(&kaudit, &namespace, 1).await;
    let recorded = || async { (reasons(&plane, &namespace).await == ["PolicyViolation"]).then_some(()) };
    wait_for("its Event", recorded).await;

    for answers in [1, 2, 4] {
        *odd.lock().unwrap() = answers;
        let before = requests.load(Ordering::Relaxed);
        // Triggers another discovery.
        plane.kubectl(&["annotate", "crd", name, &format!("touched={answers}"), "--overwrite"]).await.unwrap();
        let passes = || async { (requests.load(Ordering::Relaxed) > before + answers).then_some(()) };
        wait_for("odd answers and one in order", passes).await;
        assert_eq!(*odd.lock().unwrap(), 0);
        assert_eq!(results_in(&kaudit.status(), &namespace).len(), 1);
        assert!(!kaudit.log().contains("No longer served"), "{}", kaudit.log());
        assert_eq!(reasons(&plane, &namespace).await, ["PolicyViolation"]);
    }

    // A kind whose objects cannot be read counts as deleted.
    plane.kubectl(&["delete", "crd", name]).await.unwrap();
    let resolved = || async { (reasons(&plane, &namespace).await.len() == 2).then_some(()) };
    wait_for("the end of its violation", resolved).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Returns the response of `/apis` without a group.
async fn without_group(plane: &ControlPlane, group: &str) -> String {
    let request = http::Request::get("/apis")
        .header(header::ACCEPT, kube::core::discovery::v2::ACCEPT_AGGREGATED_DISCOVERY_V2)
        .body(Vec::new())
        .unwrap();
    let mut without: Value = plane.admin().unwrap().request(request).await.unwrap();
    without["items"].as_array_mut().unwrap().retain(|known| known["metadata"]["name"] != group);
    without.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_missing_from_the_first_discovery_resolves_nothing() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("first").await.unwrap();
    let name = "firsts.first.example.com";
    establish(&plane, &crd("first.example.com", "firsts", "First", "v1"), &[name]).await;
    plane.apply(&marked("first.example.com/v1", "First", &namespace, "a", &namespace)).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=events"];
    let once = [&["check", "--once", "-o", "json"], &arguments[..]].concat();
    assert_eq!(run(&plane.kubeconfig(), &once).await.code, Some(1));
    assert_eq!(reasons(&plane, &namespace).await, ["PolicyViolation"]);

    let without = without_group(&plane, "first.example.com").await;
    let incomplete = || {
        let (requests, body) = (AtomicUsize::new(0), without.clone());
        Proxy::start(&plane, move |request| {
            if request.uri.path() != "/apis" || requests.fetch_add(1, Ordering::Relaxed) > 0 {
                return Act::Pass;
            }
            Act::Answer(([(header::CONTENT_TYPE, "application/json")], body.clone()).into_response())
        })
    };
    let proxy = incomplete().await;
    let ended = run(proxy.kubeconfig(), &once).await;
    assert_eq!((ended.code, results_in(&ended.json(), &namespace).len()), (Some(1), 1), "{ended:?}");
    let proxy = incomplete().await;
    let kaudit = Running::start(proxy.kubeconfig(), &arguments).await;
    until_violations(&kaudit, &namespace, 1).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(reasons(&plane, &namespace).await, ["PolicyViolation"]);

    // A deleted kind has no results.
    plane.kubectl(&["delete", "crd", name]).await.unwrap();
    let ended = run(&plane.kubeconfig(), &once).await;
    assert_eq!(results_in(&ended.json(), &namespace).len(), 0);
    assert_eq!(reasons(&plane, &namespace).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_changes_its_scope_is_another_kind() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("scope").await.unwrap();
    let (name, api) = ("scopes.scope.example.com", "scope.example.com/v1");
    let namespaced = crd("scope.example.com", "scopes", "Scope", "v1");
    establish(&plane, &namespaced.replace("\"Namespaced\"", "\"Cluster\""), &[name]).await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=events"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    plane.kubectl(&["delete", "crd", name]).await.unwrap();
    establish(&plane, &namespaced, &[name]).await;
    let objects: String =
        (0..5).map(|number| marked(api, "Scope", &namespace, &format!("o{number}"), &namespace)).collect();
    wait_for("the API", || async { plane.apply(&objects).await.ok() }).await;
    until_violations(&kaudit, &namespace, 5).await;
    wait_for("their Events", || async { (reasons(&plane, &namespace).await.len() == 5).then_some(()) }).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(reasons(&plane, &namespace).await, ["PolicyViolation"; 5]);
    plane.kubectl(&["delete", "crd", name]).await.unwrap();
}

#[tokio::test]
async fn unchanged_discovery_is_not_sent_again() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let position = plane.audit_position().unwrap();
    let mut discovery = Discovery::new(plane.admin().unwrap());
    let first = discovery.discover().await.unwrap();
    let second = discovery.discover().await.unwrap();
    assert_eq!(format!("{:?}", first.kinds), format!("{:?}", second.kinds));
    assert!(first.kinds.len() > 20, "{first:?}");
    let records = plane.audit_log_since(position).unwrap();
    for path in ["/api", "/apis"] {
        let codes: Vec<_> = records
            .iter()
            .filter(|record| record.request_uri == path && record.user_agent.is_empty())
            .map(|record| record.code)
            .collect();
        assert_eq!(codes, [200, 304], "{path}: {records:#?}");
    }
}
