//! Create, update, patch and delete.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    ServerState, forms,
    kinds::ResourceType,
    managers::{self, FieldManager, seconds},
    names,
    preparation::{begin, check_size, defaults, prepare, validate},
    request::RequestInfo,
    schema::Schema,
    status::{ApiResult, ErrorStatus},
    store::Stored,
    validation,
};

/// Metadata that only the server sets.
const UNSET: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
];

/// The target and writer of a write.
#[derive(Debug, Clone)]
pub(super) struct WriteTarget {
    pub(super) kind: Arc<ResourceType>,
    pub(super) version: String,
    pub(super) namespace: String,
    /// The name; empty on creation.
    pub(super) name: String,
    pub(super) subresource: String,
    pub(super) manager: String,
    pub(super) dry_run: bool,
}

impl WriteTarget {
    /// Returns the target of a request.
    pub(super) fn of(request: &RequestInfo, kind: Arc<ResourceType>) -> Self {
        Self {
            namespace: if kind.namespaced { request.namespace.clone() } else { String::new() },
            kind,
            version: request.version.clone(),
            name: request.name.clone(),
            subresource: request.subresource.clone(),
            manager: request.manager().to_owned(),
            dry_run: request.is_dry_run(),
        }
    }

    pub(super) fn key(&self) -> Arc<str> {
        key(&self.namespace, &self.name)
    }

    fn schema(&self) -> Schema<'_> {
        Schema::Object(self.kind.schema(&self.version))
    }

    /// Removes fields that were sent as null.
    fn drop_nulls(&self, object: &mut Value) {
        if let Some(schema) = self.kind.schema(&self.version) {
            validation::drop_nulls(object, schema);
        }
    }

    pub(super) fn status_only(&self) -> bool {
        self.subresource == "status"
    }
}

/// Returns the key of an object.
pub(super) fn key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

/// The outcome of a write.
pub(super) struct Written {
    pub(super) object: Arc<Stored>,
    pub(super) is_new: bool,
}

impl ServerState {
    /// Creates an object.
    pub(super) fn create(&mut self, target: &WriteTarget, mut object: Value) -> ApiResult<Written> {
        let metadata = metadata(&mut object);
        let versioned = metadata.get("resourceVersion").is_some_and(has_text);
        metadata.remove("managedFields");
        target.drop_nulls(&mut object);
        self.insert(target, object, |object, target, now| {
            if versioned {
                return Err(ErrorStatus::new(500, "", "resourceVersion should not be set on objects to be created"));
            }
            let mut base = json!({"metadata": {}});
            if !target.kind.custom() {
                for field in ["spec", "status", "source"] {
                    if object[field].is_object() {
                        base[field] = json!({});
                    }
                }
            }
            managers::track_update(&base, object, target.schema(), &target.writer(now));
            Ok(())
        })
    }

