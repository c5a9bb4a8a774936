//! Reads a `ValidatingAdmissionPolicyBinding` and joins it with its policy.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBindingSpec;
use kaudit_cel::{Root, reads::ReadStep};

use super::{
    document::{GROUP, PolicyDocument},
    exemption::PolicyExemption,
    lookup::{self, OtherObjects},
    matching::AdmissionMatch,
    params::BindingParams,
    policy::{AdmissionPolicy, spec},
    reads,
    request::RequestOperation,
    validation,
};
use crate::{
    judge::{
        dependencies::Dependencies,
        excusable::Excusability,
        metadata::Metadata,
        reads::{InventoryReads, ReadTree},
        rule::Rule,
    },
    model::{
        object::Kind,
        rule_numbers::RuleNumber,
        verdict::{Outcome, RuleDescriptor, Source},
    },
    rego::Problem,
};

/// A policy with one of its bindings, ready for evaluation.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the four are independent of each other")]
pub(crate) struct BoundPolicy {
    pub(crate) policy: Arc<AdmissionPolicy>,
    /// `None` if the binding matches everything that the policy matches.
    pub(crate) matching: Option<AdmissionMatch>,
    /// `None` without a `paramKind`, or if the binding has no `paramRef`.
    pub(crate) parameters: Option<BindingParams>,
    /// The objects among which parameters and those that expressions name are looked up.
    pub(crate) others: OtherObjects,
    /// Kyverno's exceptions for the policy.
    pub(crate) exemptions: Vec<Arc<PolicyExemption>>,
    /// The only namespace whose objects it applies to; `None` if it applies to all objects.
    pub(crate) namespace: Option<Arc<str>>,
    /// Whether an expression may read `request.object`, which only Kyverno has.
    pub(crate) reads_request_object: bool,
    /// The rule: the name of the binding, and the outcome by its `validationActions`.
    pub(crate) rule: Rule,
    /// The common part of the results of each validation, and of the policy as a whole.
    pub(crate) validations: Vec<Arc<RuleDescriptor>>,
    pub(crate) descriptor: Arc<RuleDescriptor>,
    /// Whether it is evaluated on changes, too: it covers them, and its results for them may differ from those for the new
    /// state.
    pub(crate) is_about_changes: bool,
    /// The fields of the evaluated object that are read.
    pub(crate) object_reads: ReadTree,
    /// Whether errors that the failure policy decides about are violations, as in Gatekeeper, and not errors.
    pub(crate) errors_are_violations: bool,
    /// Whether an expression reads `namespaceObject`.
    pub(crate) reads_namespace: bool,
    /// The fields of the object's Namespace that are read.
    pub(crate) namespace_reads: ReadTree,
    pub(crate) lookups: InventoryReads,
}

