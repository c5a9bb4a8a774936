//! Builds the input that a rule gets for an object, and returns the definitions that are evaluated with it, for
//! `kaudit explain`.

use regorus::Value;

use super::{
    array_rules::is_scanned,
    expressions::applicable,
    input::{Extent, JobValues, Operation, fields},
    job::Job,
};
use crate::{
    judge::{dialect::InputForm, dialects::kubescape::arrays::Identity, rule::RuleDefinition, unit::Unit},
    model::object::ObjectKey,
};

/// Whether a rule is evaluated on an object.
pub(crate) enum RuleApplicability<'j> {
    /// Yes.
    Evaluated(RuleEvaluation<'j>),
    /// No, for this reason.
    NotEvaluated(String),
}

/// One rule and its input.
pub(crate) struct RuleEvaluation<'j> {
    pub(crate) unit: &'j Unit,
    pub(crate) input: Value,
    /// Keys that lead to the object in the input.
    pub(crate) object: &'static [&'static str],
    pub(crate) definitions: &'j [RuleDefinition],
}

/// Returns the input of a policy's rule for the object as it is now; `None` if there is no such rule.
///
/// # Errors
/// If the object cannot be read.
pub(crate) fn rule_input<'j>(job: &'j Job, policy: &str, rule: &str) -> Result<Option<RuleApplicability<'j>>, String> {
    let values = JobValues::read(job, Extent::All)?;
    if !job.policies.rule_changes.applies(&policy.into(), &rule.into(), job.object.key.own_namespace()) {
        return Ok(Some(RuleApplicability::NotEvaluated("the rule settings limit it to other namespaces".to_owned())));
    }
    for unit in &job.policies.units {
        for group in unit.groups.iter().filter(|_| unit.evaluates_every_object()) {
            let named = group.entrypoints.iter().find(|known| *known.policy == *policy && *known.rule.name == *rule);
            let Some(entrypoint) = named else { continue };
            if !entrypoint.kinds.contain(&job.object.key.kind.kind) {
                return Ok(Some(RuleApplicability::NotEvaluated(
                    "the selector of the check does not include its kind".to_owned(),
                )));
            }
            let (input, object): (_, &[&str]) = match group.dialect.input {
                InputForm::Review(_) => (values.admission(Operation::Audit), &["request", "object"]),
                InputForm::Object => (values.object.clone(), &[]),
                InputForm::Array => continue,
            };
            return Ok(Some(RuleApplicability::Evaluated(RuleEvaluation {
                unit,
                input,
                object,
                definitions: &entrypoint.definitions,
            })));
        }
        if let Some(rule_input) = kubescape(unit, &values, &job.object.key, (policy, rule)) {
            return Ok(Some(rule_input));
        }
        let named = |known: &&_| {
            let known: &&crate::judge::dialects::gatekeeper::constraint::Constraint = known;
            *known.policy == *policy && *known.rule.name == *rule
        };
        let entrypoint = unit.groups.first().and_then(|group| group.entrypoints.first());
        let (Some(constraint), Some(entrypoint)) = (unit.constraints().iter().find(named), entrypoint) else {
            continue;
        };
        return Ok(Some(match applicable(job, &values, constraint) {
            Err(why) => RuleApplicability::NotEvaluated(why),
            Ok(review) => {
                let input = fields([("review", review.document), ("parameters", constraint.parameters.clone())]);
                let definitions = &entrypoint.definitions;
                RuleApplicability::Evaluated(RuleEvaluation { unit, input, object: &["review", "object"], definitions })
            }
        }));
    }
    Ok(None)
}

/// The path of an object that is an element of the input at an unknown index.
const SOMEWHERE: &[&str] = &["*"];

/// Returns the input of a rule in Kubescape's layout for an object; `None` if the unit has no such rule.
fn kubescape<'j>(
    unit: &'j Unit,
    values: &JobValues<'_>,
    key: &ObjectKey,
    (policy, rule): (&str, &str),
) -> Option<RuleApplicability<'j>> {
    let own = unit.kubescape()?;
    own.controls.iter().find(|known| *known.policy == *policy && *known.rule.name == *rule)?;
    if !own.matches(&key.kind) {
        return Some(RuleApplicability::NotEvaluated(
            "match in the metadata of the rule does not include its kind".to_owned(),
        ));
    }
    let identity = Identity::of(&values.object);
    if identity.as_ref().is_some_and(|identity| !is_scanned(own, identity)) {
        return Some(RuleApplicability::NotEvaluated(
            "its input has only the Pods of API servers in kube-system".to_owned(),
        ));
    }
    let array =
        unit.arrays().zip(identity).and_then(|(arrays, identity)| arrays.array(key.namespace.as_ref(), &identity));
    let input = array.map_or_else(|| vec![values.object.clone()], |array| array.input(own.aggregator));
    let definitions = &unit.groups.first()?.entrypoints.first()?.definitions;
    Some(RuleApplicability::Evaluated(RuleEvaluation { unit, input: input.into(), object: SOMEWHERE, definitions }))
}
