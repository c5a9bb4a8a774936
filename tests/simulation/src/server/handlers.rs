//! Request handlers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    ServerState,
    deletes::Deleted,
    discovery,
    forms::{self, ObjectForm},
    kinds::ResourceType,
    rbac,
    request::RequestInfo,
    status::{ApiResult, ErrorStatus, Wrong},
    watches::Watch,
    writes::{WriteTarget, Written},
};

/// Maximum size of a body.
const LARGEST_BODY: usize = 3_145_728;
/// How long the server waits for a version in the future.
const FRESH_WAIT: Duration = Duration::from_secs(3);
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const JSON: &str = "application/json";

/// A response.
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) content_type: &'static str,
    pub(super) retry_after: Option<u64>,
    pub(super) etag: Option<String>,
    /// Delay of the response.
    pub(super) wait: Option<Duration>,
    pub(super) content: ReplyBody,
}

pub(super) enum ReplyBody {
    Whole(Bytes),
    Watch(Box<Watch>),
}

impl Reply {
    fn new(code: u16, content: ReplyBody) -> Self {
        Self { code, content_type: JSON, retry_after: None, etag: None, wait: None, content }
    }

    fn json(code: u16, body: impl Into<Bytes>) -> Self {
        Self::new(code, ReplyBody::Whole(body.into()))
    }

    fn value(code: u16, body: &Value) -> Self {
        Self::json(code, body.to_string())
    }
}

impl From<ErrorStatus> for Reply {
    fn from(status: ErrorStatus) -> Self {
        if status.plain {
            let reply = Self::json(status.code, status.message);
            return Self { content_type: "text/plain; charset=utf-8", ..reply };
        }
        let is_fresh = |details: &Value| details["causes"][0]["reason"] == "ResourceVersionTooLarge";
        let wait = status.details.as_ref().is_some_and(is_fresh).then_some(FRESH_WAIT);
        Self { retry_after: status.retry_after(), wait, ..Self::value(status.code, &status.body()) }
    }
}

impl ServerState {
    /// Executes a request.
    pub(super) fn handle(&mut self, request: &RequestInfo, body: &[u8], missing: &[String]) -> Reply {
        self.try_handle(request, body, missing).unwrap_or_else(Reply::from)
    }

    fn try_handle(&mut self, request: &RequestInfo, body: &[u8], missing: &[String]) -> ApiResult<Reply> {
        rbac::check(&self.store, request)?;
        if !request.is_resource() {
            return self.document(request, missing);
        }
        let kind = self.served(request)?;
        let is_status = request.subresource == "status" && kind.has_status(&request.version);
        if !request.subresource.is_empty() && !is_status {
            let missing = || ErrorStatus::not_found(&kind, &request.name);
            return Err(if kind.custom() { missing() } else { ErrorStatus::no_resource() });
        }
        let nameless = request.name.is_empty() && matches!(request.verb.as_str(), "update" | "patch") && !kind.custom();
        if nameless
            || !kind.allows(&request.verb)
            || request.verb == "create" && !request.name.is_empty() && !kind.custom()
        {
            return Err(ErrorStatus::method_not_allowed());
        }
        if body.len() > LARGEST_BODY {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            return Err(ErrorStatus::new(413, "RequestEntityTooLarge", message));
        }
        let target = WriteTarget::of(request, Arc::clone(&kind));
        match request.verb.as_str() {
            "get" => {
                let stored = self.store.get(&kind.storage, &target.key());
                let stored = stored.ok_or_else(|| ErrorStatus::not_found(&kind, &request.name))?;
                Ok(Reply::json(200, forms::json(&kind, &request.version, stored, form(request))))
            }
            "list" => Ok(Reply::json(200, self.list(request, &kind)?)),
            "watch" => Ok(Reply::new(200, ReplyBody::Watch(Box::new(self.watch(request, &kind)?)))),
            "create" => {
                let object = decode(&kind, &request.version, body)?;
                if kind.verbs == ["create"] {
                    let review = self.review(request, object, &kind.api_version(&request.version), &kind.kind);
                    return Ok(Reply::value(201, &review));
                }
                let written = self.create(&target, object)?;
                Ok(reply(request, &kind, &written))
            }
            "update" => {
                let object = decode(&kind, &request.version, body)?;
                let written = self.update(&target, object)?;
                Ok(reply(request, &kind, &written))
            }
            "patch" => self.patch(request, &target, body),
            "delete" => self.delete_one(request, &target, &options(request, body)),
            _ => self.delete_all(request, &target, &options(request, body)),
        }
    }

