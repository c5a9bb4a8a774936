//! Converts the value of a check into results as Trivy's scanner does (`result.go` of `pkg/iac/rego`).

use std::sync::Arc;

use regorus::Value;

use crate::{
    judge::{
        result_values::{details, items, json},
        rule::Entrypoint,
    },
    model::verdict::Finding,
    rego::value,
};

/// Trivy's message for a result that is neither a string nor an object.
const DENIED: &str = "Rego check resulted in DENY";

/// Converts the value of a rule: each element is a result, and a value that is not a collection is one result,
/// including `false`.
pub(super) fn findings(entrypoint: &Entrypoint, value: &Value) -> Vec<Finding> {
    match value {
        Value::Undefined => Vec::new(),
        Value::Set(_) | Value::Array(_) => items(value).map(|item| finding(entrypoint, item)).collect(),
        value => vec![finding(entrypoint, value)],
    }
}

fn finding(entrypoint: &Entrypoint, value: &Value) -> Finding {
    let (message, fields) = match value {
        Value::String(text) => (Some(Arc::clone(text)), None),
        Value::Object(_) => (message(value), Some(value)),
        // A message and its cause, in any order; the last of each is used.
        Value::Array(_) => {
            let last = |wanted: fn(&&Value) -> bool| items(value).filter(wanted).last();
            let text = last(|item| matches!(item, Value::String(_))).and_then(value::text).cloned();
            (text, last(|item| matches!(item, Value::Object(_))))
        }
        Value::Set(_) => (None, None),
        _ => (Some(DENIED.into()), None),
    };
    let message = message.filter(|text| !text.is_empty());
    let rule = &entrypoint.rule;
    let unnamed = || format!("Rego check rule: {}.{}", entrypoint.policy, rule.name).into();
    let fields = fields.and_then(value::object);
    let explicit =
        fields.into_iter().flat_map(|fields| fields.iter_sorted()).filter(|(key, value)| is_explicit(key, value));
    Finding {
        rule: Arc::clone(&entrypoint.descriptors.rule),
        outcome: rule.outcome,
        severity: None,
        message: message.unwrap_or_else(unnamed),
        details: details(explicit),
        excused: None,
    }
}

fn message(result: &Value) -> Option<Arc<str>> {
    match &result["msg"] {
        Value::Undefined => None,
        Value::String(text) => Some(Arc::clone(text)),
        other => Some(json(other).to_string().into()),
    }
}

/// Whether a field differs from the default that `result.new` fills in.
fn is_explicit(key: &Value, value: &Value) -> bool {
    match value::text(key).map_or("", |key| &**key) {
        "msg" => false,
        "startline" | "endline" => *value != Value::from(0),
        "sourceprefix" | "filepath" | "fskey" | "resource" => *value != Value::from(""),
        "explicit" => *value != Value::from(false),
        "managed" => *value != Value::from(true),
        "parent" => *value != Value::Null,
        _ => true,
    }
}
