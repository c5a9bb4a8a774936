//! Sorts files next to the policies into data and Kubernetes objects; the latter are not used as data.

use serde_json::{Map, Value};

use super::{dependencies::INVENTORIES, parameters::DOCUMENT};
use crate::rego::{
    File, Problem,
    analysis::data::{self, Data},
};

/// Keys below `data` whose values are not in data files.
const EXTERNAL: [&str; 3] = [INVENTORIES[0], INVENTORIES[1], DOCUMENT];

/// Creates the data document; the contents of the inventory are known only during evaluation, and parameters come from the
/// settings.
pub(crate) fn document() -> Data {
    Data::new(&EXTERNAL)
}

/// Adds one file to the data, or reports why it is not data.
///
/// A Kubernetes object is a warning, unless it is an example of a test suite.
pub(crate) fn add(data: &mut Data, file: &File, example: bool, problems: &mut Vec<Problem>) {
    if let Some(value) = read(file, example, problems) {
        data.insert(file, value, problems);
    }
}

/// Reads one data file; `None` if it is not data, with the reason added to `problems`.
pub(crate) fn read(file: &File, example: bool, problems: &mut Vec<Problem>) -> Option<Value> {
    // A kustomization lists the manifests next to it and is never data.
    if matches!(file.relative().rsplit('/').next(), Some("kustomization.yaml" | "kustomization.yml")) {
        return None;
    }
    let mut documents = match data::documents(file) {
        Ok(documents) => documents,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    if !documents.is_empty() && documents.iter().all(is_kubernetes) {
        if !example {
            problems.extend(documents.iter().map(|object| kubernetes(file, object)));
        }
        return None;
    }
    match documents.len() {
        0 => Some(Value::Object(Map::new())),
        1 => Some(documents.remove(0)),
        more => {
            let message = format!("has {more} documents; a data file must have one");
            problems.push(Problem::refused(&file.shown, message).help("give each a file of its own"));
            None
        }
    }
}

fn is_kubernetes(document: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|key| document.get(key).is_some_and(Value::is_string))
}

/// Returns the warning for a Kubernetes object among the policies.
fn kubernetes(file: &File, object: &Value) -> Problem {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let message = format!("{kind} {name}: a Kubernetes object is neither policy nor data; it is not used");
    Problem::warning(&file.shown, message).help("move it out of the policy paths")
}
