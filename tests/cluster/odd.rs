//! Slow or malformed kinds and objects are named, and affect nothing else.

use kaudit_controlplane::{require, shared};
use serde_json::{Value, json};

use crate::{
    proxy::Proxy,
    support::{
        Running, bare_plane, coverage_of, crd, denies_marked, establish, marked, policies, results_in, run, state_of,
        until_violations,
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_over_the_sync_timeout_joins_later() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("slow").await.unwrap();
    let objects = marked("v1", "Secret", &namespace, "late", &namespace);
    plane.apply(&objects).await.unwrap();
    let proxy = Proxy::holding(plane, "/api/v1/secrets").await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let scope = ["--policies", policies, "--exclude=*", "--include=cm,secrets", "--sync-timeout=2s"];

    let ended = run(proxy.kubeconfig(), &[&["check", "--once", "-o", "json"], &scope[..]].concat()).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let result = ended.json();
    assert_eq!(state_of(&result, "", "secrets"), "timedOut");
    assert!(coverage_of(&result, "", "configmaps").unwrap()["objects"].as_u64().unwrap() > 0, "{result}");

    let kaudit = Running::start(proxy.kubeconfig(), &[&["--record=none"], &scope[..]].concat()).await;
    kaudit.ready().await;
    assert_eq!(state_of(&kaudit.status(), "", "secrets"), "timedOut");
    plane.apply(&marked("v1", "ConfigMap", &namespace, "early", &namespace)).await.unwrap();
    until_violations(&kaudit, &namespace, 1).await;
    proxy.release();
    until_violations(&kaudit, &namespace, 2).await;
    assert_eq!(kaudit.status()["complete"], true);
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_object_is_named_and_does_not_affect_others() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let good = json!({"metadata": {"name": "good", "namespace": "default", "uid": "g", "labels": {"odd": "yes"}}});
    let odd = json!({"metadata": {"name": 7, "namespace": "default", "uid": "o", "labels": {"odd": "yes"}}});
    let list = |items: Value| {
        let metadata = json!({"resourceVersion": "1"});
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items}).to_string()
    };
    let directory = policies(&[("marked.rego", &denies_marked("odd"))]);
    let policies = directory.path().to_str().unwrap();
    let arguments =
        ["check", "--once", "-o", "json", "--policies", policies, "--exclude=*", "--include=configmaps,secrets"];
    for (items, code) in [(json!([odd]), 3), (json!([odd, good]), 1)] {
        let proxy = Proxy::answering(plane, "/api/v1/configmaps", list(items)).await;
        let ended = run(proxy.kubeconfig(), &arguments).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let result = ended.json();
        let configmaps = coverage_of(&result, "", "configmaps").unwrap();
        assert!(configmaps["message"].as_str().unwrap().contains("could not be read"), "{configmaps}");
        assert_eq!(result["complete"], false);
    }
}

#[tokio::test]
async fn an_object_nested_too_deep_has_violations_and_an_error() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("deep").await.unwrap();
    establish(&plane, &crd("deep.example.com", "wells", "Well", "v1"), &["wells.deep.example.com"]).await;
    let good = marked("deep.example.com/v1", "Well", &namespace, "shallow", &namespace);
    let depth = 300;
    let spec = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let deep = marked("deep.example.com/v1", "Well", &namespace, "deep", &namespace);
    let deep = deep.trim_end().trim_end_matches('}').to_owned() + &format!("}},\"spec\":{spec}}}\n");
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("wells.yaml");
    std::fs::write(&file, deep + &good).unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &["--policies", policies, "--record=none"]).await;
    kaudit.ready().await;
    plane.kubectl(&["create", "-f", file.to_str().unwrap()]).await.unwrap();

    let ended = run(&plane.kubeconfig(), &["check", "--once", "-o", "json", "--policies", policies]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let result = ended.json();
    let results = results_in(&result, &namespace);
    let named: Vec<_> =
        results.iter().map(|entry| (entry["resource"]["name"].as_str(), entry["result"].as_str())).collect();
    let want =
        [("deep", "error"), ("deep", "fail"), ("shallow", "fail")].map(|(name, result)| (Some(name), Some(result)));
    assert_eq!(named.len(), 3, "{results:#?}");
    assert!(want.iter().all(|entry| named.contains(entry)), "{results:#?}");
    assert_eq!(result["complete"], false);
    // The watch gives the same result as the list.
    assert_eq!(until_violations(&kaudit, &namespace, 3).await, results);
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["delete", "crd", "wells.deep.example.com"]).await.unwrap();
}
