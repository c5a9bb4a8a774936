//! Evaluates the objects that an object would create, and reports their results at the object: see
//! [`expansion`](crate::judge::expansion).

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::{
    admission_policies::{self, read_json},
    evaluate_part,
    generated::of_generated,
    input::{Extent, JobValues, Operation},
    job::Job,
    object::ObjectEvaluation,
    part::RulePart,
    results::ObjectFindings,
};
use crate::{
    judge::{
        dialects::cel::policy::{AdmissionPolicy, PolicyEngine},
        expansion::{DEEPEST, Expansion},
    },
    model::{
        object::ObjectKey,
        verdict::{Finding, Outcome, RuleDescriptor},
    },
    rego::analysis::cpu_time::CpuTimer,
};

/// Evaluates what an object would create.
pub(super) fn evaluate(job: &Job, spent: CpuTimer, results: &mut ObjectFindings) {
    if job.policies.expansions.of(&job.object.key.kind).next().is_none() {
        return;
    }
    match read_json(&job.object) {
        // An object that cannot be read has an error already.
        Err(_) => {}
        Ok((object, _)) => expand(job, (&job.object.key, &object), spent, DEEPEST, results),
    }
}

/// Evaluates what one object would create, and what that would create.
fn expand(job: &Job, (key, object): (&ObjectKey, &Json), spent: CpuTimer, depth: usize, results: &mut ObjectFindings) {
    for expansion in job.policies.expansions.of(&key.kind) {
        let Some((key, generated)) = expansion.generate(key, object) else {
            if let Some(template) = &expansion.template {
                let path = expansion.path.join(".");
                let message = format!("ExpansionTemplate {template} expands {path}, which is missing or not an object");
                results.push(Finding::object_error(&message));
            }
            continue;
        };
        let generated_job = of_generated(job, key.clone(), &generated);
        let mut own = results.of_same_object();
        one(&generated_job, expansion, spent, &mut own);
        results.add(own, |finding| is_about_rule(&finding).then(|| placed(finding, expansion)));
        if depth > 0 && expansion.template.is_some() {
            let mut below = results.of_same_object();
            expand(&generated_job, (&key, &generated), spent, depth - 1, &mut below);
            results.add(below, |finding| Some(in_parent(finding, expansion)));
        }
    }
}

/// Evaluates the rules of an expansion on a generated object.
fn one(job: &Job, expansion: &Expansion, spent: CpuTimer, results: &mut ObjectFindings) {
    let set = &*job.policies;
    // The object that it is generated from could be read, and so can a part of it.
    let Ok(values) = JobValues::read(job, Extent::Read) else { return };
    let constraints = set.constraints.candidates(&set.units, &job.object.key.kind);
    let namespace = job.object.key.namespace.as_deref();
    let evaluation = ObjectEvaluation { limits: &set.limits, namespace, spent, results };
    let part = RulePart::Selected(&expansion.rules);
    evaluate_part(evaluation, job, part, &constraints, &values, Operation::Audit);
    let is_selected = |policy: &AdmissionPolicy| {
        policy.engine == PolicyEngine::ApiServer && expansion.admission.contains(&policy.name)
    };
    admission_policies::evaluate(job, is_selected, results);
}

/// Whether a result is one of a rule, and not of the object as a whole, which the object that it is generated from has.
fn is_about_rule(finding: &Finding) -> bool {
    finding.rule.policy != RuleDescriptor::of_object().policy
}

/// Returns a result about a generated object as one about the object from which it is generated.
fn placed(finding: Finding, expansion: &Expansion) -> Finding {
    let mut finding = in_parent(finding, expansion);
    if let Some(message) = expansion.message(&finding.message) {
        finding.message = message.into();
    }
    if let (Outcome::Fail | Outcome::Warn, Some(outcome)) = (finding.outcome, expansion.outcome) {
        finding.outcome = outcome;
    }
    finding
}

/// Returns a result with its field and its patch in the object from which the other is generated.
fn in_parent(finding: Finding, expansion: &Expansion) -> Finding {
    if finding.outcome == Outcome::Error {
        return finding;
    }
    let mut details = finding.details.as_deref().map_or_else(Map::new, Map::clone);
    expansion.place(&mut details);
    Finding { details: Some(Arc::new(details)), ..finding }
}
