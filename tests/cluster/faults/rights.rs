//! Rights and credentials are revoked and restored.

use std::path::PathBuf;

use kaudit_controlplane::{ControlPlane, require, shared};
use serde_json::json;

use super::Scene;
use crate::{
    support::{Running, wait_for},
    wire::{self, Wire},
};

/// Returns roles that let an account read (with a separate binding, to be removed) and write Events in a namespace.
fn roles(namespace: &str, account: &str, home: &str) -> String {
    let subject = format!("{{kind: ServiceAccount, name: {account}, namespace: {home}}}");
    let role = |name: &str, rule: &str| {
        format!(
            r"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}}}
rules: [{rule}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{subject}]
---
"
        )
    };
    let read = role("reads", "{apiGroups: [\"*\"], resources: [\"*\"], verbs: [list, watch]}");
    let write = role("tells", "{apiGroups: [events.k8s.io], resources: [events], verbs: [create, list, patch]}");
    read + &write
}

async fn grant(plane: &ControlPlane, scene: &Scene, account: &str) {
    for namespace in &scene.namespaces {
        plane.apply(&roles(namespace, account, &scene.namespaces[0])).await.unwrap();
    }
}

/// Waits until kinds are forbidden; cuts established watches so that they must reconnect.
async fn until_forbidden(kaudit: &Running, wire: &Wire) {
    wait_for("kinds to be forbidden", || async {
        let status = kaudit.status();
        let coverage = status["coverage"].as_array().unwrap();
        if coverage.iter().any(|kind| kind["resource"] == "configmaps" && kind["state"] == "forbidden") {
            return Some(());
        }
        wire.cut();
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_are_revoked_and_restored() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "rights").await;
    grant(plane, &scene, "kaudit").await;
    let user = plane.service_account(&scene.namespaces[0], "kaudit").await.unwrap();
    let wire = Wire::to(user.kubeconfig_path()).await;
    let kaudit = scene.start(&wire.kubeconfig(user.kubeconfig_path(), scene.files.path())).await;
    let namespaces = scene.namespaces.clone();
    let taken = async || {
        for namespace in &namespaces {
            plane.kubectl(&["-n", namespace, "delete", "rolebinding", "reads"]).await.unwrap();
        }
        until_forbidden(&kaudit, &wire).await;
        let status = kaudit.status();
        assert!(status["complete"] == false && status["summary"]["fail"].as_u64() > Some(0), "old verdicts stay");
        for namespace in &namespaces {
            plane.apply(&roles(namespace, "kaudit", &namespaces[0])).await.unwrap();
        }
    };
    scene.through("rights taken away", &kaudit, taken).await;
    complete_again(&kaudit).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_expires_and_is_rotated_late() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "token").await;
    grant(plane, &scene, "rotating").await;
    let home = scene.namespaces[0].clone();
    let kubectl = async |arguments: &[&str]| plane.kubectl(&[&["-n", &home], arguments].concat()).await.unwrap();
    kubectl(&["create", "serviceaccount", "rotating"]).await;
    let token = scene.files.path().join("token");
    std::fs::write(&token, kubectl(&["create", "token", "rotating"]).await.trim()).unwrap();
    let wire = Wire::to(&plane.kubeconfig()).await;
    let kubeconfig = with_token(wire.kubeconfig(&plane.kubeconfig(), scene.files.path()), &token);
    let kaudit = scene.start(&kubeconfig).await;
    let expired = async || {
        // A real token lives too long for a test; it is revoked by deleting its account.
        kubectl(&["delete", "serviceaccount", "rotating"]).await;
        kubectl(&["create", "serviceaccount", "rotating"]).await;
        until_forbidden(&kaudit, &wire).await;
        std::fs::write(&token, kubectl(&["create", "token", "rotating"]).await.trim()).unwrap();
    };
    scene.through("token expired", &kaudit, expired).await;
    complete_again(&kaudit).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

async fn complete_again(kaudit: &Running) {
    wait_for("complete coverage", || async { (kaudit.status()["complete"] == true).then_some(()) }).await;
}

/// Writes a kubeconfig that authenticates by the token in a file.
fn with_token(kubeconfig: PathBuf, token: &std::path::Path) -> PathBuf {
    let mut config = wire::read(&kubeconfig);
    config["users"][0]["user"] = json!({"tokenFile": token});
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}
