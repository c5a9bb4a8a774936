//! Field managers: ownership of an object's fields, and server-side apply.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    fields::{FieldSet, merge},
    schema::Schema,
    status::{ApiResult, ErrorStatus},
};

/// The writer of an object, and its recorded properties.
#[derive(Debug, Clone)]
pub(super) struct FieldManager<'a> {
    pub(super) manager: &'a str,
    pub(super) api_version: String,
    /// `status`, or empty.
    pub(super) subresource: &'a str,
    pub(super) now: Timestamp,
}

/// The owner of the fields of an untracked object when something is first applied to it.
const BEFORE_APPLY: &str = "before-first-apply";

/// One entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
struct ManagedFieldsEntry {
    manager: String,
    is_apply: bool,
    api_version: String,
    subresource: String,
    time: String,
    fields: FieldSet,
}

/// Metadata without a field manager.
const UNOWNED: &[&str] =
    &["name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion"];

impl ManagedFieldsEntry {
    fn read(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Self {
            manager: text("manager"),
            is_apply: value["operation"] == "Apply",
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: FieldSet::from_json(&value["fieldsV1"]),
        }
    }

    fn new(writer: &FieldManager<'_>, is_apply: bool, fields: FieldSet) -> Self {
        Self {
            manager: writer.manager.to_owned(),
            is_apply,
            api_version: writer.api_version.clone(),
            subresource: writer.subresource.to_owned(),
            time: seconds(writer.now),
            fields,
        }
    }

    /// Whether this writer updates the entry. Applied configurations have one for all versions.
    fn belongs_to(&self, writer: &FieldManager<'_>, is_apply: bool) -> bool {
        self.manager == writer.manager
            && self.is_apply == is_apply
            && self.subresource == writer.subresource
            && (is_apply || self.api_version == writer.api_version)
    }

    /// Returns the sort key of entries.
    fn place(&self) -> (bool, &str, &str, &str, &str) {
        (!self.is_apply, &self.time, &self.manager, &self.api_version, &self.subresource)
    }

    /// Returns the description of the manager in messages.
    fn description(&self) -> String {
        let with = if self.subresource.is_empty() {
            String::new()
        } else {
            format!(" with subresource {:?}", self.subresource)
        };
        let using = if self.is_apply { String::new() } else { format!(" using {}", self.api_version) };
        format!("{:?}{with}{using}", self.manager)
    }

