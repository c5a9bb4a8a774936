//! The object's JSON as the evaluator's value, and the documents that policies expect around it.

use std::collections::BTreeMap;

use regorus::Value;

use crate::{object::Object, policy::value};

/// Reads an object's JSON.
///
/// # Errors
/// Returns why it cannot be read, e.g. because it is nested deeper than 127 levels.
pub(super) fn read(object: &Object) -> Result<Value, String> {
    let json = object.body.json().map_err(|why| why.to_string())?;
    value::from_json(&json).map_err(|why| why.to_string())
}

/// Puts an object into the admission review that the API server would send at its creation.
pub(super) fn review(object: &Object, value: Value) -> Value {
    let kind = &object.key.kind;
    let triple = |last: &str, name: &str| {
        fields([("group", kind.group.as_str().into()), ("version", kind.version.as_str().into()), (last, name.into())])
    };
    let text = |text: &str| Value::from(text);
    let mut request = vec![
        ("uid", text(&object.uid)),
        ("kind", triple("kind", &kind.kind)),
        ("resource", triple("resource", &kind.plural)),
        ("requestKind", triple("kind", &kind.kind)),
        ("requestResource", triple("resource", &kind.plural)),
        ("name", text(&object.key.name)),
        ("operation", text("CREATE")),
        ("userInfo", Value::new_object()),
        ("object", value),
        ("oldObject", Value::Null),
        ("dryRun", Value::from(false)),
        ("options", Value::Null),
    ];
    if let Some(namespace) = &object.key.namespace {
        request.push(("namespace", text(namespace)));
    }
    fields([
        ("apiVersion", text("admission.k8s.io/v1")),
        ("kind", text("AdmissionReview")),
        ("request", fields(request)),
    ])
}

fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::from(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect::<BTreeMap<_, _>>())
}