    /// Stores a new object, after `manage` has recorded the owners of its fields.
    fn insert(
        &mut self,
        target: &WriteTarget,
        mut object: Value,
        manage: impl FnOnce(&mut Value, &WriteTarget, Timestamp) -> ApiResult<()>,
    ) -> ApiResult<Written> {
        let mut target = target.clone();
        let (kind, now) = (Arc::clone(&target.kind), Timestamp::now());
        let number = self.next_number();
        let metadata = metadata(&mut object);
        for field in UNSET {
            metadata.remove(*field);
        }
        match metadata.get("namespace").and_then(Value::as_str).unwrap_or_default() {
            "" => {}
            namespace if namespace == target.namespace => {}
            _ => {
                let why = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(ErrorStatus::bad_request(why));
            }
        }
        if kind.namespaced {
            metadata.insert("namespace".to_owned(), target.namespace.clone().into());
        }
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, prefix) = (text("name"), text("generateName"));
        target.name = if name.is_empty() && !prefix.is_empty() { prefix + &names::suffix(number) } else { name };
        metadata.insert("name".to_owned(), target.name.clone().into());
        if kind.generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        defaults(&kind, &mut object, &target.name);
        if kind.has_status(&target.version)
            && !(kind.is("", "namespaces") || kind.is("", "nodes") || kind.is("", "pods"))
        {
            map(&mut object).remove("status");
        }
        if let Some(schema) = kind.schema(&target.version) {
            validation::prune(&mut object, schema);
        }
        self.admit(&target, None, &object)?;
        validate(&target, None, &object)?;
        manage(&mut object, &target, now)?;
        begin(&kind, &mut object);
        let metadata = self::metadata(&mut object);
        metadata.insert("uid".to_owned(), names::uid(number).into());
        metadata.insert("creationTimestamp".to_owned(), seconds(now).into());
        if let Some(known) = self.store.get(&kind.storage, &target.key()) {
            return Err(ErrorStatus::already_exists(&kind, &target.name, known.is_deleted()));
        }
        check_size(&object)?;
        Ok(Written { object: self.put(&target, object), is_new: true })
    }

    fn put(&mut self, target: &WriteTarget, object: Value) -> Arc<Stored> {
        let object = forms::write(&target.kind, object);
        if target.dry_run {
            return Arc::new(Stored::new(object));
        }
        let stored = self.store.put(&target.kind.storage, &target.key(), object);
        self.changed(&target.kind);
        stored
    }

    pub(super) fn take(&mut self, target: &WriteTarget) -> Option<Arc<Stored>> {
        let last = self.store.remove(&target.kind.storage, &target.key());
        self.changed(&target.kind);
        last
    }

    /// Replaces an object, or its status.
    pub(super) fn update(&mut self, target: &WriteTarget, mut object: Value) -> ApiResult<Written> {
        let kind = Arc::clone(&target.kind);
        let name = metadata(&mut object).get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if target.name.is_empty() {
            return Err(ErrorStatus::bad_request("name must be provided"));
        }
        if name != target.name {
            let why = format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
            return Err(ErrorStatus::bad_request(why));
        }
        let Some(old) = self.store.get(&kind.storage, &target.key()).cloned() else {
            if kind.update_creates && target.subresource.is_empty() {
                same_uid(target, "", &object)?;
                metadata(&mut object).remove("resourceVersion");
                return self.create(target, object);
            }
            return Err(ErrorStatus::not_found(&kind, &name));
        };
        target.drop_nulls(&mut object);
        same_uid(target, old.metadata("uid"), &object)?;
        if kind.needs_version && !has_text(&object["metadata"]["resourceVersion"]) {
            return Err(ErrorStatus::no_version(&kind, &name));
        }
        let old = forms::read(&kind, &old.value);
        let metadata = metadata(&mut object);
        metadata.remove("managedFields");
        metadata.insert("uid".to_owned(), old["metadata"]["uid"].clone());
        self.replace(target, &old, object, |old, object, target, now| {
            managers::track_update(old, object, target.schema(), &target.writer(now));
        })
    }

    /// Replaces the state of an object, after `manage` has recorded the owners of its fields.
    fn replace(
        &mut self,
        target: &WriteTarget,
        old: &Value,
        mut object: Value,
        manage: impl FnOnce(&Value, &mut Value, &WriteTarget, Timestamp),
    ) -> ApiResult<Written> {
        let kind = &target.kind;
        let sent = |field: &str| object["metadata"][field].as_str().filter(|value| !value.is_empty());
        if sent("resourceVersion").is_some_and(|version| old["metadata"]["resourceVersion"] != *version) {
            return Err(ErrorStatus::modified(kind, &target.name));
        }
        if let Some(schema) = kind.schema(&target.version) {
            validation::prune(&mut object, schema);
        }
        prepare(target, old, &mut object);
        self.admit(target, Some(old), &object)?;
        validate(target, Some(old), &object)?;
        manage(old, &mut object, target, Timestamp::now());
        check_size(&object)?;
        let finalizers = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        let is_finished = object["metadata"]["deletionTimestamp"].is_string()
            && finalizers
            && object["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default() == 0
            && !(kind.is("", "namespaces") && has_items(&object["spec"]["finalizers"]));
        if is_finished {
            if !target.dry_run {
                self.take(target);
            }
            return Ok(Written { object: Arc::new(Stored::new(forms::write(kind, object))), is_new: false });
        }
        if object == *old {
            return Ok(Written { object: Arc::new(Stored::new(forms::write(kind, object))), is_new: false });
        }
        Ok(Written { object: self.put(target, object), is_new: false })
    }

    /// Merges a patch into an object, as `application/merge-patch+json`.
    pub(super) fn merge(&mut self, target: &WriteTarget, patch: &Value) -> ApiResult<Written> {
        let kind = Arc::clone(&target.kind);
        let old = self.store.get(&kind.storage, &target.key()).cloned();
        let old = old.ok_or_else(|| ErrorStatus::not_found(&kind, &target.name))?;
        let old = forms::read(&kind, &old.value);
        let mut object = old.clone();
        merge_patch(&mut object, patch);
        if let Some(map) = object.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        // Without a version in the patch, the current version is used.
        if patch["metadata"]["resourceVersion"].is_null() {
            metadata(&mut object).insert("resourceVersion".to_owned(), old["metadata"]["resourceVersion"].clone());
        }
        self.replace(target, &old, object, |old, object, target, now| {
            managers::track_update(old, object, target.schema(), &target.writer(now));
        })
    }

    /// Applies a configuration: server-side apply.
    pub(super) fn apply(&mut self, target: &WriteTarget, configuration: &Value, force: bool) -> ApiResult<Written> {
        let kind = Arc::clone(&target.kind);
        let managed = &configuration["metadata"]["managedFields"];
        if has_items(managed) {
            return Err(ErrorStatus::bad_request("metadata.managedFields must be nil"));
        }
        let now = Timestamp::now();
        let Some(old) = self.store.get(&kind.storage, &target.key()).cloned() else {
            if target.status_only() {
                return Err(ErrorStatus::not_found(&kind, &target.name));
            }
            let writer = target.writer(now);
            let mut object = managers::apply(&json!({"metadata": {}}), configuration, target.schema(), &writer, force)?;
            if let Some(uid) = configuration["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                let why =
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
                return Err(ErrorStatus::conflict(&kind, &target.name, &why));
            }
            metadata(&mut object).insert("name".to_owned(), target.name.clone().into());
            return self.insert(target, object, |_, _, _| Ok(()));
        };
        let old = forms::read(&kind, &old.value);
        let mut object = managers::apply(&old, configuration, target.schema(), &target.writer(now), force)?;
        let version = &configuration["metadata"]["resourceVersion"];
        let version = if has_text(version) { version } else { &old["metadata"]["resourceVersion"] };
        metadata(&mut object).insert("resourceVersion".to_owned(), version.clone());
        self.replace(target, &old, object, |_, _, _, _| {})
    }
}

