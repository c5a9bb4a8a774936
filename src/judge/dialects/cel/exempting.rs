//! Kyverno's exceptions for a policy: they excuse its violations on the objects that their conditions match, or allow
//! images and values that its expressions read as `exceptions`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::{
    binding::BoundPolicy,
    evaluation::{BindingResults, Evaluation, MatchConditions, not_known},
    exemption::PolicyExemption,
    policy::PolicyEngine,
};
use crate::model::{exception::Excuse, verdict::Finding};

/// The exceptions that apply to an object.
#[derive(Debug, Default)]
pub(crate) struct Exempted {
    /// Why all violations are excused.
    excuse: Option<Arc<Excuse>>,
    /// What the policy reads as `exceptions`; `None` if the policy is not Kyverno's.
    allowed: Option<Json>,
    /// Why it is not known whether one applies.
    unknown: Option<String>,
    /// Why it cannot be evaluated whether one applies.
    errors: Vec<String>,
}

impl Exempted {
    /// Returns the value of `exceptions`.
    pub(crate) fn allowed(&self) -> Option<&Json> {
        self.allowed.as_ref()
    }

    /// Changes the results of a policy.
    pub(super) fn apply(self, bound: &BoundPolicy, results: &mut BindingResults) {
        let Self { excuse, unknown, errors, .. } = self;
        if let Some(excuse) = excuse {
            // The policy is not evaluated on an excused object, so that its errors do not matter.
            results.undecided.clear();
            results.unfinished = false;
            results.findings.retain(|finding| finding.outcome.is_violation());
            results.findings.iter_mut().for_each(|finding| finding.excuse(&excuse));
            return;
        }
        let error = |message: &str| bound.error(&bound.descriptor, message);
        if bound.policy.fails_on_errors && !errors.is_empty() {
            results.is_evaluated = true;
            results.findings = errors.iter().map(|why| error(why)).collect();
        } else if let Some(why) = unknown {
            let unless = |finding: &mut Finding| {
                if finding.outcome.is_violation() {
                    *finding = error(&format!("{why}; if it does not apply: {}", finding.message));
                }
            };
            results.findings.iter_mut().for_each(unless);
        }
    }
}

impl BoundPolicy {
    /// Returns the exceptions that apply in an evaluation, now.
    pub(super) fn exempted<'e>(&'e self, evaluation: &Evaluation<'e>) -> Exempted {
        let mut exempted = Exempted::default();
        let (mut images, mut values) = (Vec::new(), Vec::new());
        let in_force = |one: &&Arc<PolicyExemption>| one.expires.is_none_or(|end| end >= Timestamp::now());
        for exemption in self.exemptions.iter().filter(in_force) {
            let named = format!("the exception {}", exemption.excuse.by);
            match evaluation.conditions_of(&exemption.conditions) {
                MatchConditions::Hold if exemption.is_full() => {
                    exempted.excuse.get_or_insert_with(|| Arc::clone(&exemption.excuse));
                }
                MatchConditions::Hold => {
                    images.extend(exemption.images.iter().map(String::as_str));
                    values.extend(exemption.values.iter().map(String::as_str));
                }
                MatchConditions::DoNot(_) => {}
                MatchConditions::Unknown(name, part) => {
                    let expression = format!("the match condition {name} of {named}");
                    exempted.unknown.get_or_insert_with(|| not_known(&expression, &part));
                }
                MatchConditions::Failed(why) => exempted.errors.push(format!("{named}: {why}")),
                MatchConditions::Interrupted(error) => exempted.errors.push(format!("{named}: {error}")),
            }
        }
        let is_of_kyverno = self.policy.engine == PolicyEngine::Kyverno;
        exempted.allowed = is_of_kyverno.then(|| json!({"allowedImages": images, "allowedValues": values}));
        exempted
    }
}
