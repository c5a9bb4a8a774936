//! `ValidatingAdmissionPolicies`: kaudit's results for existing objects are those of the API server for their creation.

mod changes;
mod followed;
mod library;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use http::Request;
use kaudit::rego::analysis::yaml;
use kaudit_controlplane::{ControlPlane, Options, require};
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{PATIENCE, crd, establish, run, wait_for};

const VERSION: &str = "admissionregistration.k8s.io/v1";
/// Prefix of the names of policies, so that none is one of the server's own words.
const SENTINEL: &str = "sentinel";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    namespaces: BTreeMap<String, Value>,
    objects: Vec<Value>,
    params: Vec<Value>,
    differences: BTreeMap<String, String>,
    cases: Vec<AdmissionCase>,
}

/// A policy with its bindings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdmissionCase {
    name: String,
    bindings: BTreeMap<String, Value>,
    spec: Value,
}

impl AdmissionCase {
    /// Returns the policy and the bindings as manifests.
    fn manifests(&self) -> Vec<Value> {
        let policy = policy(&self.name, &self.spec);
        let bindings = self.bindings.iter().flat_map(|(name, spec)| {
            // Of denials only the first is shown, of warnings all.
            let given = spec.get("validationActions").and_then(|actions| actions[0].as_str());
            let actions = given.map_or(vec!["Deny", "Warn"], |only| vec![only]);
            actions.into_iter().map(move |action| {
                let mut spec = spec.clone();
                spec["policyName"] = self.name.as_str().into();
                spec["validationActions"] = json!([action]);
                binding(&format!("{}-{name}-{}", self.name, action.to_lowercase()), &spec)
            })
        });
        [policy].into_iter().chain(bindings).collect()
    }
}

impl AdmissionCase {
    /// Whether a message is the error of an audit annotation.
    fn is_of_annotation(&self, message: &str) -> bool {
        let annotations = self.spec["auditAnnotations"].as_array().into_iter().flatten();
        let mut expressions = annotations.filter_map(|annotation| annotation["valueExpression"].as_str());
        expressions.any(|expression| message.starts_with(&format!("expression '{expression}' resulted in error")))
    }
}

/// Returns a policy.
fn policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec})
}

/// Returns a binding.
fn binding(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": spec})
}

/// What the server or kaudit decides about an object.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decision {
    /// The messages of a denial; of the server's only the first is known.
    denials: BTreeSet<String>,
    /// The messages of warnings, with their binding.
    warnings: BTreeSet<(String, String)>,
}

impl Decision {
    /// Whether kaudit's decision is that of the server.
    fn agrees_with(&self, server: &Self) -> bool {
        let is_known = server.denials.iter().all(|message| self.denials.contains(message));
        self.denials.is_empty() == server.denials.is_empty() && is_known && self.warnings == server.warnings
    }
}

/// Returns the path under which objects of a kind are created.
fn path(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let kind = text("/kind").to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind == "endpoints" => kind,
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    match text("/metadata/namespace") {
        "" => format!("/{root}/{version}/{plural}"),
        namespace => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
    }
}

/// Creates an object by dry run; returns the server's response and its warnings.
async fn create(client: &Client, object: &Value) -> (Value, Vec<String>) {
    let uri = format!("{}?dryRun=All", path(object));
    let request = Request::post(&uri).header("content-type", "application/json");
    let response = client.send(request.body(Body::from(serde_json::to_vec(object).unwrap())).unwrap()).await.unwrap();
    let warnings = response.headers().get_all("warning").iter().map(|header| {
        let text = header.to_str().unwrap();
        let quoted = text.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap();
        quoted.replace("\\\"", "\"").replace("\\\\", "\\")
    });
    let warnings = warnings.collect();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (serde_json::from_slice(&bytes).unwrap(), warnings)
}

/// Returns the server's decision about an object by one policy.
async fn ask(client: &Client, case: &str, object: &Value) -> Decision {
    let (response, warnings) = create(client, object).await;
    let mut decision = Decision::default();
    // Without a denial the object is refused because it exists.
    if response["kind"] == "Status" && response["reason"] != "AlreadyExists" {
        let message = response["message"].as_str().unwrap();
        let named = format!("ValidatingAdmissionPolicy '{case}' ");
        let (_, rest) = message.split_once(&named).unwrap_or_else(|| panic!("{case}: {response} for {object}"));
        decision.denials.insert(rest.split_once("denied request: ").unwrap().1.to_owned());
    }
    for warning in warnings {
        let named = format!("Validation failed for ValidatingAdmissionPolicy '{case}' with binding '");
        let Some(rest) = warning.strip_prefix(&named) else { continue };
        let (binding, message) = rest.split_once("': ").unwrap();
        decision.warnings.insert((binding.to_owned(), message.to_owned()));
    }
    decision
}

