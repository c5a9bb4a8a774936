//! Values of Secrets in a cluster are never written: all of kaudit's output is searched for them.

use std::{fs, path::Path};

use clap::ValueEnum as _;
use data_encoding::BASE64;
use kaudit::output::Format;
use kaudit_controlplane::{ControlPlane, require, shared};
use kaudit_test_support::secrets::leak;
use serde_json::json;

use crate::support::{Running, establish_audits, kaudit, policies, until_violations, wait_for};

/// Reports everything it can read of a Secret in every way, and all Secrets in the results of a ConfigMap.
const TELLTALE: &str = r#"package telltale

own if input.metadata.namespace == "NAMESPACE"

secret if {
	own
	input.kind == "Secret"
}

deny_message contains sprintf("%v", [input]) if secret

warn_details contains {"msg": "details", "details": {"all": input}} if {
	secret
	print(input)
}

deny_conflict contains x if {
	secret
	x := conflict
}

conflict := input

conflict := 1

deny_others contains {"msg": "others", "details": {"all": data.kubernetes.secrets.NAMESPACE}} if {
	own
	input.kind == "ConfigMap"
	input.metadata.name == "looks"
}

deny_inventory contains json.marshal(data.inventory.namespace.NAMESPACE["v1"].Secret) if {
	own
	input.kind == "ConfigMap"
	input.metadata.name == "looks"
}
"#;

const TRANSITIONS: &str = r#"package transitions

deny contains sprintf("%v: %v -> %v", [input.request.operation, input.request.oldObject, input.request.object]) if {
	input.request.kind.kind == "Secret"
	input.request.namespace == "NAMESPACE"
}
"#;

const TEMPLATE: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: tellall}
spec:
  crd: {spec: {names: {kind: TellAll}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package tellall
      violation[{"msg": msg, "details": {"review": input.review}}] { msg := sprintf("%v", [input]) }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: TellAll
metadata: {name: secrets}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Secret]}], namespaces: [NAMESPACE]}}
"#;

fn assert_clean(what: &str, text: &str, canary: &str) {
    assert_eq!(leak(text, canary), None, "{what}");
}

/// Creates Secrets as users create them, with the canary in each.
async fn plant(plane: &ControlPlane, namespace: &str, canary: &str) {
    let encoded = BASE64.encode(canary.as_bytes());
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "annotations": {
                "kapp.k14s.io/original": json!({"data": {"password": encoded}}).to_string(),
            }},
            "data": {"password": encoded, format!("key-{name}"): encoded}, "stringData": {"text": canary},
        })
    };
    plane.apply(&secret("applied").to_string()).await.unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [secret("listed"), secret("other")]});
    // kubectl adds last-applied annotations with all values.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list.json");
    fs::write(&file, list.to_string()).unwrap();
    plane.kubectl(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
    let annotations = ["-n", namespace, "get", "secret", "listed", "-o", "jsonpath={.metadata.annotations}"];
    let annotations = plane.kubectl(&annotations).await.unwrap();
    assert!(annotations.contains("last-applied") && annotations.contains(canary), "{annotations}");
}

/// Runs once with every format; returns all output.
async fn once(plane: &ControlPlane, folder: &Path, arguments: &[&str]) -> String {
    let names = Format::value_variants().iter().map(|format| format.name());
    let files: Vec<_> = names.map(|name| (name, folder.join(name))).collect();
    let outputs: Vec<String> = files.iter().map(|(name, file)| format!("-o={name}={}", file.display())).collect();
    let mut command = kaudit(&plane.kubeconfig(), &["check", "--once", "--log-level=trace", "-o=json"]);
    command.args(&outputs).args(arguments);
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let mut all = String::from_utf8(ended.stdout).unwrap() + &String::from_utf8(ended.stderr).unwrap();
    for (_, file) in &files {
        all.push_str(&fs::read_to_string(file).unwrap());
    }
    all
}

#[tokio::test]
async fn values_of_secrets_in_a_cluster_never_leak() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("canaries").await.unwrap();
    let canary = format!("Canary-{:016x}", fastrand::u64(..));
    let own = |text: &str| {
        text.replace("NAMESPACE", &namespace).replace(&format!(".{namespace}"), &format!("[\"{namespace}\"]"))
    };
    let directory = policies(&[
        ("telltale.rego", &own(TELLTALE)),
        ("transitions.rego", &own(TRANSITIONS)),
        ("template.yaml", &TEMPLATE.replace("NAMESPACE", &namespace)),
    ]);
    let output = tempfile::tempdir().unwrap();
    let streams = ["text", "ndjson"].map(|format| format!("-o={format}={}", output.path().join(format).display()));
    let scope = ["--policies", directory.path().to_str().unwrap(), "--namespace", &namespace];
    let watching = ["--log-level=trace", &streams[0], &streams[1]];
    plane.kubectl(&["-n", &namespace, "create", "configmap", "looks"]).await.unwrap();
    plant(plane, &namespace, &canary).await;
    let kaudit = Running::start(&plane.kubeconfig(), &[&scope[..], &watching].concat()).await;
    kaudit.ready().await;
    // For each of three Secrets: message, details, conflict, the review and the Constraint; for the ConfigMap two.
    until_violations(&kaudit, &namespace, 3 * 5 + 2).await;
    // Changes with new values, and a deletion.
    let second = format!("{canary}-second");
    plant(plane, &namespace, &second).await;
    plane.kubectl(&["-n", &namespace, "delete", "secret", "applied"]).await.unwrap();
    until_violations(&kaudit, &namespace, 2 * 5 + 2).await;
    let deleted = || async { kaudit_says(output.path(), "DELETE").then_some(()) };
    wait_for("the record of the deleted Secret", deleted).await;
    let events = || async {
        let events = plane.kubectl(&["-n", &namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
        events.contains("PolicyResolved").then_some(events)
    };
    let events = wait_for("Events", events).await;
    assert!(events.contains("key-listed"), "names of keys are recorded: {events}");
    for path in ["/status", "/metrics", "/policies", "/readyz", "/livez"] {
        assert_clean(path, &kaudit.get(path).unwrap(), &canary);
    }
    assert!(kaudit.get("/status").unwrap().contains("key-listed"));
    let log = kaudit.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "the log says much: {log}");
    assert_eq!(kaudit.stop().await, Some(0));
    assert_clean("the log", &log, &canary);
    for format in ["text", "ndjson"] {
        let written = fs::read_to_string(output.path().join(format)).unwrap();
        assert!(written.contains("key-listed"), "{written}");
        assert_clean(format, &written, &canary);
    }
    // Everything written to the cluster.
    let events = plane.kubectl(&["-n", &namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
    assert_clean("the Events", &events, &canary);
    let audits = plane.kubectl(&["get", "audits", "-A", "-o", "json"]).await.unwrap();
    assert_clean("the Audits", &audits, &canary);

    let all = once(plane, output.path(), &scope).await;
    assert!(all.contains("key-listed"));
    assert_clean("a single run", &all, &canary);
    // The search finds values if they are present.
    let full = once(plane, output.path(), &[&scope[..], &["--secrets=full"]].concat()).await;
    assert!(leak(&full, &canary).is_some());
}

/// Whether the stream of results contains a text.
fn kaudit_says(output: &Path, text: &str) -> bool {
    fs::read_to_string(output.join("ndjson")).is_ok_and(|written| written.contains(text))
}
