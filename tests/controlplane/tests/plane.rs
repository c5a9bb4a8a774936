//! The shared control plane: rights and the audit log.

use http::Request;
use kaudit_controlplane::{require, shared};

#[tokio::test]
async fn admin_reads_readyz() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let request = Request::get("/readyz").body(Vec::new()).expect("a request");
    let answer = plane.admin().expect("a client").request_text(request).await.expect("an answer");
    assert_eq!(answer, "ok");
}

#[tokio::test]
async fn server_reports_its_version() {
    if !require() {
        return;
    }
    let version = shared().await.kubectl(&["version"]).await.expect("a version");
    assert!(version.contains("Server Version: v1."), "{version}");
}

#[tokio::test]
async fn service_account_has_exactly_the_bound_rights() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("bound").await.expect("a namespace");
    plane.apply(&bindings(&namespace)).await.expect("objects");
    let reader = plane.service_account(&namespace, "reader").await.expect("a user");
    let member = plane.service_account(&namespace, "other").await.expect("a user");

    let who = plane.kubectl_as(&reader, &["auth", "whoami", "-o", "json"]).await.expect("a name");
    assert!(who.contains(&format!("system:serviceaccount:{namespace}:reader")), "{who}");
    assert!(who.contains(&format!("\"system:serviceaccounts:{namespace}\"")), "{who}");
    assert!(who.contains("\"system:serviceaccounts\""), "{who}");
    assert!(who.contains("\"system:authenticated\""), "{who}");

    // Uses the kubeconfig's namespace.
    plane.kubectl_as(&reader, &["get", "configmaps"]).await.expect("bound to the account");
    plane.kubectl_as(&member, &["get", "configmaps"]).await.expect_err("bound to another account");
    plane.kubectl_as(&member, &["get", "secrets"]).await.expect("bound to the group");
    let refusal = plane.kubectl_as(&reader, &["get", "pods"]).await.expect_err("not bound");
    assert!(refusal.to_string().contains("Forbidden"), "{refusal}");
}

#[tokio::test]
async fn audit_log_contains_answered_requests_once() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let Ok(position) = plane.audit_position() else {
        return; // an existing cluster
    };
    let namespace = plane.temp_namespace("audited").await.expect("a namespace");
    let user = plane.service_account(&namespace, "unbound").await.expect("a user");
    let uri = format!("/api/v1/namespaces/{namespace}/pods/absent");
    let request = Request::get(&uri).body(Vec::new()).expect("a request");
    user.client().expect("a client").request_text(request).await.expect_err("forbidden");

    let records = plane.audit_log_since(position).expect("a log");
    let ours: Vec<_> = records.iter().filter(|record| record.user == user.name()).collect();
    let [record] = ours[..] else { panic!("not one record: {ours:?}") };
    assert_eq!((record.verb.as_str(), record.code), ("get", 403));
    assert_eq!(record.request_uri, uri);
    assert_eq!((record.resource.as_str(), record.name.as_str()), ("pods", "absent"));
    assert_eq!(record.namespace, namespace);
    assert_eq!(record.stage, "ResponseComplete");
}

fn bindings(namespace: &str) -> String {
    let role = |name: &str, resource: &str, subject: &str| {
        format!(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}}}
rules: [{{apiGroups: [''], resources: [{resource}], verbs: [get, list]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{subject}]
---"
        )
    };
    let account = format!("{{kind: ServiceAccount, name: reader, namespace: {namespace}}}");
    let group =
        format!("{{kind: Group, apiGroup: rbac.authorization.k8s.io, name: 'system:serviceaccounts:{namespace}'}}");
    role("account", "configmaps", &account) + &role("group", "secrets", &group)
}
