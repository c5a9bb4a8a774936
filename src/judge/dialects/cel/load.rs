//! Joins the admission policies among the policy files with their bindings.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::BitOr,
    sync::Arc,
};

use super::{
    DIALECT,
    binding::{self, BoundPolicy, ReadBinding},
    document::{AdmissionLibrary, PolicyDocument},
    kinds,
    policy::AdmissionPolicy,
    reads::UnknownPart,
    request::RequestOperation,
};
use crate::{
    judge::{
        dependencies::Dependencies,
        dialect::Dialect,
        metadata::Metadata,
        policy::Policy,
        policy_annotations,
        policy_document::{distinct, warning},
        reads::{Projection, ReadTree},
        unjudged::Unjudged,
    },
    rego::{Problem, analysis::yaml::YamlNode},
};

/// Why policies are not evaluated on existing objects.
const ONLY_CONNECTIONS: &str = "its rules cover only connections to objects";
const ONLY_CHANGES: &str =
    "its rules cover no creation: it is evaluated on changes that are seen, not on existing objects";
/// Why policies of Gatekeeper are not evaluated.
const OF_GATEKEEPER: &str = "Gatekeeper generated it; its Constraints are evaluated with cluster:gatekeeper";

/// Why policies that Kyverno generated are not evaluated.
const OF_KYVERNO: &str = "Kyverno generated it for a ValidatingPolicy, which is evaluated itself";

/// Compiled admission policies.
#[derive(Default)]
pub(crate) struct LoadedPolicies {
    /// One for each binding, with the forms in which it is evaluated: several for Kyverno's policies.
    pub(crate) policies: Vec<(Policy, Vec<BoundPolicy>)>,
    pub(crate) unjudged: Vec<Unjudged>,
    pub(crate) left_out: Vec<Unjudged>,
}

/// Compiles the policies and joins them with their bindings.
///
/// Of the policies that Kyverno generated, those for `of_kyverno`, its `ValidatingPolicies` that are evaluated themselves,
/// are left out.
pub(crate) fn load(
    library: AdmissionLibrary<'_>,
    of_kyverno: &BTreeSet<Arc<str>>,
    problems: &mut Vec<Problem>,
) -> LoadedPolicies {
    let mut loaded = LoadedPolicies { left_out: library.left_out, ..LoadedPolicies::default() };
    let mut bindings: BTreeMap<String, Vec<PolicyDocument<'_>>> = BTreeMap::new();
    for document in distinct(library.bindings, problems) {
        let policy = document.node.at(&["spec", "policyName"]).text().unwrap_or_default();
        bindings.entry(policy.to_owned()).or_default().push(document);
    }
    for document in distinct(library.policies, problems) {
        let bindings = bindings.remove(document.name()).unwrap_or_default();
        if is_generated(&document, of_kyverno) {
            loaded.left_out.extend([&document].into_iter().chain(&bindings).map(|one| one.unjudged(OF_KYVERNO)));
            continue;
        }
        loaded.policy(&document, &bindings, problems);
    }
    for document in bindings.into_values().flatten() {
        let message = format!("{} is not evaluated: its policy does not exist", document.label());
        problems.push(warning(document.whole(message)).help("add the policy to the policy paths"));
        loaded.unjudged.push(document.unjudged("its policy does not exist"));
    }
    loaded.unjudged.sort();
    loaded.left_out.sort();
    loaded
}

impl LoadedPolicies {
    /// Compiles one policy and joins it with its bindings.
    fn policy(&mut self, document: &PolicyDocument<'_>, bindings: &[PolicyDocument<'_>], problems: &mut Vec<Problem>) {
        if is_of_gatekeeper(document) {
            self.left_out.extend([document].into_iter().chain(bindings).map(|one| one.unjudged(OF_GATEKEEPER)));
            return;
        }
        let Some(policy) = AdmissionPolicy::read(document, problems).map(Arc::new) else {
            problems.extend(bindings.iter().map(|binding| binding.left_out(document)));
            return;
        };
        if !policy.matching.covers(RequestOperation::Create) {
            let is_about_changes = policy.matching.covers_changes();
            let reason = if is_about_changes { ONLY_CHANGES } else { ONLY_CONNECTIONS };
            self.left_out.extend([document].into_iter().chain(bindings).map(|one| one.unjudged(reason)));
            if !is_about_changes {
                return;
            }
        }
        if bindings.is_empty() {
            let reason = "no binding uses it";
            problems.push(warning(document.whole(format!("{} has no effect: {reason}", document.label()))));
            self.unjudged.push(document.unjudged(reason));
            return;
        }
        report_unknown(document, &policy, problems);
        let own = policy_annotations::read(document, problems);
        for binding in bindings {
            let metadata = policy_annotations::read(binding, problems).or(&own);
            match binding::read(binding, &policy, metadata, problems) {
                Some(ReadBinding::Evaluated(bound)) => self.policies.extend(described(binding, DIALECT, vec![*bound])),
                Some(ReadBinding::NotApplicable(reason)) => self.left_out.push(binding.unjudged(reason)),
                None => {}
            }
        }
    }
}

