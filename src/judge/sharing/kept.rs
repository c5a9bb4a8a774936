//! Cached results that objects share.

use std::sync::Arc;

use serde_json::Value;

use super::placeholders::{ObjectNames, Placeholders};
use crate::model::{rule_numbers::RuleNumbers, verdict::Finding};

/// The results of the shareable rules for an object, with placeholders for its names.
#[derive(Debug)]
pub(crate) struct KeptFindings {
    findings: Vec<Finding>,
    pub(crate) passed: RuleNumbers,
    bytes: u64,
}

impl KeptFindings {
    /// Returns an entry of the cache for results and the rules that passed.
    pub(crate) fn new((findings, passed): (Vec<Finding>, RuleNumbers)) -> Self {
        let details = |finding: &Finding| finding.details.as_deref().map_or(0, |details| size(details.values()));
        let bytes = findings.iter().map(|finding| size_of::<Finding>() + finding.message.len() + details(finding));
        let bytes = (size_of::<Self>() + bytes.sum::<usize>()) as u64;
        Self { findings, passed, bytes }
    }

    /// Returns its estimated memory usage.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the results for the object with these names; `None` if two results become equal that come from different
    /// definitions of their rule: only an evaluation shows which of them applies.
    pub(crate) fn of(&self, placeholders: &Placeholders, names: ObjectNames<'_>) -> Option<Vec<Finding>> {
        let mut findings = self.findings.clone();
        let mut printed = false;
        for finding in &mut findings {
            if let Some(message) = placeholders.replace(&finding.message, names) {
                finding.message = message.into();
                printed = true;
            }
            if let Some(details) = &mut finding.details
                && details.values().any(|value| holds(value, placeholders))
            {
                Arc::make_mut(details).values_mut().for_each(|value| insert_names(value, placeholders, names));
                printed = true;
            }
        }
        (!printed || are_distinct(&findings)).then_some(findings)
    }
}

/// Returns the size of values and their parts.
fn size<'v>(values: impl Iterator<Item = &'v Value>) -> usize {
    let of = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Array(items) => size(items.iter()),
        Value::Object(fields) => {
            size(fields.values()) + fields.keys().map(|key| key.len() + size_of::<String>()).sum::<usize>()
        }
        _ => 0,
    };
    values.map(|value| size_of::<Value>() + of(value)).sum()
}

/// Whether a value contains placeholders.
fn holds(value: &Value, placeholders: &Placeholders) -> bool {
    match value {
        Value::String(text) => placeholders.are_in(text.as_bytes()),
        Value::Array(items) => items.iter().any(|item| holds(item, placeholders)),
        Value::Object(fields) => fields.values().any(|field| holds(field, placeholders)),
        _ => false,
    }
}

/// Replaces the placeholders in a value by the names of an object.
fn insert_names(value: &mut Value, placeholders: &Placeholders, names: ObjectNames<'_>) {
    match value {
        Value::String(text) => {
            if let Some(own) = placeholders.replace(text, names) {
                *text = own;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| insert_names(item, placeholders, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| insert_names(field, placeholders, names)),
        _ => {}
    }
}

/// Whether no two results of a rule are equal.
fn are_distinct(findings: &[Finding]) -> bool {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    let message = |finding: &Finding| {
        (Arc::clone(&finding.rule.policy), Arc::clone(&finding.rule.name), Arc::clone(&finding.message))
    };
    sorted.sort_by_cached_key(|finding| message(finding));
    let mut alike = sorted.chunk_by(|a, b| message(a) == message(b));
    alike.all(|alike| {
        alike.iter().enumerate().all(|(index, one)| !alike[..index].iter().any(|other| one.is_same_result(other)))
    })
}
