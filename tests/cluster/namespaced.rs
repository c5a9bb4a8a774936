//! A team with rights in its own namespace only.

use kaudit_controlplane::{AuditRecord, require, shared};

use crate::support::{Running, denies_marked, establish_audits, policies, results_in, run, wait_for};

/// Returns the output of `kaudit rbac -n`.
fn role(namespace: &str) -> String {
    format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: kaudit, namespace: {namespace}}}
rules:
  - {{apiGroups: ["*"], resources: ["*"], verbs: [list, watch]}}
  - {{apiGroups: [events.k8s.io], resources: [events], verbs: [create]}}
  - {{apiGroups: [kaudit.dev], resources: [audits, audits/status], verbs: [create, patch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: kaudit, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: kaudit}}
subjects: [{{kind: ServiceAccount, name: team, namespace: {namespace}}}]
"#
    )
}

/// Whether a request is discovery.
fn is_discovery(record: &AuditRecord) -> bool {
    let path = record.request_uri.split('?').next().unwrap_or_default();
    record.verb == "get" && record.resource.is_empty() && (path.starts_with("/api") || path == "/version")
}

#[tokio::test]
async fn a_role_in_one_namespace_is_enough_and_no_request_leaves_it() {
    if !require() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let namespace = plane.temp_namespace("team").await.unwrap();
    let other = plane.temp_namespace("foreign").await.unwrap();
    plane.apply(&role(&namespace)).await.unwrap();
    let user = plane.service_account(&namespace, "team").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let scope = ["--policies", directory.path().to_str().unwrap(), "--namespace", &namespace];
    let mark = format!("{namespace}=yes");
    for place in [&namespace, &other] {
        plane.kubectl(&["-n", place, "create", "configmap", "one"]).await.unwrap();
        plane.kubectl(&["-n", place, "label", "configmap", "one", &mark]).await.unwrap();
    }

    let position = plane.audit_position().unwrap();
    let kaudit = Running::start(user.kubeconfig_path(), &scope).await;
    kaudit.ready().await;
    plane.kubectl(&["-n", &namespace, "create", "secret", "generic", "two"]).await.unwrap();
    plane.kubectl(&["-n", &namespace, "label", "secret", "two", &mark]).await.unwrap();
    let both = || async { (results_in(&kaudit.status(), &namespace).len() == 2).then_some(()) };
    wait_for("both violations", both).await;
    let events = async |wanted: &str| {
        let reasons = ["-n", &namespace, "get", "events", "-o", "jsonpath={.items[*].reason}"];
        let reasons = plane.kubectl(&reasons).await.unwrap();
        let mut reasons: Vec<_> = reasons.split(' ').collect();
        reasons.sort_unstable();
        (reasons.join(" ") == wanted).then_some(())
    };
    // A violation that is resolved before its Event is written has none.
    wait_for("two Events", || events("PolicyViolation PolicyViolation")).await;
    plane.kubectl(&["-n", &namespace, "label", "configmap", "one", &format!("{namespace}-")]).await.unwrap();
    wait_for("three Events", || events("PolicyResolved PolicyViolation PolicyViolation")).await;
    let status = kaudit.status();
    assert_eq!(status["complete"], true, "{}", status["coverage"]);
    assert_eq!(status["results"].as_array().unwrap().len(), 1, "nothing from elsewhere: {status}");
    let audit = ["-n", &namespace, "wait", "--for=condition=Complete", "audit/kaudit", "--timeout=30s"];
    let written = || async { plane.kubectl(&audit).await.ok() };
    wait_for("the status", written).await;
    assert_eq!(kaudit.stop().await, Some(0));

    let ended = run(user.kubeconfig_path(), &[&["check", "--once", "-o", "json"], &scope[..]].concat()).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let result = ended.json();
    assert_eq!((result["complete"].as_bool(), results_in(&result, &namespace).len()), (Some(true), 1));

    let requests = plane.audit_log_since(position).unwrap();
    let own: Vec<_> = requests.iter().filter(|record| record.user == user.name()).collect();
    assert!(own.len() > 50, "only {} requests", own.len());
    let refused: Vec<_> = own.iter().filter(|record| matches!(record.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let outside: Vec<_> = own.iter().filter(|record| record.namespace != namespace && !is_discovery(record)).collect();
    assert!(outside.is_empty(), "{outside:#?}");
}

#[tokio::test]
async fn without_rights_in_the_namespace_nothing_is_clean() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("rightless").await.unwrap();
    let user = plane.service_account(&namespace, "team").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let paths = directory.path().to_str().unwrap();
    let arguments = ["check", "--once", "-o", "json", "--policies", paths, "--namespace", &namespace];
    let ended = run(user.kubeconfig_path(), &arguments).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let result = ended.json();
    let coverage = result["coverage"].as_array().unwrap();
    assert!(coverage.iter().any(|kind| kind["state"] == "forbidden"));
    assert!(!coverage.iter().any(|kind| kind["state"] == "synced"), "{result}");
}
