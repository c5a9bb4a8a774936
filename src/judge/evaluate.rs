//! Evaluation: a pure function of an object and the policies.
//!
//! The fields that the policies can read are converted from JSON to a value once, and all rules of a unit are evaluated
//! together. Only if one of them fails is each evaluated separately, so that a failing rule does not affect the others.
//! Whatever a policy does, the outcome is a result.

mod admission_policies;
mod array_rules;
mod arrays;
mod bounds;
mod constraints;
mod crd_rules;
mod expanded;
mod expressions;
mod generated;
mod input;
mod job;
mod object;
mod part;
mod results;
mod rule_input;
mod shared;
mod texts;

use std::{cell::OnceCell, sync::Arc, time::Instant};

pub(crate) use self::{
    admission_policies::{explain_policy, read_json},
    crd_rules::explain_rule,
};
pub use self::{arrays::with_inventory, job::Job};
pub(crate) use self::{
    arrays::{with_arrays, with_other_results},
    expressions::explain_constraint,
    generated::generated_job,
    rule_input::{RuleApplicability, rule_input},
};
use self::{
    expressions::ExpressionInput,
    input::{Extent, JobValues, Operation, Review},
    object::ObjectEvaluation,
    part::{PartOfGroup, RulePart},
    results::ObjectFindings,
};
use crate::{
    judge::{depth, dialect::InputForm, set::PolicySet, sharing::SharedVerdicts, unit::Unit},
    model::{
        object::Object,
        rule_numbers::RuleNumbers,
        verdict::{Finding, Shared, Verdict},
    },
    rego::{analysis::cpu_time::CpuTimer, value},
};

/// Evaluates one object.
///
/// The results are those of the object as it is: a CREATE in the admission dialect, an audit in Gatekeeper's. If a
/// change caused the job, policies that read transitions are evaluated once more, and the additional results are the
/// verdict's transitions. A deleted object has no other results.
pub fn evaluate(job: &Job) -> Verdict {
    evaluate_extent(job, Extent::Read, Vec::new())
}

/// Like [`evaluate`], with a cache: the results that equal objects share are read from `verdicts` and stored there.
pub fn evaluate_shared(job: &Job, verdicts: &SharedVerdicts) -> Verdict {
    let began = Instant::now();
    let mut differences = Vec::new();
    match shared::evaluate(job, verdicts, &mut differences) {
        Some((current, shared)) => verdict(job, current, ObjectFindings::default(), (Some(shared), Vec::new()), began),
        None => evaluate_extent(job, Extent::Read, differences),
    }
}

/// Returns the verdict on an object that could not be evaluated at all: an open error.
pub fn failed(job: &Job, why: &str) -> Verdict {
    verdict(
        job,
        ObjectFindings::unfinished(Finding::object_error(why)),
        ObjectFindings::default(),
        (None, Vec::new()),
        Instant::now(),
    )
}

/// Evaluates the whole object, not only the fields that the policies can read.
#[cfg(test)]
pub(crate) fn evaluate_whole(job: &Job) -> Verdict {
    evaluate_extent(job, Extent::All, Vec::new())
}

fn evaluate_extent(job: &Job, extent: Extent, differences: Vec<Arc<str>>) -> Verdict {
    let began = Instant::now();
    let set = &*job.policies;
    let constraints = set.constraints.candidates(&set.units, &job.object.key.kind);
    // The time of an attempt to share is not deducted from the policies' limit.
    let spent = CpuTimer::start();
    let mut current = ObjectFindings::default();
    let mut transitions = ObjectFindings::default();
    // An object to which no policy applies is not even parsed.
    if !constraints.is_empty() || set.units.iter().any(Unit::evaluates_every_object) {
        match JobValues::read(job, extent) {
            Err(why) => current.push(Finding::object_error(&format!("the object cannot be read: {why}"))),
            Ok(values) => {
                if values.is_cut {
                    current.push(Finding::object_error(&depth::too_deep()));
                }
                let run = |operation, transitions_only, results: &mut ObjectFindings| {
                    let namespace = job.object.key.namespace.as_deref();
                    let evaluation = ObjectEvaluation { limits: &set.limits, namespace, spent, results };
                    let part = if transitions_only { RulePart::Transitions } else { RulePart::All };
                    evaluate_part(evaluation, job, part, &constraints, &values, operation);
                };
                // A deleted object has no open results; these only show which results its deletion did not add.
                run(Operation::Audit, job.deleted, &mut current);
                if let Some(change) = JobValues::change(job) {
                    transitions.shared_time = current.shared_time;
                    run(change, true, &mut transitions);
                }
            }
        }
    }
    if JobValues::change(job).is_some() {
        admission_policies::evaluate_change(job, &mut transitions);
    }
    if !job.deleted {
        admission_policies::evaluate(job, |_| true, &mut current);
        expanded::evaluate(job, spent, &mut current);
        crd_rules::evaluate(job, &mut current);
    }
    verdict(job, current, transitions, (None, differences), began)
}

/// Builds a verdict from the results on the present object and those on its change.
fn verdict(
    job: &Job,
    mut current: ObjectFindings,
    transitions: ObjectFindings,
    (shared, shared_differences): (Option<Shared>, Vec<Arc<str>>),
    began: Instant,
) -> Verdict {
    let unfinished = current.unfinished || transitions.unfinished;
    let (changes, namespace) = (&job.policies.rule_changes, job.object.key.own_namespace());
    let mut undecided = std::mem::take(&mut current.undecided);
    undecided.retain(|[policy, rule]| changes.applies(policy, rule, namespace));
    let (mut results, mut passed) = current.finish();
    let (mut transitions, _) = transitions.finish();
    for findings in [&mut results, &mut transitions] {
        changes.apply(findings, namespace);
    }
    changes.apply_to_passed(&mut passed, namespace);
    transitions.retain(|finding| !results.iter().any(|open| open.is_same_result(finding)));
    let source = |file: &str| job.policies.source_of(file);
    let (mut results, transitions) = (results::bounded(results, source), results::bounded(transitions, source));
    if job.deleted {
        (results, passed) = (Vec::new(), RuleNumbers::default());
    }
    Verdict {
        key: job.object.key.clone(),
        uid: job.object.uid.clone(),
        results,
        transitions,
        passed,
        unfinished,
        undecided,
        shared,
        shared_differences,
        policies: job.policies.digest,
        took: began.elapsed(),
    }
}

