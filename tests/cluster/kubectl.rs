//! User-visible objects: Events, the `Audit` and its conditions, all through kubectl.

use std::path::Path;

use kaudit_controlplane::{ControlPlane, User, require, shared};
use serde_json::Value;

use crate::support::{Running, bare_plane, denies_marked, establish_audits, policies, results_in, wait_for};

/// Creates a cluster admin whose namespace is `namespace`, so that kaudit's own objects are there and not in `default`.
pub(crate) async fn operator(plane: &ControlPlane, namespace: &str) -> User {
    let account = format!("--serviceaccount={namespace}:kaudit");
    plane.kubectl(&["create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin", &account]).await.unwrap();
    plane.service_account(namespace, "kaudit").await.unwrap()
}

async fn condition(plane: &ControlPlane, namespace: &str, kind: &str) -> Option<Value> {
    let audit = plane.kubectl(&["-n", namespace, "get", "audit", "kaudit", "-o", "json"]).await.ok()?;
    let audit: Value = serde_json::from_str(&audit).unwrap();
    audit["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
}

pub(crate) async fn until_condition(plane: &ControlPlane, namespace: &str, kind: &str, status: &str) -> Value {
    let found = || async { condition(plane, namespace, kind).await.filter(|found| found["status"] == status) };
    wait_for(&format!("{kind} to be {status}"), found).await
}

/// Returns the cells of a table's first row, by column name.
fn row(table: &str) -> Vec<(String, String)> {
    let mut lines = table.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(head.len(), row.len(), "{table}");
    head.into_iter().zip(row).collect()
}

#[tokio::test]
async fn violations_show_in_get_events_describe_and_get_audits() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("people").await.unwrap();
    let user = operator(plane, &namespace).await;
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let kaudit = Running::start(user.kubeconfig_path(), &["--policies", directory.path().to_str().unwrap()]).await;
    let kubectl = async |arguments: &[&str]| plane.kubectl(&[&["-n", &namespace], arguments].concat()).await;
    let there = || async { kubectl(&["get", "audit/kaudit"]).await.ok() };
    wait_for("the Audit", there).await;
    kubectl(&["wait", "--for=condition=Synced", "audit/kaudit", "--timeout=60s"]).await.unwrap();

    kubectl(&["create", "configmap", "with.dots.in-it"]).await.unwrap();
    kubectl(&["label", "configmap", "with.dots.in-it", &format!("{namespace}=yes")]).await.unwrap();
    let events = || async {
        let events = kubectl(&["get", "events"]).await.unwrap();
        events.lines().find(|line| line.contains("PolicyViolation")).map(str::to_owned)
    };
    let event = wait_for("the Event", events).await;
    for part in ["Warning", "configmap/with.dots.in-it", "marked/deny: marked yes"] {
        assert!(event.contains(part), "no {part:?} in {event}");
    }
    let described = kubectl(&["describe", "configmap", "with.dots.in-it"]).await.unwrap();
    assert!(described.contains("PolicyViolation"), "{described}");
    let event = kubectl(&["get", "events.events.k8s.io", "-o", "json"]).await.unwrap();
    let event = &serde_json::from_str::<Value>(&event).unwrap()["items"][0];
    let object = kubectl(&["get", "configmap", "with.dots.in-it", "-o", "json"]).await.unwrap();
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(
        event["regarding"],
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace,
            "name": "with.dots.in-it", "uid": object["metadata"]["uid"]})
    );
    assert_eq!(
        (&event["action"], &event["reportingController"]),
        (&Value::from("Audit"), &Value::from("kaudit")),
        "{event}"
    );

    let counted = || async {
        let audits = kubectl(&["get", "audits"]).await.unwrap();
        let row = row(&audits);
        row.iter().any(|(column, cell)| column == "FAIL" && cell == "1").then_some(row)
    };
    let row = wait_for("the count in the status", counted).await;
    let columns: Vec<_> = row.iter().map(|(column, _)| column.as_str()).collect();
    assert_eq!(columns, ["NAME", "COMPLETE", "POLICIES", "CRITICAL", "HIGH", "FAIL", "WARN", "EXCUSED", "AGE"]);
    let cells: Vec<_> = row[1..8].iter().map(|(_, cell)| cell.as_str()).collect();
    assert_eq!(cells, ["True", "1", "0", "0", "1", "0", "0"]);
    for (kind, reason) in
        [("Synced", "GateOpen"), ("PoliciesLoaded", "Loaded"), ("Complete", "AllRead"), ("Recording", "Recording")]
    {
        let condition = until_condition(plane, &namespace, kind, "True").await;
        assert_eq!(condition["reason"], reason, "{condition}");
    }
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn events_about_cluster_scoped_objects_are_in_default() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mark = plane.temp_namespace("wide").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&mark))]);
    // The name of the Audit identifies the writer of these Events.
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--record=events", "--audit-name", &mark];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let name = format!("system:{mark}:Some_Role");
    plane.kubectl(&["create", "clusterrole", &name, "--verb=get", "--resource=pods"]).await.unwrap();
    plane.kubectl(&["label", "clusterrole", &name, &format!("{mark}=yes")]).await.unwrap();
    let selector = format!("involvedObject.name={name}");
    let events = ["-n", "default", "get", "events", "-o", "json", "--field-selector", &selector];
    let event = || async {
        let events: Value = serde_json::from_str(&plane.kubectl(&events).await.unwrap()).unwrap();
        events["items"].get(0).cloned()
    };
    let event = wait_for("the Event", event).await;
    assert_eq!(event["reason"], "PolicyViolation");
    let about = &event["involvedObject"];
    assert_eq!((&about["kind"], about.get("namespace")), (&Value::from("ClusterRole"), None), "{event}");
    let failed = kaudit.metric(r#"kaudit_recorder_drops_total{recorder="events",reason="invalid"}"#);
    assert_eq!(failed, None);
    plane.kubectl(&["delete", "clusterrole", &name]).await.unwrap();
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Rights to read and to write the status, but not Events.
fn mute(namespace: &str) -> String {
    format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: mute, namespace: {namespace}}}
