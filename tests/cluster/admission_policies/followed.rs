//! The long run follows the policies of the cluster and everything that they depend on.

use super::*;
use crate::support::{Running, results_in};

/// Returns a policy about `ConfigMap`s with this validation.
fn limit(expression: &str) -> String {
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let spec = json!({
        "matchConstraints": {"resourceRules": rules, "objectSelector": {"matchLabels": {"checked": "yes"}}},
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": expression, "messageExpression": "'limit ' + params.data.limit"}],
    });
    policy("limit", &spec).to_string()
}

/// Returns a binding for the namespaces with a label `env` of this value.
fn limit_of(env: &str, param: &str, actions: &[&str]) -> String {
    let spec = json!({
        "policyName": "limit",
        "validationActions": actions,
        "paramRef": {"name": param, "parameterNotFoundAction": "Allow"},
        "matchResources": {"namespaceSelector": {"matchLabels": {"env": env}}},
    });
    binding("limit", &spec).to_string()
}

fn config_map(namespace: &str, name: &str, labels: &Value, data: &Value) -> String {
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string()
}

/// Returns the results in a namespace as `OBJECT OUTCOME MESSAGE`, sorted.
fn shown(result: &Value, namespace: &str) -> Vec<String> {
    let results = results_in(result, namespace);
    let results = results.iter().filter(|entry| entry["policy"] == "limit").map(|entry| {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap();
        format!("{} {} {}", text("/resource/name"), text("/result"), text("/message"))
    });
    let mut results: Vec<String> = results.collect();
    results.sort();
    results
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_bindings_params_and_namespaces_are_followed() {
    if !require() {
        return;
    }
    // A separate control plane, because the policies are for the whole cluster.
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = plane.temp_namespace("limit").await.unwrap();
    plane.kubectl(&["label", "namespace", &namespace, "env=prod"]).await.unwrap();
    let checked = json!({"checked": "yes"});
    for (name, value) in [("a", "1"), ("b", "5")] {
        plane.apply(&config_map(&namespace, name, &checked, &json!({"value": value}))).await.unwrap();
    }
    let params = |name: &str, limit: &str| config_map(&namespace, name, &json!({}), &json!({"limit": limit}));
    plane.apply(&params("low", "3")).await.unwrap();
    plane.apply(&limit("int(object.data.value) <= int(params.data.limit)")).await.unwrap();
    plane.apply(&limit_of("prod", "low", &["Deny"])).await.unwrap();

    // With only the rights that `kaudit rbac` prints.
    let arguments = ["-p", "cluster:admission-policies"];
    let account = format!("{namespace}:kaudit");
    let rights = run(&plane.kubeconfig(), &[&["rbac", "--service-account", &account], &arguments[..]].concat()).await;
    plane.apply(&rights.stdout).await.unwrap();
    let user = plane.service_account(&namespace, "kaudit").await.unwrap();
    let kaudit = Running::start(user.kubeconfig_path(), &[&["--record=none"], &arguments[..]].concat()).await;
    kaudit.ready().await;
    let until = async |wanted: &[&str]| {
        let found = || shown(&kaudit.status(), &namespace);
        wait_for(&format!("{wanted:?} instead of {:?}", found()), || async { (found() == wanted).then_some(()) }).await;
        let once = run(&plane.kubeconfig(), &[&["check", "--once", "-o", "json"], &arguments[..]].concat()).await;
        assert_eq!(shown(&once.json(), &namespace), wanted, "{}", once.stderr);
    };
    until(&["b fail limit 3"]).await;
    // A parameter changes, is deleted and created again.
    plane.apply(&params("low", "0")).await.unwrap();
    until(&["a fail limit 0", "b fail limit 0"]).await;
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "low"]).await.unwrap();
    until(&[]).await;
    plane.apply(&params("low", "4")).await.unwrap();
    until(&["b fail limit 4"]).await;
    // The labels of the Namespace.
    plane.kubectl(&["label", "--overwrite", "namespace", &namespace, "env=dev"]).await.unwrap();
    until(&[]).await;
    plane.kubectl(&["label", "--overwrite", "namespace", &namespace, "env=prod"]).await.unwrap();
    until(&["b fail limit 4"]).await;
    // The binding: other actions, other parameters, other namespaces.
    plane.apply(&params("high", "2")).await.unwrap();
    plane.apply(&limit_of("prod", "high", &["Warn"])).await.unwrap();
    until(&["b warn limit 2"]).await;
    plane.apply(&limit_of("test", "high", &["Deny"])).await.unwrap();
    until(&[]).await;
    plane.apply(&limit_of("prod", "high", &["Deny", "Audit"])).await.unwrap();
    until(&["b fail limit 2"]).await;
    // The policy: another expression, and one that is deleted.
    plane.apply(&limit("int(object.data.value) > int(params.data.limit)")).await.unwrap();
    until(&["a fail limit 2"]).await;
    plane.kubectl(&["delete", "validatingadmissionpolicy", "limit"]).await.unwrap();
    let none = || async { shown(&kaudit.status(), &namespace).is_empty().then_some(()) };
    wait_for("a deleted policy to have no result", none).await;
    assert_eq!(kaudit.stop().await, Some(0));
}
