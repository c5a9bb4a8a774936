//! Deletions: finalizers, grace periods and preconditions.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    ServerState,
    controllers::CLEAN_UP,
    kinds::ResourceType,
    managers::seconds,
    status::{ApiResult, ErrorStatus},
    store::Stored,
    writes::{WriteTarget, has_text, metadata},
};

/// The outcome of a deletion.
pub(super) enum Deleted {
    Gone(Arc<Stored>),
    /// It exists until its finalizers are removed and its grace period has ended, or its kind returns the deleted
    /// object.
    Marked(Arc<Stored>),
}

impl ServerState {
    /// Deletes an object, or marks it as terminating.
    pub(super) fn delete(&mut self, target: &WriteTarget, options: &Value) -> ApiResult<Deleted> {
        let kind = Arc::clone(&target.kind);
        let stored = self.store.get(&kind.storage, &target.key()).cloned();
        let stored = stored.ok_or_else(|| ErrorStatus::not_found(&kind, &target.name))?;
        preconditions(&kind, &target.name, &stored, &options["preconditions"])?;
        self.admit_deletion(target, &stored.value)?;
        let mut object = stored.value.clone();
        let waited = finalizers(&kind, &object, options);
        let grace = grace(&kind, &object, options);
        let is_pod = kind.is("", "pods");
        let is_namespace = kind.is("", "namespaces");
        let waits = !waited.is_empty() || grace > 0 || is_namespace;
        let marked = object["metadata"]["deletionTimestamp"].is_string();
        let changed = object["metadata"]["finalizers"].as_array().map_or(0, Vec::len) != waited.len();
        if marked
            && !changed
            && (!is_pod || grace >= object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default())
        {
            return Ok(Deleted::Marked(stored));
        }
        let now = Timestamp::now();
        let end = now.checked_add(jiff::SignedDuration::from_secs(grace.try_into().unwrap_or_default())).unwrap_or(now);
        let generation = object["metadata"]["generation"].as_u64();
        let metadata = metadata(&mut object);
        metadata.insert("deletionTimestamp".to_owned(), seconds(end).into());
        if !is_namespace {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        }
        if let Some(generation) = generation.filter(|_| kind.generation && waits && !marked) {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
        if waited.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), waited.into());
        }
        if is_namespace {
            object["status"]["phase"] = "Terminating".into();
        }
        if target.dry_run {
            return Ok(if waits || is_pod { Deleted::Marked(stored) } else { Deleted::Gone(stored) });
        }
        if waits {
            let stored = self.store.put(&kind.storage, &target.key(), object);
            self.changed(&kind);
            return Ok(Deleted::Marked(stored));
        }
        let last = self.take(target).unwrap_or(stored);
        Ok(if is_pod { Deleted::Marked(last) } else { Deleted::Gone(last) })
    }

    /// Removes an object regardless of its finalizers.
    pub(super) fn purge(&mut self, kind: &Arc<ResourceType>, key: &Arc<str>) {
        self.store.remove(&kind.storage, key);
        self.changed(kind);
    }
}

/// Returns the finalizers of a terminating object, including those for the treatment of its dependents.
fn finalizers(kind: &ResourceType, object: &Value, options: &Value) -> Vec<Value> {
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let policies = [("Foreground", "foregroundDeletion"), ("Orphan", "orphan"), ("Background", "")];
    let policy = options["propagationPolicy"].as_str().filter(|_| kind.custom() || kind.kind != "Event");
    let mut added = policies.into_iter().find(|(name, _)| Some(*name) == policy).map(|(_, finalizer)| finalizer);
    if added.is_some() {
        finalizers.retain(|known| {
            policies.iter().all(|(_, finalizer)| known != finalizer) || Some(known) == added.map(Value::from).as_ref()
        });
    }
    if kind.is("apiextensions.k8s.io", "customresourcedefinitions") {
        added = Some(CLEAN_UP);
    }
    if let Some(added) = added.filter(|added| !added.is_empty() && !finalizers.iter().any(|known| known == added)) {
        finalizers.push(added.into());
    }
    finalizers
}

fn preconditions(kind: &ResourceType, name: &str, stored: &Stored, wanted: &Value) -> ApiResult<()> {
    let differs = |field: &str| wanted[field].as_str().filter(|value| *value != stored.metadata(field));
    if let Some(uid) = differs("uid") {
        let known = stored.metadata("uid");
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({known}). The object might have been \
             deleted and then recreated"
        );
        return Err(ErrorStatus::precondition(kind, name, &why));
    }
    if let Some(version) = differs("resourceVersion") {
        let known = stored.metadata("resourceVersion");
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({known}). The \
             object might have been modified"
        );
        return Err(ErrorStatus::precondition(kind, name, &why));
    }
    Ok(())
}

/// Returns the grace period of an object in seconds: a Pod on a node gets time to end.
fn grace(kind: &ResourceType, object: &Value, options: &Value) -> u64 {
    let runs = has_text(&object["spec"]["nodeName"])
        && !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !kind.is("", "pods") || !runs {
        return 0;
    }
    let given = options["gracePeriodSeconds"].as_u64();
    given.or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_u64()).unwrap_or(30)
}
