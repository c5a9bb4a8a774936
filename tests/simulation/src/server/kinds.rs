//! The kinds of the cluster: built-in ones, and those added by CRDs.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde_json::Value;

/// A resource and its behaviour. Custom resources have one for all their versions.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(super) struct ResourceType {
    pub(super) group: String,
    /// The served versions, the preferred one first.
    pub(super) versions: Vec<String>,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) short_names: Vec<String>,
    pub(super) namespaced: bool,
    pub(super) verbs: &'static [&'static str],
    /// The versions with a subresource `status`.
    pub(super) status: Vec<String>,
    /// Whether changes except in metadata and status increment `metadata.generation`.
    pub(super) generation: bool,
    /// Whether an update of a missing object creates it.
    pub(super) update_creates: bool,
    /// Whether an update requires a resource version.
    pub(super) needs_version: bool,
    /// The storage key of its objects; Events of both groups share one.
    pub(super) storage: Arc<str>,
    /// The schema of each version; `None` for built-in kinds.
    pub(super) schemas: Option<BTreeMap<String, Value>>,
    /// The revision at which the server began to serve it; watches cannot start before.
    pub(super) since: u64,
}

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The order in which the server lists the verbs of custom resources.
const CUSTOM: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const NAMESPACES: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const REVIEWS: &[&str] = &["create"];

/// The built-in kinds: group, version, plural, kind, short names, and properties: `n`amespaced, `s`tatus, `g`eneration, an
/// `u`pdate creates, needs a `v`ersion, a `r`eview.
const BUILT_IN: &[(&str, &str, &str, &str, &str, &str)] = &[
    ("", "v1", "configmaps", "ConfigMap", "cm", "n"),
    ("", "v1", "endpoints", "Endpoints", "ep", "nu"),
    ("", "v1", "events", "Event", "ev", "nu"),
    ("", "v1", "limitranges", "LimitRange", "limits", "nu"),
    ("", "v1", "namespaces", "Namespace", "ns", "s"),
    ("", "v1", "nodes", "Node", "no", "s"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "ns"),
    ("", "v1", "persistentvolumes", "PersistentVolume", "pv", "s"),
    ("", "v1", "pods", "Pod", "po", "nsg"),
    ("", "v1", "resourcequotas", "ResourceQuota", "quota", "ns"),
    ("", "v1", "secrets", "Secret", "", "n"),
    ("", "v1", "serviceaccounts", "ServiceAccount", "sa", "n"),
    ("", "v1", "services", "Service", "svc", "nsu"),
    ("apiregistration.k8s.io", "v1", "apiservices", "APIService", "", "s"),
    ("apps", "v1", "daemonsets", "DaemonSet", "ds", "nsg"),
    ("apps", "v1", "deployments", "Deployment", "deploy", "nsg"),
    ("apps", "v1", "replicasets", "ReplicaSet", "rs", "nsg"),
    ("apps", "v1", "statefulsets", "StatefulSet", "sts", "nsg"),
    ("events.k8s.io", "v1", "events", "Event", "ev", "nu"),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", "", "r"),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", "", "nr"),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", "r"),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "", "r"),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", "", "r"),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", "ns"),
    ("batch", "v1", "cronjobs", "CronJob", "cj", "nsg"),
    ("batch", "v1", "jobs", "Job", "", "nsg"),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", "ing", "nsg"),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol", "ng"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "nsgv"),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", "", "u"),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "", "u"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", "", "nu"),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", "", "nu"),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", ""),
    ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "", "gv"),
    ("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", "sg"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        "",
        "g",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        "",
        "g",
    ),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd crds", "sgv"),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", "g"),
    ("coordination.k8s.io", "v1", "leases", "Lease", "", "nuv"),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", "nug"),
];

