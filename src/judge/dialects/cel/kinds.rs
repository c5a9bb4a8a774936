//! The kinds of the resources that policies name: rules list plural names, which a policy set does not know the kinds of.

use super::binding::BoundPolicy;
use crate::{
    judge::reads::Matches,
    model::{namespaced_kinds::NAMESPACED_KINDS, plural::plural},
};

/// The cluster-scoped kinds of Kubernetes that policies are about.
const CLUSTER_SCOPED: [&str; 14] = [
    "APIService",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// Returns the kinds that a policy can have results for, as far as they are known by their resources.
pub(crate) fn matches(policy: &BoundPolicy) -> Matches {
    let Some(resources) = policy.resources() else { return Matches::All };
    let known = || NAMESPACED_KINDS.iter().flat_map(|(_, kinds)| *kinds).chain(&CLUSTER_SCOPED);
    let kind = |resource: &str| known().find(|kind| plural(kind) == resource).map(|kind| (*kind).into());
    let kinds = resources.into_iter().map(kind).collect::<Option<_>>();
    kinds.map_or(Matches::All, Matches::Kinds)
}
