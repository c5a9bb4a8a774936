//! Manifests that are checked with the objects of a cluster: `check -f --with-cluster`.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

use axum::http::StatusCode;
use kaudit_controlplane::{ControlPlane, require, shared};
use serde_json::{Value, json};

use crate::{
    proxy::{Act, Proxy},
    support::{Ended, policies, run},
};

/// Rules that look up accounts, settings, Secrets and the Namespace.
const POLICY: &str = r#"package pods

# METADATA
# custom: {lookups: complete}
deny_account contains sprintf("ServiceAccount %q does not exist", [input.spec.serviceAccountName]) if {
	input.kind == "Pod"
	not data.inventory.namespace[input.metadata.namespace].v1.ServiceAccount[input.spec.serviceAccountName]
}

warn_settings contains sprintf("settings: %s", [mode]) if {
	input.kind == "Pod"
	mode := data.inventory.namespace[input.metadata.namespace].v1.ConfigMap.settings.data.mode
}

warn_secret contains sprintf("secret: %q", [value]) if {
	input.kind == "Pod"
	some value in data.inventory.namespace[input.metadata.namespace].v1.Secret.password.data
}

warn_team contains sprintf("team: %s", [team]) if {
	input.kind == "Pod"
	team := data.inventory.cluster.v1.Namespace[input.metadata.namespace].metadata.labels.team
}
"#;

/// The first Pod and the ConfigMap name no namespace.
fn manifests(namespace: &str) -> String {
    let pod = |name: &str, place: &str, account: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{place}}}\n\
             spec: {{serviceAccountName: {account}, containers: [{{name: c, image: 'registry.example.com/a:1'}}]}}\n"
        )
    };
    let placed = format!(", namespace: {namespace}");
    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: new}\n".to_owned();
    let account = format!("apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: own{placed}}}\n");
    [
        pod("cluster", "", "deployed"),
        pod("manifest", &placed, "own"),
        pod("missing", &placed, "absent"),
        settings,
        account,
    ]
    .join("---\n")
}

/// Returns the control plane, a namespace with objects, and a folder with the policy and the manifests; `None` if there is
/// no control plane.
async fn prepared() -> Option<(&'static ControlPlane, String, tempfile::TempDir)> {
    if !require() {
        return None;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("with-cluster").await.unwrap();
    plane.kubectl(&["label", "namespace", &namespace, "team=shop"]).await.unwrap();
    let objects = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: deployed, namespace: {namespace}}}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: {namespace}}}\ndata: {{mode: old}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: password, namespace: {namespace}}}\nstringData: {{p: hunter2}}\n"
    );
    plane.apply(&objects).await.unwrap();
    let folder = policies(&[("policies/pods.rego", POLICY), ("manifests.yaml", &manifests(&namespace))]);
    Some((plane, namespace, folder))
}

