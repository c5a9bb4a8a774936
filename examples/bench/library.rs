//! The builtin library as a set of policies, with Pods of three containers, all in one namespace, and the objects that its
//! rules look up there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use kaudit::judge::{set::PolicySet, sources::FileSource};
use kaudit_test_support::objects::{self, Dice, Kind};
use serde_json::{Map, Value, json};

use crate::{evaluation::PolicyBenchmark, peers};

/// The Pods, Services, role bindings and network policies of the namespace.
const PODS: usize = 300;
const SERVICES: usize = 200;
const BINDINGS: usize = 200;
const NETWORK_POLICIES: usize = 50;

/// Returns the set of all rules that are on by default.
pub(crate) fn set() -> Result<PolicyBenchmark> {
    let source = FileSource::Builtin(String::new());
    let loaded = PolicySet::load(std::slice::from_ref(&source))?;
    let rules = loaded.policies.iter().flat_map(|policy| policy.rules.iter().map(|rule| (&policy.name, &rule.name)));
    let paths: Vec<String> = rules.map(|(policy, rule)| format!("data.{policy}.{rule}")).collect();
    let mut modules = Map::new();
    read(&peers::policies("../../policies"), &mut modules)?;
    let inventory = inventory();
    let mut data = json!({});
    for object in &inventory {
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| anyhow!("no text: {value}"));
        let (metadata, place) = (&object["metadata"], &mut data["inventory"]["namespace"]);
        let place = &mut place[text(&metadata["namespace"])?][text(&object["apiVersion"])?][text(&object["kind"])?];
        place[text(&metadata["name"])?] = object.clone();
    }
    let query = format!("[{}]", paths.join(", "));
    Ok(PolicyBenchmark {
        name: format!("{} rules of the library, with {} objects to look up", paths.len(), inventory.len()),
        source,
        units: vec![json!({"version": "v1", "modules": modules, "query": query, "data": data})],
        kinds: vec![None],
        object: pod,
        inventory,
    })
}

/// Reads the modules below a folder, without tests.
fn read(folder: &Path, modules: &mut Map<String, Value>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let name = path.to_string_lossy();
        if path.is_dir() {
            read(&path, modules)?;
        } else if name.ends_with(".rego") && !name.ends_with("_test.rego") {
            modules.insert(name.into_owned(), fs::read_to_string(&path)?.into());
        }
    }
    Ok(())
}

/// Returns a Pod with an init container and two others.
fn pod(number: usize) -> (Kind, Value) {
    // Each third object is not a Pod.
    let (kind, mut pod) = objects::object(number / 2 * 3 + number % 2);
    pod["metadata"]["namespace"] = objects::namespace(0).into();
    (kind, pod)
}

/// Returns the objects of the namespace.
fn inventory() -> Vec<Value> {
    let object = |version: &str, kind: &str, number: usize, rest: Value| {
        let name = format!("{}-{number:03}", kind.to_lowercase());
        let mut object = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": objects::namespace(0)},
        });
        if let (Some(object), Value::Object(rest)) = (object.as_object_mut(), rest) {
            object.extend(rest);
        }
        object
    };
    let mut dice = Dice(0);
    let mut labels = || {
        let app = format!("{}-{}", dice.one_of(&objects::DOMAINS), dice.one_of(&objects::ROLES));
        json!({"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": dice.one_of(&objects::DOMAINS)})
    };
    let ports = json!([{"port": 80, "targetPort": "http"}]);
    let service =
        |number, labels| object("v1", "Service", number, json!({"spec": {"selector": labels, "ports": ports}}));
    let policy = |number, labels| {
        let spec = json!({"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]});
        object("networking.k8s.io/v1", "NetworkPolicy", number, json!({"spec": spec}))
    };
    let rbac = "rbac.authorization.k8s.io";
    let binding = |number| {
        let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": format!("role-{number}")});
        let subject =
            json!({"kind": "ServiceAccount", "name": format!("account-{number}"), "namespace": objects::namespace(0)});
        object(&format!("{rbac}/v1"), "RoleBinding", number, json!({"roleRef": role, "subjects": [subject]}))
    };
    let limits = json!({"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}]});
    let mut all: Vec<Value> = (0..PODS).map(|number| pod(number).1).collect();
    all.extend((0..SERVICES).map(|number| service(number, labels())));
    all.extend((0..NETWORK_POLICIES).map(|number| policy(number, labels())));
    all.extend((0..BINDINGS).map(binding));
    all.extend((0..2).map(|number| object("v1", "LimitRange", number, json!({"spec": limits}))));
    let mut account = object("v1", "ServiceAccount", 0, json!({}));
    account["metadata"]["name"] = "default".into();
    all.push(account);
    all
}
