//! Schemas for server-side apply: how the lists and maps of a kind are merged.

use serde_json::Value;

/// A position in the schema of a kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Schema<'a> {
    /// A whole object; with its schema for a custom resource.
    Object(Option<&'a Value>),
    /// In an object of a custom resource.
    Custom(&'a Value),
    /// In a built-in object, below the field of this name.
    BuiltIn(&'a str),
    /// In the metadata of any object, below the field of this name.
    Metadata(&'a str),
    /// Fields without a schema.
    Any,
}

/// How a list is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListKind {
    /// As a whole.
    Atomic,
    /// By value.
    Set,
    /// By these keys of its items.
    Map(Vec<String>),
}

/// Lists of built-in kinds that are merged by key.
const KEYED: &[(&str, &str)] = &[
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("secrets", "name"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("webhooks", "name"),
];
/// Atomic maps of built-in kinds.
const ATOMIC: &[&str] =
    &["claimRef", "fieldRef", "involvedObject", "nodeSelector", "regarding", "related", "roleRef", "selector"];

impl<'a> Schema<'a> {
    /// Returns the schema of a field, and whether it is declared by name; `None` if the field does not exist.
    pub(super) fn field(self, name: &'a str) -> Option<(Self, bool)> {
        match self {
            Self::Object(_) if name == "metadata" => Some((Self::Metadata(name), true)),
            Self::Object(Some(schema)) => Self::Custom(schema).field(name),
            Self::Object(None) => Some((Self::BuiltIn(name), true)),
            Self::Custom(schema) => {
                if let Some(inner) = schema["properties"].get(name) {
                    return Some((Self::Custom(inner), true));
                }
                match &schema["additionalProperties"] {
                    inner @ Value::Object(_) => Some((Self::Custom(inner), false)),
                    Value::Bool(true) => Some((Self::Any, false)),
                    _ if schema["x-kubernetes-preserve-unknown-fields"] == true || schema.is_null() => {
                        Some((Self::Any, false))
                    }
                    _ => None,
                }
            }
            Self::BuiltIn(parent) => {
                Some((Self::BuiltIn(name), !matches!(parent, "data" | "stringData" | "matchLabels")))
            }
            Self::Metadata(parent) => Some((Self::Metadata(name), !matches!(parent, "labels" | "annotations"))),
            Self::Any => Some((Self::Any, false)),
        }
    }

    /// Returns the schema of a list's items.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Custom(schema) => Self::Custom(&schema["items"]),
            Self::BuiltIn(_) => Self::BuiltIn("[]"),
            Self::Metadata(_) => Self::Metadata("[]"),
            Self::Object(_) | Self::Any => Self::Any,
        }
    }

    /// Returns the type error of a field's value, if any.
    pub(super) fn misfit(self, value: &Value) -> Option<String> {
        let Self::Custom(schema) = self else { return None };
        let expected = schema["type"].as_str().filter(|_| schema["x-kubernetes-int-or-string"] != true)?;
        let found = match value {
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        let unstructured = || format!("&value.valueUnstructured{{Value:{value}}}");
        match expected {
            "integer" | "number" if found != "number" => Some(format!("expected numeric (int or float), got {found}")),
            "string" | "boolean" if found != expected => Some(format!("expected {expected}, got {}", unstructured())),
            _ => None,
        }
    }

    pub(super) fn list_kind(self) -> ListKind {
        let keys = |name: &str| ListKind::Map(vec![name.to_owned()]);
        match self {
            Self::Custom(schema) => match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListKind::Set,
                Some("map") => {
                    let names = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                    ListKind::Map(names.filter_map(|name| name.as_str().map(str::to_owned)).collect())
                }
                _ => ListKind::Atomic,
            },
            Self::Metadata("finalizers") => ListKind::Set,
            Self::Metadata("ownerReferences") => keys("uid"),
            Self::BuiltIn(field) => {
                KEYED.iter().find(|(name, _)| *name == field).map_or(ListKind::Atomic, |(_, key)| keys(key))
            }
            Self::Object(_) | Self::Metadata(_) | Self::Any => ListKind::Atomic,
        }
    }

    pub(super) fn is_atomic_map(self) -> bool {
        match self {
            Self::Custom(schema) => schema["x-kubernetes-map-type"] == "atomic",
            Self::BuiltIn(field) => ATOMIC.contains(&field),
            Self::Object(_) | Self::Metadata(_) | Self::Any => false,
        }
    }
}