rules:
  - {{apiGroups: ["*"], resources: ["*"], verbs: [list, watch]}}
  - {{apiGroups: [kaudit.dev], resources: [audits, audits/status], verbs: [create, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: mute, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: mute}}
subjects: [{{kind: ServiceAccount, name: kaudit, namespace: {namespace}}}]
"#
    )
}

#[tokio::test]
async fn refused_events_set_the_condition_recording_until_written() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("mute").await.unwrap();
    plane.apply(&mute(&namespace)).await.unwrap();
    let user = plane.service_account(&namespace, "kaudit").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments = ["--policies", directory.path().to_str().unwrap(), "--namespace", &namespace];
    let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
    kaudit.ready().await;
    until_condition(plane, &namespace, "Recording", "True").await;
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}=yes")]).await.unwrap();
    let condition = until_condition(plane, &namespace, "Recording", "False").await;
    assert_eq!(condition["reason"], "WritesFail");
    assert!(condition["message"].as_str().unwrap().contains("events.events.k8s.io is forbidden"), "{condition}");
    let attempts = kaudit.metric(r#"kaudit_recorder_retries_total{recorder="events"}"#);
    assert_eq!((attempts, kaudit.metric("kaudit_events_pending")), (Some(1), Some(1)));
    assert_eq!(results_in(&kaudit.status(), &namespace).len(), 1, "judged all the same");

    plane
        .kubectl(&["-n", &namespace, "create", "role", "tell", "--verb=create", "--resource=events.events.k8s.io"])
        .await
        .unwrap();
    let binding = ["-n", &namespace, "create", "rolebinding", "tell", "--role=tell"];
    plane.kubectl(&[&binding[..], &[&format!("--serviceaccount={namespace}:kaudit")]].concat()).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}-")]).await.unwrap();
    until_condition(plane, &namespace, "Recording", "True").await;
    // No Event is lost.
    let reasons = ["-n", &namespace, "get", "events", "--sort-by=.eventTime", "-o", "jsonpath={.items[*].reason}"];
    let recorded =
        || async { (plane.kubectl(&reasons).await.unwrap() == "PolicyViolation PolicyResolved").then_some(()) };
    wait_for("both Events", recorded).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Replaces the policy as the kubelet updates a mounted ConfigMap: with a new directory and one rename.
fn swap(directory: &Path, version: &str, policy: &str) {
    let symlink = |to: &str, from: &str| std::os::unix::fs::symlink(to, directory.join(from)).unwrap();
    std::fs::create_dir(directory.join(version)).unwrap();
    std::fs::write(directory.join(version).join("marked.rego"), policy).unwrap();
    symlink(version, "..data_tmp");
    std::fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    if !directory.join("marked.rego").exists() {
        symlink("..data/marked.rego", "marked.rego");
    }
}

