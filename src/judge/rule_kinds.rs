//! The kinds of objects that a rule applies to.

use std::{collections::BTreeSet, sync::Arc};

/// Kinds with known spelling: Trivy's selectors use lower case. Other kinds are compared ignoring case.
const KNOWN: &str = "APIService CertificateSigningRequest ClusterRole ClusterRoleBinding ConfigMap ControllerRevision CronJob \
    CSIDriver CSINode CustomResourceDefinition DaemonSet Deployment DeploymentConfig Endpoints EndpointSlice Event \
    HorizontalPodAutoscaler Ingress IngressClass Job Lease LimitRange MutatingWebhookConfiguration Namespace NetworkPolicy \
    Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget PodSecurityPolicy PodTemplate PriorityClass \
    ReplicaSet ReplicationController ResourceQuota Role RoleBinding Route RuntimeClass Secret Service ServiceAccount \
    StatefulSet StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration \
    VolumeAttachment";

/// The kinds of objects that a rule applies to, even if its code could match others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleKinds(Option<KindNames>);

/// Kinds by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct KindNames {
    /// As Kubernetes spells them.
    known: BTreeSet<Arc<str>>,
    /// Other kinds, as the check spells them.
    others: BTreeSet<String>,
}

impl RuleKinds {
    pub(crate) fn all() -> Self {
        Self(None)
    }

    pub(crate) fn named<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut kinds = KindNames::default();
        for name in names {
            match KNOWN.split_whitespace().find(|known| known.eq_ignore_ascii_case(name)) {
                Some(known) => kinds.known.insert(known.into()),
                None => kinds.others.insert(name.to_owned()),
            };
        }
        Self(Some(kinds))
    }

    /// Whether the rule is evaluated on objects of a kind.
    pub(crate) fn contain(&self, kind: &str) -> bool {
        let named = |named: &KindNames| {
            named.known.contains(kind) || named.others.iter().any(|name| name.eq_ignore_ascii_case(kind))
        };
        self.0.as_ref().is_none_or(named)
    }

    /// Whether they may include a kind that is not among [`Self::known`].
    pub(crate) fn are_open(&self) -> bool {
        self.0.as_ref().is_none_or(|named| !named.others.is_empty())
    }

    /// Returns the kinds with known spelling.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().flat_map(|named| &named.known)
    }

    /// Returns the union of both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0.zip(other.0).map(|(mut one, other)| {
            one.known.extend(other.known);
            one.others.extend(other.others);
            one
        }))
    }
}
