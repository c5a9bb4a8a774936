//! Evaluates templates for Constraints: matches the object and builds the input.

use super::{
    input::{Review, fields},
    object::{ObjectEvaluation, error},
    results::attribute,
};
use crate::judge::{
    dialects::gatekeeper::{constraint::Constraint, results::violations},
    unit::Unit,
};

impl ObjectEvaluation<'_> {
    /// Evaluates one Constraint for one review; if `kind` is given, only if the template can have results for it.
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
                attribute(&mut findings, entrypoint, (&constraint.descriptors, nearer), |index| {
                    violations(constraint, answer.definition(index)?).ok()
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
