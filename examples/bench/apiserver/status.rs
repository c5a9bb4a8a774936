//! Errors, as a `Status`.

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// The reason why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    /// The continue token with which the list can be continued at another version.
    token: String,
}

impl Refusal {
    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, token: String::new() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message.into())
    }

    pub(crate) fn not_found(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{path} not found"))
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message.to_owned())
    }

    pub(crate) fn not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message.to_owned())
    }

    pub(crate) fn exists(path: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "AlreadyExists", format!("{path} already exists"))
    }

    pub(crate) fn conflict(path: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {path}: the object has been modified");
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    /// Returns the error for a version in the future.
    pub(crate) fn too_large(version: u32, latest: u32) -> Self {
        let message = format!("Too large resource version: {version}, current: {latest}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// Returns the error for a version that is no longer kept.
    pub(crate) fn expired(version: u32, oldest: u32) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// Returns the error for an expired continue token, with a token to continue at the current version.
    pub(crate) fn token_expired(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                       without the continue parameter, or use the continue token in this response to retrieve the remainder \
                       of the results. Continuing with the provided token results in an inconsistent list";
        Self { token, ..Self::new(StatusCode::GONE, "Expired", message.to_owned()) }
    }

    /// Returns the `Status` as JSON.
    pub(crate) fn status(&self) -> Value {
        let metadata = if self.token.is_empty() { json!({}) } else { json!({"continue": self.token}) };
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure", "message": self.message,
            "reason": self.reason, "code": self.code.as_u16(),
        })
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json_response(self.code, &self.status(), "application/json")
    }
}

/// Returns a response with one JSON document.
pub(crate) fn json_response(code: StatusCode, document: &Value, content_type: &str) -> Response {
    let content_type = [(header::CONTENT_TYPE, content_type.to_owned())];
    (code, content_type, Body::from(document.to_string())).into_response()
}
