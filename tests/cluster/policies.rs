//! Policies stored in the cluster: Gatekeeper's objects, and `ConfigMap`s.

mod dialects;
mod random;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::http::{StatusCode, request::Parts};
use kaudit_controlplane::{ControlPlane, Options, require, shared};
use serde_json::{Value, json};

use crate::{
    kubectl::{operator, until_condition},
    proxy::{Act, Proxy},
    support::{
        Running, crd, denies_marked, establish, establish_audits, policies, results_in, run, until_violations, wait_for,
    },
};

const EXPANSIONS: &str = "expansiontemplate.expansion.gatekeeper.sh";
const TEMPLATES: &str = "constrainttemplates.templates.gatekeeper.sh";

/// Returns Gatekeeper's CRDs, reduced to what an API server needs, and its Constraint kinds.
fn crds(constraints: &[&str]) -> String {
    let cluster = |group: &str, plural: &str, kind: &str, version: &str| {
        crd(group, plural, kind, version).replace("\"Namespaced\"", "\"Cluster\"")
    };
    let of_constraints = constraints
        .iter()
        .map(|kind| cluster("constraints.gatekeeper.sh", &kind.to_lowercase(), kind, "v1beta1"))
        .collect::<String>();
    cluster("templates.gatekeeper.sh", "constrainttemplates", "ConstraintTemplate", "v1")
        + &crd("config.gatekeeper.sh", "configs", "Config", "v1alpha1")
        // The plural of Gatekeeper's CRD is the singular.
        + &cluster("expansion.gatekeeper.sh", "expansiontemplate", "ExpansionTemplate", "v1beta1")
        + &of_constraints
}

fn constraint_crd(kind: &str) -> String {
    format!("{}.constraints.gatekeeper.sh", kind.to_lowercase())
}

/// Returns a template that denies objects without a label.
fn template(kind: &str, words: &str) -> String {
    let rego = format!(
        "package required\n\nviolation[{{\"msg\": msg}}] {{\n  not input.review.object.metadata.labels[input.parameters.label]\n  \
         msg := sprintf(\"{words} %v\", [input.parameters.label])\n}}\n"
    );
    let schema = json!({"type": "object", "properties": {"label": {"type": "string"}}});
    json!({
        "apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
        "metadata": {"name": kind.to_lowercase()},
        "spec": {
            "crd": {"spec": {"names": {"kind": kind}, "validation": {"openAPIV3Schema": schema}}},
            "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": rego}],
        },
    })
    .to_string()
}

/// Returns a Constraint that requires a label on the `ConfigMap`s of a namespace.
fn constraint(kind: &str, name: &str, namespace: &str, label: &str) -> String {
    json!({
        "apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": kind,
        "metadata": {"name": name, "annotations": {"metadata.gatekeeper.sh/title": "A label"}},
        "spec": {
            "match": {"kinds": [{"apiGroups": [""], "kinds": ["ConfigMap"]}], "namespaces": [namespace]},
            "parameters": {"label": label},
        },
    })
    .to_string()
}

/// Returns a Deployment whose Pods have these labels.
fn deployment(namespace: &str, labels: &Value) -> String {
    let selector = json!({"matchLabels": {"app": "web"}});
    let mut labels = labels.clone();
    labels["app"] = "web".into();
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": selector, "template": template},
    })
    .to_string()
}

/// Returns an `ExpansionTemplate` that generates a `ConfigMap` from a Deployment.
fn expansion() -> String {
    let applies_to = json!([{"groups": ["apps"], "versions": ["v1"], "kinds": ["Deployment"]}]);
    json!({
        "apiVersion": "expansion.gatekeeper.sh/v1beta1", "kind": "ExpansionTemplate", "metadata": {"name": "deployments"},
        "spec": {
            "applyTo": applies_to, "templateSource": "spec.template",
            "generatedGVK": {"group": "", "version": "v1", "kind": "ConfigMap"},
        },
    })
    .to_string()
}