    /// Handles non-resource paths.
    fn document(&mut self, request: &RequestInfo, missing: &[String]) -> ApiResult<Reply> {
        let path: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
        let aggregated = request.accept.replace(' ', "").starts_with(AGGREGATED) && !self.settings.unaggregated;
        let document = match path[..] {
            ["api" | "apis"] if aggregated => {
                let (body, etag) = self.discovery.aggregated(&self.types, path[0] == "api", missing);
                let reply = if request.if_none_match == *etag {
                    Reply::json(304, Bytes::new())
                } else {
                    Reply { content_type: AGGREGATED, ..Reply::json(200, body.clone()) }
                };
                return Ok(Reply { etag: Some(etag.clone()), ..reply });
            }
            ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
            ["apis"] => discovery::group_list(&self.types, missing),
            ["version"] => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "linux/amd64"}),
            ["api", version] => {
                discovery::resource_list(&self.types, "", version).ok_or_else(ErrorStatus::no_resource)?
            }
            ["apis", group] => discovery::group(&self.types, group).ok_or_else(ErrorStatus::no_page)?,
            ["apis", group, version] => {
                discovery::resource_list(&self.types, group, version).ok_or_else(ErrorStatus::no_page)?
            }
            ["livez" | "readyz" | "healthz"] => {
                return Ok(Reply { content_type: "text/plain", ..Reply::json(200, "ok") });
            }
            _ => return Err(ErrorStatus::no_page()),
        };
        Ok(Reply::value(200, &document))
    }

    /// Returns the resource of a request.
    fn served(&self, request: &RequestInfo) -> ApiResult<Arc<ResourceType>> {
        let kind = self.resource(&request.group, &request.resource);
        let kind = kind.filter(|kind| kind.versions.contains(&request.version));
        kind.cloned().ok_or_else(|| {
            // In built-in groups, the API exists but not the resource.
            let built_in = self.types.iter().any(|kind| kind.group == request.group && !kind.custom());
            if built_in { ErrorStatus::no_resource() } else { ErrorStatus::no_page() }
        })
    }

    fn patch(&mut self, request: &RequestInfo, target: &WriteTarget, body: &[u8]) -> ApiResult<Reply> {
        let kind = &target.kind;
        match request.content_type.split(';').next().unwrap_or_default() {
            "application/merge-patch+json" => {
                let patch =
                    serde_json::from_slice(body).map_err(|error| ErrorStatus::bad_request(error.to_string()))?;
                let written = self.merge(target, &patch)?;
                Ok(reply(request, kind, &written))
            }
            "application/apply-patch+yaml" => {
                if request.parameter("fieldManager").is_empty() {
                    let why = "Required value: is required for apply patch";
                    return Err(ErrorStatus::invalid_options(
                        "PatchOptions",
                        "fieldManager",
                        "FieldValueRequired",
                        why,
                    ));
                }
                let configuration = yaml(body)?;
                check_type(kind, target, &configuration)?;
                let written = self.apply(target, &configuration, request.flag("force"))?;
                Ok(reply(request, kind, &written))
            }
            _ => Err(ErrorStatus::unsupported_patch(kind.custom())),
        }
    }

    fn delete_one(&mut self, request: &RequestInfo, target: &WriteTarget, options: &Value) -> ApiResult<Reply> {
        let kind = &target.kind;
        Ok(match self.delete(target, options)? {
            Deleted::Marked(stored) => Reply::json(200, forms::json(kind, &request.version, &stored, form(request))),
            Deleted::Gone(stored) => {
                let mut details = json!({"name": target.name, "kind": kind.plural, "uid": stored.metadata("uid")});
                if !kind.group.is_empty() {
                    details["group"] = kind.group.as_str().into();
                }
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
                Reply::value(200, &status)
            }
        })
    }

    /// Deletes all objects of a list; returns the list.
    fn delete_all(&mut self, request: &RequestInfo, target: &WriteTarget, options: &Value) -> ApiResult<Reply> {
        let list = self.list(request, &target.kind)?;
        let objects: Value = serde_json::from_slice(&list).unwrap_or_default();
        for object in objects["items"].as_array().into_iter().flatten() {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let target = WriteTarget { name: text("name"), namespace: text("namespace"), ..target.clone() };
            self.delete(&target, options)?;
        }
        Ok(Reply::json(200, list))
    }
}

