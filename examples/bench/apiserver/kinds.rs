//! The kinds that the simulated API server serves, and the discovery documents.

use serde_json::{Value, json};

use super::world::Kind;

/// The origin of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Made(Kind),
    /// There are no objects.
    Empty,
    /// Objects that clients write are stored.
    Written,
    /// Objects that clients write are counted, but not stored.
    Forgotten,
    /// Objects are reviews, which are allowed and not stored.
    Reviewed,
}

/// A served kind, as in discovery.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    short: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) source: Source,
}

/// All served kinds, by group.
#[rustfmt::skip]
pub(crate) const RESOURCES: &[Resource] = &[
    core("configmaps", "ConfigMap", "cm", Source::Made(Kind::ConfigMap)),
    core("endpoints", "Endpoints", "ep", Source::Empty),
    core("events", "Event", "ev", Source::Forgotten),
    core("limitranges", "LimitRange", "limits", Source::Empty),
    core("namespaces", "Namespace", "ns", Source::Made(Kind::Namespace)).of_cluster(),
    core("nodes", "Node", "no", Source::Made(Kind::Node)).of_cluster(),
    core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc", Source::Empty),
    core("persistentvolumes", "PersistentVolume", "pv", Source::Empty).of_cluster(),
    core("pods", "Pod", "po", Source::Made(Kind::Pod)),
    core("replicationcontrollers", "ReplicationController", "rc", Source::Empty),
    core("resourcequotas", "ResourceQuota", "quota", Source::Empty),
    core("secrets", "Secret", "", Source::Made(Kind::Secret)),
    core("serviceaccounts", "ServiceAccount", "sa", Source::Made(Kind::ServiceAccount)),
    core("services", "Service", "svc", Source::Made(Kind::Service)),
    of("apiregistration.k8s.io", "apiservices", "APIService", "", Source::Empty).of_cluster(),
    of("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "crd", Source::Empty).of_cluster(),
    of("apps", "controllerrevisions", "ControllerRevision", "", Source::Empty),
    of("apps", "daemonsets", "DaemonSet", "ds", Source::Empty),
    of("apps", "deployments", "Deployment", "deploy", Source::Made(Kind::Deployment)),
    of("apps", "replicasets", "ReplicaSet", "rs", Source::Made(Kind::ReplicaSet)),
    of("apps", "statefulsets", "StatefulSet", "sts", Source::Empty),
    of("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", Source::Reviewed).of_cluster(),
    of("batch", "cronjobs", "CronJob", "cj", Source::Empty),
    of("batch", "jobs", "Job", "", Source::Empty),
    of("coordination.k8s.io", "leases", "Lease", "", Source::Written),
    of("events.k8s.io", "events", "Event", "ev", Source::Forgotten),
    of("networking.k8s.io", "ingresses", "Ingress", "ing", Source::Empty),
    of("networking.k8s.io", "networkpolicies", "NetworkPolicy", "netpol", Source::Empty),
    of("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", Source::Empty),
    of("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", "", Source::Empty).of_cluster(),
    of("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", "", Source::Empty).of_cluster(),
    of("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", "", Source::Empty),
    of("rbac.authorization.k8s.io", "roles", "Role", "", Source::Empty),
    of("storage.k8s.io", "storageclasses", "StorageClass", "sc", Source::Empty).of_cluster(),
];

const fn core(plural: &'static str, kind: &'static str, short: &'static str, source: Source) -> Resource {
    of("", plural, kind, short, source)
}

const fn of(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
    source: Source,
) -> Resource {
    Resource { group, version: "v1", plural, kind, short, namespaced: true, source }
}

impl Resource {
    const fn of_cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// Returns `group/version`, or the version alone.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    fn verbs(&self) -> &'static [&'static str] {
        match self.source {
            Source::Reviewed => &["create"],
            Source::Forgotten => &["create", "list", "patch", "watch"],
            Source::Written => &["create", "get", "list", "update", "watch"],
            Source::Made(_) | Source::Empty => &["get", "list", "watch"],
        }
    }

    fn short_names(&self) -> Vec<&'static str> {
        Some(self.short).filter(|short| !short.is_empty()).into_iter().collect()
    }
}

/// Returns the kind with this plural in a group and version.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|resource| resource.group == group && resource.version == version && resource.plural == plural)
}

/// Returns the groups except the core group.
fn groups() -> Vec<&'static str> {
    let mut groups: Vec<_> =
        RESOURCES.iter().map(|resource| resource.group).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups
}

/// Returns a document of aggregated discovery: for the core group, or for all others.
pub(crate) fn aggregated(core: bool) -> Value {
    let items = if core { vec![""] } else { groups() }.into_iter().map(|group| {
        let resources = RESOURCES.iter().filter(|resource| resource.group == group).map(|resource| {
            json!({
                "resource": resource.plural,
                "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.kind.to_lowercase(), "verbs": resource.verbs(), "shortNames": resource.short_names(),
            })
        });
        let version =
            json!({"version": "v1", "freshness": "Current", "resources": resources.collect::<Vec<_>>()});
        json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": [version]})
    });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

/// Returns a document of unaggregated discovery: the versions of the core group, or all other groups.
pub(crate) fn legacy(core: bool) -> Value {
    if core {
        return json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
    }
    let groups: Vec<_> = groups().into_iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the discovery document of a group.
pub(crate) fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [version], "preferredVersion": version})
}

/// Returns the discovery document of a group and version; `None` if it has no kinds.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let resources: Vec<_> = RESOURCES
        .iter()
        .filter(|resource| resource.group == group && resource.version == version)
        .map(|resource| {
            json!({
                "name": resource.plural, "singularName": resource.kind.to_lowercase(), "namespaced": resource.namespaced,
                "kind": resource.kind, "verbs": resource.verbs(), "shortNames": resource.short_names(),
            })
        })
        .collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!resources.is_empty()).then(|| {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
    })
}