/// Returns the messages of the open violations in a namespace, sorted.
fn messages(result: &Value, namespace: &str) -> Vec<String> {
    let results = results_in(result, namespace);
    let mut messages: Vec<_> = results.iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect();
    messages.sort();
    messages
}

async fn until(kaudit: &Running, namespace: &str, wanted: &[&str]) {
    let found = || messages(&kaudit.status(), namespace);
    wait_for(&format!("{wanted:?} instead of {:?}", found()), || async { (found() == wanted).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gatekeeper_policies_are_evaluated_and_followed_without_gatekeeper() {
    if !require() {
        return;
    }
    // A separate control plane, because every kaudit watches its kinds.
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(
        &plane,
        &crds(&["K8sLabel"]),
        &[TEMPLATES, "configs.config.gatekeeper.sh", EXPANSIONS, &constraint_crd("K8sLabel")],
    )
    .await;
    let namespace = plane.temp_namespace("gatekeeper").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "bare"]).await.unwrap();
    plane.apply(&template("K8sLabel", "there is no")).await.unwrap();
    plane.apply(&constraint("K8sLabel", "owner", &namespace, "owner")).await.unwrap();
    // With an additional policy directory, and only the rights that `kaudit rbac` prints.
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let path = directory.path().to_str().unwrap();
    let policies = ["-p", path, "-p", "cluster:gatekeeper", "-n", &namespace];
    let account = format!("{namespace}:kaudit");
    let rights = run(&plane.kubeconfig(), &[&["rbac", "--service-account", &account], &policies[..]].concat()).await;
    plane.apply(&rights.stdout).await.unwrap();
    let user = plane.service_account(&namespace, "kaudit").await.unwrap();
    let kaudit = Running::start(user.kubeconfig_path(), &[&["--record=none"], &policies[..]].concat()).await;
    kaudit.ready().await;
    let until = async |wanted: &[&str]| {
        until(&kaudit, &namespace, wanted).await;
        let once = run(&plane.kubeconfig(), &[&["check", "--once", "-o", "json"], &policies[..]].concat()).await;
        assert_eq!(messages(&once.json(), &namespace), wanted, "{}", once.stderr);
    };
    until(&["there is no owner"]).await;

    // Templates and Constraints are changed, broken, created and deleted.
    plane.apply(&template("K8sLabel", "it lacks")).await.unwrap();
    until(&["it lacks owner"]).await;
    plane.apply(&constraint("K8sLabel", "team", &namespace, "team")).await.unwrap();
    until(&["it lacks owner", "it lacks team"]).await;
    plane.apply(&template("K8sLabel", "broken\" +")).await.unwrap();
    wait_for("the broken template to be named", || async {
        let at = "cluster:gatekeeper/constrainttemplates/k8slabel.yaml:";
        (kaudit.log().contains(at) && kaudit.log().contains("its last valid version stays in force")).then_some(())
    })
    .await;
    plane.kubectl(&["delete", &constraint_crd("K8sLabel"), "owner"]).await.unwrap();
    self::until(&kaudit, &namespace, &["it lacks team"]).await;
    plane.apply(&template("K8sLabel", "again no")).await.unwrap();
    until(&["again no team"]).await;

    // A Constraint kind whose CRD is created after its template.
    plane.apply(&template("K8sLater", "later no")).await.unwrap();
    establish(&plane, &crds(&["K8sLater"]), &[&constraint_crd("K8sLater")]).await;
    plane.apply(&constraint("K8sLater", "zone", &namespace, "zone")).await.unwrap();
    until(&["again no team", "later no zone"]).await;

    // Namespaces excluded from Gatekeeper's audit are excluded.
    let config = json!({
        "apiVersion": "config.gatekeeper.sh/v1alpha1", "kind": "Config",
        "metadata": {"name": "config", "namespace": "default"},
        "spec": {"match": [{"excludedNamespaces": [namespace], "processes": ["audit"]}]},
    });
    plane.apply(&config.to_string()).await.unwrap();
    until(&[]).await;
    plane.kubectl(&["-n", "default", "delete", "configs.config.gatekeeper.sh", "config"]).await.unwrap();
    until(&["again no team", "later no zone"]).await;

    // An ExpansionTemplate that generates ConfigMaps, which the Constraints are about, and the object that it expands.
    plane.apply(&deployment(&namespace, &json!({"team": "a"}))).await.unwrap();
    plane.apply(&expansion()).await.unwrap();
    let implied = "[Implied by deployments] later no zone";
    until(&[implied, "again no team", "later no zone"]).await;
    plane.apply(&deployment(&namespace, &json!({"team": "a", "zone": "a"}))).await.unwrap();
    until(&["again no team", "later no zone"]).await;
    plane.apply(&deployment(&namespace, &json!({}))).await.unwrap();
    until(&["[Implied by deployments] again no team", implied, "again no team", "later no zone"]).await;
    plane.kubectl(&["delete", "expansiontemplate.expansion.gatekeeper.sh", "deployments"]).await.unwrap();
    until(&["again no team", "later no zone"]).await;

    plane
        .kubectl(&["-n", &namespace, "label", "configmap", "bare", &format!("{namespace}=yes"), "zone=a"])
        .await
        .unwrap();
    wait_for("the policy of the directory", || async {
        messages(&kaudit.status(), &namespace).iter().any(|message| !message.contains(" no ")).then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));

    let listed = run(&plane.kubeconfig(), &["policies", "cluster:gatekeeper", "-o", "json"]).await.json();
    let source = listed["policies"][0]["rules"][0]["source"]["file"].as_str().unwrap();
    assert_eq!(source, "cluster:gatekeeper/constrainttemplates/k8slabel.yaml", "{listed}");
}

/// Returns a `ConfigMap` with policies.
fn config_map(namespace: &str, name: &str, files: &[(&str, &str)]) -> String {
    let data: Value = files.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    let labels = json!({"openpolicyagent.org/policy": "rego"});
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_in_config_maps_are_followed() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("kube-mgmt").await.unwrap();
    let user = operator(plane, &namespace).await;
    let words = |word: &str| denies_marked(&namespace).replace("marked %v", &format!("{word} %v"));
    let first = words("first");
    let source = format!("cluster:configmaps={namespace}");
    let arguments = ["--record=none", "--include=secrets", "--exclude=*", "-n", &namespace, "-p", &source];
    // Without a policy the check fails.
    let none = run(&plane.kubeconfig(), &[&["check", "--once"], &arguments[1..]].concat()).await;
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(none.stderr.contains("no rule"), "{}", none.stderr);

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": namespace, "labels": {&namespace: "yes"}}});
    plane.apply(&secret.to_string()).await.unwrap();
    // A long run waits for policies.
    let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
    kaudit.ready().await;
    // Meanwhile it is not clean.
    let status = kaudit.status();
    let refused = status["refused"][0]["message"].as_str().unwrap();
    assert!(status["complete"] == false && refused.contains("no rule"), "{status}");
    plane.apply(&config_map(&namespace, "first", &[("main.rego", &first)])).await.unwrap();
    let before = until_violations(&kaudit, &namespace, 1).await;
    // A key without an extension is a policy; ConfigMaps without the label are not read.
    let second = first.replace("package ", "package other.");
    plane.apply(&config_map(&namespace, "second", &[("policy", &second)])).await.unwrap();
    until_violations(&kaudit, &namespace, 2).await;
    plane.kubectl(&["-n", &namespace, "label", "configmap", "second", "openpolicyagent.org/policy-"]).await.unwrap();
    assert_eq!(until_violations(&kaudit, &namespace, 1).await, before);
    // A package belongs to the older ConfigMap, whatever the names.
    plane.apply(&config_map(&namespace, "again", &[("main.rego", &words("other"))])).await.unwrap();
    let at = format!("cluster:configmaps/{namespace}/again/main.rego:2:1: package ");
    wait_for("the younger one to be refused", || async { kaudit.log().contains(&at).then_some(()) }).await;
    assert_eq!(until_violations(&kaudit, &namespace, 1).await, before);
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "again"]).await.unwrap();
    // A policy that becomes invalid stays in force; a change of another one is applied.
    plane.apply(&config_map(&namespace, "first", &[("main.rego", "package broken\n\ndeny[")])).await.unwrap();
    plane.apply(&config_map(&namespace, "second", &[("policy", &second)])).await.unwrap();
    until_violations(&kaudit, &namespace, 2).await;
    let at = format!("cluster:configmaps/{namespace}/first/main.rego:3");
    assert!(kaudit.log().contains(&at), "{}", kaudit.log());
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "first", "second"]).await.unwrap();
    // Violations of removed policies are resolved.
    until_violations(&kaudit, &namespace, 0).await;
    assert_eq!(kaudit.status()["complete"], false);
    assert_eq!(kaudit.stop().await, Some(0));
}

