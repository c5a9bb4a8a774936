//! Compares kaudit with the real `gator`, with the same templates, Constraints, objects and Namespaces.
//!
//! kaudit's results are written as a test suite that `gator verify` must pass; messages, details and actions are
//! compared with `gator test`; and both must refuse the same inputs.

mod cel;
mod expansion;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate, evaluate_review},
        load_options::LoadOptions,
        set::PolicySet,
    },
    model::{
        object::Object,
        verdict::{Finding, Outcome},
    },
    rego::analysis::yaml,
};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::object;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/gator")
}

fn documents(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    yaml::from_multiple(&text).unwrap()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn gator(arguments: &[&str]) -> Output {
    Command::new(tool(Tool::Gator).unwrap()).args(arguments).env_clear().output().unwrap()
}

/// Writes a document; JSON is YAML too.
fn write(root: &Path, name: &str, value: &Value) -> PathBuf {
    let path = root.join(name);
    fs::write(&path, value.to_string()).unwrap();
    path
}

fn evaluate_object(policies: &Arc<PolicySet>, value: &Value, namespaces: &[Value]) -> Vec<Finding> {
    let pointer = if value["kind"] == "AdmissionReview" { "/request/namespace" } else { "/metadata/namespace" };
    let name = text(value, pointer);
    let namespace: Option<Object> =
        namespaces.iter().find(|namespace| text(namespace, "/metadata/name") == name).map(object);
    if value["kind"] == "AdmissionReview" {
        return evaluate_review(policies, value.clone(), namespace.as_ref()).unwrap();
    }
    let policies = Arc::clone(policies);
    evaluate(&Job { object: object(value), previous: None, deleted: false, namespace, policies }).results
}

/// Returns the assertions for `gator verify`: the number of results, and each message.
fn assertions(findings: &[Finding]) -> Vec<Value> {
    let mut messages: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.outcome != Outcome::Error) {
        *messages.entry(&finding.message).or_default() += 1;
    }
    let message = |(message, count)| json!({"message": format!("^{}$", regex::escape(message)), "violations": count});
    [json!({"violations": findings.len()})].into_iter().chain(messages.into_iter().map(message)).collect()
}

#[test]
fn gator_verifies_the_results() {
    if !require_tool(Tool::Gator) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (objects, namespaces) = (documents("objects.yaml"), documents("namespaces.yaml"));
    let template = root.path().join("template.yaml");
    fs::copy(folder().join("template.yaml"), &template).unwrap();
    fs::copy(folder().join("namespaces.yaml"), root.path().join("namespaces.yaml")).unwrap();
    for (index, value) in objects.iter().enumerate() {
        write(root.path(), &format!("object-{index}.yaml"), value);
    }
    let mut tests = Vec::new();
    let mut violations = 0;
    for constraint in documents("constraints.yaml") {
        let name = text(&constraint, "/metadata/name");
        let file = write(root.path(), &format!("{name}.yaml"), &constraint);
        let policies = Arc::new(PolicySet::from_gatekeeper([&*template, &*file], &LoadOptions::default()).unwrap());
        let cases: Vec<Value> = objects
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let findings = evaluate_object(&policies, value, &namespaces);
                violations += findings.len();
                json!({"name": format!("object-{index}"), "object": format!("object-{index}.yaml"),
                    "inventory": ["namespaces.yaml"], "assertions": assertions(&findings)})
            })
            .collect();
        tests.push(
            json!({"name": name, "template": "template.yaml", "constraint": format!("{name}.yaml"), "cases": cases}),
        );
    }
    assert!(violations > 500, "{violations}");
    let suite = json!({"apiVersion": "test.gatekeeper.sh/v1alpha1", "kind": "Suite", "metadata": {"name": "s"}, "tests": tests});
    let suite = write(root.path(), "suite.yaml", &suite);
    let output = gator(&["verify", suite.to_str().unwrap()]);
    let by_gator = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{by_gator}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Constraint, object, message, details and action of each violation.
type GatorViolations = BTreeSet<[String; 5]>;

