//! Converts the value of `violation` into results as Gatekeeper does.

use std::sync::Arc;

use regorus::Value;

use super::constraint::Constraint;
use crate::{
    judge::result_values::{details, items, json},
    model::verdict::Finding,
    rego::Failure,
};

/// Converts the value of `violation` as Gatekeeper's hook does: `msg` and `details` of each element. An element without
/// `msg` is not a result.
///
/// # Errors
/// If a message is not a string, as in Gatekeeper.
pub(crate) fn violations(constraint: &Constraint, value: &Value) -> Result<Vec<Finding>, Failure> {
    let elements: Vec<&Value> = match value {
        // `data.template.violation[r]` iterates over the keys.
        Value::Object(fields) => {
            fields.iter_sorted().filter(|(_, value)| **value != Value::Bool(false)).map(|(key, _)| key).collect()
        }
        Value::Set(_) => items(value).collect(),
        _ => Vec::new(),
    };
    let mut findings = Vec::new();
    for element in elements {
        let message: Arc<str> = match &element["msg"] {
            Value::Undefined => continue,
            Value::String(text) => Arc::clone(text),
            other => return Err(Failure::error(format!("msg must be a string, not {}", json(other)))),
        };
        let details = details([(&Value::from("details"), &element["details"])].into_iter());
        let details = details.filter(|_| element["details"] != Value::Undefined);
        let (rule, outcome) = (Arc::clone(&constraint.descriptors.rule), constraint.rule.outcome);
        findings.push(Finding { rule, outcome, severity: None, message, details, excused: None });
    }
    Ok(findings)
}
