//! Compares the evaluator with OPA: OPA's own compliance cases, and policies and expressions evaluated by the real
//! `opa`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod compliance;
mod declarations;
mod expressions;
mod fuzz;
mod generated;
mod refusals;

use std::collections::BTreeMap;

use kaudit_rego::Value;

fn from_json(value: &serde_json::Value) -> Value {
    Value::from_json_str(&value.to_string()).unwrap()
}

/// Returns a value after writing and parsing it as JSON, with large numbers rounded.
fn through_json(value: &Value) -> Value {
    from_json(&serde_json::from_str(&without_sets(value).to_string()).unwrap())
}

/// Returns a value as JSON represents it.
fn without_sets(value: &Value) -> Value {
    match value {
        Value::Set(items) => Value::from(items.iter().map(without_sets).collect::<Vec<_>>()),
        Value::Array(items) => Value::from(items.iter().map(without_sets).collect::<Vec<_>>()),
        Value::Object(entries) => {
            let key = |key: &Value| if let Value::String(_) = key { key.clone() } else { Value::from(key.to_string()) };
            let entry = |(name, value): (&Value, &Value)| (key(name), without_sets(value));
            Value::from(entries.iter().map(entry).collect::<BTreeMap<_, _>>())
        }
        _ => value.clone(),
    }
}
