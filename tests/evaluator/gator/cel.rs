//! Compares kaudit with the real `gator` for templates in CEL, on objects with random changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use fastrand::Rng;
use kaudit::{
    judge::{dialects::gatekeeper::GatekeeperEngine, load_options::LoadOptions, set::PolicySet},
    model::verdict::Outcome,
};
use kaudit_controlplane::{Tool, require_tool};
use kaudit_test_support::settings::setting;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Arc, assertions, documents, evaluate_object, folder, gator, text, write, yaml};
use crate::{
    object,
    objects::{alter, objects},
};

/// Number of variants of each object.
const ALTERATIONS: usize = 10;

/// A template with its Constraints.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Template {
    kind: String,
    /// The properties of the parameters' schema.
    parameters: Option<Value>,
    rego: Option<String>,
    source: Value,
    /// `spec` of each Constraint, by its name.
    constraints: BTreeMap<String, Value>,
}

impl Template {
    fn document(&self) -> Value {
        let rego = self.rego.iter().map(|rego| json!({"engine": "Rego", "source": {"rego": rego}}));
        let cel = json!({"engine": "K8sNativeValidation", "source": self.source});
        let code: Vec<Value> = rego.chain([cel]).collect();
        let properties = self.parameters.clone().unwrap_or_else(|| json!({}));
        json!({
            "apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
            "metadata": {"name": self.kind.to_lowercase()},
            "spec": {
                "crd": {"spec": {
                    "names": {"kind": self.kind},
                    "validation": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }},
                "targets": [{"target": "admission.k8s.gatekeeper.sh", "code": code}],
            },
        })
    }

    fn constraint(&self, name: &str) -> Value {
        json!({
            "apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": self.kind, "metadata": {"name": name},
            "spec": self.constraints[name],
        })
    }
}

fn templates() -> Vec<Template> {
    yaml::from_str(&fs::read_to_string(folder().join("cel/templates.yaml")).unwrap()).unwrap()
}

/// Writes all templates and Constraints.
fn write_policies(root: &Path) {
    for template in templates() {
        write(root, &format!("{}.yaml", template.kind), &template.document());
        for name in template.constraints.keys() {
            write(root, &format!("{name}.yaml"), &template.constraint(name));
        }
    }
}

/// Returns objects with distinct names in known namespaces, some with random changes.
fn altered() -> Vec<Value> {
    let mut random = Rng::with_seed(setting("KAUDIT_TEST_SEED").unwrap_or(1));
    let own = documents("objects.yaml").into_iter().chain(objects());
    // gator refuses to run if a Namespace is not valid.
    let is_used = |object: &Value| object["kind"] != "AdmissionReview" && object["kind"] != "Namespace";
    let originals: Vec<Value> = own.filter(is_used).collect();
    let mut altered = Vec::new();
    for original in &originals {
        for variant in 0..ALTERATIONS {
            let mut object = original.clone();
            for _ in 0..variant {
                for part in ["metadata", "spec"] {
                    object.get_mut(part).into_iter().for_each(|part| alter(part, &mut random));
                }
            }
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            let metadata = &mut object["metadata"];
            metadata["name"] = format!("object-{}", altered.len()).into();
            metadata["namespace"] = ["shop", "kube-system", "plain"][random.usize(..3)].into();
            if original["kind"] != "Pod" && random.bool() {
                metadata.as_object_mut().unwrap().remove("namespace");
            }
            altered.push(object);
        }
    }
    altered
}

/// Constraint, name of the object, message and action of each violation, in order.
type Violations = Vec<[String; 4]>;

fn by_kaudit(root: &Path, objects: &[Value], engine: GatekeeperEngine) -> Violations {
    let options = LoadOptions { gatekeeper_engine: engine, ..LoadOptions::default() };
    let policies = Arc::new(PolicySet::load_with(&[root.to_owned()], &options).unwrap());
    let namespaces = documents("namespaces.yaml");
    let mut violations = Violations::new();
    for object in objects {
        for finding in evaluate_object(&policies, object, &namespaces) {
            assert_ne!(finding.outcome, Outcome::Error, "{}: {}", finding.rule.name, finding.message);
            let (rule, action) = (finding.rule.name.to_string(), finding.outcome.word().to_owned());
            let name = text(object, "/metadata/name").to_owned();
            violations.push([rule, name, finding.message.to_string(), action]);
        }
    }
    violations.sort();
    violations
}