impl WriteTarget {
    fn writer(&self, now: Timestamp) -> FieldManager<'_> {
        let api_version = self.kind.api_version(&self.version);
        FieldManager { manager: &self.manager, api_version, subresource: &self.subresource, now }
    }
}

pub(super) fn map(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    match object {
        Value::Object(map) => map,
        _ => unreachable!("it has just been made one"),
    }
}

/// Returns an object's metadata, and creates it if missing.
pub(super) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    map(map(object).entry("metadata").or_insert_with(|| json!({})))
}

/// Checks that an update has the uid of the stored object.
fn same_uid(target: &WriteTarget, known: &str, object: &Value) -> ApiResult<()> {
    let sent = object["metadata"]["uid"].as_str().unwrap_or_default();
    if sent.is_empty() || sent == known {
        return Ok(());
    }
    let group = if target.kind.custom() { format!("{}/", target.kind.group) } else { String::new() };
    let path = format!("/registry/{group}{}/{}", target.kind.plural, target.key());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID \
         in precondition: {sent}, UID in object meta: {known}"
    );
    Err(ErrorStatus::conflict(&target.kind, &target.name, &why))
}

pub(super) fn has_items(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

pub(super) fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// Merges a patch as defined by RFC 7386.
pub(super) fn merge_patch(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        object.clone_from(patch);
        return;
    };
    let object = map(object);
    for (field, value) in patch {
        if value.is_null() {
            object.remove(field);
        } else {
            merge_patch(object.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
}
