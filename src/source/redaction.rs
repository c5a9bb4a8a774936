//! Redaction: removes the values of Secrets from an object before any other code can read them.
//!
//! In: the JSON of one object. Out: the same JSON without the values; the keys of `data` and the names of annotations
//! remain. A Secret inside another object, for example in a `Template` of `OpenShift`, is redacted in place.

use data_encoding::BASE64;
use memchr::memmem;
use serde_json::{Map, Value};

use crate::{judge::depth, model::object::Kind};

/// Suffixes of annotations in which tools store the whole object as it was applied: kubectl and Argo CD; kapp; Rancher
/// and Helm controllers; the objectmatcher library of operators.
const COPIES: [&str; 4] = ["/last-applied-configuration", "/original", "/applied", "/last-applied"];
/// Prefixes of annotations whose values policies may read: the name of a service account, and a Helm release.
const READABLE: [&str; 3] = ["kubernetes.io/service-account.", "meta.helm.sh/", "helm.sh/"];
/// The suffix of another readable annotation.
const MANAGER: &str = "/managed-by";
/// Fields of `metadata` in the API. A line with wrong indentation adds others.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Shorter values of a Secret are not searched for in labels: they are words such as `prod`.
const SHORTEST: usize = 6;

/// Whether an annotation of this name contains a copy of the whole object.
pub(super) fn is_copy(annotation: &str) -> bool {
    COPIES.iter().any(|copy| annotation.ends_with(copy))
}

/// Returns the JSON of an object of `kind` without the values of Secrets.
///
/// # Errors
/// When the JSON of an object that may contain a Secret cannot be read.
pub(super) fn redact(kind: &Kind, json: Vec<u8>) -> Result<Vec<u8>, String> {
    let is_secret = kind.kind.eq_ignore_ascii_case("Secret") && matches!(&*kind.group, "" | "core");
    if !is_secret && !mentions_secret(&json) {
        return Ok(json);
    }
    let read = |json: &[u8]| serde_json::from_slice::<Value>(json);
    let (mut object, _) = depth::shallow(&json, read).map_err(|error| without_value(&error))?;
    if is_secret {
        redact_secret(&mut object);
    } else if !redact_inside(&mut object) & !redact_copies(&mut object) {
        return Ok(json);
    }
    serde_json::to_vec(&object).map_err(|error| error.to_string())
}

/// Whether the text may contain a Secret as an object, or as JSON within a string.
fn mentions_secret(json: &[u8]) -> bool {
    const KIND: &[u8] = b"Secret";
    memmem::find_iter(json, KIND).any(|at| {
        let rest = &json[at + KIND.len()..];
        [&b"\""[..], b"\\\"", b"List"].iter().any(|end| rest.starts_with(end))
    })
}

/// Redacts the Secrets inside a value; returns whether there are any.
fn redact_inside(value: &mut Value) -> bool {
    match value {
        Value::Array(items) => items.iter_mut().fold(false, |found, item| redact_inside(item) | found),
        Value::Object(fields) if is_secret(fields, "Secret") => {
            // A reference to a Secret has no such field, and remains as it is.
            let is_whole = ["data", "stringData", "metadata"].iter().any(|field| fields.contains_key(*field));
            if is_whole {
                redact_secret(value);
            }
            is_whole
        }
        Value::Object(fields) if is_secret(fields, "SecretList") => {
            let items = fields.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().map(redact_secret).count() > 0
        }
        Value::Object(fields) => fields.values_mut().fold(false, |found, field| redact_inside(field) | found),
        _ => false,
    }
}

fn is_secret(fields: &Map<String, Value>, kind: &str) -> bool {
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    text("kind") == Some(kind) && !text("apiVersion").is_some_and(|version| version.contains('/'))
}

/// Redacts the annotations of an object that contain Secrets as text; returns whether there are any.
fn redact_copies(object: &mut Value) -> bool {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let mut found = false;
    for (_, value) in annotations.into_iter().flatten() {
        let copy = value.as_str().filter(|text| mentions_secret(text.as_bytes()));
        let copy = copy.and_then(|text| serde_json::from_str::<Value>(text).ok());
        if copy.is_some_and(|mut copy| redact_inside(&mut copy)) {
            *value = Value::from("");
            found = true;
        }
    }
    found
}

fn redact_secret(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let values = SecretValues::of(fields);
    for (field, value) in fields.iter_mut() {
        match field.as_str() {
            "apiVersion" | "kind" => {}
            "immutable" if value.is_boolean() => {}
            "type" => values.hide(value),
            "metadata" => redact_metadata(value, &values),
            "data" | "stringData" if value.is_object() => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, value)| *value = Value::from(""));
            }
            // Any other field is not a Secret's, but may contain a value, for example after a line with wrong
            // indentation.
            _ => *value = Value::Null,
        }
    }
}

fn redact_metadata(metadata: &mut Value, values: &SecretValues) {
    for (field, value) in metadata.as_object_mut().into_iter().flatten() {
        match (field.as_str(), value) {
            ("annotations", Value::Object(annotations)) => {
                annotations.retain(|name, _| !is_copy(name));
                for (name, value) in annotations {
                    if READABLE.iter().any(|known| name.starts_with(known)) || name.ends_with(MANAGER) {
                        values.hide(value);
                    } else {
                        *value = Value::from("");
                    }
                }
            }
            ("labels", Value::Object(labels)) => labels.values_mut().for_each(|value| values.hide(value)),
            ("annotations" | "labels", other) => *other = Value::Null,
            (field, _) if METADATA.contains(&field) => {}
            (_, other) => *other = Value::Null,
        }
    }
}

/// The values of one Secret, encoded and decoded.
struct SecretValues(Vec<String>);

