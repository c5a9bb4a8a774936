//! Validation rules of CRDs: kaudit's results for existing objects are those of the API server for their creation.

mod followed;

use std::collections::{BTreeMap, BTreeSet};

use http::Request;
use kaudit::rego::analysis::yaml;
use kaudit_controlplane::{ControlPlane, Options, require};
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{establish, run, wait_for};

const GROUP: &str = "rules.example.com";
/// An object that is never created; the message of its rule shows that the server uses the rules.
const SENTINEL: &str = "sentinel";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// The kinds with other results, and the reason.
    differences: BTreeMap<String, String>,
    kinds: BTreeMap<String, RuleCase>,
}

/// A kind with rules and objects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleCase {
    schema: Value,
    rules: Vec<Value>,
    objects: Vec<Value>,
}

/// The messages about each object.
type Messages = BTreeMap<String, BTreeSet<String>>;

fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

/// Returns the CRD of a kind with this schema.
fn crd(kind: &str, schema: &Value) -> Value {
    let plural = plural(kind);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Adds a rule to a schema.
fn add_rule(schema: &mut Value, rule: &Value) {
    let mut rule = rule.clone();
    let at = rule.as_object_mut().unwrap().remove("at").unwrap();
    let place = at.as_array().unwrap().iter().fold(schema, |schema, step| match step.as_str().unwrap() {
        "[]" if schema.get("items").is_some() => &mut schema["items"],
        "[]" => &mut schema["additionalProperties"],
        name => schema["properties"].get_mut(name).unwrap_or_else(|| panic!("{name} of {at}")),
    });
    match &mut place["x-kubernetes-validations"] {
        Value::Array(rules) => rules.push(rule),
        missing => *missing = json!([rule]),
    }
}

impl RuleCase {
    fn objects(&self, kind: &str) -> Vec<Value> {
        let typed = |object: &Value| {
            let mut object = object.clone();
            (object["apiVersion"], object["kind"]) = (format!("{GROUP}/v1").into(), kind.into());
            object
        };
        self.objects.iter().map(typed).collect()
    }

    /// Returns the CRD with all rules, and the one that refuses the sentinel.
    fn with_rules(&self, kind: &str) -> Value {
        let mut schema = self.schema.clone();
        let rule = format!("self.metadata.name != '{SENTINEL}'");
        let own = json!({"at": [], "rule": rule, "message": SENTINEL});
        self.rules.iter().chain([&own]).for_each(|rule| add_rule(&mut schema, rule));
        crd(kind, &schema)
    }
}

/// Creates an object by dry run; returns what the server says about it.
async fn create(client: &Client, kind: &str, object: &Value) -> BTreeSet<String> {
    let uri = format!("/apis/{GROUP}/v1/{}?dryRun=All", plural(kind));
    let request = Request::post(&uri).header("content-type", "application/json");
    let response = client.send(request.body(Body::from(serde_json::to_vec(object).unwrap())).unwrap()).await.unwrap();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    let is_expected =
        answer["kind"] != "Status" || ["AlreadyExists", "Invalid"].iter().any(|one| answer["reason"] == *one);
    assert!(is_expected, "{answer}");
    let causes = answer.pointer("/details/causes").and_then(Value::as_array);
    let cause = |cause: &Value| match (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap()) {
        // The whole object.
        ("<nil>", message) => message.to_owned(),
        (field, message) => format!("{field}: {message}"),
    };
    causes.into_iter().flatten().map(cause).collect()
}

/// Returns kaudit's messages; violations are `fail`, rules that cannot be evaluated `error`.
fn messages(result: &Value, kind: &str) -> Messages {
    let mut found = Messages::new();
    for entry in result["results"].as_array().unwrap().iter().filter(|entry| entry["resource"]["kind"] == kind) {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        let is_error = text("/message").contains("evaluating rule") || text("/message").contains("for rule:");
        assert_eq!(text("/result"), if is_error { "error" } else { "fail" }, "{entry}");
        assert_eq!(text("/policy"), format!("{}.{GROUP}", plural(kind)));
        found.entry(text("/resource/name")).or_default().insert(text("/message"));
    }
    found
}

/// Returns kaudit's messages about the manifests of objects, by a file with the CRD.
async fn of_files(plane: &ControlPlane, kind: &str, case: &RuleCase) -> Messages {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, documents: &[Value]| {
        let path = directory.path().join(name);
        let texts: Vec<String> = documents.iter().map(ToString::to_string).collect();
        std::fs::write(&path, texts.join("\n---\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (policies, objects) = (write("crd.yaml", &[case.with_rules(kind)]), write("o.yaml", &case.objects(kind)));
    let ended = run(&plane.kubeconfig(), &["check", "-f", &objects, "-p", &policies, "-o", "json"]).await;
    assert!(ended.code.is_some_and(|code| code != 2), "{kind}: {}", ended.stderr);
    messages(&ended.json(), kind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_those_of_the_api_server() {
    if !require() {
        return;
    }
    let plan: Plan = yaml::from_str(include_str!("crd_rules/cases.yaml")).unwrap();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    for (kind, case) in &plan.kinds {
        let name = format!("{}.{GROUP}", plural(kind));
        establish(&plane, &crd(kind, &case.schema).to_string(), &[&name]).await;
        for object in case.objects(kind) {
            plane.apply(&object.to_string()).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        }
        plane.apply(&case.with_rules(kind).to_string()).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let sentinel =
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": SENTINEL}, "spec": {}});
        let (client, sentinel) = (&client, &sentinel);
        let is_used = |messages: &BTreeSet<String>| messages.iter().any(|message| message.ends_with(SENTINEL));
        wait_for(&format!("the rules of {kind}"), || async move {
            is_used(&create(client, kind, sentinel).await).then_some(())
        })
        .await;
    }
    let arguments = ["check", "--once", "-p", "cluster:crd-rules", "-o", "json"];
    let ended = run(&plane.kubeconfig(), &arguments).await;
    assert!(ended.code.is_some_and(|code| code != 2), "{}", ended.stderr);
    let result = ended.json();
    let (mut differences, mut unlisted, mut compared, mut violations) = (BTreeSet::new(), Vec::new(), 0, 0);
    for (kind, case) in &plan.kinds {
        let sources = [("cluster", messages(&result, kind)), ("files", of_files(&plane, kind, case).await)];
        for object in case.objects(kind) {
            let name = object["metadata"]["name"].as_str().unwrap();
            let server = create(&client, kind, &object).await;
            violations += server.len();
            for (source, own) in &sources {
                compared += 1;
                let own = own.get(name).cloned().unwrap_or_default();
                if own != server {
                    differences.insert(kind.as_str());
                    if !plan.differences.contains_key(kind) {
                        let (missing, more): (Vec<_>, Vec<_>) =
                            (server.difference(&own).collect(), own.difference(&server).collect());
                        unlisted.push(format!("{kind} {name} ({source})\n  server {missing:#?}\n  kaudit {more:#?}"));
                    }
                }
            }
        }
    }
    let rules: usize = plan.kinds.values().map(|case| case.rules.len()).sum();
    eprintln!("{rules} rules, {compared} comparisons, {violations} messages of the server");
    assert!(unlisted.is_empty(), "{} differences\n{}", unlisted.len(), unlisted.join("\n"));
    let listed: BTreeSet<&str> = plan.differences.keys().map(String::as_str).collect();
    assert_eq!(differences, listed, "a listed difference is none any more");
    assert!(violations > 150, "{violations}");
}
