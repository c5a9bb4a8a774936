//! Judging by Gatekeeper's Constraints: which match, their input, and how the template's value is read.

use std::sync::Arc;

use regorus::Value;

use super::{
    input::{Review, fields},
    judge::{Judge, error},
    results::{attribute, details, items, json},
};
use crate::{
    judge::{gatekeeper::constraint::Constraint, unit::Unit},
    model::verdict::Finding,
    rego::evaluator::Failure,
};

impl Judge<'_> {
    /// Asks one Constraint about one review; if the kind is given, only if the template can give results for it.
    pub(super) fn constraint(&mut self, unit: &Unit, constraint: &Constraint, review: &Review, kind: Option<&str>) {
        match matches(constraint, review) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => {
                let message = format!("cannot be matched: {why}");
                let rule = &constraint.rule;
                return self.results.push(error(&constraint.policy, &rule.name, rule.source.clone(), &message));
            }
        }
        let Some((group, entrypoint)) = unit.groups.first().and_then(|group| Some((group, group.entrypoints.first()?)))
        else {
            return;
        };
        let query = kind.map(|kind| group.queries.of(kind));
        if query.is_some_and(|query| query.is_none_or(|query| query.rules.is_empty())) {
            return;
        }
        if let Some(why) = query.flatten().and_then(|query| query.unread(0, self.namespace)) {
            let rule = &constraint.rule;
            return self.results.push_undecided(error(&constraint.policy, &rule.name, rule.source.clone(), &why));
        }
        let input = fields([("review", review.document.clone()), ("parameters", constraint.parameters.clone())]);
        let answer =
            self.alone(unit, group, 0, &input).and_then(|answer| Ok((violations(constraint, &answer.value)?, answer)));
        match answer {
            Ok((findings, _)) if findings.is_empty() => self.results.pass(&constraint.rule),
            Ok((mut findings, answer)) => {
                let nearer = constraint.rule.metadata.severity;
                attribute(&mut findings, entrypoint, (&constraint.descriptors, nearer), |number| {
                    violations(constraint, answer.definition(number)?).ok()
                });
                self.results.extend(findings);
            }
            Err(failure) => {
                self.fail(unit, &constraint.policy, &constraint.rule.name, &constraint.rule.source, &failure);
            }
        }
    }
}

/// Whether a Constraint matches one of the states of the object.
pub(super) fn matches(constraint: &Constraint, review: &Review) -> Result<bool, String> {
    for subject in review.subjects() {
        if constraint.matching.matches(&subject)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the value of `violation` as Gatekeeper's hook does: of each element `msg` and `details`. An element without
/// `msg` is no result.
///
/// # Errors
/// When a message is no string; Gatekeeper fails on it too.
fn violations(constraint: &Constraint, value: &Value) -> Result<Vec<Finding>, Failure> {
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
