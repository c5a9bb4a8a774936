//! An in-memory API server that behaves like the real one, as far as kaudit and its policies can observe.
//!
//! ```text
//! transport ─► faults     faults of requests and watches
//!     │
//! handlers ──► request    parsed requests
//!     ├──────► rbac       authorization
//!     ├──────► discovery  served kinds
//!     ├──────► lists, watches, selectors
//!     ├──────► writes     managers (server-side apply: fields, schema), validation, names
//!     └──────► reviews
//! controllers             what controllers and the kubelet do
//! store                   the database: objects, revisions and history
//! ```
//!
//! It runs in the caller's task, on tokio's clock, and all generated values (uids, versions, names) are determined by
//! the order of requests. `tests/real` compares it with the real server.

mod controllers;
mod deletes;
mod discovery;
mod faults;
mod fields;
mod forms;
mod handlers;
mod kinds;
mod lists;
mod managers;
mod names;
mod preparation;
mod rbac;
mod request;
mod reviews;
mod schema;
mod selectors;
mod status;
mod store;
mod transport;
mod validation;
mod watches;
mod world;
mod writes;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use self::{discovery::DiscoveryCache, kinds::ResourceType, store::Store, writes::WriteTarget};
pub use self::{
    faults::{Faults, NoFaults, RequestFault, WatchFault},
    rbac::ADMIN,
    request::RequestInfo,
    status::{ApiResult, ErrorStatus},
    world::At,
};

/// The settings of a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long Events are kept.
    pub event_ttl: Duration,
    /// Whether discovery is unaggregated only, as before 1.27.
    pub unaggregated: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { event_ttl: Duration::from_hours(1), unaggregated: false }
    }
}

/// A cluster. Clones share it.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<ServerState>>,
    /// Incremented on each change that watches may have to send.
    changes: watch::Sender<u64>,
}

/// A write that is submitted to admission.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// As in RBAC: `reports.openreports.io`.
    pub resource: &'a str,
    /// The field manager.
    pub manager: &'a str,
    /// The new object without its type, or the one that is deleted.
    pub object: &'a Value,
}

