//! Differences between two states of everything that the server stores.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde_json::Value;

/// Fails with the differences between two states of the store.
pub(super) fn changed(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> anyhow::Result<()> {
    for (name, object) in before.iter().chain(after) {
        let (old, new) = (before.get(name).unwrap_or(&Value::Null), after.get(name).unwrap_or(&Value::Null));
        if old != new {
            bail!(
                "in a quiet cluster {}/{} changes: {}",
                object["kind"],
                object["metadata"]["name"],
                first_change(old, new)
            );
        }
    }
    Ok(())
}

/// Returns the first difference between two values.
fn first_change(old: &Value, new: &Value) -> String {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            // Report metadata last, because it is not the cause of a write.
            let (metadata, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| *key == "metadata");
            let different = others.into_iter().chain(metadata).find(|key| old.get(*key) != new.get(*key));
            different.map_or_else(String::new, |key| {
                format!(
                    ".{key}{}",
                    first_change(old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null))
                )
            })
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let different = old.iter().zip(new).find(|(old, new)| old != new);
            let name =
                |item: &Value| ["type", "kind"].iter().find_map(|key| item[*key].as_str()).unwrap_or("…").to_owned();
            different.map_or_else(String::new, |(old, new)| format!("[{}]{}", name(old), first_change(old, new)))
        }
        (Value::Array(old), Value::Array(new)) => {
            let missing = |these: &[Value], those: &[Value]| {
                these.iter().find(|item| !those.contains(item)).map_or_else(String::new, short)
            };
            format!(": {} becomes {}", missing(old, new), missing(new, old))
        }
        _ => format!(": {} becomes {}", short(old), short(new)),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}
