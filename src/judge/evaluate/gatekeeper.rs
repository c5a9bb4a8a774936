//! Judging by Gatekeeper's Constraints: who is asked, with which input, and what the answers mean.

use std::sync::Arc;

use regorus::Value;

use super::{
    Judge,
    input::{Review, fields},
    items,
    results::{attribute, details, json},
};
use crate::{
    judge::{gatekeeper::Constraint, unit::Unit},
    model::verdict::{Finding, Outcome, Source},
    rego::evaluator::Failure,
};

impl Judge<'_> {
    /// Asks one Constraint about one review; of an object of a known kind only if it can say anything about that.
    pub(super) fn constraint(&mut self, unit: &Unit, constraint: &Constraint, review: &Review, kind: Option<&str>) {
        match matches(constraint, review) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => {
                let message = format!("cannot be matched: {why}");
                return self.results.push(finding(constraint, Outcome::Error, message.into()));
            }
        }
        let Some((group, entry)) = unit.groups.first().and_then(|group| Some((group, group.entries.first()?))) else {
            return;
        };
        if kind.is_some_and(|kind| group.scopes.of(kind).is_none_or(|scope| scope.asked.is_empty())) {
            return self.results.pass();
        }
        let input = fields([("review", review.document.clone()), ("parameters", constraint.parameters.clone())]);
        let answer = self.alone(unit, group, 0, &input).and_then(|answer| violations(constraint, &answer));
        match answer {
            Ok(findings) if findings.is_empty() => self.results.pass(),
            Ok(mut findings) => {
                attribute(&mut findings, entry, &constraint.rule.metadata, |definition| {
                    let answer = unit.ask_definition(&input, entry, definition).ok()?;
                    violations(constraint, &answer).ok()
                });
                self.results.extend(findings);
            }
            Err(failure) => {
                let error =
                    self.failed(unit, &constraint.policy, &constraint.rule.name, &constraint.rule.source, &failure);
                self.results.push(error);
            }
        }
    }
}

/// Whether one of the states of the object is what a Constraint is about.
fn matches(constraint: &Constraint, review: &Review) -> Result<bool, String> {
    for subject in review.subjects() {
        if constraint.matching.matches(&subject)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the value of `violation` as Gatekeeper's hook does: of each element `msg` and `details`. What has no `msg` is
/// nothing.
///
/// # Errors
/// Returns a message that is no text; Gatekeeper fails on it too.
fn violations(constraint: &Constraint, value: &Value) -> Result<Vec<Finding>, Failure> {
    let elements: Vec<&Value> = match value {
        // `data.template.violation[r]` goes over the keys.
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
        let told = details([(&Value::from("details"), &element["details"])].into_iter());
        let told = told.filter(|_| element["details"] != Value::Undefined);
        findings.push(Finding { details: told, ..finding(constraint, constraint.rule.outcome, message) });
    }
    Ok(findings)
}

fn finding(constraint: &Constraint, outcome: Outcome, message: Arc<str>) -> Finding {
    let Source { file, line } = constraint.rule.source.clone();
    Finding {
        policy: Arc::clone(&constraint.policy),
        rule: Arc::clone(&constraint.rule.name),
        outcome,
        severity: None,
        category: None,
        message,
        details: None,
        source: Source { file, line },
    }
}