/// A Constraint kind whose lists are refused, and whose watches are ended.
fn refuses(request: &Parts, plural: &str) -> Act {
    if !request.uri.path().ends_with(&format!("/{plural}")) {
        return Act::Pass;
    }
    let (code, reason) = if request.uri.query().is_some_and(|query| query.contains("watch=true")) {
        (StatusCode::GONE, "Expired")
    } else {
        (StatusCode::FORBIDDEN, "Forbidden")
    };
    Act::refuse(code, reason, &format!("{plural} cannot be listed"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_policy_kind_does_not_freeze_others() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let (a, b) = (constraint_crd("K8sA"), constraint_crd("K8sB"));
    establish(&plane, &crds(&["K8sA", "K8sB"]), &[TEMPLATES, "configs.config.gatekeeper.sh", &a, &b]).await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("freeze").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "bare"]).await.unwrap();
    for kind in ["K8sA", "K8sB"] {
        plane.apply(&template(kind, &format!("{kind} wants"))).await.unwrap();
    }
    plane.apply(&constraint("K8sA", "a", &namespace, "one")).await.unwrap();
    plane.apply(&constraint("K8sB", "b", &namespace, "one")).await.unwrap();
    let trouble = Arc::new(AtomicBool::new(false));
    let in_trouble = Arc::clone(&trouble);
    let rule =
        move |request: &Parts| if in_trouble.load(Ordering::SeqCst) { refuses(request, "k8sa") } else { Act::Pass };
    let proxy = Proxy::start(&plane, rule).await;
    let kaudit =
        Running::start(proxy.kubeconfig(), &["-p", "cluster:gatekeeper", "-n", &namespace, "--record=status,events"])
            .await;
    kaudit.ready().await;
    until(&kaudit, &namespace, &["K8sA wants one", "K8sB wants one"]).await;

    trouble.store(true, Ordering::SeqCst);
    proxy.cut();
    let condition = until_condition(&plane, "default", "PoliciesLoaded", "False").await;
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("k8sa.constraints.gatekeeper.sh") && message.contains("cannot be read"), "{message}");
    assert_eq!(kaudit.metric("kaudit_policies_refused"), Some(1));
    // The others are changed, created and deleted.
    plane.apply(&constraint("K8sB", "b", &namespace, "two")).await.unwrap();
    until(&kaudit, &namespace, &["K8sA wants one", "K8sB wants two"]).await;
    plane.apply(&constraint("K8sB", "c", &namespace, "three")).await.unwrap();
    plane.kubectl(&["delete", &b, "b"]).await.unwrap();
    until(&kaudit, &namespace, &["K8sA wants one", "K8sB wants three"]).await;
    // Its own Constraints stay in force until it can be read.
    plane.apply(&constraint("K8sA", "a", &namespace, "four")).await.unwrap();

    trouble.store(false, Ordering::SeqCst);
    until(&kaudit, &namespace, &["K8sA wants four", "K8sB wants three"]).await;
    until_condition(&plane, "default", "PoliciesLoaded", "True").await;
    assert_eq!(kaudit.metric("kaudit_policies_refused"), Some(0));
    assert_eq!(kaudit.stop().await, Some(0));
}