    fn write(&self) -> Value {
        let mut value = json!({"manager": self.manager, "operation": if self.is_apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version, "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_json()});
        if !self.subresource.is_empty() {
            value["subresource"] = self.subresource.as_str().into();
        }
        value
    }
}

/// Returns a time in the format of metadata.
pub(super) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Records the fields changed by an update in `new`; `old` is empty for a created object.
pub(super) fn track_update(old: &Value, new: &mut Value, schema: Schema<'_>, writer: &FieldManager<'_>) {
    let mut entries = read(old);
    if entries.is_empty() && exists(old) {
        // It was created without fields, and is not tracked before an apply.
        return;
    }
    let mut changes = FieldSet::changes(&stripped(old), &stripped(new), schema);
    strip(&mut changes.written);
    for entry in &mut entries {
        entry.fields = entry.fields.without(&changes.removed);
        if !entry.belongs_to(writer, false) {
            entry.fields = entry.fields.difference(&changes.written);
        }
    }
    if !changes.written.is_empty() {
        let known = entries.iter_mut().find(|entry| entry.belongs_to(writer, false));
        match known {
            Some(entry) => {
                entry.fields.union(&changes.written);
                entry.time = seconds(writer.now);
            }
            None => entries.push(ManagedFieldsEntry::new(writer, false, changes.written)),
        }
    }
    write(entries, new);
}

/// Applies a configuration to an object, which is empty if it does not exist, and returns the result.
///
/// # Errors
/// If others own fields that would change, unless `force`; or if a field is unknown.
pub(super) fn apply(
    live: &Value,
    configuration: &Value,
    schema: Schema<'_>,
    writer: &FieldManager<'_>,
    force: bool,
) -> ApiResult<Value> {
    let mut entries = read(live);
    if entries.is_empty() && exists(live) {
        let before = FieldManager { manager: BEFORE_APPLY, subresource: "", ..writer.clone() };
        let mut changes = FieldSet::changes(&json!({"metadata": {}}), &stripped(live), schema);
        strip(&mut changes.written);
        entries.push(ManagedFieldsEntry::new(&before, false, changes.written));
    }
    let kind = configuration["kind"].as_str().unwrap_or_default();
    let configuration = &configured(configuration, writer.subresource);
    let mut set = FieldSet::applied(configuration, schema).map_err(|why| {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        let (group, version) = writer.api_version.rsplit_once('/').unwrap_or(("", &writer.api_version));
        let what = format!("/{name}; {group}/{version}, Kind={kind}");
        ErrorStatus::new(500, "", format!("failed to create typed patch object ({what}): {why}"))
    })?;
    strip(&mut set);
    let mut merged = live.clone();
    merge(&mut merged, configuration, schema);
    let changes = FieldSet::changes(&stripped(live), &stripped(&merged), schema);
    let mut conflicts = Vec::new();
    for entry in entries.iter_mut().filter(|entry| !entry.belongs_to(writer, true)) {
        let contested = entry.fields.intersection(&changes.written);
        conflicts.extend(contested.paths().into_iter().map(|path| (entry.description(), path)));
        entry.fields = entry.fields.difference(&contested);
    }
    if !conflicts.is_empty() && !force {
        return Err(ErrorStatus::managed(&conflicts));
    }
    let former = entries.iter().position(|entry| entry.belongs_to(writer, true)).map(|place| entries.remove(place));
    if let Some(former) = &former {
        // Fields that this manager has set before but not now are removed, unless another manager has set them as well.
        let mut left = former.fields.difference(&set);
        for entry in &entries {
            left = left.difference(&entry.fields.with_parents(schema));
        }
        left.remove_from(&mut merged, schema);
        // Fields of others below removed fields are also removed.
        let removed = FieldSet::changes(&stripped(live), &stripped(&merged), schema).removed;
        for entry in &mut entries {
            entry.fields = entry.fields.without(&removed);
        }
        former.fields.remove_hollow(&mut merged);
    }
    if !set.is_empty() {
        let mut entry = ManagedFieldsEntry::new(writer, true, set);
        let unchanged =
            |former: &ManagedFieldsEntry| former.fields == entry.fields && former.api_version == entry.api_version;
        if let Some(former) = former.filter(unchanged)
            && stripped(&merged) == stripped(live)
        {
            entry.time = former.time;
        }
        entries.push(entry);
    }
    write(entries, &mut merged);
    Ok(merged)
}

/// Returns the relevant part of an applied configuration: the subresource, or everything else.
fn configured(configuration: &Value, subresource: &str) -> Value {
    let mut part = configuration.clone();
    if let Some(map) = part.as_object_mut() {
        map.retain(|field, _| match field.as_str() {
            "metadata" => true,
            "apiVersion" | "kind" => false,
            "status" => subresource == "status",
            _ => subresource.is_empty(),
        });
        if !subresource.is_empty() {
            map.insert("metadata".to_owned(), json!({"name": configuration["metadata"]["name"]}));
        }
    }
    part
}

fn strip(set: &mut FieldSet) {
    for field in ["apiVersion", "kind"] {
        set.cut(&[field]);
    }
    for field in UNOWNED {
        set.cut(&["metadata", field]);
    }
}

/// Returns an object without the metadata that has no field manager.
fn stripped(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !UNOWNED.contains(&field.as_str()));
    }
    object
}

/// Whether the object is stored.
fn exists(object: &Value) -> bool {
    object["metadata"]["uid"].is_string()
}

fn read(object: &Value) -> Vec<ManagedFieldsEntry> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten().map(ManagedFieldsEntry::read).collect()
}

/// Writes the entries to an object: first those of applies, then by time.
fn write(mut entries: Vec<ManagedFieldsEntry>, object: &mut Value) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|a, b| a.place().cmp(&b.place()));
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), entries.iter().map(ManagedFieldsEntry::write).collect());
    }
}