async fn check(kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> Ended {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (files, policies) = (path("manifests.yaml"), path("policies"));
    let command = ["check", "-f", &files, "-p", &policies, "-o", "json", "--with-cluster"];
    run(kubeconfig, &[&command[..], arguments].concat()).await
}

/// Returns name and message of each result, and checks that each is of a manifest in the namespace.
fn results(result: &Value, namespace: &str) -> BTreeSet<(String, String)> {
    let one = |entry: &Value| {
        assert_eq!(entry["resource"]["namespace"], *namespace, "{entry}");
        assert!(entry["location"]["file"].is_string(), "{entry}");
        (entry["resource"]["name"].as_str().unwrap().to_owned(), entry["message"].as_str().unwrap().to_owned())
    };
    result["results"].as_array().unwrap().iter().map(one).collect()
}

/// Returns the results of all Pods together with others.
fn of_each(messages: &[&str], others: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    let pods = ["cluster", "manifest", "missing"];
    let all = pods.iter().flat_map(|pod| messages.iter().map(move |message| (*pod, *message)));
    all.chain(others.iter().copied()).map(|(name, message)| (name.to_owned(), message.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_the_cluster_serve_lookups_and_only_manifests_are_checked() {
    let Some((plane, namespace, folder)) = prepared().await else { return };
    let lists: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let seen = Arc::clone(&lists);
    let proxy = Proxy::start(plane, move |request| {
        let query = request.uri.query().unwrap_or_default();
        if query.contains("limit=") || query.contains("watch=") || request.method != "GET" {
            seen.lock().unwrap().insert(request.uri.path().to_owned());
        }
        Act::Pass
    })
    .await;
    // The context of this kubeconfig names no namespace, so manifests without one are in "default".
    let config = std::fs::read_to_string(proxy.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["contexts"][0]["context"]["namespace"] = namespace.as_str().into();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let ended = check(&kubeconfig, folder.path(), &[]).await;
    let result = ended.json();
    let messages = ["settings: new", "secret: \"\"", "team: shop"];
    let missing = [("missing", "ServiceAccount \"absent\" does not exist")];
    assert_eq!(results(&result, &namespace), of_each(&messages, &missing), "{ended:?}");
    assert_eq!((ended.code, &result["summary"]["objects"]), (Some(1), &json!(5)));
    assert_eq!((&result["complete"], result.get("skippedRules")), (&json!(true), None));
    let paths = ["configmaps", "namespaces", "secrets", "serviceaccounts"].map(|kind| format!("/api/v1/{kind}"));
    assert_eq!(*lists.lock().unwrap(), BTreeSet::from(paths));

    // With a namespace, only its objects are read: neither the Namespace nor other namespaces.
    lists.lock().unwrap().clear();
    let ended = check(proxy.kubeconfig(), folder.path(), &["-n", &namespace]).await;
    let unread = "looks up namespaces, which are not read with --namespace";
    let own = [&messages[..2], &[unread]].concat();
    let found: BTreeSet<_> = results(&ended.json(), &namespace)
        .into_iter()
        .map(|(name, text)| (name, text.replace("policy failed: ", "")))
        .collect();
    assert_eq!(found, of_each(&own, &missing), "{ended:?}");
    let paths = ["configmaps", "secrets", "serviceaccounts"];
    let paths = paths.map(|kind| format!("/api/v1/namespaces/{namespace}/{kind}"));
    assert_eq!(*lists.lock().unwrap(), BTreeSet::from(paths));
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_that_cannot_be_read_are_errors_and_the_result_is_incomplete() {
    let Some((plane, namespace, folder)) = prepared().await else { return };
    let proxy = Proxy::start(plane, |request| {
        if !request.uri.path().ends_with("/serviceaccounts") {
            return Act::Pass;
        }
        Act::refuse(StatusCode::FORBIDDEN, "Forbidden", "")
    })
    .await;
    // Without violations, so that the exit code shows that the result is incomplete.
    let arguments = ["-n", &namespace, "--skip-rule", "warn_*"];
    let ended = check(proxy.kubeconfig(), folder.path(), &arguments).await;
    let result = ended.json();
    assert_eq!((ended.code, &result["complete"]), (Some(3), &json!(false)), "{ended:?}");
    assert_eq!(result["summary"]["fail"], 0, "{ended:?}");
    let entries = result["results"].as_array().unwrap();
    let why = "looks up serviceaccounts, which cannot be read: forbidden";
    let is_error = |entry: &&Value| entry["result"] == "error" && entry["message"].as_str().unwrap().contains(why);
    // The account of the third Pod is among the manifests.
    assert_eq!((entries.len(), entries.iter().filter(is_error).count()), (2, 2), "{entries:?}");
    let coverage = result["coverage"].as_array().unwrap().iter();
    let gaps: Vec<_> = coverage.filter(|kind| kind["state"] == "forbidden").map(|kind| &kind["resource"]).collect();
    assert_eq!(gaps, ["serviceaccounts"]);
}
