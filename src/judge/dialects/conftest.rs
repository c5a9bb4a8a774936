//! conftest: rules get the object as their input.

use std::sync::Arc;

use regorus::Value;

use crate::{
    judge::{
        dialect::{Dialect, DialectDescription, InputForm},
        result_values::{details, items, json},
        rule::{Entrypoint, ResultShape},
    },
    model::verdict::{Finding, Outcome, Severity},
    rego::value,
};

pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    outcome,
    has_exceptions: true,
    is_read_as: |input| !input.is_empty(),
    ..DialectDescription::new("conftest", InputForm::Object, findings)
});

/// Returns the outcome of a rule's results; `None` if a rule with this name is not an entrypoint.
pub(crate) fn outcome(name: &str) -> Option<Outcome> {
    let (outcome, rest) = [("deny", Outcome::Fail), ("violation", Outcome::Fail), ("warn", Outcome::Warn)]
        .into_iter()
        .find_map(|(word, outcome)| Some((outcome, name.strip_prefix(word)?)))?;
    let parts_are_words = |rest: &str| {
        rest.split('_').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    (rest.is_empty() || rest.strip_prefix('_').is_some_and(parts_are_words)).then_some(outcome)
}

/// Converts a rule's value into results as conftest and OPA's tutorials do.
pub(crate) fn findings(entrypoint: &Entrypoint, value: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    match (entrypoint.shape, value) {
        (_, Value::Undefined | Value::Null | Value::Bool(false)) => {}
        // `default deny := ""` is an idiom for no result.
        (ResultShape::Complete, Value::String(text)) if text.is_empty() => {}
        (ResultShape::Object, Value::Object(fields)) => {
            for (key, value) in fields.iter_sorted() {
                match value {
                    Value::Bool(false) => {}
                    // `deny["message"] if …` is an object in Rego v1, although its author meant a set.
                    Value::Bool(true) => findings.push(finding(entrypoint, key)),
                    Value::Set(_) | Value::Array(_) => {
                        findings.extend(items(value).map(|item| finding(entrypoint, item)));
                    }
                    value => findings.push(finding(entrypoint, value)),
                }
            }
        }
        (_, Value::Set(_) | Value::Array(_)) => findings.extend(items(value).map(|item| finding(entrypoint, item))),
        (_, value) => findings.push(finding(entrypoint, value)),
    }
    findings
}

/// Converts one value into a result.
fn finding(entrypoint: &Entrypoint, value: &Value) -> Finding {
    let rule = &entrypoint.rule;
    let mut severity = None;
    let mut fields_beside = None;
    let message: Arc<str> = match value {
        // A result without a message.
        Value::Bool(true) => Arc::clone(&rule.name),
        Value::String(text) if text.is_empty() => Arc::clone(&rule.name),
        Value::String(text) => Arc::clone(text),
        Value::Object(fields) => {
            let word = fields.get(&Value::from("severity")).and_then(value::text);
            severity = word.and_then(|word| Severity::from_word(word));
            let known = |key: &str| key == "msg" || (key == "severity" && severity.is_some());
            fields_beside =
                details(fields.iter_sorted().filter(|(key, _)| !value::text(key).is_some_and(|key| known(key))));
            match fields.get(&Value::from("msg")) {
                Some(Value::String(text)) => Arc::clone(text),
                Some(other) => json(other).to_string().into(),
                None => format!("rule missing msg field: {}", json(value)).into(),
            }
        }
        other => json(other).to_string().into(),
    };
    let descriptor = Arc::clone(&entrypoint.descriptors.rule);
    Finding { rule: descriptor, outcome: rule.outcome, severity, message, details: fields_beside, excused: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entrypoints_are_found_by_name() {
        for name in ["deny", "violation", "deny_a", "deny_a_B2", "violation_1"] {
            assert_eq!(outcome(name), Some(Outcome::Fail), "{name}");
        }
        assert_eq!(outcome("warn_x"), Some(Outcome::Warn));
        for name in ["denying", "deny_", "deny__x", "deny_x_", "warn-x", "not_deny", "warning", "DENY", ""] {
            assert_eq!(outcome(name), None, "{name}");
        }
    }
}
