//! From the value of a rule to findings.

use std::{cmp::Ordering, sync::Arc};

use regorus::Value;
use serde_json::Map;

use super::items;
use crate::{
    judge::{
        metadata::Metadata,
        unit::{Definition, Entry, Shape},
    },
    model::verdict::{Finding, Severity, Source},
};

/// What one object has got so far.
#[derive(Default)]
pub(super) struct Results {
    findings: Vec<Finding>,
    passed: u32,
}

impl Results {
    pub(super) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn extend(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
    }

    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Returns the findings sorted and without doubles, and the number of rules that passed.
    pub(super) fn finish(mut self) -> (Vec<Finding>, u32) {
        self.findings.sort_by(order);
        self.findings.dedup();
        (self.findings, self.passed)
    }
}

/// Whether two findings say the same.
pub(super) fn same(a: &Finding, b: &Finding) -> bool {
    let what = |finding: &Finding| (finding.outcome, Arc::clone(&finding.policy), Arc::clone(&finding.rule));
    what(a) == what(b) && a.message == b.message && a.details == b.details
}

fn order(a: &Finding, b: &Finding) -> Ordering {
    fn key(finding: &Finding) -> impl Ord {
        let Finding { policy, rule, outcome, message, source, severity, .. } = finding;
        (policy, rule, *outcome, message, source, *severity)
    }
    // Details have no order of their own; their text is only made where everything else is equal.
    let details = |finding: &Finding| finding.details.as_ref().map(|details| serde_json::to_string(&**details).ok());
    key(a).cmp(&key(b)).then_with(|| details(a).cmp(&details(b)))
}

/// Returns what a rule's value says, the way conftest and OPA's tutorials read it.
pub(super) fn findings(entry: &Entry, value: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    match (entry.shape, value) {
        (_, Value::Undefined | Value::Null | Value::Bool(false)) => {}
        // `default deny := ""` is how some say that nothing is wrong.
        (Shape::Complete, Value::String(text)) if text.is_empty() => {}
        (Shape::Object, Value::Object(fields)) => {
            for (key, value) in fields.iter_sorted() {
                match value {
                    Value::Bool(false) => {}
                    // `deny["message"] if …` is an object in Rego v1, which its author took for a set.
                    Value::Bool(true) => findings.push(finding(entry, key)),
                    Value::Set(_) | Value::Array(_) => findings.extend(items(value).map(|item| finding(entry, item))),
                    value => findings.push(finding(entry, value)),
                }
            }
        }
        (_, Value::Set(_) | Value::Array(_)) => findings.extend(items(value).map(|item| finding(entry, item))),
        (_, value) => findings.push(finding(entry, value)),
    }
    findings
}

/// Makes a finding of one result.
fn finding(entry: &Entry, value: &Value) -> Finding {
    let rule = &entry.rule;
    let mut severity = None;
    let mut details = None;
    let message: Arc<str> = match value {
        // Someone said that something is wrong, even if not what.
        Value::Bool(true) => Arc::clone(&rule.name),
        Value::String(text) if text.is_empty() => Arc::clone(&rule.name),
        Value::String(text) => Arc::clone(text),
        Value::Object(fields) => {
            let word = fields.get(&Value::from("severity")).and_then(|word| word.as_string().ok());
            severity = word.and_then(|word| Severity::from_word(word));
            let known = |key: &str| key == "msg" || (key == "severity" && severity.is_some());
            details =
                self::details(fields.iter_sorted().filter(|(key, _)| !key.as_string().is_ok_and(|key| known(key))));
            match fields.get(&Value::from("msg")) {
                Some(Value::String(text)) => Arc::clone(text),
                Some(other) => json(other).to_string().into(),
                None => format!("rule missing msg field: {}", json(value)).into(),
            }
        }
        other => json(other).to_string().into(),
    };
    Finding {
        policy: Arc::clone(&entry.policy),
        rule: Arc::clone(&rule.name),
        outcome: rule.outcome,
        severity,
        category: None,
        message,
        details,
        source: rule.source.clone(),
    }
}

/// Returns what a result says beside its message. A single key `details` that holds an object is that object, which is
/// how Gatekeeper's policies write it.
pub(super) fn details<'a>(
    fields: impl Iterator<Item = (&'a Value, &'a Value)>,
) -> Option<Arc<Map<String, serde_json::Value>>> {
    let name = |key: &Value| key.as_string().map_or_else(|_| json(key).to_string(), ToString::to_string);
    let mut details: Map<_, _> = fields.map(|(key, value)| (name(key), json(value))).collect();
    if details.len() == 1
        && let Some(serde_json::Value::Object(inner)) = details.get_mut("details")
    {
        details = std::mem::take(inner);
    }
    details.values_mut().for_each(|value| cut(value, DEEPEST));
    (!details.is_empty()).then(|| Arc::new(details))
}

/// Levels of details that stay what they are: many parsers of JSON read 128, and results stand in a document.
const DEEPEST: u32 = 100;

/// Makes text of what is nested deeper than so many levels.
fn cut(value: &mut serde_json::Value, levels: u32) {
    match value {
        serde_json::Value::Array(_) | serde_json::Value::Object(_) if levels == 0 => *value = value.to_string().into(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| cut(item, levels - 1)),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, levels - 1)),
        _ => {}
    }
}

/// Returns a value as JSON; sets become arrays.
pub(super) fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Gives each finding the place, the severity and the category of the definition that it came from: `ask` returns what
/// one definition alone says, for rules that have several. What `nearer` says wins over the definition.
pub(super) fn attribute(
    findings: &mut [Finding],
    entry: &Entry,
    nearer: &Metadata,
    ask: impl Fn(&Definition) -> Option<Vec<Finding>>,
) {
    if let [only] = entry.definitions.as_slice() {
        return findings.iter_mut().for_each(|finding| stamp(finding, &only.source, nearer, &only.metadata));
    }
    let mut open: Vec<&mut Finding> = findings.iter_mut().collect();
    // A set is all that its definitions give: what none of the others gave is of the last.
    let mut sure = entry.shape == Shape::Set;
    for (number, definition) in entry.definitions.iter().enumerate() {
        if open.is_empty() {
            return;
        }
        if sure && number + 1 == entry.definitions.len() {
            return open
                .into_iter()
                .for_each(|finding| stamp(finding, &definition.source, nearer, &definition.metadata));
        }
        let Some(own) = ask(definition) else {
            sure = false;
            continue;
        };
        open.retain_mut(|finding| {
            let mine = own.iter().any(|own| own.message == finding.message && own.details == finding.details);
            if mine {
                stamp(finding, &definition.source, nearer, &definition.metadata);
            }
            !mine
        });
    }
    for finding in open {
        stamp(finding, &entry.rule.source, nearer, &entry.rule.metadata);
    }
}

/// A result that names its own severity keeps it.
fn stamp(finding: &mut Finding, source: &Source, nearer: &Metadata, wider: &Metadata) {
    finding.severity = finding.severity.or(nearer.severity).or(wider.severity);
    finding.category = nearer.category.as_ref().or(wider.category.as_ref()).cloned();
    finding.source = source.clone();
}
