//! Policy Reporter shows kaudit's reports.
//!
//! `KAUDIT_TEST_POLICY_REPORTER` is the path of its program, version 3.9 or newer; without it, nothing is run. It has no
//! option for the address it listens at, only for the port, so its API requires a password here.

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::Command,
};

use data_encoding::BASE64;
use kaudit_controlplane::{ControlPlane, User, require};
use kaudit_test_support::long_run::ask;
use serde_json::{Value, json};

use super::{NAMES, list, plane, results};
use crate::{
    program::Program,
    support::{Running, policies, wait_for},
};

/// The permissions that its chart grants for reports.
const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME}
rules:
  - {apiGroups: [openreports.io], resources: [reports, clusterreports], verbs: [get, list, watch]}
  - {apiGroups: [wgpolicyk8s.io], resources: [policyreports, clusterpolicyreports], verbs: [get, list, watch]}
  - {apiGroups: [""], resources: [namespaces], verbs: [list]}
"#;

/// A policy with everything that a report may contain of a rule.
const SHOWN: &str = r#"# METADATA
# scope: package
# custom:
#   category: Labels
package POLICY

# METADATA
# title: Objects are not marked
# custom:
#   id: SHOWN-01
#   severity: high
deny_marked contains result if {
    value := input.metadata.labels["MARK"]
    value in {"deny", "excused"}
    result := {"msg": sprintf("marked %v", [value]), "details": {"field": "metadata.labels"}}
}

warn contains "marked to be warned of" if input.metadata.labels["MARK"] == "warn"
"#;

/// A running Policy Reporter. It ends with the test.
struct PolicyReporter {
    _program: Program,
    address: SocketAddr,
    headers: String,
    /// Its configuration and database.
    _folder: tempfile::TempDir,
}

impl PolicyReporter {
    /// Starts the program as a user.
    fn start(program: &PathBuf, user: &User) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The port is free until something else takes it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let password = format!("{:016x}", fastrand::u64(..));
        let settings = json!({"api": {"basicAuth": {"username": "kaudit", "password": password}}});
        let config = folder.path().join("config.yaml");
        fs::write(&config, settings.to_string()).unwrap();
        let mut command = Command::new(program);
        command.current_dir(folder.path()).env_clear().args(["run", "--rest-enabled"]);
        command.arg("--kubeconfig").arg(user.kubeconfig_path()).arg("--config").arg(config);
        command.arg("--dbfile").arg(folder.path().join("results.db")).arg(format!("--port={}", address.port()));
        let (program, ()) = Program::start(&mut command, |line| line.contains("REST api enabled").then_some(()));
        let credentials = BASE64.encode(format!("kaudit:{password}").as_bytes());
        let headers = format!("Host: localhost\r\nAuthorization: Basic {credentials}");
        Self { _program: program, address, headers, _folder: folder }
    }

    /// Gets a path of its API; nothing before it listens.
    fn get(&self, path: &str) -> Option<Value> {
        let (head, body) = ask(self.address, path, &self.headers)?;
        assert!(head.contains(" 200 "), "{path}: {head}\n{body}");
        Some(serde_json::from_str(&body).unwrap())
    }

    /// Returns the results of a policy by their ids.
    fn shown(&self, policy: &str) -> BTreeMap<String, Value> {
        let of_scope = |scope: &str| {
            let answer = self.get(&format!("/v2/{scope}/results?policies={policy}")).unwrap_or_default();
            answer["items"].as_array().cloned().unwrap_or_default()
        };
        let all = ["namespace-scoped", "cluster-scoped"].into_iter().flat_map(of_scope);
        all.map(|mut result| {
            result.as_object_mut().unwrap().remove("resourceId");
            (result["id"].as_str().unwrap().to_owned(), result)
        })
        .collect()
    }

    /// Waits until it shows the results of a policy that are in the reports, and no others.
    async fn until_current(&self, plane: &ControlPlane, policy: &str, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} results of Policy Reporter"), || async {
            let expected = expected(plane, policy).await;
            let shown = self.shown(policy);
            (expected.len() == count && shown == expected).then(|| shown.into_values().collect())
        })
        .await
    }
}

