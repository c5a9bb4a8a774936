//! `kaudit rbac`: the rights that `kaudit check` needs with the same options, and no others.
//!
//! In: the kinds that are read and the recorders that write. Out: roles and bindings as YAML. Discovery is not
//! included: every authenticated user may read it (`system:discovery`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::{
    cli::{
        cluster::{RecordTarget, UiAuth},
        rbac::RbacArgs,
        scope::KindFilter,
    },
    cluster::identity::OWN_GROUP,
    judge::sources::{ClusterSource, PolicySource},
    model::object::Kind,
    output::{print, safe::to_yaml},
    record::reports,
    run::{connect::connect, policies, sources::PolicySources},
    source::{
        discovery::Served,
        policies::{ADMISSION_POLICIES, CRDS, GATEKEEPER, KYVERNO},
        selection::Selection,
    },
};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Runs `kaudit rbac`; returns the exit code.
///
/// # Errors
/// When a cluster is needed and does not answer, a policy is refused, or standard output cannot be written to.
pub async fn run(options: &RbacArgs) -> anyhow::Result<u8> {
    let mut documents = Vec::new();
    for object in objects(options, reading(options).await?) {
        documents.push(to_yaml(&object)?);
    }
    print(|out| out.write_all(documents.join("---\n").as_bytes()))?;
    Ok(0)
}

/// A rule of a role: the verbs that are granted for resources of one API group.
struct PolicyRule {
    group: String,
    resources: BTreeSet<String>,
    /// The names of the only objects; empty for all objects.
    names: Vec<String>,
    verbs: &'static [&'static str],
}

impl PolicyRule {
    fn new(group: &str, resources: &[&str], verbs: &'static [&'static str]) -> Self {
        let resources = resources.iter().map(ToString::to_string).collect();
        Self { group: group.to_owned(), resources, names: Vec::new(), verbs }
    }

    fn named(self, names: &[String]) -> Self {
        Self { names: names.to_vec(), ..self }
    }

    /// Whether it grants everything that another rule grants.
    fn covers(&self, other: &Self) -> bool {
        self.group == other.group
            && self.names.is_empty()
            && self.resources.is_superset(&other.resources)
            && other.verbs.iter().all(|verb| self.verbs.contains(verb))
    }

    fn json(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

/// The rights that one recorder needs.
struct Writes {
    /// In every checked namespace.
    checked: Vec<PolicyRule>,
    /// In kaudit's own namespace.
    own: Vec<PolicyRule>,
}

/// Returns the rights that a recorder needs; keep them in sync with `crate::record`.
fn writes(target: RecordTarget, options: &RbacArgs) -> Writes {
    let events = |verbs| vec![PolicyRule::new("events.k8s.io", &["events"], verbs)];
    match target {
        // Events are listed at the start, to find earlier ones. Those about kaudit are in its own namespace.
        RecordTarget::Events => Writes { checked: events(&["create", "list"]), own: events(&["create"]) },
        // Server-side apply of an object that does not exist needs `create`, which cannot be limited to a name.
        RecordTarget::Status => {
            let create = PolicyRule::new(OWN_GROUP, &["audits"], &["create"]);
            let patch = PolicyRule::new(OWN_GROUP, &["audits", "audits/status"], &["patch"])
                .named(&each_shard(options, &options.recording.audit_name));
            let exceptions = PolicyRule::new(OWN_GROUP, &["policyexceptions/status"], &["patch"]);
            Writes { checked: vec![exceptions], own: vec![create, patch] }
        }
        RecordTarget::Reports => {
            let rule = |api: reports::Api| {
                let namespaced = [true].into_iter().chain(options.scope.namespace.is_empty().then_some(false));
                let resources: Vec<&str> = namespaced.map(|namespaced| api.kind(namespaced).1).collect();
                PolicyRule::new(api.group(), &resources, &reports::Api::VERBS)
            };
            Writes { checked: options.recording.report_api.apis().iter().copied().map(rule).collect(), own: vec![] }
        }
        RecordTarget::None => Writes { checked: vec![], own: vec![] },
    }
}

/// Returns the rights that leader election needs.
fn leader_election(options: &RbacArgs) -> Vec<PolicyRule> {
    let rule = |verbs| PolicyRule::new("coordination.k8s.io", &["leases"], verbs);
    let own = each_shard(options, options.recording.lease_name());
    vec![rule(&["create", "list"]), rule(&["get", "update"]).named(&own)]
}

/// Returns the names that all shards derive from one, since they share a ServiceAccount.
fn each_shard(options: &RbacArgs, base: &str) -> Vec<String> {
    options.scope.part.shard.unwrap_or_default().all().map(|shard| shard.name(base)).collect()
}

/// Returns the rules for reading, one for each API group; connects to a cluster only if the options name kinds.
async fn reading(options: &RbacArgs) -> anyhow::Result<Vec<PolicyRule>> {
    let scope = &options.scope;
    let policies = match scope.part.kinds {
        KindFilter::All if scope.include.is_empty() && scope.exclude.is_empty() => return Ok(vec![read("*", ["*"])]),
        KindFilter::All => None,
        KindFilter::Judged => {
            let RbacArgs { policies, reading, cluster, .. } = options;
            let sources = PolicySources::chosen(policies, reading, cluster, None, crate::output::note).await?.now();
            Some(Arc::new(policies::load(&sources, &reading.load_options()).await??))
        }
    };
    let (_, served) = connect(&options.cluster, scope).await?;
    Ok(readable(&scope.selection(policies.as_ref()), &served))
}

fn read<'a>(group: &str, resources: impl IntoIterator<Item = &'a str>) -> PolicyRule {
    let resources = resources.into_iter().map(str::to_owned).collect();
    PolicyRule { resources, ..PolicyRule::new(group, &[], &["list", "watch"]) }
}