#[tokio::test]
async fn policies_are_reloaded_and_broken_ones_leave_the_last_valid_in_force() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("reload").await.unwrap();
    let user = operator(plane, &namespace).await;
    let directory = policies(&[]);
    swap(directory.path(), "..1", &denies_marked(&namespace));
    let kaudit = Running::start(user.kubeconfig_path(), &["--policies", directory.path().to_str().unwrap()]).await;
    kaudit.ready().await;
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}=yes")]).await.unwrap();
    let until_open = async |message: &str| {
        let found = || async {
            let results = results_in(&kaudit.status(), &namespace);
            (results.len() == 1 && results[0]["message"] == message).then_some(())
        };
        wait_for(message, found).await;
    };
    let message = async |message: &str| {
        until_open(message).await;
        // A violation that is resolved before its Event is written has none.
        let notes = ["-n", &namespace, "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].note}"];
        let recorded = || async { plane.kubectl(&notes).await.unwrap().contains(message).then_some(()) };
        wait_for(&format!("an Event of {message}"), recorded).await;
    };
    message("marked yes").await;
    until_condition(plane, &namespace, "PoliciesLoaded", "True").await;

    swap(directory.path(), "..2", &denies_marked(&namespace).replace("marked %v", "now %v"));
    until_open("now yes").await;
    swap(directory.path(), "..3", "package marked\ndeny contains msg if {");
    let condition = until_condition(plane, &namespace, "PoliciesLoaded", "False").await;
    assert_eq!(condition["reason"], "LoadFailed");
    assert!(condition["message"].as_str().unwrap().contains("marked.rego:2"), "{condition}");
    let failures = kaudit.metric(r#"kaudit_policy_reloads_total{result="failure"}"#);
    assert_eq!(failures, Some(1));
    plane
        .kubectl(&["-n", &namespace, "label", "configmap", "one", "--overwrite", &format!("{namespace}=still")])
        .await
        .unwrap();
    message("now still").await;

    swap(directory.path(), "..4", &denies_marked(&namespace).replace("marked %v", "again %v"));
    until_open("again still").await;
    until_condition(plane, &namespace, "PoliciesLoaded", "True").await;
    // A plain edit of a file works as well.
    let file = directory.path().join("..4/marked.rego");
    std::fs::write(file, denies_marked(&namespace).replace("marked %v", "edited %v")).unwrap();
    until_open("edited still").await;
    // One Event for each violation and one for the resolution of the first, and none for a changed message or the
    // broken policy.
    let reasons = ["-n", &namespace, "get", "events", "-o", "jsonpath={.items[*].reason}"];
    let recorded = || async {
        let reasons = plane.kubectl(&reasons).await.unwrap();
        let count = |reason| reasons.split(' ').filter(|other| *other == reason).count();
        (count("PolicyViolation") >= 2 && count("PolicyResolved") >= 1).then_some(count("PolicyViolation"))
    };
    assert_eq!(wait_for("Events of violations and of an end", recorded).await, 2);
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(recorded().await, Some(2), "what was pending is written");
}

#[tokio::test]
async fn without_the_crd_kaudit_continues_and_warns_once() {
    if !require() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("bare").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let user = operator(&plane, &namespace).await;
    let kaudit = Running::start(user.kubeconfig_path(), &["--policies", directory.path().to_str().unwrap()]).await;
    kaudit.ready().await;
    let dropped = || async { kaudit.metric(r#"kaudit_recorder_drops_total{recorder="status",reason="not_found"}"#) };
    wait_for("the status to be in vain", dropped).await;
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}=yes")]).await.unwrap();
    let recorded = || async {
        let events = plane.kubectl(&["-n", &namespace, "get", "events"]).await.unwrap();
        events.contains("PolicyViolation").then_some(())
    };
    wait_for("the Event", recorded).await;

    // The Audit is written as soon as possible, without a restart.
    establish_audits(&plane).await;
    until_condition(&plane, &namespace, "Synced", "True").await;
    let log = kaudit.log();
    assert_eq!(log.matches("No status is written").count(), 1, "{log}");
    assert!(!log.contains(r#""level":"WARN""#), "{log}");
    assert_eq!(kaudit.stop().await, Some(0));
    plane.kubectl(&["delete", "crd", "audits.kaudit.dev"]).await.unwrap();
}
