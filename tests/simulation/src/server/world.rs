//! External operations on a cluster: by its writers, which have all rights, and its operators.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Admission, ApiServer, Backup, JournalEntry, ServerState,
    deletes::Deleted,
    forms,
    kinds::ResourceType,
    status::{ApiResult, ErrorStatus},
    writes::WriteTarget,
};

/// The location of an object: its API version, kind, namespace (empty if cluster-scoped) and name.
pub type At<'a> = (&'a str, &'a str, &'a str, &'a str);

/// The field manager of the writers in the cluster.
const MANAGER: &str = "world";

impl ServerState {
    fn target(&self, (api_version, kind, namespace, name): At<'_>, subresource: &str) -> ApiResult<WriteTarget> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let serves = |known: &&Arc<ResourceType>| {
            known.group == group && known.kind == kind && known.versions.iter().any(|served| served == version)
        };
        let kind = self.types.iter().find(serves).cloned().ok_or_else(ErrorStatus::no_resource)?;
        Ok(WriteTarget {
            namespace: if kind.namespaced { namespace.to_owned() } else { String::new() },
            kind,
            version: version.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            manager: MANAGER.to_owned(),
            dry_run: false,
        })
    }

    /// Returns the location of an object with a type, and the object without its type.
    fn placed(&self, mut object: Value) -> ApiResult<(WriteTarget, Value)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let namespace = if namespace.is_empty() { "default".to_owned() } else { namespace };
        if let Some(map) = object.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        Ok((self.target((&api_version, &kind, &namespace, &name), "")?, object))
    }
}

impl ApiServer {
    /// Creates an object, by default in the namespace `default`.
    pub fn create(&self, object: &Value) -> ApiResult<Value> {
        self.with_changes(|state| {
            let (target, object) = state.placed(object.clone())?;
            let written = state.create(&target, object)?;
            Ok(forms::value(&target.kind, &target.version, &written.object))
        })
    }

    /// Replaces an object. If the object specifies a version, it must be the current one.
    pub fn replace(&self, object: &Value) -> ApiResult<Value> {
        self.with_changes(|state| {
            let (target, mut object) = state.placed(object.clone())?;
            if object["metadata"]["resourceVersion"].is_null()
                && let Some(known) = state.store.get(&target.kind.storage, &target.key())
            {
                object["metadata"]["resourceVersion"] = known.metadata("resourceVersion").into();
            }
            let written = state.update(&target, object)?;
            Ok(forms::value(&target.kind, &target.version, &written.object))
        })
    }

    /// Merges a patch into an object.
    pub fn merge(&self, at: At<'_>, patch: &Value) -> ApiResult<Value> {
        self.merge_into(at, "", patch)
    }

    /// Merges a patch into an object's status.
    pub fn merge_status(&self, at: At<'_>, patch: &Value) -> ApiResult<Value> {
        self.merge_into(at, "status", patch)
    }

    fn merge_into(&self, at: At<'_>, subresource: &str, patch: &Value) -> ApiResult<Value> {
        self.with_changes(|state| {
            let target = state.target(at, subresource)?;
            let written = state.merge(&target, patch)?;
            Ok(forms::value(&target.kind, &target.version, &written.object))
        })
    }

    /// Deletes an object; returns whether it was removed immediately. `options` are those of a deletion, or null.
    pub fn delete(&self, at: At<'_>, options: &Value) -> ApiResult<bool> {
        self.with_changes(|state| {
            let target = state.target(at, "")?;
            let deleted = state.delete(&target, options)?;
            Ok(matches!(deleted, Deleted::Gone(_)) || state.store.get(&target.kind.storage, &target.key()).is_none())
        })
    }

    /// Deletes an object regardless of its finalizers.
    pub fn purge(&self, at: At<'_>) -> ApiResult<()> {
        self.with_changes(|state| {
            let target = state.target(at, "")?;
            state.purge(&target.kind, &target.key());
            Ok(())
        })
    }

    /// Reads an object.
    pub fn get(&self, at: At<'_>) -> ApiResult<Value> {
        self.with(|state| {
            let target = state.target(at, "")?;
            let stored = state.store.get(&target.kind.storage, &target.key());
            let stored = stored.ok_or_else(|| ErrorStatus::not_found(&target.kind, &target.name))?;
            Ok(forms::value(&target.kind, &target.version, stored))
        })
    }

    /// Reads the objects of a kind in a namespace, or all if that is empty.
    pub fn list(&self, api_version: &str, kind: &str, namespace: &str) -> ApiResult<Vec<Value>> {
        self.with(|state| {
            let target = state.target((api_version, kind, namespace, ""), "")?;
            let objects = state.store.all(&target.kind.storage).map(|(_, object)| object);
            let wanted = objects.filter(|object| namespace.is_empty() || object.metadata("namespace") == namespace);
            Ok(wanted.map(|object| forms::value(&target.kind, &target.version, object)).collect())
        })
    }

    /// Returns all stored objects in the preferred version of their kind, except those of kinds that are not served.
    pub fn everything(&self) -> Vec<Value> {
        self.with(|state| {
            let stored = state.store.everything();
            let values = stored.filter_map(|(resource, _, object)| {
                let kind = state.types.iter().find(|kind| kind.storage == *resource)?;
                Some(forms::value(kind, kind.versions.first()?, object))
            });
            values.collect()
        })
    }

    /// Returns the revision of the database.
    pub fn revision(&self) -> u64 {
        self.with(|state| state.store.revision)
    }

    /// Runs the controllers once; returns whether there was any work.
    pub fn tick(&self) -> bool {
        self.with_changes(ServerState::tick)
    }

    /// Compacts all versions but the current one: older ones are expired for lists and new watches.
    pub fn compact(&self) {
        self.with_changes(|state| {
            state.store.compact();
            state.watch_floor = state.store.revision;
        });
    }

    /// Clears the history for new watches only, like a full watch cache.
    pub fn forget_watch_history(&self) {
        self.with_changes(|state| state.watch_floor = state.store.revision);
    }

    /// Restarts the server: watches end, and new ones cannot start before this revision.
    pub fn restart(&self) {
        self.with_changes(|state| {
            state.epoch += 1;
            state.watch_floor = state.store.revision;
        });
    }

    /// Copies the database.
    pub fn backup(&self) -> Backup {
        self.with(|state| Backup(state.store.clone()))
    }

    /// Restarts the server with an earlier state of the database, whose revision is lower.
    pub fn restore(&self, backup: &Backup) {
        self.with_changes(|state| {
            state.store = backup.0.clone();
            state.epoch += 1;
            state.watch_floor = state.store.revision;
            if let Some(kind) = state.resource("apiextensions.k8s.io", "customresourcedefinitions").cloned() {
                state.changed(&kind);
            }
        });
    }

    /// Sets the admission webhook; `None` allows all writes.
    pub fn set_admission(&self, admission: Option<Admission>) {
        self.with_changes(|state| state.admission = admission);
    }

    /// Registers a bearer token of a user.
    pub fn set_token(&self, token: &str, user: &str) {
        self.with_changes(|state| drop(state.tokens.insert(token.to_owned(), user.to_owned())));
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<JournalEntry> {
        self.with(|state| state.journal.clone())
    }

    /// Returns the requests since the last call, and removes them.
    pub fn take_requests(&self) -> Vec<JournalEntry> {
        self.with_changes(|state| std::mem::take(&mut state.journal))
    }

    /// Returns when the newest request was made.
    pub fn last_request(&self) -> Option<Timestamp> {
        self.with(|state| state.journal.last().map(|entry| entry.at))
    }
}
