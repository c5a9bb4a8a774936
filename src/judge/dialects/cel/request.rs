//! The admission request that an existing object is evaluated as: its creation.

use serde_json::{Value as Json, json};

use crate::model::{namespaced_kinds::DEFAULT_NAMESPACE, object::ObjectKey};

/// An object to evaluate.
pub(crate) struct Subject<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) object: &'a Json,
    /// `metadata.name`; empty if the API server is to generate it.
    pub(crate) name: &'a str,
    /// The namespace of the request: the object's; for a Namespace its own name, as in the API server.
    pub(crate) namespace: Option<&'a str>,
    /// The object's Namespace, if it is known.
    pub(crate) namespace_object: Option<&'a Json>,
}

impl<'a> Subject<'a> {
    /// Describes an object. One of a namespaced kind of Kubernetes that names no namespace is created in the namespace
    /// `default`, as `kubectl` does.
    pub(crate) fn new(key: &'a ObjectKey, object: &'a Json, namespace_object: Option<&'a Json>) -> Self {
        let is_namespace = key.kind.is("", "Namespace");
        let own = key.namespace.as_deref().or(is_namespace.then_some(&*key.name));
        let namespace = own.or(key.kind.is_known_as_namespaced().then_some(DEFAULT_NAMESPACE));
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Self { key, object, name, namespace, namespace_object: namespace_object.filter(|_| !is_namespace) }
    }

    /// Whether the object is a Namespace.
    pub(crate) fn is_namespace(&self) -> bool {
        self.key.kind.is("", "Namespace")
    }

    /// Returns `request` of the policy's expressions, without `userInfo` and `options`: an audit does not know them.
    pub(crate) fn request(&self) -> Json {
        let kind = &self.key.kind;
        let of_kind = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let resource = json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
        let mut request = json!({
            "kind": of_kind,
            "resource": resource,
            "requestKind": of_kind,
            "requestResource": resource,
            "operation": "CREATE",
            "dryRun": false,
        });
        let named = [("name", Some(self.name)), ("namespace", self.namespace)];
        for (field, value) in named {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                request[field] = value.into();
            }
        }
        request
    }
}
