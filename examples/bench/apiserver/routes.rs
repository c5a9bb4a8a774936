//! Routes of the simulated API server.

use std::{
    cmp::Ordering,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    Server,
    answer::{Query, takes_json},
    changes::{self, Pace},
    kinds::{self, Resource, Source},
    lists,
    status::{Refusal, json_response},
    watches,
    world::mix,
};

/// The largest request body, in bytes.
const BODY: usize = 3 << 20;
/// The content type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Handles a request.
pub(crate) async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response {
    Box::pin(dispatch(&server, request)).await.unwrap_or_else(Refusal::into_response)
}

async fn dispatch(server: &Arc<Server>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let query = Query::new(head.uri.query().unwrap_or_default(), &head.headers);
    let path: Vec<&str> = head.uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let (group, version, rest) = match path[..] {
        ["simulated", name] => return simulated(server, &head.method, name, &query),
        ["version"] => return Ok(ok(&version())),
        ["healthz" | "livez" | "readyz"] => return Ok("ok".into_response()),
        [root @ ("api" | "apis")] => {
            let _flight = server.counters.enter("get", root);
            return Ok(discovery(root == "api", &head.headers));
        }
        ["apis", group] => return Ok(ok(&kinds::group(group))),
        ["api", version, ref rest @ ..] => ("", version, rest),
        ["apis", group, version, ref rest @ ..] => (group, version, rest),
        _ => return Err(Refusal::not_found(head.uri.path())),
    };
    let (namespace, plural, name) = match *rest {
        [] => return kinds::resources(group, version).map(|list| ok(&list)).ok_or(Refusal::not_found("the version")),
        ["namespaces", namespace, plural] => (Some(namespace), plural, None),
        ["namespaces", namespace, plural, name, ..] => (Some(namespace), plural, Some(name)),
        [plural] => (None, plural, None),
        [plural, name, ..] => (None, plural, Some(name)),
    };
    let resource = kinds::find(group, version, plural).ok_or_else(|| Refusal::not_found(head.uri.path()))?;
    let is_watch = query.is_true("watch");
    let verb = match (head.method.as_str(), name) {
        ("GET", Some(_)) => "get",
        ("GET", None) if is_watch => "watch",
        ("GET", None) => "list",
        ("POST", None) => "create",
        ("PUT", Some(_)) => "update",
        ("PATCH", Some(_)) => "patch",
        _ => return Err(Refusal::not_allowed()),
    };
    let flight = server.counters.enter(verb, resource.plural);
    if !takes_json(&head.headers) {
        return Err(Refusal::not_acceptable());
    }
    match (verb, resource.source) {
        ("watch", _) => watches::watch(server, resource, namespace, &query, flight),
        ("list", _) => lists::list(server, resource, namespace, &query, flight),
        ("get", Source::Made(kind)) => get(server, resource, kind, namespace, name.unwrap_or_default())
            .ok_or_else(|| Refusal::not_found(head.uri.path())),
        ("get", Source::Empty | Source::Forgotten) => Err(Refusal::not_found(head.uri.path())),
        (_, Source::Made(_) | Source::Empty) => Err(Refusal::not_allowed()),
        _ => {
            let body = to_bytes(body, BODY).await.map_err(|error| Refusal::bad_request(error.to_string()))?;
            server.written.answer(resource, &head.method, namespace, name, &body)
        }
    }
}

fn ok(document: &Value) -> Response {
    json_response(StatusCode::OK, document, "application/json")
}

fn version() -> Value {
    json!({"major": "1", "minor": "34", "gitVersion": "v1.34.2+simulated", "platform": "linux/amd64"})
}

/// Returns the discovery document in the form that the client accepts, or 304 if the client has it already.
fn discovery(core: bool, headers: &HeaderMap) -> Response {
    let header_text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !header_text(header::ACCEPT).replace(' ', "").contains("as=APIGroupDiscoveryList") {
        return ok(&kinds::legacy(core));
    }
    let document = kinds::aggregated(core);
    let hash = document.to_string().bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let etag = format!("\"{hash:016X}\"");
    let headers = [(header::ETAG, etag.clone()), (header::VARY, "Accept".to_owned())];
    if header_text(header::IF_NONE_MATCH) == etag {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, json_response(StatusCode::OK, &document, AGGREGATED)).into_response()
}

/// Returns the object with a name, found by binary search, as objects are sorted by name.
fn get(
    server: &Server,
    resource: &Resource,
    kind: super::world::Kind,
    namespace: Option<&str>,
    name: &str,
) -> Option<Response> {
    let objects = &server.objects;
    let mut slots = objects.world.slots(kind, namespace);
    let history = server.history();
    while !slots.is_empty() {
        let middle = slots.start + slots.len() as u32 / 2;
        let stamps = history.at(middle, history.latest())?;
        match objects.name(middle, stamps).as_slice().cmp(name.as_bytes()) {
            Ordering::Less => slots.start = middle + 1,
            Ordering::Greater => slots.end = middle,
            Ordering::Equal => {
                let types = format!(r#"{{"kind":"{}","apiVersion":"{}""#, resource.kind, resource.api_version());
                let mut text = Vec::new();
                objects.write_whole(middle, stamps, stamps.version(), &types, &mut text);
                return Some(([(header::CONTENT_TYPE, "application/json")], text).into_response());
            }
        }
    }
    None
}

/// Handles a request for the simulation itself.
fn simulated(server: &Server, method: &Method, name: &str, query: &Query) -> Result<Response, Refusal> {
    let is_post = *method == Method::POST;
    match (name, is_post) {
        ("counters", true) => server.counters.reset(),
        ("counters", false) => {}
        ("relabel", true) => server.change(changes::relabel),
        ("changes", true) => {
            let number = |name: &str| query.number(name).map(|number| number.map(f64::from));
            let Pace { per_second, status_share, .. } = *server.pace.borrow();
            server.made.store(0, Relaxed);
            server.pace.send_replace(Pace {
                per_second: number("per-second")?.unwrap_or(per_second),
                status_share: query.number("status-share")?.unwrap_or(status_share),
                count: query.number("count")?.map_or(u64::MAX, u64::from),
            });
        }
        _ => return Err(Refusal::not_allowed()),
    }
    let mut counters = server.counters.to_json();
    counters["made"] = server.made.load(Relaxed).into();
    counters["resourceVersion"] = server.history().latest().into();
    Ok(ok(&counters))
}
