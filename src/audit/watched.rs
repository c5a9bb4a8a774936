//! The watched objects: the cache that holds them, the gate that knows what has been listed, and which of them are evaluated.

mod coverage;
mod lookups;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;
use tracing::warn;

use super::{
    cache::Cache,
    gate::Gate,
    inventory::ObjectState,
    memory::{MemoryBounds, MemoryUsage},
    settings::{InitialObjects, PipelineSettings},
};
use crate::{
    cluster::identity::is_exception,
    metrics::Metrics,
    model::{
        body::{Body, Packing},
        object::{Kind, Object, ObjectKey, ObjectRef},
    },
    source::{
        change::{Unreadable, WatchScope},
        selection::Selection,
    },
};

/// The objects that are watched.
pub(crate) struct WatchedObjects {
    pub(super) cache: Cache,
    pub(super) gate: Gate,
    /// What is read of a cluster; `None` for files.
    pub(super) selection: Option<Selection>,
    /// Objects of a cluster that only serve lookups, if these are manifests, which replace them.
    pub(super) cluster: Option<Arc<Self>>,
    /// Whether nothing more will be read.
    pub(super) sources_ended: bool,
    /// Scopes that replace others, by the new one.
    successors: HashMap<WatchScope, WatchScope>,
    /// When an object was last seen to change.
    pub(super) last_change: Option<Timestamp>,
    settings: PipelineSettings,
    metrics: Arc<Metrics>,
}

impl WatchedObjects {
    /// Creates it without objects and with a closed gate.
    pub(super) fn new(settings: PipelineSettings, packing: Packing, metrics: Arc<Metrics>) -> Self {
        let streams = settings.initial == InitialObjects::Stream;
        Self {
            cache: if streams { Cache::unpacked() } else { Cache::new(packing) },
            gate: Gate::new(settings.sync_timeout),
            selection: None,
            cluster: None,
            sources_ended: false,
            successors: HashMap::new(),
            last_change: None,
            settings,
            metrics,
        }
    }

    /// Whether each object is evaluated as it is read and dropped afterwards.
    pub(super) fn are_streamed(&self) -> bool {
        self.settings.initial == InitialObjects::Stream
    }