/// Returns the results of a policy in the reports of the cluster as Policy Reporter shows them, by their ids.
async fn expected(plane: &ControlPlane, policy: &str) -> BTreeMap<String, Value> {
    let reports = [list(plane, NAMES[0][0]).await, list(plane, NAMES[0][1]).await].concat();
    let mut expected = BTreeMap::new();
    for report in &reports {
        for (id, result) in results(std::slice::from_ref(report)) {
            if result["policy"] == policy {
                let resource = result["resources"].get(0).unwrap_or(&report["scope"]);
                expected.insert(id.clone(), as_shown(&id, resource, &result));
            }
        }
    }
    expected
}

/// Returns a result of a report as Policy Reporter shows it, without its own id of the resource.
fn as_shown(id: &str, resource: &Value, result: &Value) -> Value {
    let mut shown = json!({
        "id": id, "kind": resource["kind"], "apiVersion": resource["apiVersion"], "name": resource["name"],
        "message": result["message"], "category": result["category"], "policy": result["policy"], "rule": result["rule"],
        "status": result["result"], "source": "kaudit", "timestamp": result["timestamp"]["seconds"],
        "properties": result["properties"],
    });
    for (name, value) in [("namespace", &resource["namespace"]), ("severity", &result["severity"])] {
        if !value.is_null() {
            shown[name] = value.clone();
        }
    }
    shown
}

/// Creates the user that Policy Reporter runs as.
async fn user(plane: &ControlPlane) -> User {
    let name = plane.temp_namespace("policy-reporter").await.unwrap();
    plane.apply(&RIGHTS.replace("NAME", &name)).await.unwrap();
    let (role, account) = (format!("--clusterrole={name}"), format!("--serviceaccount={name}:policy-reporter"));
    plane.kubectl(&["create", "clusterrolebinding", &name, &role, &account]).await.unwrap();
    plane.service_account(&name, "policy-reporter").await.unwrap()
}

/// Creates objects with three results in a namespace and one of a cluster-scoped object, named like the namespace.
async fn create_objects(plane: &ControlPlane, namespace: &str) {
    let config_map = |value: &str| {
        let metadata = json!({"namespace": namespace, "name": value, "labels": {namespace: value}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
    };
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
        "metadata": {"name": namespace, "labels": {namespace: "deny"}}});
    let objects = [config_map("deny"), config_map("warn"), config_map("excused"), role.to_string()];
    plane.apply(&objects.join("\n---\n")).await.unwrap();
}

/// Asserts what Policy Reporter shows of the results of [`create_objects`].
fn assert_shown(shown: &[Value], namespace: &str) {
    let of =
        |kind: &str, name: &str| shown.iter().find(|result| result["kind"] == kind && result["name"] == name).unwrap();
    let fields = |result: &Value| {
        let fields = ["status", "severity", "category", "rule", "source", "message", "namespace"];
        fields.map(|field| result[field].as_str().unwrap_or_default().to_owned())
    };
    let denied = of("ConfigMap", "deny");
    let expected = ["fail", "high", "Labels", "deny_marked", "kaudit", "marked deny", namespace];
    assert_eq!(fields(denied), expected);
    let properties = &denied["properties"];
    assert_eq!(properties["title"], "Objects are not marked");
    assert_eq!((&properties["ruleId"], &properties["field"]), (&json!("SHOWN-01"), &json!("metadata.labels")));
    assert_eq!(properties["resultID"], denied["id"]);
    let warned = ["warn", "", "Labels", "warn", "kaudit", "marked to be warned of", namespace];
    assert_eq!(fields(of("ConfigMap", "warn")), warned);
    let excused = of("ConfigMap", "excused");
    assert_eq!((&excused["status"], &excused["properties"]["reason"]), (&json!("skip"), &json!("it is replaced")));
    let of_role = ["fail", "high", "Labels", "deny_marked", "kaudit", "marked deny", ""];
    assert_eq!(fields(of("ClusterRole", namespace)), of_role);
}

