//! The namespaced kinds of Kubernetes' own API groups. Manifests do not declare the scope of a kind, and the scope of custom
//! kinds is unknown without a cluster.

use super::object::Kind;

/// The namespace of a manifest that names none, as kubectl applies it.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The kinds, by group.
pub(crate) const NAMESPACED_KINDS: [(&str, &[&str]); 13] = [
    (
        "",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    ("apps", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling", &["HorizontalPodAutoscaler"]),
    ("batch", &["CronJob", "Job"]),
    ("coordination.k8s.io", &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("events.k8s.io", &["Event"]),
    ("extensions", &["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"]),
    ("networking.k8s.io", &["Ingress", "NetworkPolicy"]),
    ("policy", &["PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io", &["Role", "RoleBinding"]),
    ("resource.k8s.io", &["ResourceClaim", "ResourceClaimTemplate"]),
    ("storage.k8s.io", &["CSIStorageCapacity"]),
];

impl Kind {
    /// Whether it is a kind of Kubernetes whose objects have a namespace.
    pub fn is_known_as_namespaced(&self) -> bool {
        NAMESPACED_KINDS.iter().any(|(group, kinds)| *group == self.group && kinds.contains(&self.kind.as_str()))
    }
}
