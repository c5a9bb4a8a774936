//! Objects to evaluate: those of the example manifests, and altered ones.

use std::{fs, path::Path};

use kaudit::rego::analysis::yaml;
use serde_json::{Value, json};

/// Returns the objects of the example manifests, and Pods with more fields that policies read.
pub(crate) fn objects() -> Vec<Value> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests");
    let mut files: Vec<_> = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let mut objects: Vec<Value> = texts.flat_map(|text| yaml::from_multiple::<Value>(&text).unwrap()).collect();
    let container = |name: &str, image: &str, cpu: Value| {
        json!({
            "name": name, "image": image, "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "securityContext": {"privileged": true, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}},
        })
    };
    objects.push(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "hostNetwork": true, "automountServiceAccountToken": true,
            "containers": [container("a", "web:latest", json!("2")), container("b", "example.com/b@sha256:1", json!(1.5))],
            "initContainers": [container("c", "web", json!("0.5"))],
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        },
    }));
    objects
}

/// Removes, adds or replaces a value.
pub(crate) fn alter(value: &mut Value, random: &mut fastrand::Rng) {
    let other =
        [json!(null), json!(true), json!(false), json!("x"), json!(0), json!(1.5), json!([]), json!({}), json!([{}])];
    let other = other[random.usize(..other.len())].clone();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(random.usize(..fields.len())).unwrap().clone();
            match random.u32(..8) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(key, other)),
                _ => alter(&mut fields[&key], random),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = random.usize(..items.len());
            match random.u32(..8) {
                0 => drop(items.remove(index)),
                1 => items.push(other),
                _ => alter(&mut items[index], random),
            }
        }
        value => *value = other,
    }
}
