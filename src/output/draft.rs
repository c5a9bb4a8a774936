//! Drafts of exceptions for the violations that there are.
//!
//! What is left to write is the reason: a draft without one is refused.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    audit::result::Entry,
    cluster::identity::{API_VERSION, EXCEPTION_KIND},
};

/// How long a draft is for.
const TERM: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Returns an exception for each rule and namespace, as YAML documents, valid for 30 days from `now`.
///
/// # Errors
/// When it cannot be written as YAML, which no result makes happen.
pub(crate) fn drafts(entries: &[&Entry], now: Timestamp) -> anyhow::Result<String> {
    let mut groups: BTreeMap<_, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        groups.entry((&entry.policy, &entry.rule, &entry.resource.namespace)).or_default().push(entry);
    }
    let last_day = now.saturating_add(TERM)?.strftime("%Y-%m-%d").to_string();
    let mut documents = Vec::new();
    for ((policy, rule, namespace), entries) in groups {
        let named = |name: fn(&Entry) -> String| {
            let mut names: Vec<String> = entries.iter().map(|entry| name(entry)).collect();
            names.sort();
            names.dedup();
            names
        };
        let kinds = named(|entry| {
            let group = entry.resource.group();
            let kind = entry.resource.kind.to_lowercase();
            format!("{kind}.{}", if group.is_empty() { "core" } else { group })
        });
        let mut metadata = json!({"name": object_name(&format!("{policy}-{rule}"))});
        if let Some(namespace) = namespace {
            metadata["namespace"] = (**namespace).into();
        }
        let document = json!({
            "apiVersion": API_VERSION,
            "kind": EXCEPTION_KIND,
            "metadata": metadata,
            "spec": {
                "policies": [{"name": policy, "rules": [rule]}],
                "match": {"kinds": kinds, "names": named(|entry| entry.resource.name.to_string())},
                "reason": "",
                "expiresAt": last_day,
            },
        });
        documents.push(serde_saphyr::to_string(&document)?);
    }
    Ok(documents.join("---\n"))
}

/// Returns a name that the API server takes: an RFC 1123 subdomain.
fn object_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(plain).take(253).collect();
    name.trim_matches('-').to_owned()
}