/// Returns why a write is refused; `None` if it is not.
pub type Admission = Arc<dyn Fn(&Write<'_>) -> Option<String> + Send + Sync>;

/// One request in the journal.
#[derive(Debug, Clone)]
pub struct JournalEntry {
    /// When it was carried out.
    pub at: Timestamp,
    /// The request.
    pub request: RequestInfo,
    /// The HTTP status; 0 if there was no answer because of a fault.
    pub code: u16,
    /// Whether it reached the server.
    pub carried_out: bool,
    /// The revision of the store after it.
    pub revision: u64,
}

/// A copy of the database, to be restored later.
#[derive(Clone)]
pub struct Backup(Store);

struct ServerState {
    settings: Settings,
    store: Store,
    /// The kinds that are served.
    types: Vec<Arc<ResourceType>>,
    discovery: DiscoveryCache,
    /// The oldest revision from which watches can start.
    watch_floor: u64,
    /// Number of starts of the server.
    epoch: u64,
    /// The counter from which the last uid was generated.
    number: u64,
    /// The users of bearer tokens.
    tokens: BTreeMap<String, String>,
    admission: Option<Admission>,
    journal: Vec<JournalEntry>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self.with(|state| state.store.revision);
        f.debug_struct("ApiServer").field("revision", &revision).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Starts a cluster with the default namespaces and roles.
    pub fn new(settings: Settings) -> Self {
        let state = ServerState {
            settings,
            store: Store::default(),
            types: ResourceType::built_in(),
            discovery: DiscoveryCache::default(),
            watch_floor: 0,
            epoch: 0,
            number: 0,
            tokens: BTreeMap::new(),
            admission: None,
            journal: Vec::new(),
        };
        let server = Self { state: Arc::new(Mutex::new(state)), changes: watch::Sender::new(0) };
        server.with_changes(ServerState::bootstrap);
        server
    }

    fn with<T>(&self, read: impl FnOnce(&ServerState) -> T) -> T {
        read(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state, and wakes the watches if necessary.
    fn with_changes<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = (state.store.revision, state.epoch);
        let result = change(&mut state);
        let changed = before != (state.store.revision, state.epoch);
        drop(state);
        if changed {
            self.changes.send_modify(|changes| *changes += 1);
        }
        result
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn note(&self, request: &RequestInfo, code: u16, carried_out: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, request, revision) = (Timestamp::now(), request.clone(), state.store.revision);
        state.journal.push(JournalEntry { at, request, code, carried_out, revision });
    }
}

impl ServerState {
    /// Creates the objects that the real server creates at its first start.
    fn bootstrap(&mut self) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            self.boot("namespaces", name, json!({"metadata": {"name": name}}));
        }
        let everything = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        let delegator = json!([{"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"]},
            {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"]}]);
        for (name, rules) in [("cluster-admin", everything), ("system:auth-delegator", delegator)] {
            let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
            self.boot("clusterroles", name, json!({"metadata": {"name": name, "labels": labels}, "rules": rules}));
        }
    }

    fn boot(&mut self, plural: &str, name: &str, object: Value) {
        let Some(kind) = self.types.iter().find(|kind| kind.plural == plural).cloned() else { return };
        let target = WriteTarget {
            version: "v1".to_owned(),
            kind,
            namespace: String::new(),
            name: name.to_owned(),
            subresource: String::new(),
            manager: "kube-apiserver".to_owned(),
            dry_run: false,
        };
        // The objects are valid, and the store is empty.
        let _created = self.create(&target, object);
    }

    /// Returns a resource that is served.
    fn resource(&self, group: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.types.iter().find(|kind| kind.is(group, plural))
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Handles a write of an object: CRDs determine the served kinds.
    fn changed(&mut self, kind: &ResourceType) {
        if !kind.is("apiextensions.k8s.io", "customresourcedefinitions") {
            return;
        }
        let mut types = ResourceType::built_in();
        for (_, crd) in self.store.all(&kind.storage) {
            let Some(mut defined) = ResourceType::defined(&crd.value, self.store.revision) else { continue };
            // An unchanged kind keeps its watches.
            if let Some(known) = self.resource(&defined.group, &defined.plural) {
                let since = std::mem::replace(&mut defined.since, known.since);
                if defined != **known {
                    defined.since = since;
                }
            }
            types.push(Arc::new(defined));
        }
        self.types = types;
        self.discovery = DiscoveryCache::default();
    }

    /// Runs admission: the lifecycle of namespaces, and webhooks.
    fn admit(&self, target: &WriteTarget, old: Option<&Value>, object: &Value) -> ApiResult<()> {
        if old.is_none() && target.kind.namespaced {
            let Some(namespace) = self.store.get("namespaces", &target.namespace) else {
                return Err(ErrorStatus::no_namespace(&target.namespace));
            };
            if namespace.is_deleted() {
                return Err(ErrorStatus::terminating(&target.kind, &target.name, &target.namespace));
            }
        }
        self.call_webhooks(if old.is_none() { "CREATE" } else { "UPDATE" }, target, object)
    }

    fn admit_deletion(&self, target: &WriteTarget, object: &Value) -> ApiResult<()> {
        let protected = matches!(target.name.as_str(), "default" | "kube-system" | "kube-public");
        if target.kind.is("", "namespaces") && protected {
            return Err(ErrorStatus::forbidden(&target.kind, &target.name, "this namespace may not be deleted"));
        }
        self.call_webhooks("DELETE", target, object)
    }

    fn call_webhooks(&self, operation: &str, target: &WriteTarget, object: &Value) -> ApiResult<()> {
        let refused = self.admission.as_ref().and_then(|admission| {
            let (kind, manager) = (target.kind.qualified(), &target.manager);
            admission(&Write { operation, resource: &kind, manager, object })
        });
        refused.map_or(Ok(()), |why| {
            let message = format!("admission webhook \"policy.example.com\" denied the request: {why}");
            Err(ErrorStatus::new(403, "Forbidden", message))
        })
    }
}
