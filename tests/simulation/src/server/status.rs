//! Error responses of the API server.

use serde_json::{Value, json};

use super::kinds::{ResourceType, join};

/// The body of an error response.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorStatus {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason, for example `NotFound`; empty if the server has none.
    pub reason: String,
    /// The readable message.
    pub message: String,
    /// The details.
    pub details: Option<Value>,
    /// A token to continue a list whose version was compacted.
    pub continue_token: Option<String>,
    /// Whether the response is plain text, as for unknown paths.
    pub plain: bool,
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wrong {
    field: String,
    /// The machine-readable reason, for example `FieldValueInvalid`.
    reason: &'static str,
    why: String,
}

impl Wrong {
    pub(super) fn new(field: impl Into<String>, reason: &'static str, why: impl Into<String>) -> Self {
        Self { field: field.into(), reason, why: why.into() }
    }

    pub(super) fn required(field: impl Into<String>) -> Self {
        Self::new(field, "FieldValueRequired", "Required value")
    }

    /// Returns the error for an immutable field, with the new value.
    pub(super) fn immutable(field: &str, value: &Value) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {value}: field is immutable"))
    }
}

/// The result of a request.
pub type ApiResult<T> = Result<T, ErrorStatus>;

/// The message for an unknown path, which is answered without a `Status`.
const NO_PAGE: &str = "404 page not found\n";

