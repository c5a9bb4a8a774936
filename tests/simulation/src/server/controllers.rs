//! The controllers of a cluster: definitions are established, namespaces emptied, dependents collected, Events expire.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ServerState, kinds::ResourceType, store::Stored, writes::WriteTarget};

const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The finalizer of a deleted definition: its objects are deleted first.
pub(super) const CLEAN_UP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl ServerState {
    /// Performs the pending work; returns whether there was any.
    pub(super) fn tick(&mut self) -> bool {
        let before = self.store.revision;
        self.establish();
        self.finish_definitions();
        self.empty_namespaces();
        self.end_pods();
        self.collect_garbage();
        self.expire_events();
        self.store.revision != before
    }

    /// Returns the objects of a resource with their keys.
    fn objects(&self, resource: &str) -> Vec<(Arc<str>, Arc<Stored>)> {
        self.store.all(resource).map(|(key, object)| (Arc::clone(key), Arc::clone(object))).collect()
    }

    fn rewrite(&mut self, resource: &str, key: &Arc<str>, value: Value) {
        let Some(kind) = self.stored_in(resource) else { return };
        self.store.put(&kind.storage, key, value);
        self.changed(&kind);
    }

    /// Accepts the names of new definitions, so that their objects are served.
    fn establish(&mut self) {
        for (key, crd) in self.objects(CRDS) {
            let mut value = crd.value.clone();
            let names = &mut value["spec"]["names"];
            let kind = names["kind"].as_str().unwrap_or_default().to_owned();
            if names["singular"].is_null() {
                names["singular"] = kind.to_lowercase().into();
            }
            if names["listKind"].is_null() {
                names["listKind"] = format!("{kind}List").into();
            }
            let names = names.clone();
            if value["spec"]["conversion"].is_null() {
                value["spec"]["conversion"] = json!({"strategy": "None"});
            }
            let versions = value["spec"]["versions"].as_array().cloned().unwrap_or_default();
            let storage =
                versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone());
            let mut stored = value["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
            stored.extend(storage.filter(|version| !stored.contains(version)));
            value["status"]["storedVersions"] = stored.into();
            value["status"]["acceptedNames"] = names;
            if value["status"]["conditions"].is_null() {
                let now = super::managers::seconds(Timestamp::now());
                let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
                value["status"]["conditions"] = json!([
                    condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                    condition("Established", "InitialNamesAccepted", "the initial names have been accepted")
                ]);
            }
            if value != crd.value {
                self.rewrite(CRDS, &key, value);
            }
        }
    }

    /// Deletes the objects of terminating definitions, and then the definitions.
    fn finish_definitions(&mut self) {
        for (key, crd) in self.objects(CRDS).into_iter().filter(|(_, crd)| crd.is_deleted()) {
            for (object, stored) in self.objects(&key) {
                self.delete_object(&key, &object, &stored);
            }
            if self.store.all(&key).next().is_none() {
                self.drop_finalizer(CRDS, &key, &crd, CLEAN_UP);
            }
        }
    }

    /// Deletes the objects in terminating namespaces, and then the namespaces.
    fn empty_namespaces(&mut self) {
        let namespaces = self.objects("namespaces");
        for (name, namespace) in namespaces.into_iter().filter(|(_, namespace)| namespace.is_deleted()) {
            let everything = self.everything();
            let mut left =
                everything.into_iter().filter(|(_, _, object)| object.metadata("namespace") == &*name).peekable();
            if left.peek().is_none() {
                let mut value = namespace.value.clone();
                value["spec"]["finalizers"] = json!([]);
                if value["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    self.remove("namespaces", &name);
                } else if value != namespace.value {
                    self.rewrite("namespaces", &name, value);
                }
            }
            for (resource, key, object) in left {
                self.delete_object(&resource, &key, &object);
            }
        }
    }

    /// Removes Pods whose grace period has passed, as the kubelet does.
    fn end_pods(&mut self) {
        for (key, pod) in self.objects("pods").into_iter().filter(|(_, pod)| pod.is_deleted()) {
            let end = pod.metadata("deletionTimestamp").parse::<Timestamp>().unwrap_or(Timestamp::MIN);
            if end <= Timestamp::now() && pod.value["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                self.remove("pods", &key);
            }
        }
    }

    fn everything(&self) -> Vec<(Arc<str>, Arc<str>, Arc<Stored>)> {
        let all = self.store.everything();
        all.map(|(resource, key, object)| (Arc::clone(resource), Arc::clone(key), Arc::clone(object))).collect()
    }

    /// Deletes objects whose owners are deleted, and finishes objects that wait for their dependents.
    fn collect_garbage(&mut self) {
        let everything = self.everything();
        // The namespace of each object by uid.
        let owners: BTreeMap<String, String> = everything
            .iter()
            .map(|(_, _, object)| (object.metadata("uid").to_owned(), object.metadata("namespace").to_owned()))
            .collect();
        let exists = |reference: &Value, namespace: &str| {
            let owner = reference["uid"].as_str().and_then(|uid| owners.get(uid));
            owner.is_some_and(|owner| owner.is_empty() || owner == namespace)
        };
        for (resource, key, object) in &everything {
            let Some(references) = object.value["metadata"]["ownerReferences"].as_array() else { continue };
            let namespace = object.metadata("namespace");
            let (present, absent): (Vec<_>, Vec<_>) = references.iter().partition(|owner| exists(owner, namespace));
            if present.is_empty() && !absent.is_empty() {
                self.delete_object(resource, key, object);
            } else if !absent.is_empty() {
                let mut value = object.value.clone();
                value["metadata"]["ownerReferences"] = present.into_iter().cloned().collect();
                self.rewrite(resource, key, value);
            }
        }
        for (resource, key, object) in everything.iter().filter(|(_, _, object)| object.is_deleted()) {
            self.wait_for_dependents(resource, key, object, &everything);
        }
    }

    /// Deletes or orphans the dependents of an object that waits for them.
    fn wait_for_dependents(
        &mut self,
        resource: &str,
        key: &Arc<str>,
        owner: &Arc<Stored>,
        everything: &[(Arc<str>, Arc<str>, Arc<Stored>)],
    ) {
        let finalizers = owner.value["metadata"]["finalizers"].as_array().into_iter().flatten();
        let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
        let is_owner = |reference: &Value| reference["uid"] == owner.value["metadata"]["uid"];
        let depends = |object: &Stored| {
            object.value["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.iter().any(is_owner))
        };
        let dependents = everything.iter().filter(|(_, _, object)| depends(object));
        if finalizers.contains(&"orphan") {
            for (resource, key, dependent) in dependents {
                let mut value = dependent.value.clone();
                if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|reference| !is_owner(reference));
                }
                self.rewrite(resource, key, value);
            }
            self.drop_finalizer(resource, key, owner, "orphan");
        } else if finalizers.contains(&"foregroundDeletion") {
            let mut left = false;
            for (resource, key, dependent) in dependents {
                left |= self.store.get(resource, key).is_some();
                self.delete_object(resource, key, dependent);
            }
            if !left {
                self.drop_finalizer(resource, key, owner, "foregroundDeletion");
            }
        }
    }

    /// Deletes expired Events.
    fn expire_events(&mut self) {
        let oldest = Timestamp::now().checked_sub(self.settings.event_ttl).unwrap_or(Timestamp::MIN);
        for (key, event) in self.objects("events") {
            let created = event.metadata("creationTimestamp").parse::<Timestamp>();
            if created.is_ok_and(|created| created < oldest) {
                self.remove("events", &key);
            }
        }
    }

    /// Deletes an object as a controller does, if it is unchanged.
    fn delete_object(&mut self, resource: &str, key: &Arc<str>, object: &Arc<Stored>) {
        let Some(kind) = self.stored_in(resource) else {
            // Its definition is deleted or terminating.
            self.remove(resource, key);
            return;
        };
        let target = WriteTarget {
            version: kind.versions.first().cloned().unwrap_or_default(),
            kind,
            namespace: object.metadata("namespace").to_owned(),
            name: object.metadata("name").to_owned(),
            subresource: String::new(),
            manager: "kube-controller-manager".to_owned(),
            dry_run: false,
        };
        let options = json!({"preconditions": {"uid": object.metadata("uid")}});
        // A refused deletion is retried.
        let _refused = self.delete(&target, &options);
    }

    fn drop_finalizer(&mut self, resource: &str, key: &Arc<str>, object: &Arc<Stored>, finalizer: &str) {
        let Some(current) =
            self.store.get(resource, key).filter(|current| current.metadata("uid") == object.metadata("uid"))
        else {
            return;
        };
        let mut value = current.value.clone();
        let Some(finalizers) = value["metadata"]["finalizers"].as_array_mut() else { return };
        finalizers.retain(|known| known != finalizer);
        if finalizers.is_empty() {
            self.remove(resource, key);
        } else {
            self.rewrite(resource, key, value);
        }
    }

    /// Removes an object immediately.
    fn remove(&mut self, resource: &str, key: &Arc<str>) {
        match self.stored_in(resource) {
            Some(kind) => {
                self.store.remove(&kind.storage, key);
                self.changed(&kind);
            }
            None => drop(self.store.remove(&Arc::from(resource), key)),
        }
    }

    /// Returns the resource with this storage key.
    fn stored_in(&self, resource: &str) -> Option<Arc<ResourceType>> {
        self.types.iter().find(|kind| &*kind.storage == resource).cloned()
    }
}
