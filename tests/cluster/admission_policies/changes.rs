//! Changes and deletions: kaudit's results are those of the API server for the requests.

use std::sync::Arc;

use http::Method;
use kaudit::{
    judge::{
        evaluate::{Job, evaluate},
        set::PolicySet,
    },
    model::object::{Kind, Object, ObjectKey},
};
use kaudit_test_support::files::folder;

use super::*;

/// Policies about `ConfigMap`s, each with its operations and its expression.
const POLICIES: [(&str, &str, &str); 8] = [
    ("shrinks", "UPDATE", "int(object.data.size) >= int(oldObject.data.size)"),
    ("large", "UPDATE", "int(object.data.size) < 5"),
    ("grows", "CREATE UPDATE", "oldObject == null || object.data.size <= oldObject.data.size"),
    ("kept", "DELETE", "!has(oldObject.metadata.labels) || !(\'kept\' in oldObject.metadata.labels)"),
    ("gone", "DELETE", "object != null"),
    ("operation", "*", "request.operation != \'UPDATE\' || request.name != \'b\'"),
    ("missing", "UPDATE", "object.data.missing == oldObject.data.missing"),
    ("old", "*", "oldObject == null"),
];

/// Returns a `ConfigMap` in a state.
fn state(name: &str, size: &str, labels: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size}})
}

/// Returns the server's warnings about a request, by policy.
async fn warnings(client: &Client, method: Method, uri: &str, body: Vec<u8>) -> BTreeSet<[String; 2]> {
    let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
    let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    assert!(response.status().is_success(), "{uri}: {}", response.status());
    let of_policy = |text: &str| {
        let rest = text.strip_prefix("299 - \"Validation failed for ValidatingAdmissionPolicy '")?;
        let (policy, rest) = rest.split_once("' with binding '")?;
        let message = rest.strip_suffix('"')?.split_once("': ")?.1.replace("\\\"", "\"").replace("\\\\", "\\");
        (!policy.starts_with(SENTINEL)).then(|| [policy.to_owned(), message])
    };
    let headers = response.headers().get_all("warning").iter();
    headers.filter_map(|header| of_policy(header.to_str().unwrap())).collect()
}

/// Returns an object as kaudit reads it.
fn object(value: &Value) -> Object {
    let kind = Arc::new(Kind {
        group: String::new(),
        version: "v1".to_owned(),
        plural: "configmaps".to_owned(),
        kind: "ConfigMap".to_owned(),
        singular: "configmap".to_owned(),
        short_names: Vec::new(),
        namespaced: true,
    });
    let name = value["metadata"]["name"].as_str().unwrap().into();
    Object {
        key: ObjectKey { kind, namespace: Some("default".into()), name, copy: 0 },
        uid: "".into(),
        resource_version: "".into(),
        body: kaudit::model::body::Body::plain(value.to_string().as_bytes()),
        location: None,
        controller: None,
        inactive: false,
        projected: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_have_the_results_of_the_api_server() {
    if !require() {
        return;
    }
    // A separate control plane, because the policies are for the whole cluster.
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    let kept = json!({"kept": "yes"});
    let before = [state("a", "3", &kept), state("b", "4", &json!({})), state("c", "1", &json!({"app": "web"}))];
    let after = [state("a", "2", &json!({})), state("b", "7", &json!({"app": "web"})), state("c", "1", &kept)];
    for object in &before {
        plane.apply(&object.to_string()).await.unwrap();
    }
    let manifests: Vec<Value> = POLICIES.iter().flat_map(|(name, operations, expression)| {
        let operations: Vec<&str> = operations.split(' ').collect();
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["configmaps"]}]);
        let constraints = json!({"resourceRules": rules, "objectSelector": {"matchExpressions": [{"key": "excluded", "operator": "DoesNotExist"}]}});
        let spec = json!({"matchConstraints": constraints, "validations": [{"expression": expression}]});
        [policy(name, &spec), binding(name, &json!({"policyName": name, "validationActions": ["Warn"]}))]
    }).collect();
    install_all(&plane, &client, manifests.clone(), 0).await;
    let text = manifests.iter().fold(String::new(), |text, one| text + "---\n" + &one.to_string() + "\n");
    let folder = folder(&[("policies.yaml", &text)]);
    let policies = Arc::new(PolicySet::load(&[folder.path().to_owned()]).unwrap());
    let by_kaudit = |job: Job| -> BTreeSet<[String; 2]> {
        let verdict = evaluate(&job);
        let all = verdict.transitions.iter().chain(&verdict.results);
        all.map(|finding| [finding.rule.policy.to_string(), finding.message.to_string()]).collect()
    };
    let mut found = 0;
    for (old, new) in before.iter().zip(&after) {
        let uri =
            format!("/api/v1/namespaces/default/configmaps/{}?dryRun=All", old["metadata"]["name"].as_str().unwrap());
        let job = |object, previous, deleted| Job {
            object,
            previous,
            deleted,
            namespace: None,
            policies: Arc::clone(&policies),
        };
        let updated = warnings(&client, Method::PUT, &uri, serde_json::to_vec(new).unwrap()).await;
        assert_eq!(by_kaudit(job(object(new), Some(object(old)), false)), updated, "{old} to {new}");
        let deleted = warnings(&client, Method::DELETE, &uri, Vec::new()).await;
        assert_eq!(by_kaudit(job(object(old), None, true)), deleted, "deletion of {old}");
        found += updated.len() + deleted.len();
    }
    assert!(found > 10, "{found}");
}
