//! The admission request that an object is evaluated as: its creation, or the change that was seen.

use serde_json::{Value as Json, json};

use crate::model::{namespaced_kinds::DEFAULT_NAMESPACE, object::ObjectKey};

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOperation {
    Create,
    Update,
    Delete,
}

impl RequestOperation {
    /// Returns its name in rules and requests.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// An object to evaluate.
pub(crate) struct Subject<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(crate) operation: RequestOperation,
    /// Null for a deletion.
    pub(crate) object: &'a Json,
    /// `None` for a creation.
    pub(crate) old: Option<&'a Json>,
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
        let namespace_object = namespace_object.filter(|_| !is_namespace);
        let (operation, old) = (RequestOperation::Create, None);
        Self { key, operation, object, old, name, namespace, namespace_object }
    }

    /// Describes a change of an object: from its old state to the new one, or its deletion.
    pub(crate) fn of_change(
        key: &'a ObjectKey,
        (old, new): (&'a Json, Option<&'a Json>),
        namespace_object: Option<&'a Json>,
    ) -> Self {
        let subject = Self::new(key, new.unwrap_or(old), namespace_object);
        let operation = if new.is_some() { RequestOperation::Update } else { RequestOperation::Delete };
        Self { operation, object: new.unwrap_or(&Json::Null), old: Some(old), ..subject }
    }

    /// Returns the states of the object that selectors are matched against.
    pub(super) fn states(&self) -> impl Iterator<Item = &'a Json> {
        [Some(self.object), self.old].into_iter().flatten().filter(|state| !state.is_null())
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
            "operation": self.operation.word(),
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
