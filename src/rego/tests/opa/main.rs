//! The evaluator against OPA: the compliance cases that OPA is tested by, and policies and expressions that the real `opa`
//! answers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod compliance;
mod declarations;
mod expressions;
mod fuzz;
mod generated;
mod reference;
mod refusals;

use std::collections::BTreeMap;

use kaudit_rego::Value;

fn from_json(value: &serde_json::Value) -> Value {
    Value::from_json_str(&value.to_string()).unwrap()
}

/// A value as it is when it was written as JSON and read again, large numbers rounded.
fn through_json(value: &Value) -> Value {
    from_json(&serde_json::from_str(&without_sets(value).to_string()).unwrap())
}

/// A value as JSON has it.
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
