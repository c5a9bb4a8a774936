//! Contents of a simulated cluster: kinds, names, and objects that policies can distinguish.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kaudit::rego::analysis::yaml;
use serde_json::{Value, json};

use crate::server::{ApiServer, At, Settings};

/// A kind that worlds may have objects of.
#[derive(Debug, Clone, Copy)]
pub struct AuditedKind {
    /// `apps/v1`.
    pub api_version: &'static str,
    /// `Deployment`.
    pub kind: &'static str,
    /// `deployments`.
    pub plural: &'static str,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// The fields of its objects besides metadata, as JSON.
    body: &'static str,
}

const POD: &str = r#"{"spec": {"containers": [{"name": "a", "image": "a:1"}]}}"#;
const WORKLOAD: &str = r#"{"spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template":
    {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}}}"#;

/// All of them. [`WIDGET`] is defined by a custom resource definition.
pub const KINDS: [AuditedKind; 10] = [
    AuditedKind::new("v1", "ConfigMap", "configmaps", true, r#"{"data": {"a": "1"}}"#),
    AuditedKind::new("v1", "Pod", "pods", true, POD),
    AuditedKind::new("v1", "Service", "services", true, r#"{"spec": {"ports": [{"port": 80}]}}"#),
    AuditedKind::new("v1", "Secret", "secrets", true, r#"{"data": {"a": "MQ=="}}"#),
    AuditedKind::new("v1", "ServiceAccount", "serviceaccounts", true, "{}"),
    AuditedKind::new("apps/v1", "Deployment", "deployments", true, WORKLOAD),
    AuditedKind::new("apps/v1", "ReplicaSet", "replicasets", true, WORKLOAD),
    AuditedKind::new("example.com/v1", "Widget", "widgets", true, r#"{"spec": {"size": 1}}"#),
    AuditedKind::new("v1", "Namespace", "namespaces", false, "{}"),
    AuditedKind::new("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false, r#"{"rules": []}"#),
];
/// The index of the kind that may hold policies.
pub const CONFIG_MAP: usize = 0;
/// The index of the kind that can be added and removed.
pub const WIDGET: usize = 7;
/// The index of namespaces.
pub const NAMESPACE: usize = 8;
/// The namespace in which kaudit runs.
pub const HOME: &str = "kaudit";

impl AuditedKind {
    const fn new(
        api_version: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
        body: &'static str,
    ) -> Self {
        Self { api_version, kind, plural, namespaced, body }
    }
}

/// The name of an object, by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// An index of [`KINDS`].
    pub kind: usize,
    /// The number of the namespace `ns0`, `ns1` and so on; ignored if the kind is cluster-scoped.
    pub namespace: u8,
    /// The number of the object `o0`, `o1` and so on.
    pub name: u8,
}

impl ObjectName {
    /// Calls `f` with the location of the object.
    pub fn with_at<T>(self, f: impl FnOnce(At<'_>) -> T) -> T {
        let kind = &KINDS[self.kind];
        let name = if self.kind == NAMESPACE { format!("ns{}", self.name) } else { format!("o{}", self.name) };
        let namespace = if kind.namespaced { format!("ns{}", self.namespace) } else { String::new() };
        f((kind.api_version, kind.kind, &namespace, &name))
    }

    /// Creates the object with these contents, or replaces it.
    pub fn write(self, server: &ApiServer, contents: &Contents) {
        let owner = self.owner(contents).and_then(|owner| owner.with_at(|at| server.get(at)).ok());
        // A namespace may be missing.
        let _written = write(server, &self.object(contents, owner.as_ref()));
    }

    /// Returns the intended controller of the object, if it exists.
    pub fn owner(self, contents: &Contents) -> Option<Self> {
        let (kind, name) = contents.owner?;
        let is_possible = KINDS[self.kind].namespaced || !KINDS[kind].namespaced;
        is_possible.then_some(Self { kind, namespace: self.namespace, name })
    }

    /// Returns the object with these contents.
    pub fn object(self, contents: &Contents, owner: Option<&Value>) -> Value {
        self.with_at(|(api_version, kind, namespace, name)| {
            let mut object: Value = serde_json::from_str(KINDS[self.kind].body).unwrap_or_default();
            object["apiVersion"] = api_version.into();
            object["kind"] = kind.into();
            object["metadata"] = contents.metadata();
            object["metadata"]["name"] = name.into();
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = namespace.into();
            }
            if let Some(owner) = owner {
                object["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
                    "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true}]);
            }
            object
        })
    }
}

/// The fields that policies read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// The label `team`.
    pub team: Option<u8>,
    /// The label `unit`.
    pub unit: Option<u8>,
    /// The annotation `example.com/partner`: the number of another object.
    pub partner: Option<u8>,
    /// The annotation `example.com/expires`, in seconds since the epoch.
    pub expires: Option<i64>,
    /// The annotation `example.com/odd`, by which evaluation fails.
    pub odd: bool,
    /// An annotation that no policy reads.
    pub noise: u8,
    /// Kind and name of its controller, if that exists.
    pub owner: Option<(usize, u8)>,
}

impl Contents {
    fn metadata(&self) -> Value {
        let (mut labels, mut annotations) = (json!({}), json!({}));
        if let Some(team) = self.team {
            labels["team"] = format!("t{team}").into();
        }
        if let Some(unit) = self.unit {
            labels["unit"] = format!("u{unit}").into();
        }
        if let Some(partner) = self.partner {
            annotations["example.com/partner"] = format!("o{partner}").into();
        }
        if let Some(expires) = self.expires.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
            annotations["example.com/expires"] = expires.to_string().into();
        }
        if self.odd {
            annotations["example.com/odd"] = "yes".into();
        }
        annotations["example.com/noise"] = self.noise.to_string().into();
        json!({"labels": labels, "annotations": annotations})
    }
}

/// Starts a cluster in which kaudit is installed.
pub fn install() -> ApiServer {
    // Longer than any run, so that all Events can be compared.
    let server = ApiServer::new(Settings { event_ttl: std::time::Duration::from_hours(10_000), ..Settings::default() });
    for definition in definitions() {
        write(&server, &definition);
    }
    write(&server, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}));
    settle(&server);
    server
}

/// Returns the definitions of all kinds that are not part of Kubernetes.
pub fn definitions() -> impl Iterator<Item = Value> {
    let ours = [
        include_str!("../../../charts/kaudit/crds/audits.kaudit.dev.yaml"),
        include_str!("../../../charts/kaudit/crds/policyexceptions.kaudit.dev.yaml"),
    ];
    let ours = ours.into_iter().map(|text| yaml::from_str(text).unwrap_or_default());
    let others = [
        definition("openreports.io", "v1alpha1", "reports", "Report", "Namespaced"),
        definition("openreports.io", "v1alpha1", "clusterreports", "ClusterReport", "Cluster"),
        definition("templates.gatekeeper.sh", "v1", "constrainttemplates", "ConstraintTemplate", "Cluster"),
        widgets(),
    ];
    ours.chain(others)
}

/// Adds the definition of Widgets; if `upgraded`, also with a second, preferred version.
pub fn define_widgets(server: &ApiServer, upgraded: bool) {
    let mut definition = widgets();
    if upgraded && let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        let mut second = versions[0].clone();
        (second["name"], second["storage"]) = ("v2".into(), false.into());
        versions.push(second);
    }
    write(server, &definition);
}