fn by_gator(root: &Path) -> Violations {
    let output = gator(&["test", "--filename", root.to_str().unwrap(), "--output", "json"]);
    let results: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
    let violation = |result: &Value| {
        let action = if result["enforcementAction"] == "deny" { "fail" } else { "warn" };
        let parts = ["/constraint/metadata/name", "/violatingObject/metadata/name", "/msg"];
        let [constraint, object, message] = parts.map(|pointer| text(result, pointer).to_owned());
        [constraint, object, message, action.to_owned()]
    };
    let is_checked = |[_, object, ..]: &[String; 4]| object.starts_with("object-");
    let mut violations: Violations = results.iter().map(violation).filter(is_checked).collect();
    violations.sort();
    violations
}

#[test]
fn gator_gives_the_same_results_for_templates_in_cel() {
    if !require_tool(Tool::Gator) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    write_policies(root.path());
    let objects = altered();
    let constraints: usize = templates().iter().map(|template| template.constraints.len()).sum();
    let pairs = constraints * objects.len();
    assert!(pairs > 8_000, "{pairs}");
    let own = by_kaudit(root.path(), &objects, GatekeeperEngine::Cel);
    for (index, object) in objects.iter().enumerate() {
        write(root.path(), &format!("{index}.yaml"), object);
    }
    fs::copy(folder().join("namespaces.yaml"), root.path().join("namespaces.yaml")).unwrap();
    let others = by_gator(root.path());
    println!("{pairs} pairs, {} violations", others.len());
    assert!(others.len() > 2_000, "{}", others.len());
    let differences = fs::read_to_string(folder().join("cel/differences.yaml")).unwrap();
    let known: BTreeMap<String, String> = yaml::from_str(&differences).unwrap();
    let mut different = BTreeSet::new();
    let mut unexpected = Vec::new();
    for (who, these, those) in [("kaudit", &own, &others), ("gator", &others, &own)] {
        let missing = these.iter().filter(|violation| those.binary_search(violation).is_err());
        for violation in missing {
            if known.contains_key(&violation[0]) {
                different.insert(violation[0].clone());
            } else {
                let object = objects.iter().find(|object| text(object, "/metadata/name") == violation[1]);
                unexpected.push(format!("only {who}: {violation:?} {}", object.unwrap()));
            }
        }
    }
    let counts = |of: &Violations| of.iter().filter(|violation| !known.contains_key(&violation[0])).count();
    unexpected.truncate(60);
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    assert_eq!(counts(&own), counts(&others), "the number of equal violations");
    assert!(known.keys().all(|name| different.contains(name)), "equal now: remove it from differences.yaml");
}

#[test]
fn the_engine_can_be_chosen() {
    let root = tempfile::tempdir().unwrap();
    write_policies(root.path());
    let objects = altered();
    let of = |engine| {
        let violations = by_kaudit(root.path(), &objects, engine).into_iter();
        violations.filter(|[name, ..]| name == "both").map(|[_, _, message, _]| message).collect::<BTreeSet<_>>()
    };
    assert_eq!(of(GatekeeperEngine::Cel), ["by CEL".to_owned()].into());
    assert_eq!(of(GatekeeperEngine::Rego), ["by Rego".to_owned()].into());
}

/// Returns the object in the reviews of all operations.
fn reviews(object: &Value, old: &Value) -> Vec<Value> {
    let given = |operation: &str, object: &Value, old: &Value| {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "operation": operation, "name": "web", "namespace": "shop", "dryRun": true,
                "userInfo": {"username": "somebody", "groups": ["a", "b"], "extra": {"x": ["y"]}},
                "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
                "object": object, "oldObject": old,
            },
        })
    };
    let none = Value::Null;
    vec![
        given("CREATE", object, &none),
        given("UPDATE", object, old),
        given("DELETE", &none, old),
        given("CONNECT", object, &none),
    ]
}

