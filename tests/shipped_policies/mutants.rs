//! Randomly altered objects: opa and kaudit have the same results for each, by every rule.
//!
//! The seed is printed on failure; `KAUDIT_TEST_SEED` repeats a run, `KAUDIT_TEST_OBJECTS` makes a longer one.

use std::{collections::BTreeSet, fs, path::Path};

use fastrand::Rng;
use kaudit::rego::analysis::yaml;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_test_support::settings::setting;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{FoundResult, FoundResults, by_kaudit, by_opa, examples, library, object_name, run};

/// Number of objects in the short version.
const OBJECTS: usize = 2_000;
/// Maximum number of altered places per object.
const ALTERATIONS: usize = 4;

/// Pods that differ in one field, of which only the parts are used here.
#[derive(Deserialize)]
struct Pods {
    bases: Map<String, Value>,
    variations: Vec<Value>,
}

/// Returns objects that were written through removed API versions.
fn old() -> Value {
    let entry =
        |manager: &str, version: &str| json!({"manager": manager, "apiVersion": version, "operation": "Update"});
    let written =
        [entry("helm", "policy/v1beta1"), entry("kubectl", "policy/v1"), json!({"apiVersion": "policy/v1beta1"})];
    let spec = json!({"minAvailable": 1});
    json!([
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"managedFields": written}, "spec": spec},
        {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": spec},
        {"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "a"}, "spec": {"tls": []}},
        {"apiVersion": "networking.k8s.io/v1beta1", "kind": "ServiceCIDR", "metadata": {"name": "a"}, "spec": {}},
    ])
}

/// Returns objects for lookups, in the namespace `n` or cluster-scoped.
fn neighbours() -> Vec<Value> {
    let name = |name: &str| json!({"name": name, "namespace": "n"});
    let container = json!({"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "1"}});
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let rbac = "rbac.authorization.k8s.io/v1";
    let neighbours = json!([
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name("default"), "automountServiceAccountToken": false},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": name("sizes"), "spec": {"limits": [container]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": name("log"), "spec": {"selector": {"app": "log-agent"}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": name("api"), "spec": {"selector": {"app": "api"}}},
        {"apiVersion": rbac, "kind": "Role", "metadata": name("superuser"), "rules": [everything]},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "superuser"}, "rules": [everything]},
    ]);
    neighbours.as_array().unwrap().clone()
}

/// Returns bindings to roles that allow everything, and a right to bind one.
fn bindings() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let subjects = json!([
        {"kind": "Group", "apiGroup": rbac, "name": "system:serviceaccounts:n"},
        {"kind": "ServiceAccount", "namespace": "n", "name": "default"},
    ]);
    let binding = |kind: &str, name: &str| {
        let role = json!({"apiGroup": rbac, "kind": kind, "name": name});
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {}, "roleRef": role, "subjects": subjects})
    };
    let resources = json!(["clusterroles"]);
    let bind = json!({"apiGroups": [rbac], "resources": resources, "verbs": ["bind"], "resourceNames": ["superuser"]});
    let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {}, "rules": [bind]});
    let roles = [("Role", "superuser"), ("ClusterRole", "superuser"), ("ClusterRole", "edit")];
    roles.into_iter().map(|(kind, name)| binding(kind, name)).chain([role]).collect()
}

/// The material for objects: whole objects to start with, and values to insert.
struct Stock {
    objects: Vec<Value>,
    values: Vec<Value>,
}

impl Stock {
    fn new() -> Self {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/pod_security.yaml"));
        let pods: Pods = yaml::from_str(&text.unwrap()).unwrap();
        let mut objects = examples();
        objects.extend(pods.bases.into_iter().map(|(_, pod)| pod));
        objects.extend(old().as_array().unwrap().iter().cloned());
        objects.extend(bindings());
        let mut values = vec![json!(null), json!(true), json!(false), json!(""), json!([]), json!({}), json!([[]])];
        values.extend([json!(0), json!(-1), json!(1.5), json!(1e30), json!(65536), json!("*"), json!("é\u{1}\"")]);
        for value in objects.iter().chain(&pods.variations) {
            parts(value, &mut values);
        }
        Self { objects, values }
    }