#[test]
fn gator_tests_give_the_same_messages_details_and_actions() {
    if !require_tool(Tool::Gator) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    fs::copy(folder().join("template.yaml"), root.path().join("template.yaml")).unwrap();
    // Two known differences: scoped actions depend on the enforcement point, and gator matches cluster-scoped objects
    // as if in a nameless Namespace.
    let constraints: Vec<Value> = documents("constraints.yaml")
        .into_iter()
        .filter(|constraint| constraint.pointer("/spec/enforcementAction").is_none_or(|action| action != "scoped"))
        .collect();
    for constraint in &constraints {
        write(root.path(), &format!("{}.yaml", text(constraint, "/metadata/name")), constraint);
    }
    let namespaces = documents("namespaces.yaml");
    let known = |name: &str| namespaces.iter().any(|namespace| text(namespace, "/metadata/name") == name);
    let objects: Vec<Value> =
        documents("objects.yaml").into_iter().filter(|object| known(text(object, "/metadata/namespace"))).collect();
    let policies = Arc::new(PolicySet::load(&[root.path().to_owned()]).unwrap());
    let mut kaudit = GatorViolations::new();
    for object in &objects {
        for finding in evaluate_object(&policies, object, &namespaces) {
            let name = object["metadata"].to_string();
            let details = finding
                .details
                .map_or_else(|| "{}".to_owned(), |details| Value::Object(Map::clone(&details)).to_string());
            let action = finding.outcome.word().to_owned();
            kaudit.insert([finding.rule.name.to_string(), name, finding.message.to_string(), details, action]);
        }
    }
    for (index, object) in objects.iter().enumerate() {
        write(root.path(), &format!("object-{index}.yaml"), object);
    }
    fs::copy(folder().join("namespaces.yaml"), root.path().join("namespaces.yaml")).unwrap();
    let output = gator(&["test", "--filename", root.path().to_str().unwrap(), "--output", "json"]);
    let results: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut by_gator = GatorViolations::new();
    for result in &results {
        let object = &result["violatingObject"];
        if !known(text(object, "/metadata/namespace")) {
            continue;
        }
        let details = match &result["metadata"]["details"] {
            Value::Object(details) => Value::Object(details.clone()),
            other => json!({"details": other}),
        };
        let action = if result["enforcementAction"] == "deny" { "fail" } else { "warn" };
        let name = text(result, "/constraint/metadata/name").to_owned();
        by_gator.insert([
            name,
            object["metadata"].to_string(),
            text(result, "/msg").to_owned(),
            details.to_string(),
            action.to_owned(),
        ]);
    }
    assert!(by_gator.len() > 100, "{}", by_gator.len());
    let (more, less): (Vec<_>, Vec<_>) =
        (kaudit.difference(&by_gator).collect(), by_gator.difference(&kaudit).collect());
    assert!(more.is_empty() && less.is_empty(), "kaudit only: {more:#?}\ngator only: {less:#?}");
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    note: String,
    refused: bool,
    /// Merged into a valid Constraint.
    constraint: Option<Value>,
    /// Merged into a valid template.
    template: Option<Value>,
    /// The only target of the template.
    target: Option<Value>,
    /// The template's Rego.
    rego: Option<String>,
}

fn lay_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) if !over.is_empty() => {
            for (key, value) in over {
                lay_over(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

#[test]
fn gator_refuses_the_same_inputs() {
    if !require_tool(Tool::Gator) {
        return;
    }
    let cases: Vec<Case> = yaml::from_str(&fs::read_to_string(folder().join("refused.yaml")).unwrap()).unwrap();
    let echo = &documents("template.yaml")[0];
    let mut wrong = Vec::new();
    for case in &cases {
        let root = tempfile::tempdir().unwrap();
        let mut constraint =
            json!({"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K8sEcho", "metadata": {"name": "x"}});
        let mut template = echo.clone();
        let rego = case.rego.as_ref().map(|rego| json!({"target": "admission.k8s.gatekeeper.sh", "rego": rego}));
        if let Some(target) = case.target.as_ref().or(rego.as_ref()) {
            template["spec"]["targets"] = json!([target]);
        }
        case.constraint.iter().for_each(|over| lay_over(&mut constraint, over));
        case.template.iter().for_each(|over| lay_over(&mut template, over));
        write(root.path(), "template.yaml", &template);
        write(root.path(), "constraint.yaml", &constraint);
        let kaudit = PolicySet::load(&[root.path().to_owned()]);
        let output = gator(&["test", "--filename", root.path().to_str().unwrap(), "--output", "json"]);
        let gator = String::from_utf8_lossy(&output.stderr);
        for (who, refused, why) in [
            ("kaudit", kaudit.is_err(), kaudit.as_ref().map_or_else(ToString::to_string, |_| String::new())),
            ("gator", !gator.is_empty(), gator.to_string()),
        ] {
            if refused != case.refused {
                wrong.push(format!("{}: refused by {who}: {refused} {why}", case.note));
            }
        }
    }
    assert!(cases.len() > 40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
