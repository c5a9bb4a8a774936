//! Preparation of an object before it is stored: defaults, immutable fields, and validation.

use serde_json::{Map, Value, json};

use super::{
    kinds::ResourceType,
    names,
    status::{ApiResult, ErrorStatus, Wrong},
    validation,
    writes::{WriteTarget, has_text, map, metadata},
};

/// Maximum size of an object in etcd.
const LARGEST: usize = 1_572_864;

/// Restores fields that an update may not change, and updates the generation.
pub(super) fn prepare(target: &WriteTarget, old: &Value, object: &mut Value) {
    let kind = &target.kind;
    if target.status_only() {
        let status = object.get("status").cloned();
        let managed = object["metadata"].get("managedFields").cloned();
        object.clone_from(old);
        match status {
            Some(status) => object["status"] = status,
            None => drop(map(object).remove("status")),
        }
        if let Some(managed) = managed {
            object["metadata"]["managedFields"] = managed;
        }
    } else if kind.has_status(&target.version) {
        match old.get("status") {
            Some(status) => object["status"] = status.clone(),
            None => drop(map(object).remove("status")),
        }
    }
    if kind.is("", "namespaces") {
        // The spec has a subresource of its own.
        object["spec"] = old["spec"].clone();
    }
    defaults(kind, object, &target.name);
    let kept = [
        "name",
        "namespace",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "generateName",
    ];
    for field in kept {
        match old["metadata"].get(field) {
            Some(value) => drop(metadata(object).insert(field.to_owned(), value.clone())),
            None => drop(metadata(object).remove(field)),
        }
    }
    let content = |object: &Value| {
        let mut content = object.clone();
        let map = map(&mut content);
        map.remove("metadata");
        map.remove("status");
        content
    };
    if kind.generation && content(old) != content(object) {
        let generation = old["metadata"]["generation"].as_u64().unwrap_or_default() + 1;
        metadata(object).insert("generation".to_owned(), generation.into());
    }
}

/// Sets default values, as far as they are read.
pub(super) fn defaults(kind: &ResourceType, object: &mut Value, name: &str) {
    // Empty maps and lists of metadata are not stored.
    let hollow = |value: &Value| {
        value.is_null() || value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
    };
    metadata(object).retain(|_, value| !hollow(value));
    if kind.custom() {
        return;
    }
    match kind.kind.as_str() {
        "Namespace" => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
        }
        "Secret" if object["type"].is_null() => object["type"] = "Opaque".into(),
        "ConfigMap" | "Secret" => {
            let fields = ["data", "binaryData", "stringData"];
            map(object).retain(|field, value| !fields.contains(&field.as_str()) || !hollow(value));
        }
        _ => {}
    }
}

/// Sets the fields of a new object that have no field manager.
pub(super) fn begin(kind: &ResourceType, object: &mut Value) {
    if kind.is("", "namespaces") {
        object["spec"]["finalizers"] = json!(["kubernetes"]);
        object["status"]["phase"] = "Active".into();
    } else if kind.is("", "pods") && object["status"]["phase"].is_null() {
        object["status"]["phase"] = "Pending".into();
    }
}

/// Validates what tests rely on; the real server validates much more.
pub(super) fn validate(target: &WriteTarget, old: Option<&Value>, object: &Value) -> ApiResult<()> {
    let kind = &target.kind;
    let mut wrong = Vec::new();
    if old.is_none() {
        wrong.extend(names::wrong(kind, &target.name));
    }
    if let Some(old) = old {
        wrong.extend(new_finalizers(old, object));
        let uid = &object["metadata"]["uid"];
        if *uid != old["metadata"]["uid"] {
            wrong.push(Wrong::immutable("metadata.uid", uid));
        }
    }
    match (kind.schema(&target.version), kind.kind.as_str()) {
        (Some(schema), _) => wrong.extend(validation::check(object, schema)),
        (None, "Event") => wrong.extend(wrong_event(kind, &target.namespace, object)),
        (None, "ConfigMap") => {
            let size: usize = ["data", "binaryData"].iter().map(|field| size(&object[*field])).sum();
            if size > 1_048_576 {
                wrong.push(Wrong::new("[]", "FieldValueTooLong", "Too long: may not be more than 1048576 bytes"));
            }
        }
        _ => {}
    }
    if wrong.is_empty() { Ok(()) } else { Err(ErrorStatus::invalid(kind, &target.name, &wrong)) }
}

fn wrong_event(kind: &ResourceType, namespace: &str, event: &Value) -> Vec<Wrong> {
    if kind.group == "events.k8s.io" {
        let fields = ["reportingController", "reportingInstance", "action", "reason"];
        return fields.into_iter().filter(|field| !has_text(&event[*field])).map(Wrong::required).collect();
    }
    let about = event["involvedObject"]["namespace"].as_str().unwrap_or_default();
    let matches = if about.is_empty() { matches!(namespace, "default" | "kube-system") } else { about == namespace };
    let why = format!("Invalid value: {about:?}: does not match event.namespace");
    if matches { Vec::new() } else { vec![Wrong::new("involvedObject.namespace", "FieldValueInvalid", why)] }
}

fn size(map: &Value) -> usize {
    map.as_object().into_iter().flatten().map(|(_, value)| value.as_str().map_or(0, str::len)).sum()
}

/// Returns an error if finalizers are added to a terminating object.
fn new_finalizers(old: &Value, object: &Value) -> Option<Wrong> {
    let of = |object: &Value| -> Vec<String> {
        let finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        finalizers.filter_map(|finalizer| finalizer.as_str().map(str::to_owned)).collect()
    };
    let (known, mut added) = (of(old), of(object));
    added.retain(|finalizer| !known.contains(finalizer));
    if added.is_empty() || !old["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    let quoted: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
    let why = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    Some(Wrong::new("metadata.finalizers", "FieldValueForbidden", why))
}

pub(super) fn check_size(object: &Value) -> ApiResult<()> {
    if weight(object) > LARGEST {
        return Err(ErrorStatus::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

/// Returns the approximate size of a value in bytes.
fn weight(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.iter().map(|(field, value)| field.len() + 4 + weight(value)).sum(),
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum(),
        Value::String(text) => text.len() + 2,
        _ => 4,
    }
}