    /// Returns a new random object with a unique name.
    fn object(&self, rng: &mut Rng, number: usize) -> Value {
        let mut object = rng.choice(&self.objects).unwrap().clone();
        for _ in 0..rng.usize(1..=ALTERATIONS) {
            let (key, field) = rng.choice(object.as_object_mut().unwrap().iter_mut()).unwrap();
            // Name and kind stay, or the object would not be evaluated.
            if !["apiVersion", "kind"].contains(&key.as_str()) {
                self.alter(field, rng);
            }
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = format!("o{number}").into();
        object["metadata"]["namespace"] = (*rng.choice(&["m", "n"]).unwrap()).into();
        object["metadata"].as_object_mut().unwrap().remove("generateName");
        object
    }

    /// Alters this value or one below it.
    fn alter(&self, value: &mut Value, rng: &mut Rng) {
        let deeper = rng.u8(..10) < 8;
        match value {
            Value::Object(fields) if deeper && !fields.is_empty() => {
                let key = rng.choice(fields.keys()).unwrap().clone();
                match rng.u8(..10) {
                    0 => drop(fields.remove(&key)),
                    1 => drop(fields.insert(self.value(rng).to_string(), self.value(rng))),
                    _ => self.alter(&mut fields[&key], rng),
                }
            }
            Value::Array(items) if deeper && !items.is_empty() => {
                let index = rng.usize(..items.len());
                match rng.u8(..10) {
                    0 => drop(items.remove(index)),
                    1 => items.push(items[index].clone()),
                    2 => items.push(self.value(rng)),
                    _ => self.alter(&mut items[index], rng),
                }
            }
            other => *other = self.value(rng),
        }
    }

    fn value(&self, rng: &mut Rng) -> Value {
        rng.choice(&self.values).unwrap().clone()
    }
}

/// Collects a value and all values in it.
fn parts(value: &Value, into: &mut Vec<Value>) {
    into.push(value.clone());
    match value {
        Value::Object(fields) => fields.values().for_each(|value| parts(value, into)),
        Value::Array(items) => items.iter().for_each(|value| parts(value, into)),
        _ => {}
    }
}

/// Returns the names of the objects in a file that kaudit evaluates.
fn read(manifests: &Path) -> BTreeSet<String> {
    let policy = manifests.with_file_name("every.rego");
    fs::write(&policy, "package everything\n\ndeny contains \"read\" if input.kind\n").unwrap();
    let [manifests, policy] = [manifests, &policy].map(|path| path.to_str().unwrap());
    let arguments = ["check", "--files-are-complete", "-p", policy, "-o", "json", "-f", manifests];
    let result: Value = serde_json::from_str(&run(Path::new(env!("CARGO_BIN_EXE_kaudit")), &arguments, &[1])).unwrap();
    let resources = result["results"].as_array().unwrap().iter().map(|entry| &entry["resource"]);
    resources.map(|resource| object_name(&json!({"kind": resource["kind"], "metadata": resource}))).collect()
}

#[test]
fn results_of_random_objects_equal_those_of_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let seed = setting("KAUDIT_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    let count = setting("KAUDIT_TEST_OBJECTS").unwrap_or(OBJECTS);
    let (stock, mut rng) = (Stock::new(), Rng::with_seed(seed));
    let mut objects: Vec<Value> = (0..count).map(|number| stock.object(&mut rng, number)).collect();
    objects.extend(neighbours());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.json");
    fs::write(&file, json!(objects).to_string()).unwrap();
    let set = library();
    // Objects that no API server accepts, for example with a wrong type for a list, are not evaluated.
    let read = read(&file);
    let objects: Vec<Value> = objects.into_iter().filter(|object| read.contains(&object_name(object))).collect();
    assert!(objects.len() > count / 2, "only {} of {count} are read, KAUDIT_TEST_SEED={seed}", objects.len());
    let count = objects.len();
    let (kaudit, opa) = (by_kaudit(&set, &file), by_opa(&set, &objects));
    let none = FoundResults::default();
    let different: Vec<String> = objects
        .iter()
        .filter_map(|object| {
            let name = object_name(object);
            let (ours, theirs) = (kaudit.get(&name).unwrap_or(&none), opa.get(&name).unwrap_or(&none));
            // A selector without labels overlaps with many others: kaudit lists a limited number of results.
            let is_cut =
                |(_, _, message, ..): &&FoundResult| message.ends_with("of this rule for this object are not listed");
            let cut: BTreeSet<(&str, &str)> =
                ours.iter().filter(is_cut).map(|(policy, rule, ..)| (policy.as_str(), rule.as_str())).collect();
            let is_listed = |(policy, rule, ..): &&FoundResult| !cut.contains(&(policy.as_str(), rule.as_str()));
            let [ours, theirs] = [ours, theirs].map(|all| all.iter().filter(is_listed).collect::<BTreeSet<_>>());
            let (more, less): (Vec<_>, Vec<_>) =
                (ours.difference(&theirs).collect(), theirs.difference(&ours).collect());
            (ours != theirs).then(|| format!("{object}\n  kaudit only: {more:?}\n  opa only: {less:?}"))
        })
        .collect();
    let shown = different.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(different.is_empty(), "{} of {count} differ, KAUDIT_TEST_SEED={seed}\n{shown}", different.len());
    assert!(opa.len() > count / 3, "only {} of {count} violate anything", opa.len());
    for words in
        ["that a LimitRange sets", "has all rights by the ClusterRole superuser", "includes every pod with a token"]
    {
        let found = opa.values().flatten().filter(|(_, _, message, ..)| message.contains(words)).count();
        assert!(found > 0, "{words}: nothing depends on what is looked up, KAUDIT_TEST_SEED={seed}");
    }
}