/// Evaluates a given `AdmissionReview`, for the Gatekeeper Constraints only.
///
/// # Errors
/// Returns which part of the review is missing.
pub fn evaluate_review(
    policies: &PolicySet,
    review: serde_json::Value,
    namespace: Option<&Object>,
) -> Result<Vec<Finding>, String> {
    let json = namespace.map(read_json).transpose()?.map(|(namespace, _)| namespace);
    let namespace = namespace.map(input::read).transpose()?;
    let value = value::from_tree(review.clone()).map_err(|why| why.to_string())?;
    let (given, review) = (review, Review::given(&value, namespace.as_ref())?);
    let input = ExpressionInput::given(&given, &review, json)?;
    let mut results = ObjectFindings::default();
    let spent = CpuTimer::start();
    let mut evaluation = ObjectEvaluation { limits: &policies.limits, namespace: None, spent, results: &mut results };
    for unit in &policies.units {
        for constraint in unit.constraints() {
            match &constraint.expressions {
                Some(expressions) => evaluation.expressions((constraint, expressions), &review, || Ok(&input)),
                None => evaluation.constraint(unit, constraint, &review, None),
            }
        }
    }
    Ok(results.finish().0)
}

/// Whether a rule that applies to the object has results, even if its kind's query excludes it.
#[cfg(test)]
pub(crate) fn has_results(
    job: &Job,
    unit: &Unit,
    group: &crate::judge::unit::Group,
    index: usize,
) -> Result<bool, crate::rego::Failure> {
    let values = JobValues::read(job, Extent::All).map_err(crate::rego::Failure::error)?;
    let input = match group.dialect.input {
        InputForm::Object => values.object.clone(),
        InputForm::Array => vec![values.object.clone()].into(),
        InputForm::Review(_) if !group.dialect.has_constraints => values.admission(Operation::Audit),
        InputForm::Review(_) => {
            let parameters =
                unit.constraints().first().map_or(regorus::Value::Undefined, |first| first.parameters.clone());
            input::fields([("review", values.review(Operation::Audit).document), ("parameters", parameters)])
        }
    };
    let entrypoint = &group.entrypoints[index];
    let value = unit.rule(group, index, &input)?.value;
    let is_for = entrypoint.kinds.contain(&job.object.key.kind.kind);
    Ok(is_for && !(group.dialect.findings)(entrypoint, &value).is_empty())
}

/// Evaluates a part of the policies for an operation; `constraints` are those that can match the kind.
fn evaluate_part(
    mut evaluation: ObjectEvaluation<'_>,
    job: &Job,
    part: RulePart<'_>,
    constraints: &[(usize, usize)],
    values: &JobValues<'_>,
    operation: Operation,
) {
    let set = &*job.policies;
    let kind = &job.object.key.kind.kind;
    // If the results cannot be shared, the remaining rules need not be evaluated.
    let cannot_be_shared = |results: &ObjectFindings| matches!(part, RulePart::Shared(_)) && !results.can_be_kept();
    for (index, unit) in set.units.iter().enumerate().filter(|(_, unit)| unit.evaluates_every_object()) {
        for (group_index, group) in unit.groups.iter().enumerate() {
            let part = part.of_group(index, group_index);
            if part.is_empty(group) {
                continue;
            }
            if cannot_be_shared(evaluation.results) {
                return;
            }
            match group.dialect.input {
                InputForm::Object => evaluation.group(unit, group, part, kind, &values.object),
                InputForm::Review(_) => evaluation.group(unit, group, part, kind, &values.admission(operation)),
                InputForm::Array => {
                    // An array represents the present state only, without transitions.
                    let is_audit = operation == Operation::Audit && !matches!(part, PartOfGroup::Shared(_));
                    if let Some(rule) = unit.kubescape().filter(|rule| is_audit && rule.matches(&job.object.key.kind)) {
                        evaluation.array_rule((unit, group, rule), &job.object.key, &values.object);
                    }
                }
            }
        }
    }
    let concerned = |(unit, constraint): &&(usize, usize)| {
        let template = set.units[*unit].template();
        part.has_constraint(*unit, *constraint, template.is_some_and(|template| template.depends.transition))
    };
    let mut constraints = constraints.iter().filter(concerned).peekable();
    if constraints.peek().is_some() && !set.config.exempts(&job.object.key, &values.object) {
        let mut review = values.review(operation);
        review.is_generated = matches!(part, RulePart::Selected(_));
        let input = OnceCell::new();
        for (unit, constraint) in constraints {
            if cannot_be_shared(evaluation.results) {
                return;
            }
            let unit = &set.units[*unit];
            let constraint = &unit.constraints()[*constraint];
            match &constraint.expressions {
                Some(expressions) => evaluation.expressions((constraint, expressions), &review, || {
                    input.get_or_init(|| ExpressionInput::of_job(job, &review)).as_ref().map_err(String::clone)
                }),
                None => evaluation.constraint(unit, constraint, &review, Some(kind)),
            }
        }
    }
}
