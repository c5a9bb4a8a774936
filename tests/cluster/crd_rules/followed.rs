//! The long run follows the rules of CRDs.

use super::*;
use crate::support::Running;

/// Returns the CRD of the kind `Shop` with these rules for its `spec`.
fn shops(rules: &[(&str, &str)]) -> String {
    let rules: Vec<Value> = rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect();
    let mut spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    if !rules.is_empty() {
        spec["x-kubernetes-validations"] = rules.into();
    }
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd("Shop", &json!({"type": "object", "properties": {"spec": spec, "status": status}})).to_string()
}

fn shop(name: &str, replicas: u32, ready: u32) -> String {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Shop", "metadata": {"name": name},
        "spec": {"replicas": replicas}, "status": {"ready": ready}})
    .to_string()
}

/// Returns the results as `OBJECT OUTCOME MESSAGE`, sorted.
fn shown(result: &Value) -> Vec<String> {
    let own = result["results"].as_array().unwrap().iter().filter(|entry| entry["resource"]["kind"] == "Shop");
    let mut shown: Vec<String> = own
        .map(|entry| {
            let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap();
            format!("{} {} {}", text("/resource/name"), text("/result"), text("/message"))
        })
        .collect();
    shown.sort();
    shown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_are_added_and_removed_are_followed() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = plane.temp_namespace("rules").await.unwrap();
    establish(&plane, &shops(&[]), &[&format!("shops.{GROUP}")]).await;
    for (name, replicas) in [("a", 1), ("b", 5)] {
        plane.apply(&shop(name, replicas, 0)).await.unwrap();
    }
    // With only the rights that `kaudit rbac` prints.
    let arguments = ["-p", "cluster:crd-rules"];
    let account = format!("{namespace}:kaudit");
    let rights = run(&plane.kubeconfig(), &[&["rbac", "--service-account", &account], &arguments[..]].concat()).await;
    assert_eq!(rights.code, Some(0), "{}", rights.stderr);
    plane.apply(&rights.stdout).await.unwrap();
    let user = plane.service_account(&namespace, "kaudit").await.unwrap();
    let kaudit = Running::start(user.kubeconfig_path(), &[&["--record=none"], &arguments[..]].concat()).await;
    kaudit.ready().await;
    let until = async |wanted: &[&str]| {
        let found = || shown(&kaudit.status());
        wait_for(&format!("{wanted:?} instead of {:?}", found()), || async { (found() == wanted).then_some(()) }).await;
    };
    let once = async |wanted: &[&str]| {
        let once = run(&plane.kubeconfig(), &[&["check", "--once", "-o", "json"], &arguments[..]].concat()).await;
        assert_eq!(shown(&once.json()), wanted, "{}", once.stderr);
    };
    until(&[]).await;
    // Objects that exist get results of a new rule.
    let few = ("self.replicas < 5", "too many");
    plane.apply(&shops(&[few])).await.unwrap();
    until(&["b fail spec: Invalid value: too many"]).await;
    once(&["b fail spec: Invalid value: too many"]).await;
    // Another rule does not change those.
    plane.apply(&shops(&[("self.replicas > 1", "too few"), few])).await.unwrap();
    let both = ["a fail spec: Invalid value: too few", "b fail spec: Invalid value: too many"];
    until(&both).await;
    once(&both).await;
    // An object that is changed; the status is not read.
    plane.apply(&shop("b", 4, 1)).await.unwrap();
    until(&both[..1]).await;
    // The rules are removed.
    plane.apply(&shops(&[few])).await.unwrap();
    until(&[]).await;
    plane.apply(&shops(&[("self.replicas == 0", "none")])).await.unwrap();
    until(&["a fail spec: Invalid value: none", "b fail spec: Invalid value: none"]).await;
    plane.apply(&shops(&[])).await.unwrap();
    until(&[]).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