/// Asserts that Policy Reporter shows new results, and then no longer shows the resolved ones.
async fn assert_follows(plane: &ControlPlane, reporter: &PolicyReporter, layout: &str) {
    let namespace = plane.temp_namespace("shown").await.unwrap();
    let policy = format!("shown_{layout}");
    create_objects(plane, &namespace).await;
    let directory = policies(&[("shown.rego", &SHOWN.replace("POLICY", &policy).replace("MARK", &namespace))]);
    let exception = json!({
        "apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException",
        "metadata": {"name": "legacy", "namespace": namespace},
        "spec": {"policies": [{"name": policy}], "match": {"names": ["excused"]}, "reason": "it is replaced",
                 "expiresAt": "2099-01-01T00:00:00Z"},
    });
    let exceptions = directory.path().join("exceptions.yaml");
    fs::write(&exceptions, exception.to_string()).unwrap();
    let file = directory.path().join("shown.rego");
    let arguments = [
        ["--policies", file.to_str().unwrap()],
        ["--exceptions", exceptions.to_str().unwrap()],
        ["--report-layout", layout],
        ["--record=reports", "--report-api=openreports"],
    ];
    let kaudit = Running::start(&plane.kubeconfig(), arguments.as_flattened()).await;
    assert_shown(&reporter.until_current(plane, &policy, 4).await, &namespace);
    let counts = reporter.get("/v2/namespace-scoped/kaudit/status-counts").unwrap();
    assert_eq!(counts[&namespace], json!({"pass": 0, "fail": 1, "warn": 1, "error": 0, "skip": 1}), "{layout}");

    plane.kubectl(&["delete", "clusterrole", &namespace]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "deny", "excused"]).await.unwrap();
    let left = reporter.until_current(plane, &policy, 1).await;
    assert_eq!(left[0]["name"], "warn", "{left:?}");
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "warn"]).await.unwrap();
    reporter.until_current(plane, &policy, 0).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

/// Asserts that Policy Reporter shows all results while a namespace grows beyond the size of a report, if each resource
/// has a report of its own. It loses results that move from one report to another, until it reads all reports again.
async fn assert_complete_while_a_namespace_grows(plane: &ControlPlane, reporter: &PolicyReporter) {
    let namespace = plane.temp_namespace("grows").await.unwrap();
    let directory = policies(&[("shown.rego", &SHOWN.replace("POLICY", "grows").replace("MARK", &namespace))]);
    let path = directory.path().to_str().unwrap();
    let arguments = ["--policies", path, "--report-layout=resource", "--record=reports", "--report-api=openreports"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    for count in [20, 130] {
        let object = |number: usize| {
            let metadata = json!({"namespace": namespace, "name": format!("object-{number}"),
                "labels": {&namespace: "deny"}});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
        };
        plane.apply(&(0..count).map(object).collect::<Vec<_>>().join("\n---\n")).await.unwrap();
        reporter.until_current(plane, "grows", count).await;
    }
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "--all", "--wait=false"]).await.unwrap();
    reporter.until_current(plane, "grows", 0).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_reporter_shows_each_result_with_all_fields() {
    let Some(program) = std::env::var_os("KAUDIT_TEST_POLICY_REPORTER").map(PathBuf::from) else { return };
    if !require() {
        return;
    }
    let plane = plane().await;
    let user = user(&plane).await;
    let reporter = PolicyReporter::start(&program, &user);
    for layout in ["namespace", "resource"] {
        assert_follows(&plane, &reporter, layout).await;
    }
    assert_complete_while_a_namespace_grows(&plane, &reporter).await;
}
