//! Policies that are objects of a cluster: read by their own informer, and passed on as files.
//!
//! In: Gatekeeper's objects, admission policies, Kyverno's policies, CRDs, or `ConfigMap`s with a label. Out: a [`FileTree`]
//! for each kind of object, or for each
//! `ConfigMap`, again whenever one of them changes. Objects of a kind that becomes unreadable stay in their last state,
//! together with a file that reports the error.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, bail};
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};
use tracing::warn;

use super::{
    change::{Change, WatchScope},
    discovery::Served,
    informer::{Informer, ReadOptions},
    received::Secrets,
    redaction::is_copy,
    selection::Selection,
};
use crate::{
    cluster::{client::Clients, identity::is_exception},
    judge::sources::{CONFIG_MAPS, ClusterSource, FileTree, TreeFile},
    model::object::{Object, ObjectKey},
    rego::Form,
};

mod crd;

/// Capacity of the channel of changes.
const CHANGES: usize = 256;
/// The kinds of Gatekeeper that define policies, by group and plural.
pub const GATEKEEPER: [(&str, &str); 4] = [
    ("config.gatekeeper.sh", "configs"),
    ("constraints.gatekeeper.sh", "*"),
    ("expansion.gatekeeper.sh", "expansiontemplate"),
    ("templates.gatekeeper.sh", "constrainttemplates"),
];
/// The kinds of admission policies that are evaluated, by group and plural.
pub const ADMISSION_POLICIES: [(&str, &str); 2] = [
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
];
/// The kinds of Kyverno that are evaluated, and its exceptions, by group and plural.
pub const KYVERNO: [(&str, &str); 3] = [
    ("policies.kyverno.io", "namespacedvalidatingpolicies"),
    ("policies.kyverno.io", "policyexceptions"),
    ("policies.kyverno.io", "validatingpolicies"),
];
/// The kind of CRDs, by group and plural.
pub const CRDS: [(&str, &str); 1] = [("apiextensions.k8s.io", "customresourcedefinitions")];
/// Metadata fields that change although the policy does not.
const CHANGING: [&str; 6] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

/// The file trees of a source, in the order of their names.
pub type Trees = Vec<Arc<FileTree>>;

/// Policies of a cluster, which are followed until this is dropped.
pub struct FollowedPolicies {
    /// The current files.
    pub trees: watch::Receiver<Trees>,
    task: AbortHandle,
}

impl Drop for FollowedPolicies {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the policies of a source and follows their changes.
///
/// # Errors
/// When some of the objects cannot be read at the start: half of the policies would be taken for all of them.
pub async fn follow(source: &ClusterSource, clients: &Clients, served: Served) -> anyhow::Result<FollowedPolicies> {
    let mut reading = ClusterPolicies::new(source, clients);
    let (informer, mut changes) = reading.informer(clients);
    // Ends when the receiver of its changes is closed.
    tokio::spawn(informer.run(served));
    while !reading.is_complete() {
        reading.take(changes.recv().await.context("reading policies of the cluster failed, which is a bug")?);
    }
    reading.readable()?;
    let (sender, trees) = watch::channel(reading.trees());
    let task = tokio::spawn(async move {
        while let Some(change) = changes.recv().await {
            reading.take(change);
            let trees = reading.trees();
            sender.send_if_modified(|known| {
                *known != trees && {
                    *known = trees;
                    true
                }
            });
        }
    });
    Ok(FollowedPolicies { trees, task: task.abort_handle() })
}

/// The state of a source.
struct ClusterPolicies {
    source: ClusterSource,
    /// The namespace of the `ConfigMap`s.
    namespace: String,
    objects: BTreeMap<ObjectKey, PolicyObject>,
    scopes: BTreeMap<WatchScope, KindProgress>,
    discovered: bool,
}

/// An object with policies.
struct PolicyObject {
    /// Its `creationTimestamp`. Of two `ConfigMap`s with one package, the older owns it, whatever their names.
    created: String,
    files: Vec<TreeFile>,
}

/// The progress of reading a kind.
#[derive(Default)]
struct KindProgress {
    /// Objects that the current list has not contained yet; those still unseen at its end were deleted.
    unseen: BTreeSet<ObjectKey>,
    /// Whether a first list is complete, or the kind is known to be unreadable.
    settled: bool,
    unreadable: Option<String>,
}

impl ClusterPolicies {
    fn new(source: &ClusterSource, clients: &Clients) -> Self {
        let namespace = match source {
            ClusterSource::ConfigMaps { namespace: Some(namespace), .. } => namespace.clone(),
            _ => clients.namespace().to_owned(),
        };
        let (objects, scopes) = (BTreeMap::new(), BTreeMap::new());
        Self { source: source.clone(), namespace, objects, scopes, discovered: false }
    }