impl ErrorStatus {
    /// Creates an error with this code, reason and message.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let (reason, message) = (reason.to_owned(), message.into());
        Self { code, reason, message, details: None, continue_token: None, plain: false }
    }

    fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns the error for an unknown resource in a known API.
    pub(super) fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").details(json!({}))
    }

    pub(super) fn no_page() -> Self {
        Self { plain: true, ..Self::new(404, "", NO_PAGE) }
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).details(json!({}))
    }

    pub(super) fn unsupported_patch(custom: bool) -> Self {
        if custom {
            let types = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            let message = "the body of the request was in an unknown format - accepted media types include: ";
            return Self::new(415, "UnsupportedMediaType", format!("{message}{types}"));
        }
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").details(json!({}))
    }

    pub(super) fn not_found(resource: &ResourceType, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).details(about(resource, name, &resource.plural))
    }

    pub(super) fn no_namespace(name: &str) -> Self {
        let details = json!({"name": name, "kind": "namespaces"});
        Self::new(404, "NotFound", format!("namespaces {name:?} not found")).details(details)
    }

    pub(super) fn already_exists(resource: &ResourceType, name: &str, deleted: bool) -> Self {
        let deleted = if deleted { "object is being deleted: " } else { "" };
        let message = format!("{deleted}{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).details(about(resource, name, &resource.plural))
    }

    /// Returns the error for a write to an outdated version of an object.
    pub(super) fn modified(resource: &ResourceType, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(super) fn conflict(resource: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::new(409, "Conflict", message).details(about(resource, name, &resource.plural))
    }

    /// Returns the error for a deletion with a wrong precondition. It names the kind in place of the resource.
    pub(super) fn precondition(resource: &ResourceType, name: &str, why: &str) -> Self {
        let group = validated_group(resource);
        let named = join(&resource.kind, group);
        let message = format!("Operation cannot be fulfilled on {named} {name:?}: {why}");
        Self::new(409, "Conflict", message).details(details(group, name, &resource.kind))
    }

    /// Returns the error for fields owned by other managers: pairs of a manager's description and a path.
    pub(super) fn managed(conflicts: &[(String, String)]) -> Self {
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|(manager, path)| {
                json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path})
            })
            .collect();
        let message = if let [(manager, path)] = conflicts {
            format!("Apply failed with 1 conflict: conflict with {manager}: {path}")
        } else {
            let mut managers: Vec<&String> = conflicts.iter().map(|(manager, _)| manager).collect();
            managers.dedup();
            let lines = managers.into_iter().map(|manager| {
                let paths = conflicts.iter().filter(|(other, _)| other == manager);
                let paths: Vec<&str> = paths.map(|(_, path)| path.as_str()).collect();
                format!("conflicts with {manager}:\n- {}", paths.join("\n- "))
            });
            let lines: Vec<String> = lines.collect();
            format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
        };
        Self::new(409, "Conflict", message).details(json!({"causes": causes}))
    }

    /// Returns the error for invalid fields of an object.
    pub(super) fn invalid(resource: &ResourceType, name: &str, wrong: &[Wrong]) -> Self {
        let group = validated_group(resource);
        let details = details(group, name, &resource.kind);
        Self::invalid_fields(&join(&resource.kind, group), details, name, wrong)
    }

    /// Returns the error for an update without a resource version.
    pub(super) fn no_version(resource: &ResourceType, name: &str) -> Self {
        let why = "Invalid value: 0: must be specified for an update";
        let wrong = Wrong::new("metadata.resourceVersion", "FieldValueInvalid", why);
        Self::invalid_fields(&resource.qualified(), about(resource, name, &resource.plural), name, &[wrong])
    }

    fn invalid_fields(subject: &str, mut details: Value, name: &str, wrong: &[Wrong]) -> Self {
        let causes =
            wrong.iter().map(|Wrong { field, reason, why }| json!({"reason": reason, "message": why, "field": field}));
        details["causes"] = causes.collect();
        let all: Vec<String> = wrong.iter().map(|Wrong { field, why, .. }| format!("{field}: {why}")).collect();
        let all = if let [one] = &all[..] { one.clone() } else { format!("[{}]", all.join(", ")) };
        Self::new(422, "Invalid", format!("{subject} {name:?} is invalid: {all}")).details(details)
    }

    /// Returns the error for inconsistent options of a request.
    pub(super) fn invalid_options(kind: &str, field: &str, reason: &str, why: &str) -> Self {
        let causes = json!([{"reason": reason, "message": why, "field": field}]);
        let details = json!({"group": "meta.k8s.io", "kind": kind, "causes": causes});
        Self::new(422, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {why}")).details(details)
    }

    pub(super) fn terminating(resource: &ResourceType, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Self::forbidden(resource, name, &why);
        let cause = json!([{"reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"), "field": "metadata.namespace"}]);
        if let Some(details) = &mut status.details {
            details["causes"] = cause;
        }
        status
    }

    /// Returns the error for a request that a webhook or the server refuses.
    pub(super) fn forbidden(resource: &ResourceType, name: &str, why: &str) -> Self {
        Self::forbidden_resource(&resource.group, &resource.plural, name, why)
    }

    /// Returns the error for an unauthorized request; the resource may not exist.
    pub(super) fn forbidden_resource(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let quoted = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let message = format!("{}{quoted} is forbidden: {why}", join(resource, group));
        Self::new(403, "Forbidden", message).details(details(group, name, resource))
    }

    /// Returns the error for an unauthorized non-resource path.
    pub(super) fn forbidden_path(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).details(json!({}))
    }

    pub(super) fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self::new(504, "Timeout", message).details(json!({"causes": [cause], "retryAfterSeconds": 1}))
    }

    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns a temporary error of the server or of a proxy.
    pub fn unavailable(code: u16, retry_after: Option<u64>) -> Self {
        let (reason, message) = match code {
            429 => ("TooManyRequests", "too many requests, please try again later"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the server was unable to return a response in the time allotted"),
            401 => ("Unauthorized", "Unauthorized"),
            _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
        };
        let details = retry_after.map_or_else(|| json!({}), |seconds| json!({"retryAfterSeconds": seconds}));
        Self::new(code, reason, message).details(details)
    }

    /// Returns the seconds of `Retry-After`.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?["retryAfterSeconds"].as_u64()
    }

    /// Returns the body.
    pub fn body(&self) -> Value {
        let metadata = self.continue_token.as_ref().map_or_else(|| json!({}), |token| json!({"continue": token}));
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code});
        if !self.reason.is_empty() {
            body["reason"] = self.reason.as_str().into();
        }
        if let Some(details) = &self.details {
            body["details"] = details.clone();
        }
        body
    }
}

/// Returns the group in messages about an object: Events are validated as those of the core group.
fn validated_group(resource: &ResourceType) -> &str {
    if resource.kind == "Event" && !resource.custom() { "" } else { &resource.group }
}

fn about(resource: &ResourceType, name: &str, kind: &str) -> Value {
    details(&resource.group, name, kind)
}

fn details(group: &str, name: &str, kind: &str) -> Value {
    let mut details = json!({"kind": kind});
    for (key, value) in [("name", name), ("group", group)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    details
}
