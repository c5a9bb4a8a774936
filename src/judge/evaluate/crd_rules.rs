//! Evaluates the validation rules of CRDs, whose expressions read the JSON of the object directly.

use std::time::Instant;

use serde_json::Value as Json;

use super::{admission_policies::read_json, job::Job, results::ObjectFindings};
use crate::{
    judge::{
        depth,
        dialects::{
            cel::explain::PolicyExplanation,
            crd::{explain, load::CustomKind},
        },
    },
    model::verdict::Finding,
};

/// Evaluates the rules for the kind of the object as it is now.
pub(super) fn evaluate(job: &Job, results: &mut ObjectFindings) {
    let kind = &job.object.key.kind;
    let Some(custom) = job.policies.custom.of(kind) else { return };
    let (mut object, is_cut) = match read_json(&job.object) {
        Ok(read) => read,
        Err(why) => return results.push(Finding::object_error(&format!("the object cannot be read: {why}"))),
    };
    if is_cut {
        results.push(Finding::object_error(&depth::too_deep()));
    }
    let deadline = Instant::now() + job.policies.limits.input;
    match custom.evaluate(&kind.version, &mut object, deadline) {
        Ok(own) => {
            results.unfinished |= own.unfinished;
            own.passed.into_iter().for_each(|rule| results.pass(rule));
            results.extend(own.findings);
            own.undecided.into_iter().for_each(|error| results.push_undecided(error));
        }
        Err(why) => results.push(Finding::object_error(&format!("the object cannot be evaluated: {why}"))),
    }
}

/// Explains a rule for the object of a job in this state.
pub(crate) fn explain_rule(job: &Job, custom: &CustomKind, rule: &str, object: &Json) -> PolicyExplanation {
    let deadline = Instant::now() + job.policies.limits.input;
    explain::explain(custom, rule, &job.object.key.kind.version, object, deadline)
}