/// Returns the rules for reading policies in the cluster, by namespace; `None` is the whole cluster.
fn policies_read(options: &RbacArgs) -> BTreeMap<Option<&str>, Vec<PolicyRule>> {
    let mut rules: BTreeMap<Option<&str>, Vec<PolicyRule>> = BTreeMap::new();
    for source in &options.policies {
        match source {
            PolicySource::Cluster(ClusterSource::Gatekeeper) => {
                rules.entry(None).or_default().extend(GATEKEEPER.map(|(group, resource)| read(group, [resource])));
            }
            PolicySource::Cluster(ClusterSource::AdmissionPolicies) => {
                rules
                    .entry(None)
                    .or_default()
                    .extend(ADMISSION_POLICIES.map(|(group, resource)| read(group, [resource])));
            }
            PolicySource::Cluster(ClusterSource::Kyverno) => {
                rules.entry(None).or_default().extend(KYVERNO.map(|(group, resource)| read(group, [resource])));
            }
            PolicySource::Cluster(ClusterSource::CrdRules) => {
                rules.entry(None).or_default().extend(CRDS.map(|(group, resource)| read(group, [resource])));
            }
            PolicySource::Cluster(ClusterSource::ConfigMaps { namespace, .. }) => {
                let namespace = namespace.as_deref().unwrap_or(&options.service_account.namespace);
                rules.insert(Some(namespace), vec![read("", ["configmaps"])]);
            }
            // These are not read from the API server.
            PolicySource::Path(_) | PolicySource::Builtin(_) | PolicySource::Bundle(_) => {}
        }
    }
    rules
}

fn readable(selection: &Selection, served: &Served) -> Vec<PolicyRule> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let wanted = served.kinds.iter().filter(|kind| selection.excludes(kind).is_none());
    for Kind { group, plural, .. } in wanted.map(AsRef::as_ref) {
        groups.entry(group).or_default().push(plural);
    }
    groups.into_iter().map(|(group, resources)| read(group, resources)).collect()
}

/// Returns roles, each followed by its binding: first for the checked namespaces, then for kaudit's own.
fn objects(options: &RbacArgs, reading: Vec<PolicyRule>) -> Vec<Value> {
    let own_namespace = options.service_account.namespace.as_str();
    let namespaces: BTreeSet<&str> = options.scope.namespace.iter().map(String::as_str).collect();
    let everything = namespaces.is_empty() && reading.iter().any(|rule| rule.group == "*");
    let (mut checked, mut own) = (reading, Vec::new());
    for recorder in [RecordTarget::Events, RecordTarget::Reports, RecordTarget::Status] {
        if !options.recording.wants(recorder, true) {
            continue;
        }
        let writes = writes(recorder, options);
        // Rights in the checked namespaces include kaudit's own if all namespaces are checked or it is one of them.
        let is_here = namespaces.is_empty() || namespaces.contains(own_namespace);
        let is_covered = |own: &PolicyRule| is_here && writes.checked.iter().any(|checked| checked.covers(own));
        own.extend(writes.own.into_iter().filter(|own| !is_covered(own)));
        checked.extend(writes.checked);
    }
    if options.recording.leader_elect {
        own.extend(leader_election(options));
    }
    let mut objects = Vec::new();
    if namespaces.is_empty() {
        objects.extend(role(options, &options.role_name, None, &checked));
    }
    for namespace in namespaces {
        objects.extend(role(options, &options.role_name, Some(namespace), &checked));
    }
    let name = format!("{}-self", options.role_name);
    objects.extend(role(options, &name, Some(own_namespace), &own));
    // The right to read everything everywhere includes these.
    if !everything {
        let name = format!("{}-policies", options.role_name);
        for (namespace, rules) in policies_read(options) {
            objects.extend(role(options, &name, namespace, &rules));
        }
    }
    if !options.mirror.fleet.is_empty() {
        // The uid of this Namespace identifies the cluster.
        let identity = PolicyRule::new("", &["namespaces"], &["get"]).named(&["kube-system".to_owned()]);
        objects.extend(role(options, &format!("{}-fleet", options.role_name), None, &[identity]));
    }
    if options.ui_auth.ui_auth == UiAuth::Token {
        // Token and access reviews need a cluster-wide role; every cluster has this one for them.
        let delegator = "system:auth-delegator";
        let metadata = json!({"name": format!("{}:{delegator}", options.role_name)});
        objects.push(binding(options, "Cluster", delegator, &metadata));
    }
    objects
}