fn form(request: &RequestInfo) -> ObjectForm {
    if request.accepts("PartialObjectMetadata") { ObjectForm::Metadata } else { ObjectForm::Whole }
}

fn reply(request: &RequestInfo, kind: &ResourceType, written: &Written) -> Reply {
    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Reply::json(code.as_u16(), forms::json(kind, &request.version, &written.object, form(request)))
}

/// Returns the options of a deletion, from the body or the query.
fn options(request: &RequestInfo, body: &[u8]) -> Value {
    let mut options: Value = serde_json::from_slice(body).unwrap_or_default();
    if !options.is_object() {
        options = json!({});
    }
    if let Ok(seconds) = request.parameter("gracePeriodSeconds").parse::<u64>() {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if !request.parameter("propagationPolicy").is_empty() {
        options["propagationPolicy"] = request.parameter("propagationPolicy").into();
    }
    options
}

/// Parses an object of a kind; returns it without its type.
fn decode(kind: &ResourceType, version: &str, body: &[u8]) -> ApiResult<Value> {
    let unrecognised = |why: &str| {
        ErrorStatus::bad_request(format!("the object provided is unrecognized (must be of type {}): {why}", kind.kind))
    };
    let mut object: Value = serde_json::from_slice(body)
        .map_err(|error| unrecognised(&format!("couldn't get version/kind; json parse error: {error}")))?;
    let (found_kind, found_version) = (object["kind"].as_str(), object["apiVersion"].as_str());
    if kind.custom() && found_kind.is_none_or(str::is_empty) {
        return Err(unrecognised(&format!("Object 'Kind' is missing in '{object}'")));
    }
    let wanted = kind.api_version(version);
    let differs =
        found_kind.is_some_and(|found| found != kind.kind) || found_version.is_some_and(|found| found != wanted);
    if differs && kind.custom() {
        let (field, found, wanted) = match found_kind {
            Some(found) if found != kind.kind => ("kind", found, &kind.kind),
            _ => ("apiVersion", found_version.unwrap_or_default(), &wanted),
        };
        let why = format!("Invalid value: {found:?}: must be {wanted}");
        let as_sent = ResourceType { kind: found_kind.unwrap_or_default().to_owned(), ..kind.clone() };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        return Err(ErrorStatus::invalid(&as_sent, name, &[Wrong::new(field, "FieldValueInvalid", why)]));
    }
    if differs {
        let found = found_kind.unwrap_or_default();
        let why = format!("{found} in version {version:?} cannot be handled as a {}", kind.kind);
        return Err(ErrorStatus::bad_request(why));
    }
    let Some(map) = object.as_object_mut() else { return Err(unrecognised("it is not an object")) };
    map.remove("kind");
    map.remove("apiVersion");
    Ok(object)
}

/// Parses an applied configuration in YAML, which does not allow every character of JSON.
fn yaml(body: &[u8]) -> ApiResult<Value> {
    let failed = |why: &str| {
        ErrorStatus::bad_request(format!("error decoding YAML: error converting YAML to JSON: yaml: {why}"))
    };
    let text = std::str::from_utf8(body).map_err(|_| failed("invalid leading UTF-8 octet"))?;
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if !text.chars().all(is_allowed) {
        return Err(failed("control characters are not allowed"));
    }
    // A line break in a quoted string is folded into a space.
    serde_json::from_str(&text.replace('\u{85}', " ")).map_err(|error| failed(&error.to_string()))
}

fn check_type(kind: &ResourceType, target: &WriteTarget, configuration: &Value) -> ApiResult<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (found, api_version) = (text(&configuration["kind"]), text(&configuration["apiVersion"]));
    if found != kind.kind || api_version != kind.api_version(&target.version) {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
        return Err(ErrorStatus::bad_request(format!("invalid object type: {group}/{version}, Kind={found}")));
    }
    let name = text(&configuration["metadata"]["name"]);
    if !name.is_empty() && name != target.name {
        let why = format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
        return Err(ErrorStatus::bad_request(why));
    }
    let namespace = text(&configuration["metadata"]["namespace"]);
    if !namespace.is_empty() && namespace != target.namespace {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ErrorStatus::bad_request(why));
    }
    Ok(())
}