impl ResourceType {
    /// Returns the built-in kinds, in the order in which the server lists its groups.
    pub(super) fn built_in() -> Vec<Arc<Self>> {
        let types = BUILT_IN.iter().map(|&(group, version, plural, kind, short, properties)| {
            let has = |property: char| properties.contains(property);
            let verbs = match plural {
                _ if has('r') => REVIEWS,
                "namespaces" => NAMESPACES,
                _ => ALL,
            };
            let storage = if group == "events.k8s.io" { "events".to_owned() } else { join(plural, group) };
            Arc::new(Self {
                group: group.to_owned(),
                versions: vec![version.to_owned()],
                plural: plural.to_owned(),
                singular: kind.to_lowercase(),
                kind: kind.to_owned(),
                list_kind: format!("{kind}List"),
                short_names: short.split_whitespace().map(str::to_owned).collect(),
                namespaced: has('n'),
                verbs,
                status: if has('s') { vec![version.to_owned()] } else { Vec::new() },
                generation: has('g'),
                update_creates: has('u'),
                needs_version: has('v'),
                storage: storage.into(),
                schemas: None,
                since: 0,
            })
        });
        types.collect()
    }

    /// Returns the resource defined by a `CustomResourceDefinition`, starting at this revision; `None` while it is not
    /// established.
    pub(super) fn defined(crd: &Value, since: u64) -> Option<Self> {
        let established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
        crd["status"]["conditions"].as_array()?.iter().find(|condition| established(condition))?;
        let spec = &crd["spec"];
        let (names, text) = (&spec["names"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        let mut versions: Vec<&Value> = spec["versions"].as_array()?.iter().filter(|v| v["served"] == true).collect();
        versions.sort_by_key(|version| Reverse(priority(version["name"].as_str().unwrap_or_default())));
        let schemas = versions.iter().map(|v| (text(&v["name"]), v["schema"]["openAPIV3Schema"].clone())).collect();
        let with_status = versions.iter().filter(|v| v["subresources"]["status"].is_object());
        let (group, plural, kind) = (text(&spec["group"]), text(&names["plural"]), text(&names["kind"]));
        let short = names["shortNames"].as_array().into_iter().flatten();
        Some(Self {
            versions: versions.iter().map(|version| text(&version["name"])).collect(),
            singular: names["singular"].as_str().map_or_else(|| kind.to_lowercase(), str::to_owned),
            list_kind: names["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned),
            short_names: short.map(text).collect(),
            namespaced: spec["scope"] == "Namespaced",
            verbs: CUSTOM,
            status: with_status.map(|version| text(&version["name"])).collect(),
            generation: true,
            update_creates: false,
            needs_version: true,
            storage: join(&plural, &group).into(),
            schemas: Some(schemas),
            since,
            group,
            plural,
            kind,
        })
    }

    pub(super) fn custom(&self) -> bool {
        self.schemas.is_some()
    }

    /// Returns its name in messages: `pods`, `deployments.apps`.
    pub(super) fn qualified(&self) -> String {
        join(&self.plural, &self.group)
    }

    pub(super) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    pub(super) fn has_status(&self, version: &str) -> bool {
        self.status.iter().any(|known| known == version)
    }

    pub(super) fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub(super) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Returns the schema of a version of a custom resource.
    pub(super) fn schema(&self, version: &str) -> Option<&Value> {
        self.schemas.as_ref().map(|schemas| schemas.get(version).unwrap_or(&Value::Null))
    }
}

/// Returns a name with its group: `deployments.apps`.
pub(super) fn join(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Returns the sort key of a version: `v2`, `v1`, `v1beta1`, `v1alpha1`, then others by name in reverse order.
pub(super) fn priority(version: &str) -> (u8, u64, u64, Reverse<String>) {
    let other = (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let Ok(major) = rest[..digits].parse() else { return other };
    let stability = |name: &str| rest[digits..].strip_prefix(name)?.parse().ok();
    match &rest[digits..] {
        "" => (3, major, 0, Reverse(String::new())),
        _ => match (stability("beta"), stability("alpha")) {
            (Some(minor), _) => (2, major, minor, Reverse(String::new())),
            (_, Some(minor)) => (1, major, minor, Reverse(String::new())),
            _ => other,
        },
    }
}