/// Returns a role with its binding, in a namespace or for the whole cluster; empty without rules.
fn role(options: &RbacArgs, name: &str, namespace: Option<&str>, rules: &[PolicyRule]) -> Vec<Value> {
    if rules.is_empty() {
        return Vec::new();
    }
    let scope = if namespace.is_some() { "" } else { "Cluster" };
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    let rules: Vec<Value> = rules.iter().map(PolicyRule::json).collect();
    let role = json!({"apiVersion": VERSION, "kind": format!("{scope}Role"), "metadata": metadata, "rules": rules});
    vec![role, binding(options, scope, name, &metadata)]
}

/// Returns the binding of a role, or with `Cluster` of a cluster role, to the ServiceAccount.
fn binding(options: &RbacArgs, scope: &str, role: &str, metadata: &Value) -> Value {
    let account = &options.service_account;
    let subject = json!({"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace});
    json!({
        "apiVersion": VERSION,
        "kind": format!("{scope}RoleBinding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": format!("{scope}Role"), "name": role},
        "subjects": [subject],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{judge::set::PolicySet, source::selection::KindUse};

    fn policies(text: &str) -> Arc<PolicySet> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("main.rego"), text).unwrap();
        Arc::new(PolicySet::load(&[folder.path().to_owned()]).unwrap())
    }

    #[test]
    fn only_kinds_that_policies_check_or_look_up_are_read() {
        let served = [
            ("", "pods", "Pod"),
            ("", "secrets", "Secret"),
            ("", "namespaces", "Namespace"),
            ("apps", "deployments", "Deployment"),
            ("kaudit.dev", "audits", "Audit"),
            ("networking.k8s.io", "ingresses", "Ingress"),
        ];
        let kinds = served.into_iter().map(|(group, plural, kind)| Kind::sample(group, plural, kind)).collect();
        let served = Served { kinds, ..Served::default() };
        let rules = |selection: &Selection| -> Vec<String> {
            readable(selection, &served)
                .into_iter()
                .map(|rule| format!("{}: {}", rule.group, Vec::from_iter(rule.resources).join(" ")))
                .collect()
        };
        let policies = policies(
            "package main\n\ndeny contains \"x\" if {\n\tinput.kind == \"Deployment\"\n\tinput.spec.name in \
             object.keys(data.kubernetes.ingresses[input.metadata.namespace])\n}\n",
        );
        let checked = Selection { policies: vec![policies], uses: KindUse::Judged, ..Selection::default() };
        assert_eq!(rules(&checked), ["apps: deployments", "networking.k8s.io: ingresses"]);
        // The kinds of two sets together, as for a comparison of them.
        let other = self::policies("package other\n\ndeny contains \"x\" if input.kind == \"Pod\"\n");
        let both = checked.policies.iter().cloned().chain([other]).collect();
        let both = Selection { policies: both, uses: KindUse::Judged, ..Selection::default() };
        assert_eq!(rules(&both), [": pods", "apps: deployments", "networking.k8s.io: ingresses"]);
        let include = vec!["secrets".parse().unwrap()];
        assert_eq!(rules(&Selection { include, ..checked })[0], ": secrets");
        let exclude = vec!["*.core".parse().unwrap()];
        let rest = rules(&Selection { exclude, ..Selection::default() });
        assert_eq!(rest, ["apps: deployments", "networking.k8s.io: ingresses"]);
    }
}