/// Describes a policy that is evaluated in these forms, under the name and the metadata of the first; `None` without any.
pub(crate) fn described(
    document: &PolicyDocument<'_>,
    dialect: Dialect,
    bound: Vec<BoundPolicy>,
) -> Option<(Policy, Vec<BoundPolicy>)> {
    let first = bound.first()?;
    let mut reads = ReadTree::default();
    for one in &bound {
        reads.merge(&one.object_reads);
    }
    let (name, metadata) = (&first.policy.name, Metadata::clone(&first.rule.metadata));
    let policy = Policy {
        depends: bound.iter().map(BoundPolicy::dependencies).fold(Dependencies::default(), BitOr::bitor),
        matches: bound.iter().map(kinds::matches).reduce(|all, more| all.or(&more)).unwrap_or_default(),
        reads: Projection::new(reads),
        ..Policy::of_object(name, dialect, document.source(), metadata, vec![first.rule.clone()])
    };
    Some((policy, bound))
}

/// Whether Kyverno generated a policy for one of its `ValidatingPolicies` that is evaluated itself.
fn is_generated(document: &PolicyDocument<'_>, of_kyverno: &BTreeSet<Arc<str>>) -> bool {
    let is_evaluated = |name: &str| of_kyverno.contains(name);
    let owners = document.node.at(&["metadata", "ownerReferences"]).items();
    let is_owner = |owner: &YamlNode| {
        let version = owner.get("apiVersion").text().unwrap_or_default();
        version.starts_with("policies.kyverno.io/")
            && owner.get("kind").text() == Some("ValidatingPolicy")
            && owner.get("name").text().is_some_and(is_evaluated)
    };
    // Owner references are often missing in manifests.
    let labels = document.node.at(&["metadata", "labels"]);
    let is_managed = labels.get("app.kubernetes.io/managed-by").text() == Some("kyverno");
    owners.iter().any(is_owner) || is_managed && document.name().strip_prefix("vpol-").is_some_and(is_evaluated)
}

/// Whether Gatekeeper generated a policy for a template.
fn is_of_gatekeeper(document: &PolicyDocument<'_>) -> bool {
    let is_of = |version: Option<&str>| {
        version.and_then(|version| version.split_once('/')).is_some_and(|(group, _)| group.ends_with(".gatekeeper.sh"))
    };
    let owners = document.node.at(&["metadata", "ownerReferences"]).items();
    let is_owned = owners.iter().any(|owner| is_of(owner.get("apiVersion").text()));
    let is_named = document.name().starts_with("gatekeeper-");
    is_owned || is_named && is_of(document.node.at(&["spec", "paramKind", "apiVersion"]).text())
}

/// Warns of expressions that depend on what an audit does not know.
pub(crate) fn report_unknown(document: &PolicyDocument<'_>, policy: &AdmissionPolicy, problems: &mut Vec<Problem>) {
    let mut parts: BTreeMap<&UnknownPart, u32> = BTreeMap::new();
    for (part, expression) in policy.unknown() {
        parts.entry(part).or_insert(expression.source.line);
    }
    for (part, line) in parts {
        let message = match part {
            UnknownPart::Request(part) => {
                format!("{} reads {part}, which an audit does not know", document.label())
            }
            UnknownPart::Function(_) => format!("{} {part}", document.label()),
        };
        let help = "objects whose result depends on it get an error";
        problems.push(warning(document.whole(message)).help(help).at(&document.file.text, line, 1));
    }
}