fn widgets() -> Value {
    let kind = &KINDS[WIDGET];
    definition("example.com", "v1", kind.plural, kind.kind, "Namespaced")
}

/// Removes Widgets and their definition.
pub fn remove_widgets(server: &ApiServer) {
    remove_definition(server, "widgets.example.com");
}

/// Adds a Constraint kind.
pub fn define_constraints(server: &ApiServer, kind: &str) {
    write(server, &definition("constraints.gatekeeper.sh", "v1beta1", &kind.to_lowercase(), kind, "Cluster"));
    settle(server);
}

/// Removes a Constraint kind and its objects.
pub fn remove_constraints(server: &ApiServer, kind: &str) {
    remove_definition(server, &format!("{}.constraints.gatekeeper.sh", kind.to_lowercase()));
}

fn remove_definition(server: &ApiServer, name: &str) {
    let at = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name);
    // It may have been deleted already.
    let _deleted = server.delete(at, &Value::Null);
}

/// Creates or replaces an object; returns whether the server accepted it.
pub fn write(server: &ApiServer, object: &Value) -> bool {
    server.create(object).is_ok() || server.replace(object).is_ok()
}

/// Runs the controllers until they have nothing to do.
pub fn settle(server: &ApiServer) {
    while server.tick() {}
}

fn definition(group: &str, version: &str, plural: &str, kind: &str, scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}]}})
}

/// Grants kaudit its rights, except for reading these kinds.
pub fn grant(server: &ApiServer, forbidden: &BTreeSet<usize>) {
    let readable = (0..KINDS.len()).filter(|kind| !forbidden.contains(kind)).map(|kind| {
        let (group, _) = KINDS[kind].api_version.split_once('/').unwrap_or(("", ""));
        json!({"apiGroups": [group], "resources": [KINDS[kind].plural], "verbs": ["get", "list", "watch"]})
    });
    let others = [
        ("", "endpoints,events,limitranges,nodes,persistentvolumeclaims,persistentvolumes,resourcequotas"),
        ("apps", "daemonsets,statefulsets"),
        ("rbac.authorization.k8s.io", "clusterrolebindings,rolebindings,roles"),
        ("apiregistration.k8s.io,autoscaling,batch,networking.k8s.io,policy,storage.k8s.io,coordination.k8s.io", "*"),
        ("discovery.k8s.io,apiextensions.k8s.io,admissionregistration.k8s.io,scheduling.k8s.io", "*"),
        ("events.k8s.io,openreports.io,kaudit.dev,templates.gatekeeper.sh,constraints.gatekeeper.sh", "*"),
    ];
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let others = others.map(|(groups, resources)| {
        json!({"apiGroups": list(groups), "resources": list(resources), "verbs": ["get", "list", "watch"]})
    });
    let written = json!({"apiGroups": ["events.k8s.io", "openreports.io", "kaudit.dev", "coordination.k8s.io"],
        "resources": ["*"], "verbs": ["*"]});
    let rules: Vec<Value> = readable.chain(others).chain([written]).collect();
    let group = "rbac.authorization.k8s.io";
    let api_version = format!("{group}/v1");
    write(
        server,
        &json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "kaudit"}, "rules": rules}),
    );
    write(
        server,
        &json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "kaudit"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "kaudit"},
            "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": "kaudit"},
                {"kind": "ServiceAccount", "namespace": HOME, "name": "check"}]}),
    );
}
