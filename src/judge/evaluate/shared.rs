//! Evaluates an object with the cached results of objects that have the same sharing key: see
//! [`sharing`](crate::judge::sharing).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::{
    admission_policies, crd_rules, evaluate_part, expanded,
    input::{JobValues, Operation},
    job::Job,
    object::ObjectEvaluation,
    part::RulePart,
    results::ObjectFindings,
};
use crate::{
    judge::{
        reads::SharingKey,
        sharing::{
            SharedVerdicts, Sharing,
            kept::KeptFindings,
            placeholders::{ObjectNames, Placeholders},
            plan::SharingPlan,
        },
    },
    model::{
        object::ObjectKey,
        rule_numbers::RuleNumbers,
        verdict::{Finding, Shared},
    },
    rego::analysis::cpu_time::CpuTimer,
};

/// Evaluates an object; shareable rules are evaluated only if no result is cached for its sharing key. Returns `None`
/// if nothing can be shared; `differences` then contains the policies for which sharing produced different results.
pub(super) fn evaluate(
    job: &Job,
    verdicts: &SharedVerdicts,
    differences: &mut Vec<Arc<str>>,
) -> Option<(ObjectFindings, Shared)> {
    let (set, key) = (&*job.policies, &job.object.key);
    let (sharing, spent) = (&*set.sharing, CpuTimer::start());
    if job.previous.is_some() || job.deleted {
        return None;
    }
    let plan = verdicts.plan(sharing, &job.object)?;
    let json = job.object.body.json().ok()?;
    if sharing.placeholders.are_in(&json) {
        return None;
    }
    let values = &JobValues::read_parts(job, &json, &plan.parts).ok()?;
    let SharingKey { fingerprint, token } = plan.fields.sharing_key(key, &values.object)?;
    let names = ObjectNames { key, token: token.as_deref() };
    let constraints = &set.constraints.candidates(&set.units, &key.kind);
    let parts = Parts { job, verdicts, constraints, spent, sharing, plan, names, values };
    let mut results = ObjectFindings::default();
    let kept = verdicts.get(sharing, fingerprint);
    verdicts.count(kept.is_some());
    let shared = if let Some(kept) = kept {
        let findings = kept.of(&sharing.placeholders, names)?;
        if verdicts.must_verify() {
            parts.check(&findings, &kept.passed, differences)?;
        }
        results.share(findings, &kept.passed);
        Shared::Hit
    } else {
        let Some(kept) = parts.evaluate_shareable().map(Arc::new) else {
            // A rule that takes too long would otherwise be evaluated twice for each of these objects.
            verdicts.separate(sharing, &job.object);
            return None;
        };
        verdicts.keep(sharing, fingerprint, Arc::clone(&kept));
        results.share(kept.of(&sharing.placeholders, names)?, &kept.passed);
        Shared::Miss
    };
    if plan.has_rest {
        parts.part(RulePart::Rest(plan), values, &mut results);
    }
    admission_policies::evaluate(job, |_| true, &mut results);
    expanded::evaluate(job, spent, &mut results);
    crd_rules::evaluate(job, &mut results);
    Some((results, shared))
}

/// One object, and everything needed to evaluate it in parts.
struct Parts<'a> {
    job: &'a Job,
    verdicts: &'a SharedVerdicts,
    constraints: &'a [(usize, usize)],
    spent: CpuTimer,
    sharing: &'a Sharing,
    plan: &'a SharingPlan,
    names: ObjectNames<'a>,
    /// All fields of the object that the rules read, read once.
    values: &'a JobValues<'a>,
}

impl Parts<'_> {
    fn part(&self, part: RulePart<'_>, values: &JobValues<'_>, results: &mut ObjectFindings) {
        let namespace = self.job.object.key.namespace.as_deref();
        let evaluation = ObjectEvaluation { limits: &self.job.policies.limits, namespace, spent: self.spent, results };
        evaluate_part(evaluation, self.job, part, self.constraints, values, Operation::Audit);
    }

    /// Evaluates the shareable rules; `None` if their results cannot be cached.
    fn evaluate_shareable(&self) -> Option<KeptFindings> {
        let ObjectNames { key, token: own_token } = self.names;
        let Placeholders { name, namespace, token, .. } = &self.sharing.placeholders;
        let open = !self.plan.fields.has_namespace();
        let namespace = key.namespace.as_ref().map(|own| Arc::clone(if open { namespace } else { own }));
        let placeholder_key = ObjectKey { name: Arc::clone(name), namespace, ..key.clone() };
        let mut values = self.values.clone();
        if let Some(own) = own_token {
            values.object = replaced(&values.object, own, token);
        }
        let values = values.renamed(&placeholder_key);
        let mut results = ObjectFindings::default();
        self.part(RulePart::Shared(self.plan), &values, &mut results);
        results.can_be_kept().then(|| KeptFindings::new(results.finish()))
    }

    /// Evaluates the rules despite a cache hit. `None` if the results differ: sharing is then disabled.
    fn check(&self, findings: &[Finding], passed: &RuleNumbers, differences: &mut Vec<Arc<str>>) -> Option<()> {
        let mut own = ObjectFindings::default();
        self.part(RulePart::Shared(self.plan), self.values, &mut own);
        if !own.can_be_kept() {
            // A failure or timeout may not recur.
            return Some(());
        }
        let mut shared = ObjectFindings::default();
        shared.share(findings.to_vec(), passed);
        let (own, shared) = (own.finish(), shared.finish());
        if own == shared {
            return Some(());
        }
        self.verdicts.disable(self.sharing);
        let one_sided = |(these, those): (&[Finding], &[Finding])| {
            let missing = these.iter().filter(|finding| !those.contains(finding));
            missing.map(|finding| Arc::clone(&finding.rule.policy)).collect::<BTreeSet<_>>()
        };
        let policies = &one_sided((&own.0, &shared.0)) | &one_sided((&shared.0, &own.0));
        differences.extend(policies);
        None
    }
}

/// Returns the value with `by` in place of each occurrence of `text`, including inside strings.
fn replaced(value: &Value, text: &str, by: &str) -> Value {
    match value {
        Value::String(whole) if whole.contains(text) => Value::from(whole.replace(text, by)),
        Value::Array(items) => items.iter().map(|item| replaced(item, text, by)).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let fields = fields.iter_sorted();
            let fields = fields.map(|(key, value)| (replaced(key, text, by), replaced(value, text, by)));
            fields.collect::<BTreeMap<_, _>>().into()
        }
        other => other.clone(),
    }
}
