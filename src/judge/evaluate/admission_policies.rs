//! Evaluates `ValidatingAdmissionPolicies`, whose expressions read the JSON of the object directly.

use std::time::Instant;

use serde_json::Value as Json;

use super::{job::Job, results::ObjectFindings};
use crate::{
    judge::{
        depth,
        dialects::cel::{
            binding::BoundPolicy,
            explain::{self, PolicyExplanation},
            policy::AdmissionPolicy,
            request::Subject,
        },
    },
    model::{object::Object, verdict::Finding},
};

/// Evaluates the selected policies that match the object as it is now.
pub(super) fn evaluate(job: &Job, is_selected: impl Fn(&AdmissionPolicy) -> bool, results: &mut ObjectFindings) {
    let policies = job.policies.admission.of(&job.object.key.kind);
    let policies: Vec<&BoundPolicy> = policies.filter(|bound| is_selected(&bound.policy)).collect();
    if policies.is_empty() {
        return;
    }
    let read = || Ok::<_, String>((read_json(&job.object)?, job.namespace.as_ref().map(read_json).transpose()?));
    let ((object, is_cut), namespace) = match read() {
        Ok(read) => read,
        Err(why) => return results.push(Finding::object_error(&format!("the object cannot be read: {why}"))),
    };
    if is_cut {
        results.push(Finding::object_error(&depth::too_deep()));
    }
    let namespace = namespace.map(|(namespace, _)| namespace);
    let subject = Subject::new(&job.object.key, &object, namespace.as_ref());
    evaluate_all(job, &policies, &subject, results);
}

/// Evaluates the policies about changes on the change that caused a job.
pub(super) fn evaluate_change(job: &Job, results: &mut ObjectFindings) {
    let policies = job.policies.admission.of(&job.object.key.kind);
    let policies: Vec<&BoundPolicy> = policies.filter(|bound| bound.is_about_changes).collect();
    if policies.is_empty() {
        return;
    }
    let read = |object: &Object| read_json(object).map(|(object, _)| object);
    let states = (|| {
        let before = job.previous.as_ref().filter(|_| !job.deleted);
        Ok::<_, String>((
            read(&job.object)?,
            before.map(read).transpose()?,
            job.namespace.as_ref().map(read).transpose()?,
        ))
    })();
    // An object that cannot be read has an error already.
    let Ok((object, before, namespace)) = states else { return };
    let change = match &before {
        Some(before) => (before, Some(&object)),
        None => (&object, None),
    };
    let subject = Subject::of_change(&job.object.key, change, namespace.as_ref());
    evaluate_all(job, &policies, &subject, results);
}

/// Evaluates policies on an object or its change.
fn evaluate_all(job: &Job, policies: &[&BoundPolicy], subject: &Subject<'_>, results: &mut ObjectFindings) {
    let (request, deadline) = (subject.request(), Instant::now() + job.policies.limits.input);
    for bound in policies {
        let own = bound.evaluate(subject, &request, deadline);
        results.unfinished |= own.unfinished;
        if own.is_evaluated && own.findings.is_empty() && own.undecided.is_empty() {
            results.pass(&bound.rule);
        }
        results.extend(own.findings);
        own.undecided.into_iter().for_each(|error| results.push_undecided(error));
    }
}

/// Explains a policy for the object of a job in this state.
///
/// # Errors
/// Returns why the object's Namespace cannot be read.
pub(crate) fn explain_policy(job: &Job, bound: &BoundPolicy, object: &Json) -> Result<PolicyExplanation, String> {
    let namespace = job.namespace.as_ref().map(read_json).transpose()?.map(|(namespace, _)| namespace);
    let subject = Subject::new(&job.object.key, object, namespace.as_ref());
    let deadline = Instant::now() + job.policies.limits.input;
    Ok(explain::explain(bound, &subject, &subject.request(), deadline))
}

/// Reads the JSON of an object; also returns whether values nested too deep were replaced by null.
///
/// # Errors
/// Returns why it cannot be read.
pub(crate) fn read_json(object: &Object) -> Result<(Json, bool), String> {
    let json = object.body.json().map_err(|why| why.to_string())?;
    depth::shallow(&json, |json| serde_json::from_slice(json)).map_err(|why: serde_json::Error| why.to_string())
}
