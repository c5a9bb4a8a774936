//! Policies and exceptions in files: the current files are in force, whatever the time and order of changes.

use std::path::Path;

use kaudit_controlplane::{require, shared};
use serde_json::{Value, json};

use crate::{
    proxy::{Act, Proxy},
    support::{Running, denies_marked, kaudit, policies, results_in, wait_for},
};

/// Returns a rule with another package and message.
fn rule(package: &str, words: &str, mark: &str) -> String {
    denies_marked(mark).replace("package marked", &format!("package {package}")).replace("marked %v", words)
}

fn exception(policy: &str) -> Value {
    json!({
        "apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "metadata": {"name": format!("of-{policy}")},
        "spec": {"policies": [{"name": policy}], "reason": "it is new", "expiresAt": "2999-01-01"},
    })
}

fn write_exceptions(path: &Path, policies: &[&str]) {
    let documents: Vec<String> = policies.iter().map(|policy| exception(policy).to_string()).collect();
    std::fs::write(path, documents.join("\n---\n")).unwrap();
}

/// Waits until these are the outcomes in the namespace, each `policy outcome message`.
async fn until(kaudit: &Running, namespace: &str, wanted: &[&str]) {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    wait_for(&format!("{wanted:?}"), || async {
        let results = results_in(&kaudit.status(), namespace);
        let mut found: Vec<_> =
            results.iter().map(|one| ["policy", "result", "message"].map(|field| text(one, field)).join(" ")).collect();
        found.sort();
        (found == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_and_exception_changes_during_startup_are_loaded() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("sources").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "bad"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "bad", &format!("{namespace}=yes")]).await.unwrap();
    let directory =
        policies(&[("a.rego", &rule("a", "old %v", &namespace)), ("b.rego", &rule("b", "b %v", &namespace))]);
    let files = tempfile::tempdir().unwrap();
    let exceptions = files.path().join("exceptions.yaml");
    write_exceptions(&exceptions, &["a"]);

    // The address is logged before the first request to the cluster.
    let proxy = Proxy::start(plane, |request| if request.uri.path() == "/apis" { Act::Hold } else { Act::Pass }).await;
    let (path, excepting) = (directory.path().to_str().unwrap(), exceptions.to_str().unwrap());
    let arguments = ["-p", path, "--exceptions", excepting, "-n", &namespace, "--record=none"];
    let live = Running::launch(kaudit(proxy.kubeconfig(), &[]), &arguments).await;
    wait_for("the policies to be loaded", || async { live.log().contains("Policies loaded").then_some(()) }).await;
    std::fs::write(directory.path().join("a.rego"), rule("a", "new %v", &namespace)).unwrap();
    write_exceptions(&exceptions, &["b"]);
    proxy.release();
    live.ready().await;
    until(&live, &namespace, &["a fail new yes", "b skip b yes"]).await;

    // A rule and its exception are added, in both orders.
    write_exceptions(&exceptions, &["b", "c"]);
    std::fs::write(directory.path().join("c.rego"), rule("c", "c %v", &namespace)).unwrap();
    until(&live, &namespace, &["a fail new yes", "b skip b yes", "c skip c yes"]).await;
    write_exceptions(&exceptions, &["c", "d"]);
    until(&live, &namespace, &["a fail new yes", "b fail b yes", "c skip c yes"]).await;
    let state = |name: &str| {
        let known = live.status()["exceptions"].as_array().unwrap().iter().find(|one| one["name"] == name).cloned();
        known.map(|known| known["state"].as_str().unwrap().to_owned())
    };
    assert_eq!(state("of-d").as_deref(), Some("invalid"));
    std::fs::write(directory.path().join("d.rego"), rule("d", "d %v", &namespace)).unwrap();
    until(&live, &namespace, &["a fail new yes", "b fail b yes", "c skip c yes", "d skip d yes"]).await;

    // An invalid file is named, and leaves the previous exceptions in force.
    std::fs::write(&exceptions, "kind: [").unwrap();
    wait_for("the file to be named", || async { state("--exceptions").filter(|state| state == "invalid") }).await;
    let invalid = || async { live.metric(r#"kaudit_exceptions{state="invalid"}"#).filter(|count| *count == 1) };
    wait_for("the file to be counted", invalid).await;
    until(&live, &namespace, &["a fail new yes", "b fail b yes", "c skip c yes", "d skip d yes"]).await;
    write_exceptions(&exceptions, &["a"]);
    until(&live, &namespace, &["a skip new yes", "b fail b yes", "c fail c yes", "d fail d yes"]).await;
    assert_eq!(state("--exceptions"), None);
    assert_eq!(live.stop().await, Some(0));
}