    /// Whether objects of a kind are evaluated, and not only looked up.
    pub(super) fn evaluates(&self, kind: &Kind) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.evaluates(kind))
    }

    /// Whether an object is evaluated here. Objects of other shards are evaluated there, and those that are inactive or in
    /// excluded namespaces nowhere; here both only serve lookups.
    pub(super) fn is_evaluated(&self, key: &ObjectKey) -> bool {
        self.owns_namespace_of(key)
            && (self.settings.judge_inactive || !self.cache.is_inactive(key))
            && !self.selection.as_ref().is_some_and(|selection| selection.excludes_namespace_of(key))
            && self.has_labels(key)
    }

    /// Whether what is in the namespace of an object is evaluated and recorded by this process.
    pub(super) fn owns_namespace_of(&self, key: &ObjectKey) -> bool {
        self.settings.shard.owns(key.namespace.as_deref())
    }

    /// Whether an object has the labels of `--selector`, if there are any.
    fn has_labels(&self, key: &ObjectKey) -> bool {
        let Some(wanted) = self.selection.as_ref().and_then(|selection| selection.labels.as_ref()) else { return true };
        self.cache.object(key).is_some_and(|object| wanted.matches(&object.body.labels()))
    }

    /// Returns the scopes whose objects may be evaluated; none before the gate is open.
    pub(super) fn evaluated_scopes(&self) -> Vec<WatchScope> {
        let scopes = self.gate.joined().filter(|scope| self.gate.is_open() && !is_exception(&scope.kind));
        scopes.cloned().collect()
    }

    /// Whether an object exists, and its scope has been read and may be evaluated.
    pub(super) fn is_admitted(&self, key: &ObjectKey) -> bool {
        let exists = self.cache.uid(key).is_some() && !is_exception(&key.kind);
        exists && self.cache.scope(key).is_some_and(|scope| self.gate.lets_through(&scope))
    }

    /// Returns the state of an object that policies can look up now.
    pub(super) fn state_to_look_up(&self, key: ObjectKey) -> ObjectState {
        let body = self.body_to_look_up(&key);
        (key, body)
    }

    fn body_to_look_up(&self, key: &ObjectKey) -> Option<Body> {
        let scope = self.cache.scope(key).filter(|scope| self.gate.lets_through(scope));
        let object = scope.and_then(|_| self.cache.object(key));
        object.map(|object| object.body).or_else(|| self.cluster.as_ref()?.body_to_look_up(key))
    }

    /// Returns the objects of the cluster that serve lookups: those that no manifest replaces.
    pub(super) fn of_cluster(&self) -> impl Iterator<Item = ObjectKey> {
        let cluster = self.cluster.iter();
        let keys = cluster.flat_map(|cluster| cluster.gate.joined().flat_map(|scope| cluster.cache.keys(scope)));
        keys.filter(|key| !self.replaces(key))
    }

    /// Whether a manifest has the kind, in any version, and the name of an object of the cluster.
    fn replaces(&self, key: &ObjectKey) -> bool {
        let mut scopes = self.gate.scopes().filter(|scope| scope.kind.is(&key.kind.group, &key.kind.kind));
        scopes.any(|scope| self.cache.uid(&in_version_of(key, scope)).is_some())
    }

    /// Returns the Namespace of an object.
    pub(super) fn namespace_of(&self, key: &ObjectKey) -> Option<Object> {
        let name = key.namespace.clone()?;
        let own = || {
            let scope = self.gate.joined().find(|scope| scope.kind.is("", "Namespace"))?;
            self.cache.object(&ObjectKey { kind: Arc::clone(&scope.kind), namespace: None, name, copy: 0 })
        };
        own().or_else(|| self.cluster.as_ref()?.namespace_of(key))
    }

    /// Whether the Namespace of an object may be read later, but no Namespace has been read yet.
    pub(super) fn awaits_namespace_of(&self, key: &ObjectKey) -> bool {
        let is_namespace = |scope: &WatchScope| scope.kind.is("", "Namespace");
        key.namespace.is_some() && self.gate.scopes().any(is_namespace) && !self.gate.joined().any(is_namespace)
    }

    /// Returns an object and its owners with their contents: an exception that matches any of them excuses its violations.
    pub(super) fn with_owners(&self, key: &ObjectKey) -> Vec<(ObjectKey, Body)> {
        // Of a deleted object only the name is left.
        let body = |key: &ObjectKey| self.cache.object(key).map(|object| object.body).unwrap_or_default();
        let owners = self.cache.owners(key);
        [key.clone()].into_iter().chain(owners).map(|key| (key.clone(), body(&key))).collect()
    }

    /// Returns a reference to the owner of an object that has this uid.
    pub(super) fn owner_reference(&self, key: &ObjectKey, uid: &Arc<str>) -> Option<Arc<ObjectRef>> {
        let owner = self.cache.owners(key).into_iter().find(|owner| self.cache.has(owner, uid))?;
        Some(Arc::new(ObjectRef::new(&owner, uid)))
    }

    /// Whether recorded violations of a kind may be of objects that are or will be evaluated here.
    pub(super) fn expects(&self, group: &str, kind: &str) -> bool {
        let mut scopes = self.gate.joined().filter(|scope| scope.kind.is(group, kind));
        self.gate.expects(group, kind) && scopes.all(|scope| self.evaluates(&scope.kind))
    }

    /// Whether the bytes kept of an object may grow from the first to the second number of `growth`; `results` is what is
    /// kept of all results.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check_room(
        &self,
        key: &ObjectKey,
        growth: (usize, usize),
        results: &MemoryUsage,
    ) -> Result<(), String> {
        let bounds = MemoryBounds::of_process(self.settings.memory);
        bounds.check([self.cache.usage(), results], key.namespace.as_ref(), growth)
    }

    /// Adds a scope that will be listed.
    pub(super) fn appeared(&mut self, scope: WatchScope, now: Instant) {
        self.cache.add(scope.clone());
        self.gate.appeared(scope, now);
    }

    /// Notes that a list of a scope begins.
    pub(super) fn listing(&mut self, scope: &WatchScope, now: Instant) {
        self.cache.listing(scope);
        self.gate.listing(scope, now);
    }

    /// Notes that a scope's watch works.
    pub(super) fn heard(&mut self, scope: &WatchScope) {
        self.gate.heard(scope, Timestamp::now());
    }

    /// Notes that an object of a scope changed.
    pub(super) fn note_change(&mut self, scope: &WatchScope) {
        let now = Timestamp::now();
        self.last_change = Some(now);
        self.gate.heard(scope, now);
        self.metrics.set_last_change(now);
    }

    /// Notes that an object is not evaluated, and why. The results of an earlier state of it stay.
    pub(super) fn skipped(&mut self, scope: &WatchScope, name: &str, why: &str) {
        self.metrics.object_unreadable(&scope.kind.group, &scope.kind.plural);
        self.note_change(scope);
        if !self.gate.skipped(scope, name, why) {
            return;
        }
        match &*scope.kind.plural {
            "*" => warn!("{name} cannot be read and is not checked: {why}"),
            kind => warn!(kind, name, why, "An object cannot be read and is not checked"),
        }
    }

    /// Notes that a scope cannot be read. Sources repeat this at each attempt; it is logged when it is new, unless the
    /// result names it in the same place.
    pub(super) fn unreadable(&mut self, scope: &WatchScope, why: Unreadable) {
        let is_new = self.gate.unreadable(scope, why.clone()) && !why.message.is_empty();
        if is_new && self.settings.logs_unread {
            let (state, why) = (why.state.as_str(), why.message);
            warn!(%scope, state, why, "Cannot be read, and is not checked until it can");
        }
    }

    /// Notes that a scope, once its first list is complete, replaces another with the same objects in another API version.
    pub(super) fn succeeds(&mut self, new: WatchScope, old: WatchScope) {
        self.successors.insert(new, old);
    }

    /// Returns the scope that a newly listed one replaces, if there is one, and the keys that both have of the same objects,
    /// in the old version.
    pub(super) fn take_replaced(&mut self, new: &WatchScope) -> Option<(WatchScope, HashSet<ObjectKey>)> {
        let old = self.successors.remove(new)?;
        let is_same = |key: &ObjectKey| {
            let uid = self.cache.uid(key).filter(|uid| !uid.is_empty());
            uid.is_some_and(|uid| self.cache.has(&in_version_of(key, new), &uid))
        };
        let same = self.cache.keys(&old).filter(is_same).collect();
        Some((old, same))
    }

    /// Drops a scope; returns the keys and uids of its objects.
    pub(super) fn vanished(
        &mut self,
        scope: &WatchScope,
    ) -> impl Iterator<Item = (ObjectKey, Arc<str>)> + Send + use<> {
        self.successors.remove(scope);
        self.gate.vanished(scope);
        let objects = self.cache.take(scope);
        if !self.cache.has_version_of(scope) {
            self.metrics.remove_kind(&scope.kind.group, &scope.kind.plural);
        }
        objects
    }
}

/// Returns the key of the same object in the version of a scope.
pub(super) fn in_version_of(key: &ObjectKey, scope: &WatchScope) -> ObjectKey {
    ObjectKey { kind: Arc::clone(&scope.kind), ..key.clone() }
}
