//! Compiles Kyverno's `ValidatingPolicies`.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use kaudit_cel::Environment;

use super::{DIALECT, autogen, document::KyvernoLibrary, exceptions::KyvernoExceptions, spec::KyvernoSpec};
use crate::{
    judge::{
        dialects::cel::{
            binding::{BoundPolicy, outcome},
            load::{LoadedPolicies, described, report_unknown},
            policy::{AdmissionPolicy, PolicyEngine, spec},
            request::RequestOperation,
        },
        policy_annotations,
        policy_document::{PolicyDocument, distinct},
    },
    model::{namespaced_kinds::DEFAULT_NAMESPACE, verdict::Outcome},
    rego::Problem,
};

/// The name of the rule of a policy for the whole cluster; that of one for a namespace is the namespace.
const RULE: &str = "validations";

/// Compiles the policies with their exceptions.
pub(crate) fn load(library: KyvernoLibrary<'_>, problems: &mut Vec<Problem>) -> LoadedPolicies {
    let KyvernoLibrary { policies, exceptions, left_out } = library;
    let mut loaded = LoadedPolicies { left_out, ..LoadedPolicies::default() };
    let policies = distinct(policies, problems);
    let exceptions = KyvernoExceptions::read(&distinct(exceptions, problems), &policies, problems);
    for document in &policies {
        loaded.kyverno_policy(document, &exceptions, problems);
    }
    loaded.unjudged.sort();
    loaded.left_out.sort();
    loaded
}

/// Returns the names of the `ValidatingPolicies` for the whole cluster that are evaluated.
pub(crate) fn evaluated(loaded: &LoadedPolicies) -> BTreeSet<Arc<str>> {
    let cluster_wide = loaded.policies.iter().filter(|(_, bound)| bound.iter().all(|one| one.namespace.is_none()));
    cluster_wide.map(|(policy, _)| Arc::clone(&policy.name)).collect()
}

impl LoadedPolicies {
    /// Compiles one policy, and what it becomes for workloads.
    fn kyverno_policy(
        &mut self,
        document: &PolicyDocument<'_>,
        exceptions: &KyvernoExceptions,
        problems: &mut Vec<Problem>,
    ) {
        let Some(own) = spec::<KyvernoSpec>(document, problems) else { return };
        if own.is_of_json() {
            let reason = "evaluation.mode is JSON, and kaudit evaluates objects of Kubernetes only";
            self.unjudged.push(document.unjudged(reason));
            return;
        }
        if own.ignores_existing() {
            let reason = "it is evaluated on requests only: evaluation.background.enabled is false";
            self.left_out.push(document.unjudged(reason));
            return;
        }
        let Some((outcome, variants)) = compile(document, &own, problems) else { return };
        if !variants.iter().any(|policy| policy.matching.covers(RequestOperation::Create)) {
            let reason = "its rules do not cover the creation of objects, as which existing objects are evaluated";
            self.left_out.push(document.unjudged(reason));
            return;
        }
        let metadata = policy_annotations::read(document, problems);
        let namespace = document.node.at(&["metadata", "namespace"]).text();
        // Without a namespace it is created in the namespace `default`, like other manifests.
        let is_namespaced = document.kind().starts_with("Namespaced");
        let namespace = is_namespaced.then(|| Arc::<str>::from(namespace.unwrap_or(DEFAULT_NAMESPACE)));
        let exemptions = exceptions.of(document);
        if let Some(first) = variants.first() {
            report_unknown(document, first, problems);
        }
        let bind = |policy: AdmissionPolicy| {
            let name = namespace.clone().unwrap_or_else(|| RULE.into());
            let bound = (None, None, outcome);
            let bound = BoundPolicy::new(document, name, &Arc::new(policy), metadata.clone(), bound);
            BoundPolicy { exemptions: exemptions.clone(), namespace: namespace.clone(), ..bound }
        };
        let bound = variants.into_iter().map(bind).collect();
        self.policies.extend(described(document, DIALECT, bound));
    }
}

/// Compiles a policy for its own objects, and for workloads; `None` if it is refused, with the reasons added to `problems`.
fn compile(
    document: &PolicyDocument<'_>,
    own: &KyvernoSpec,
    problems: &mut Vec<Problem>,
) -> Option<(Outcome, Vec<AdmissionPolicy>)> {
    let given = spec::<ValidatingAdmissionPolicySpec>(document, problems)?;
    let refuse = |field: &str, why: String| {
        document.problem(document.node.at(&["spec", field]), format!("{}: {why}", document.label()))
    };
    let outcome = match outcome(&own.actions()) {
        Ok(outcome) => outcome,
        Err(why) => {
            problems.push(refuse("validationActions", format!("validationActions: {why}")));
            return None;
        }
    };
    if given.match_constraints.is_none() {
        let message = format!("{}: spec.matchConstraints is required", document.label());
        problems.push(document.problem(&document.node, message));
        return None;
    }
    let specs = [given.clone()].into_iter().chain(autogen::extended(&given, own.controllers()));
    let mut variants = Vec::new();
    for spec in specs {
        // The problems of a policy for workloads would be those of the policy itself.
        variants.push(AdmissionPolicy::compile(
            document,
            spec,
            (Environment::kyverno(), PolicyEngine::Kyverno),
            problems,
        )?);
    }
    Some((outcome, variants))
}