#[test]
fn gator_verifies_the_results_for_reviews_of_templates_in_cel() {
    if !require_tool(Tool::Gator) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let pods: Vec<Value> = altered().into_iter().filter(|object| object["kind"] == "Pod").step_by(7).take(6).collect();
    let reviews: Vec<Value> = pods.windows(2).flat_map(|pods| reviews(&pods[0], &pods[1])).collect();
    for (index, review) in reviews.iter().enumerate() {
        write(root.path(), &format!("review-{index}.yaml"), review);
    }
    fs::copy(folder().join("namespaces.yaml"), root.path().join("namespaces.yaml")).unwrap();
    let namespaces = documents("namespaces.yaml");
    let (mut tests, mut violations) = (Vec::new(), 0);
    // gator gives templates no namespaceObject.
    for template in templates().into_iter().filter(|template| template.kind != "CelNamespaces") {
        let file = write(root.path(), &format!("{}.yaml", template.kind), &template.document());
        for name in template.constraints.keys() {
            let constraint = write(root.path(), &format!("{name}.yaml"), &template.constraint(name));
            let policies = PolicySet::from_gatekeeper([&*file, &*constraint], &LoadOptions::default()).unwrap();
            let policies = Arc::new(policies);
            let case = |(index, review): (usize, &Value)| {
                let findings = evaluate_object(&policies, review, &namespaces);
                violations += findings.len();
                json!({"name": index.to_string(), "object": format!("review-{index}.yaml"),
                    "inventory": ["namespaces.yaml"], "assertions": assertions(&findings)})
            };
            let cases: Vec<Value> = reviews.iter().enumerate().map(case).collect();
            tests.push(json!({"name": name, "template": format!("{}.yaml", template.kind),
                "constraint": format!("{name}.yaml"), "cases": cases}));
        }
    }
    assert!(violations > 200, "{violations}");
    let suite = json!({"apiVersion": "test.gatekeeper.sh/v1alpha1", "kind": "Suite", "metadata": {"name": "s"}, "tests": tests});
    let suite = write(root.path(), "suite.yaml", &suite);
    let output = gator(&["verify", suite.to_str().unwrap()]);
    let by_gator = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{by_gator}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn objects_that_are_equal_in_the_fields_read_have_the_same_results() {
    let mut random = Rng::with_seed(setting("KAUDIT_TEST_SEED").unwrap_or(1));
    let root = tempfile::tempdir().unwrap();
    let (objects, namespaces) = (altered(), documents("namespaces.yaml"));
    let (mut equal, mut violations) = (0, 0);
    for template in templates() {
        let file = write(root.path(), "template.yaml", &template.document());
        for name in template.constraints.keys() {
            let constraint = write(root.path(), "constraint.yaml", &template.constraint(name));
            let policies = PolicySet::from_gatekeeper([&*file, &*constraint], &LoadOptions::default()).unwrap();
            let policies = Arc::new(policies);
            for _ in 0..150 {
                let before = &objects[random.usize(..objects.len())];
                let mut after = before.clone();
                after.get_mut("spec").into_iter().for_each(|part| alter(part, &mut random));
                let hash = |value: &Value| policies.projected(&object(value));
                if after != *before && hash(before).is_some() && hash(before) == hash(&after) {
                    let of = |value: &Value| evaluate_object(&policies, value, &namespaces);
                    assert_eq!(of(before), of(&after), "{name}: {before} {after}");
                    equal += 1;
                    violations += of(before).len();
                }
            }
        }
    }
    assert!(equal > 1_000 && violations > 500, "{equal} pairs, {violations} violations");
}

/// What Gatekeeper generates for a template and its Constraint.
const GENERATED: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: gatekeeper-celnames
  ownerReferences: [{apiVersion: templates.gatekeeper.sh/v1beta1, kind: ConstraintTemplate, name: celnames, uid: "1"}]
spec:
  paramKind: {apiVersion: constraints.gatekeeper.sh/v1beta1, kind: CelNames}
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]
  validations: [{expression: "false", message: counted twice}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: gatekeeper-celnames-names
  ownerReferences: [{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: CelNames, name: names, uid: "2"}]
spec:
  policyName: gatekeeper-celnames
  paramRef: {name: names, parameterNotFoundAction: Allow}
  validationActions: [Deny]
"#;

#[test]
fn policies_that_gatekeeper_generated_are_left_out() {
    let root = tempfile::tempdir().unwrap();
    write_policies(root.path());
    let objects = &altered()[..20];
    let before = by_kaudit(root.path(), objects, GatekeeperEngine::Cel);
    fs::write(root.path().join("generated.yaml"), GENERATED).unwrap();
    assert_eq!(by_kaudit(root.path(), objects, GatekeeperEngine::Cel), before);
    let policies = PolicySet::load(&[root.path().to_owned()]).unwrap();
    let left_out: Vec<&str> = policies.left_out.iter().map(|one| one.name.as_str()).collect();
    let expected =
        ["ValidatingAdmissionPolicy gatekeeper-celnames", "ValidatingAdmissionPolicyBinding gatekeeper-celnames-names"];
    assert_eq!(left_out, expected);
}