    fn informer(&self, clients: &Clients) -> (Informer, mpsc::Receiver<Change>) {
        let (kinds, namespaces, label_selector) = match &self.source {
            ClusterSource::Gatekeeper => (&GATEKEEPER[..], BTreeSet::new(), None),
            ClusterSource::AdmissionPolicies => (&ADMISSION_POLICIES[..], BTreeSet::new(), None),
            ClusterSource::Kyverno => (&KYVERNO[..], BTreeSet::new(), None),
            ClusterSource::CrdRules => (&CRDS[..], BTreeSet::new(), None),
            ClusterSource::ConfigMaps { selector, .. } => {
                (&[("core", "configmaps")][..], [self.namespace.clone()].into(), Some(selector.clone()))
            }
        };
        let include = kinds.iter().filter_map(|(group, plural)| format!("{plural}.{group}").parse().ok()).collect();
        let exclude = "*".parse().into_iter().collect();
        let selection = Selection { namespaces, include, exclude, ..Selection::default() };
        let options = ReadOptions { once: false, label_selector, ..ReadOptions::once(Secrets::Redact) };
        let (sender, changes) = mpsc::channel(CHANGES);
        (Informer::new(clients.clone(), selection, options, sender), changes)
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Discovered(_) => self.discovered = true,
            Change::Appeared(scope) if !is_exception(&scope.kind) => {
                self.scopes.entry(scope).or_default();
            }
            Change::Vanished(scope) => {
                self.scopes.remove(&scope);
                self.objects.retain(|key, _| !is_in(key, &scope));
            }
            Change::Listing(scope) => {
                let unseen = self.objects.keys().filter(|key| is_in(key, &scope)).cloned().collect();
                self.change(&scope, |known| known.unseen = unseen);
            }
            Change::Seen(scope, object) => {
                self.change(&scope, |known| _ = known.unseen.remove(&object.key));
                if self.scopes.contains_key(&scope) {
                    self.see(&object);
                }
            }
            Change::Gone(_, Object { key, .. }) | Change::GoneUnread(_, key) => drop(self.objects.remove(&key)),
            Change::Skipped(scope, name, why) => warn!(kind = %scope, name, "A policy cannot be read: {why}"),
            Change::Synced(scope) => {
                let gone = self.scopes.get_mut(&scope).map(|known| std::mem::take(&mut known.unseen));
                self.objects.retain(|key, _| !gone.as_ref().is_some_and(|gone| gone.contains(key)));
                self.change(&scope, |known| (known.settled, known.unreadable) = (true, None));
            }
            Change::Unreadable(scope, why) => {
                warn!(kind = %scope, source = %self.source, "Policies cannot be read: {}", why.message);
                self.change(&scope, |known| {
                    known.unseen.clear();
                    (known.settled, known.unreadable) = (true, Some(why.message));
                });
            }
            Change::Appeared(_) | Change::Succeeds(..) | Change::Quiet(_) | Change::Restarted(..) => {}
        }
    }

    fn change(&mut self, scope: &WatchScope, change: impl FnOnce(&mut KindProgress)) {
        if let Some(known) = self.scopes.get_mut(scope) {
            change(known);
        }
    }

    fn see(&mut self, object: &Object) {
        let files = object.body.json().map_err(anyhow::Error::from).and_then(|json| match self.source {
            ClusterSource::Gatekeeper | ClusterSource::AdmissionPolicies | ClusterSource::Kyverno => {
                definition(&object.key, &json)
            }
            ClusterSource::CrdRules if !crd::has_rules(&json) => Ok(Vec::new()),
            ClusterSource::CrdRules => crd::schemas(&json).and_then(|json| definition(&object.key, &json)),
            ClusterSource::ConfigMaps { .. } => values(&json),
        });
        match files {
            Ok(files) => {
                let created = object.body.created().map(|created| created.to_string()).unwrap_or_default();
                self.objects.insert(object.key.clone(), PolicyObject { created, files });
            }
            Err(error) => warn!(object = %object.key, "A policy cannot be read: {error:#}"),
        }
    }

    /// Whether each kind is settled.
    fn is_complete(&self) -> bool {
        self.discovered && self.scopes.values().all(|scope| scope.settled)
    }