/// What a binding does.
pub(super) enum ReadBinding {
    Evaluated(Box<BoundPolicy>),
    /// It does not apply to existing objects, for this reason.
    NotApplicable(&'static str),
}

/// Reads a binding of a policy; `None` if it is refused, with the reasons added to `problems`.
pub(super) fn read(
    document: &PolicyDocument<'_>,
    policy: &Arc<AdmissionPolicy>,
    metadata: Metadata,
    problems: &mut Vec<Problem>,
) -> Option<ReadBinding> {
    let spec = spec::<ValidatingAdmissionPolicyBindingSpec>(document, problems)?;
    let before = problems.len();
    validation::binding(document, problems);
    if problems[before..].iter().any(Problem::is_refusal) {
        return None;
    }
    let label = document.label();
    let refuse = |field: &str, why: &str| {
        document.problem(document.node.at(&["spec", field]), format!("{label}: {field}: {why}"))
    };
    let matching = match spec.match_resources.as_ref().map(AdmissionMatch::read).transpose() {
        Ok(matching) => matching,
        Err((field, why)) => {
            problems.push(refuse("matchResources", &format!("{field}: {why}")));
            return None;
        }
    };
    let parameters = match (&policy.param_kind, &spec.param_ref) {
        (Some(kind), Some(given)) => match BindingParams::read(kind, given) {
            Ok(parameters) => Some(parameters),
            Err(why) => {
                problems.push(refuse("paramRef", &why));
                return None;
            }
        },
        _ => None,
    };
    let outcome = match outcome(&spec.validation_actions.unwrap_or_default()) {
        Ok(outcome) => outcome,
        Err(why) => {
            problems.push(refuse("validationActions", &why));
            return None;
        }
    };
    if !covers_any(matching.as_ref()) {
        return Some(ReadBinding::NotApplicable("its matchResources cover only connections"));
    }
    let name = document.name().into();
    let is_about_changes = is_about_changes(policy, matching.as_ref());
    let bound = BoundPolicy::new(document, name, policy, metadata, (matching, parameters, outcome));
    let bound = BoundPolicy { is_about_changes, ..bound };
    Some(ReadBinding::Evaluated(Box::new(bound)))
}

/// Whether rules cover an operation that an audit knows.
fn covers_any(matching: Option<&AdmissionMatch>) -> bool {
    matching.is_none_or(|matching| matching.covers(RequestOperation::Create) || matching.covers_changes())
}

/// Whether a policy covers changes, and its results for them may differ from those for the new state.
fn is_about_changes(policy: &AdmissionPolicy, matching: Option<&AdmissionMatch>) -> bool {
    let reads = policy.reads();
    let operation = [ReadStep::Field("operation".into())];
    let reads_change = reads.has_root(Root::OldObject) || reads.covers(Root::Request, &operation);
    let all = || [&policy.matching].into_iter().chain(matching);
    all().all(AdmissionMatch::covers_changes)
        && (reads_change || !all().all(|matching| matching.covers(RequestOperation::Create)))
}

/// Returns the outcome of violations.
///
/// # Errors
/// Returns why the actions are invalid.
pub(crate) fn outcome(actions: &[String]) -> Result<Outcome, String> {
    if let Some(unknown) = actions.iter().find(|action| !["Deny", "Warn", "Audit"].contains(&action.as_str())) {
        return Err(format!("unknown action {unknown:?}: use Deny, Warn or Audit"));
    }
    match actions {
        [] => Err("at least one of Deny, Warn and Audit is required".to_owned()),
        _ if actions.iter().any(|action| action == "Deny") => Ok(Outcome::Fail),
        _ => Ok(Outcome::Warn),
    }
}

impl BoundPolicy {
    /// Joins a policy with the object that binds it, as the rule with this name.
    pub(crate) fn new(
        document: &PolicyDocument<'_>,
        name: Arc<str>,
        policy: &Arc<AdmissionPolicy>,
        metadata: Metadata,
        (matching, parameters, outcome): (Option<AdmissionMatch>, Option<BindingParams>, Outcome),
    ) -> Self {
        let describe = |source: &Source| {
            let (policy, info) = (Arc::clone(&policy.name), Arc::clone(&metadata.info));
            Arc::new(RuleDescriptor { policy, name: Arc::clone(&name), info, source: source.clone() })
        };
        let validations: Vec<_> = policy.validations.iter().map(|one| describe(&one.expression.source)).collect();
        let source = policy.validations.first().map_or_else(|| document.source(), |one| one.expression.source.clone());
        let (descriptor, reads) = (describe(&source), policy.reads());
        let own_matching = || [&policy.matching].into_iter().chain(&matching);
        let mut object_reads = reads::tree(&reads, Root::Object);
        object_reads.merge(&reads::tree(&reads, Root::OldObject));
        if own_matching().any(AdmissionMatch::reads_labels) {
            object_reads.insert(&["metadata", "labels"].map(Into::into), true);
        }
        let mut namespace_reads = reads::tree(&reads, Root::NamespaceObject);
        if own_matching().any(AdmissionMatch::needs_namespace) {
            namespace_reads.insert(&["metadata", "labels"].map(Into::into), true);
        }
        let params = reads::tree(&reads, Root::Params);
        let mut lookups = parameters.as_ref().map(|parameters| parameters.lookups(&params)).unwrap_or_default();
        reads.lookups.iter().for_each(|lookup| lookups.merge(&lookup::reads(lookup)));
        let rule = Rule {
            number: RuleNumber::of(&policy.name, &name),
            name,
            outcome,
            metadata: Arc::new(metadata),
            source,
            texts: policy.texts(),
            excusable: Excusability::default(),
        };
        Self {
            policy: Arc::clone(policy),
            is_about_changes: false,
            matching,
            parameters,
            others: OtherObjects::default(),
            exemptions: Vec::new(),
            namespace: None,
            reads_request_object: reads.covers(Root::Request, &[ReadStep::Field("object".into())]),
            rule,
            validations,
            descriptor,
            object_reads,
            errors_are_violations: false,
            reads_namespace: reads.has_root(Root::NamespaceObject),
            namespace_reads,
            lookups,
        }
    }

    /// Whether it can match objects of a kind. The API server evaluates no policy on admission policies and bindings.
    pub(crate) fn allows_kind(&self, kind: &Kind) -> bool {
        let own = self.matching.as_ref();
        let is_policy = kind.group == GROUP && kind.kind.contains("AdmissionPolicy");
        let is_elsewhere = self.namespace.is_some() && !kind.namespaced;
        !is_policy
            && !is_elsewhere
            && self.policy.matching.allows_kind(kind)
            && own.is_none_or(|matching| matching.allows_kind(kind))
    }

    /// Returns the plural names of the resources that it can match; `None` if it is not limited to some.
    pub(crate) fn resources(&self) -> Option<Vec<&str>> {
        match (self.policy.matching.resources(), self.matching.as_ref().and_then(AdmissionMatch::resources)) {
            (Some(both), Some(own)) => Some(both.into_iter().filter(|name| own.contains(name)).collect()),
            (Some(one), None) | (None, Some(one)) => Some(one),
            (None, None) => None,
        }
    }

    /// Returns what its results depend on besides the object.
    pub(crate) fn dependencies(&self) -> Dependencies {
        let own = [&self.policy.matching].into_iter().chain(&self.matching);
        let namespace =
            self.namespace_reads != ReadTree::default() || own.into_iter().any(AdmissionMatch::needs_namespace);
        let clock = self.exemptions.iter().any(|exemption| exemption.expires.is_some());
        Dependencies { inventory: !self.lookups.is_empty(), namespace, clock, transition: self.is_about_changes }
    }
}