impl SecretValues {
    fn of(secret: &Map<String, Value>) -> Self {
        let mut values = Vec::new();
        for (_, value) in ["data", "stringData"].iter().filter_map(|field| secret.get(*field)?.as_object()).flatten() {
            let Some(text) = value.as_str() else { continue };
            let decoded = BASE64.decode(text.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            values.extend(decoded.iter().map(String::as_str).chain([text]).map(|text| text.trim().to_owned()));
        }
        values.retain(|value| value.len() >= SHORTEST);
        Self(values)
    }

    /// Removes a text that contains one of the values, and anything that is not a string.
    fn hide(&self, value: &mut Value) {
        match value.as_str() {
            Some(text) if self.0.iter().any(|secret| text.contains(secret)) => *value = Value::from(""),
            Some(_) => {}
            None => *value = Value::Null,
        }
    }
}

/// Describes an error without the value that caused it, which may be that of a Secret.
pub(crate) fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (text.find(['"', '`']), text.rfind(", expected ")) {
        (Some(from), Some(to)) if text.starts_with("invalid ") && from < to => {
            format!("{}{}", text[..from].trim_end(), &text[to..])
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(group: &str, kind: &str, object: &Value) -> Value {
        let kind = Kind::sample(group, "things", kind);
        serde_json::from_slice(&redact(&kind, object.to_string().into_bytes()).unwrap()).unwrap()
    }

    /// Returns a Secret with the value `hunter2!` (`aHVudGVyMiE=`) in every place where an author may put one.
    fn leaky() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "hunter2!", "immutable": "hunter2!", "password": "hunter2!",
            "metadata": {
                "name": "s", "namespace": "n", "password": "hunter2!", "uid": "u",
                "labels": {"app": "web", "encoded": "aHVudGVyMiE=", "inside": "x-hunter2!", "odd": {"a": "hunter2!"}},
                "annotations": {
                    "openshift.io/token-secret.value": "hunter2!",
                    "kopf.zalando.org/last-handled-configuration": "{\"data\":{\"a\":\"aHVudGVyMiE=\"}}",
                    "kubectl.kubernetes.io/last-applied-configuration": "hunter2!",
                    "kubernetes.io/service-account.name": "builder",
                    "meta.helm.sh/release-name": "hunter2!",
                    "example.com/managed-by": "team"
                }
            },
            "data": {"a": "aHVudGVyMiE=", "b": {"c": "hunter2!"}, "env": "cHJvZA=="},
            "stringData": {"c": "hunter2!"}
        })
    }

    fn clean() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "", "immutable": null, "password": null,
            "metadata": {
                "name": "s", "namespace": "n", "password": null, "uid": "u",
                "labels": {"app": "web", "encoded": "", "inside": "", "odd": null},
                "annotations": {
                    "openshift.io/token-secret.value": "",
                    "kopf.zalando.org/last-handled-configuration": "",
                    "kubernetes.io/service-account.name": "builder",
                    "meta.helm.sh/release-name": "",
                    "example.com/managed-by": "team"
                }
            },
            "data": {"a": "", "b": "", "env": ""},
            "stringData": {"c": ""}
        })
    }

    #[test]
    fn only_names_of_a_secret_remain() {
        assert_eq!(redacted("", "Secret", &leaky()), clean());
        let mut ordinary = leaky();
        for (path, value) in [
            ("/type", json!("kubernetes.io/tls")),
            ("/immutable", json!(true)),
            ("/metadata/labels", json!({"env": "prod"})),
        ] {
            *ordinary.pointer_mut(path).unwrap() = value.clone();
            assert_eq!(redacted("", "Secret", &ordinary).pointer(path), Some(&value));
        }
    }

    #[test]
    fn secrets_inside_of_other_objects_are_redacted() {
        let mut bare = leaky();
        let mut want = clean();
        for object in [&mut bare, &mut want] {
            object.as_object_mut().unwrap().retain(|field, _| field != "apiVersion" && field != "kind");
        }
        for (group, kind, object, want) in [
            ("template.openshift.io", "Template", json!({"objects": [leaky(), 1]}), json!({"objects": [clean(), 1]})),
            (
                "work.open-cluster-management.io",
                "ManifestWork",
                json!({"spec": {"workload": {"manifests": [{"kind": "SecretList", "items": [bare]}]}}}),
                json!({"spec": {"workload": {"manifests": [{"kind": "SecretList", "items": [want]}]}}}),
            ),
            (
                "template.openshift.io",
                "Template",
                json!({"metadata": {"annotations": {"a": json!({"objects": [leaky()]}).to_string(), "b": "c"}}}),
                json!({"metadata": {"annotations": {"a": "", "b": "c"}}}),
            ),
        ] {
            assert_eq!(redacted(group, kind, &object), want);
        }
    }

    #[test]
    fn references_to_secrets_and_objects_of_other_groups_are_unchanged() {
        let reference =
            json!({"spec": {"refs": [{"kind": "Secret", "apiVersion": "v1", "name": "a"}], "data": {"b": 1}}});
        assert_eq!(redacted("example.com", "Gateway", &reference), reference);
        let other = json!({"a": {"kind": "Secret", "apiVersion": "vault.example.com/v1", "data": {"path": "b"}}});
        assert_eq!(redacted("example.com", "Secret", &other), other);
    }

    #[test]
    fn a_deep_object_that_mentions_a_secret_is_redacted_too() {
        let deep = format!(r#"{{"a":{}1{},"b":{}}}"#, "[".repeat(200), "]".repeat(200), leaky());
        let redacted = redact(&Kind::sample("example.com", "blobs", "Blob"), deep.into_bytes()).unwrap();
        assert!(!String::from_utf8(redacted).unwrap().contains("hunter2!"));
    }
}