    /// Checks that all kinds could be read.
    fn readable(&self) -> anyhow::Result<()> {
        if self.scopes.is_empty() {
            let (kinds, help) = match self.source {
                ClusterSource::AdmissionPolicies => (&ADMISSION_POLICIES[..], "they need Kubernetes 1.30 or newer"),
                ClusterSource::Kyverno => (&KYVERNO[..], "install Kyverno 1.14 or newer, or its CRDs alone"),
                ClusterSource::CrdRules => (&CRDS[..], "check that its address is that of an API server"),
                _ => (&GATEKEEPER[..], "install Gatekeeper, or its CRDs alone"),
            };
            let (group, plural) = kinds.last().copied().unwrap_or_default();
            bail!("{}: the cluster serves no {plural}.{group}; {help}", self.source);
        }
        let unreadable = self.scopes.iter().find_map(|(scope, known)| Some((scope, known.unreadable.as_ref()?)));
        let Some((scope, why)) = unreadable else { return Ok(()) };
        bail!(
            "{}: cannot read {scope}: {why}\n  help: kaudit rbac -p {} prints the required rights",
            self.source,
            self.source
        )
    }

    /// Returns the objects of each settled kind, with a file that reports each kind that cannot be read.
    fn trees(&self) -> Trees {
        let tree = |name: String, files| Arc::new(FileTree { name: name.into(), files });
        let settled: Vec<_> = self.scopes.iter().filter(|(_, known)| known.settled).map(|(scope, _)| scope).collect();
        let objects = || self.objects.iter().filter(|(key, _)| settled.iter().any(|scope| is_in(key, scope)));
        let unreadable = self.scopes.iter().filter_map(|(scope, known)| {
            let why = known.unreadable.as_ref()?;
            let content = Err(format!("cannot be read; its last version stays in force: {why}"));
            Some(TreeFile { path: vec![format!("{}.yaml", scope.kind)], content })
        });
        let mut files: Vec<TreeFile> = unreadable.collect();
        if !matches!(self.source, ClusterSource::ConfigMaps { .. }) {
            files.extend(objects().flat_map(|(_, object)| object.files.clone()));
            return vec![tree(self.source.to_string(), files)];
        }
        // Each is a separate directory, as if it were mounted: its data is at the root.
        let named = |key: &ObjectKey| format!("{CONFIG_MAPS}/{}/{}", self.namespace, key.name);
        let mut sorted: Vec<(&ObjectKey, &PolicyObject)> = objects().collect();
        sorted.sort_by_key(|(key, object)| (&object.created, *key));
        let mut trees: Trees = sorted.into_iter().map(|(key, object)| tree(named(key), object.files.clone())).collect();
        if trees.is_empty() || !files.is_empty() {
            trees.push(tree(self.source.to_string(), files));
        }
        trees
    }
}

fn is_in(key: &ObjectKey, scope: &WatchScope) -> bool {
    key.kind == scope.kind && (scope.namespace.is_none() || key.namespace == scope.namespace)
}

/// Returns an object that is a policy, or belongs to one, as YAML, without fields that are irrelevant for the policy.
fn definition(key: &ObjectKey, json: &[u8]) -> anyhow::Result<Vec<TreeFile>> {
    let mut object: Map<String, Value> = serde_json::from_slice(json)?;
    object.remove("status");
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !CHANGING.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !is_copy(name));
        }
    }
    let content = Ok(serde_saphyr::to_string(&object)?.into_bytes());
    let namespace = key.namespace.iter().map(ToString::to_string);
    let path = [key.kind.plural.clone()].into_iter().chain(namespace).chain([format!("{}.yaml", key.name)]);
    Ok(vec![TreeFile { path: path.collect(), content }])
}

/// Returns the values of a `ConfigMap` as files named after their keys.
fn values(json: &[u8]) -> anyhow::Result<Vec<TreeFile>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ConfigMap {
        #[serde(default)]
        data: Option<BTreeMap<String, String>>,
        #[serde(default)]
        binary_data: Option<BTreeMap<String, String>>,
    }
    let ConfigMap { data, binary_data } = serde_json::from_slice(json)?;
    let text = data.into_iter().flatten().map(|(name, text)| (name, Ok(text.into_bytes())));
    let binary = binary_data.into_iter().flatten().map(|(name, bytes)| {
        let bytes = BASE64.decode(bytes.as_bytes()).map_err(|why| format!("cannot be read: {why}"));
        (name, bytes)
    });
    let file = |(name, content): (String, _)| {
        // A value in a ConfigMap labelled as policy is a policy, whatever its name.
        let path = if Form::of(Path::new(&name)).is_some() { name } else { format!("{name}.rego") };
        TreeFile { path: vec![path], content }
    };
    Ok(text.chain(binary).map(file).collect())
}

#[cfg(test)]
mod tests;
