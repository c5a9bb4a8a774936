//! The representations of a stored object: versions, the two groups of Events, and metadata alone.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{kinds::ResourceType, store::Stored};

/// A field of an Event: its name in the core group, in `events.k8s.io`, and its value if unset.
const EVENT_FIELDS: &[(&str, &str, Missing)] = &[
    ("involvedObject", "regarding", Missing::Empty),
    ("message", "note", Missing::Absent),
    ("source", "deprecatedSource", Missing::Empty),
    ("firstTimestamp", "deprecatedFirstTimestamp", Missing::Null),
    ("lastTimestamp", "deprecatedLastTimestamp", Missing::Null),
    ("count", "deprecatedCount", Missing::Absent),
    ("reportingComponent", "reportingController", Missing::EmptyText),
    ("reportingInstance", "reportingInstance", Missing::EmptyText),
    ("eventTime", "eventTime", Missing::Null),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Missing {
    Absent,
    Null,
    Empty,
    EmptyText,
}

/// The representation of an object in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectForm {
    Whole,
    /// Without `apiVersion` and `kind`, like built-in kinds in lists.
    Item,
    /// `PartialObjectMetadata`.
    Metadata,
}

fn is_new_event(kind: &ResourceType) -> bool {
    kind.group == "events.k8s.io"
}

/// Returns an object in the form of this resource, without `apiVersion` and `kind`.
pub(super) fn read(kind: &ResourceType, stored: &Value) -> Value {
    if !is_new_event(kind) {
        return stored.clone();
    }
    let mut event = rename(stored, |(core, new, _)| (core, new));
    if let Some(map) = event.as_object_mut() {
        map.retain(|_, value| *value != "");
    }
    event
}

/// Returns the stored form of an object of this resource.
pub(super) fn write(kind: &ResourceType, object: Value) -> Value {
    let mut object = if is_new_event(kind) { rename(&object, |(core, new, _)| (new, core)) } else { object };
    if kind.kind == "Event" && !kind.custom() {
        for (field, _, missing) in EVENT_FIELDS {
            let default = match missing {
                _ if !object[*field].is_null() => continue,
                Missing::Absent => continue,
                Missing::Null => Value::Null,
                Missing::Empty => json!({}),
                Missing::EmptyText => "".into(),
            };
            object[*field] = default;
        }
    }
    object
}

fn rename(object: &Value, names: fn(&(&'static str, &'static str, Missing)) -> (&'static str, &'static str)) -> Value {
    let Some(map) = object.as_object() else { return object.clone() };
    let renamed = map.iter().map(|(field, value)| {
        let known = EVENT_FIELDS.iter().map(names).find(|(from, _)| from == field);
        (known.map_or(field.as_str(), |(_, to)| to).to_owned(), value.clone())
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

/// Returns the JSON of an object in a version.
pub(super) fn json(kind: &ResourceType, version: &str, stored: &Stored, form: ObjectForm) -> Bytes {
    let plain = || if is_new_event(kind) { read(kind, &stored.value).to_string().into() } else { stored.json() };
    match form {
        ObjectForm::Item if !kind.custom() => plain(),
        ObjectForm::Item | ObjectForm::Whole => typed(&kind.kind, &kind.api_version(version), &plain()),
        ObjectForm::Metadata => {
            let metadata = json!({"metadata": stored.value["metadata"]}).to_string();
            typed("PartialObjectMetadata", "meta.k8s.io/v1", metadata.as_bytes())
        }
    }
}

/// Returns an object with its type first.
pub(super) fn typed(kind: &str, api_version: &str, object: &[u8]) -> Bytes {
    let mut json = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").into_bytes();
    json.extend_from_slice(&object[1..]);
    json.into()
}

/// Returns an object as a value, with its type.
pub(super) fn value(kind: &ResourceType, version: &str, stored: &Stored) -> Value {
    let mut value = read(kind, &stored.value);
    value["kind"] = kind.kind.as_str().into();
    value["apiVersion"] = kind.api_version(version).into();
    value
}