/// Returns kaudit's decisions by kind, namespace and name of the object.
fn decisions(result: &Value, case: &AdmissionCase) -> BTreeMap<[String; 3], Decision> {
    let mut decisions: BTreeMap<[String; 3], Decision> = BTreeMap::new();
    for entry in result["results"].as_array().unwrap().iter().filter(|entry| entry["policy"] == case.name) {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = [text("/resource/kind"), text("/resource/namespace"), text("/resource/name")];
        let (binding, message) = (text("/rule"), text("/message"));
        let (denies, warns) = (binding.ends_with("-deny"), binding.ends_with("-warn"));
        let decision = decisions.entry(key).or_default();
        let expected = if denies { ["fail", "error"] } else { ["warn", "error"] };
        assert!(expected.contains(&entry["result"].as_str().unwrap()), "{entry}");
        // The server denies for these whatever the actions are, and does not warn.
        let is_configuration = message.starts_with("failed to configure") || case.is_of_annotation(&message);
        if denies || is_configuration {
            decision.denials.insert(message.clone());
        }
        if warns && !is_configuration {
            decision.warnings.insert((binding, message));
        }
    }
    decisions
}

/// Installs policies, and one that shows when the server has read them; returns all.
async fn install_all(plane: &ControlPlane, client: &Client, mut policies: Vec<Value>, round: usize) -> Vec<Value> {
    let round = format!("{SENTINEL}-{round}");
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        "resourceNames": [SENTINEL]}]);
    let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]});
    policies
        .extend([policy(&round, &spec), binding(&round, &json!({"policyName": round, "validationActions": ["Warn"]}))]);
    for manifest in &policies {
        let name = &manifest["metadata"]["name"];
        plane.apply(&manifest.to_string()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let probe =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SENTINEL, "namespace": "default"}});
    let probe = &probe;
    let round = round.as_str();
    wait_for(&format!("{round} to be in force"), || async move {
        let (_, warnings) = create(client, probe).await;
        warnings.iter().any(|warning| warning.contains(&format!("'{round}'"))).then_some(())
    })
    .await;
    policies
}

/// Removes policies.
async fn remove(plane: &ControlPlane, policies: &[Value]) {
    for manifest in policies.iter().rev() {
        let (kind, name) = (manifest["kind"].as_str().unwrap(), manifest["metadata"]["name"].as_str().unwrap());
        plane.kubectl(&["delete", kind, name]).await.unwrap();
    }
}

/// Waits until the server has read the parameters of a case: until then it denies with an error of its own.
async fn ask_when_ready(client: &Client, case: &str, object: &Value) -> Decision {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let decision = ask(client, case, object).await;
        let is_early = |message: &String| message.contains("not yet synced");
        if !decision.denials.iter().any(is_early) || Instant::now() > deadline {
            return decision;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_those_of_the_api_server() {
    if !require() {
        return;
    }
    let plan: Plan = yaml::from_str(include_str!("admission_policies/cases.yaml")).unwrap();
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    prepare(&plane, &plan).await;
    let (mut differences, mut unlisted) = (BTreeSet::new(), Vec::new());
    let (mut compared, mut denied) = (0, 0);
    for (round, case) in plan.cases.iter().enumerate() {
        let installed = install_all(&plane, &client, case.manifests(), round).await;
        let arguments = ["check", "--once", "-p", "cluster:admission-policies", "-o", "json"];
        let ended = run(&plane.kubeconfig(), &arguments).await;
        assert!(ended.code.is_some_and(|code| code != 2), "{}: {}", case.name, ended.stderr);
        let mut own = decisions(&ended.json(), case);
        for object in &plan.objects {
            let server = ask_when_ready(&client, &case.name, object).await;
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let key = [text("/kind"), text("/metadata/namespace"), text("/metadata/name")];
            let own = own.remove(&key).unwrap_or_default();
            compared += 1;
            denied += usize::from(!server.denials.is_empty() || !server.warnings.is_empty());
            if !own.agrees_with(&server) {
                differences.insert(case.name.as_str());
                if !plan.differences.contains_key(&case.name) {
                    unlisted.push(format!("{}, {key:?}\n  server {server:?}\n  kaudit {own:?}", case.name));
                }
            }
        }
        remove(&plane, &installed).await;
    }
    eprintln!("{} policies, {compared} decisions, {denied} with a violation", plan.cases.len());
    assert!(unlisted.is_empty(), "{} differences\n{}", unlisted.len(), unlisted.join("\n"));
    let listed: BTreeSet<&str> = plan.differences.keys().map(String::as_str).collect();
    assert_eq!(differences, listed, "a listed difference is none any more");
    assert!(denied > 100, "{denied} of {compared} are violations");
}

/// Creates the namespaces, the parameters and the objects.
async fn prepare(plane: &ControlPlane, plan: &Plan) {
    let limits = crd("example.com", "limits", "Limit", "v1").replace("\"Namespaced\"", "\"Cluster\"");
    establish(plane, &limits, &["limits.example.com"]).await;
    for (name, labels) in &plan.namespaces {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        plane.apply(&namespace.to_string()).await.unwrap();
        // Pods need the ServiceAccount, which no controller creates here.
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}});
        plane.apply(&account.to_string()).await.unwrap();
    }
    for object in plan.params.iter().chain(&plan.objects) {
        plane.apply(&object.to_string()).await.unwrap();
    }
}
