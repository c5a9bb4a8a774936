//! The lifecycle of one object: seen, evaluated, recorded, fixed, deleted.

use std::sync::Mutex;

use serde_json::Value;

use crate::{
    program::Program,
    support::{PATIENCE, Running, denies_marked, kaudit, policies, results_in, run, wait_for},
};

/// Denies every ConfigMap labelled `bad`, with the label's value in the message.
pub(crate) const BAD_LABEL: &str = r#"
package demo
deny contains msg if {
    input.kind == "ConfigMap"
    value := input.metadata.labels.bad
    msg := sprintf("label bad is %v", [value])
}
"#;

#[tokio::test]
async fn a_violation_appears_and_is_resolved_once() {
    if !kaudit_controlplane::require() {
        return;
    }
    let plane = kaudit_controlplane::shared().await;
    let namespace = plane.temp_namespace("walk").await.unwrap();
    let directory = policies(&[("demo.rego", BAD_LABEL)]);
    let paths = ["--policies", directory.path().to_str().unwrap()];
    // The name of the Audit identifies the writer of these Events.
    let recording = [paths[0], paths[1], "--record=events", "--audit-name", &namespace];
    let kaudit = Running::start(&plane.kubeconfig(), &recording).await;
    kaudit.ready().await;

    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", "bad=yes"]).await.unwrap();
    wait_for("the violation", || async { (results_in(&kaudit.status(), &namespace).len() == 1).then_some(()) }).await;
    let events = async |number: usize| {
        let list = plane.kubectl(&["-n", &namespace, "get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let mut reasons: Vec<String> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect();
        reasons.sort();
        (reasons.len() == number).then_some(reasons)
    };
    // A violation that is resolved before its Event is written has none.
    assert_eq!(wait_for("an Event", || events(1)).await, ["PolicyViolation"]);
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", "bad-"]).await.unwrap();
    wait_for("its end", || async { results_in(&kaudit.status(), &namespace).is_empty().then_some(()) }).await;
    assert_eq!(wait_for("two Events", || events(2)).await, ["PolicyResolved", "PolicyViolation"]);

    let once = run(&plane.kubeconfig(), &["check", "--once", "-o", "json", paths[0], paths[1], "-n", &namespace]).await;
    assert_eq!(once.code, Some(0), "{once:?}");
    assert!(results_in(&once.json(), &namespace).is_empty(), "{PATIENCE:?}");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outside_a_pod_the_long_run_records_nothing_by_default() {
    if !kaudit_controlplane::require() {
        return;
    }
    let plane = kaudit_controlplane::shared().await;
    let namespace = plane.temp_namespace("trial").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}=yes")]).await.unwrap();
    // Other tests record results in every namespace.
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let policies = directory.path().to_str().unwrap();
    let lines = |more: &[&str], last: &str| {
        let log = Mutex::new(String::new());
        let run = ["check", "--log-format=json", "-n", &namespace, "-p", policies, "--audit-name", &namespace];
        // Its standard input is a pipe.
        let (program, ()) = Program::start(&mut kaudit(&plane.kubeconfig(), &[&run[..], more].concat()), |line| {
            log.lock().unwrap().push_str(line);
            line.contains(last).then_some(())
        });
        (program, log.into_inner().unwrap())
    };
    let (program, log) = lines(&[], "marked yes");
    assert!(log.contains("Recording nothing in the cluster; to record: --record events,reports,status"), "{log}");
    assert!(log.contains("Standard input is a pipe") && log.contains("use -f - to check manifests"), "{log}");
    drop(program);
    let written = plane.kubectl(&["-n", &namespace, "get", "events", "-o", "name"]).await.unwrap();
    assert_eq!(written, "");

    let (_program, log) = lines(&["--record=events,status"], "marked yes");
    let message = format!("Recording Events, the status of PolicyExceptions and the Audit default/{namespace}");
    assert!(log.contains(&message) && !log.contains("Recording nothing"), "{log}");
}

#[tokio::test]
async fn an_empty_directory_is_enough_for_a_verdict() {
    if !kaudit_controlplane::require() {
        return;
    }
    let plane = kaudit_controlplane::shared().await;
    let namespace = plane.temp_namespace("nothing").await.unwrap();
    let service = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: open, namespace: {namespace}}}\nspec: {{externalIPs: [192.0.2.1], ports: [{{port: 80}}]}}\n"
    );
    plane.apply(&service).await.unwrap();
    let mut command = kaudit(&plane.kubeconfig(), &["check", "--once", "-o", "json", "-n", &namespace]);
    let empty = tempfile::tempdir().unwrap();
    let ended = tokio::task::spawn_blocking(move || command.current_dir(empty.path()).output().unwrap()).await.unwrap();
    let audit: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let found = results_in(&audit, &namespace);
    let external = found.iter().find(|result| result["rule"] == "deny_external_ips").unwrap();
    assert_eq!(external["source"]["file"], "builtin/services.rego");
    assert_eq!(ended.status.code(), Some(1));
    let message = String::from_utf8(ended.stderr).unwrap();
    assert!(
        message.starts_with("note: checking with the builtin library") && message.lines().count() == 1,
        "{message}"
    );
}
