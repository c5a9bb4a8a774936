//! Objects that clients write: Leases are stored, Events and reviews are not.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use axum::{
    http::{Method, StatusCode},
    response::Response,
};
use serde_json::{Value, json};

use super::{
    kinds::{Resource, Source},
    status::{Refusal, json_response},
    world::mix,
};

/// The creation time of all written objects.
const CREATED: &str = "2026-10-01T00:00:00Z";

/// Objects that clients have written.
#[derive(Debug, Default)]
pub(crate) struct Written(Mutex<Store>);

#[derive(Debug, Default)]
struct Store {
    /// The objects by path: plural, namespace, name.
    objects: BTreeMap<String, Value>,
    /// The last assigned `resourceVersion`.
    version: u64,
}

impl Written {
    /// Returns the objects of a kind, as items of a list.
    pub(crate) fn items(&self, plural: &str, namespace: Option<&str>) -> String {
        let store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = namespace.map_or_else(|| format!("{plural}/"), |namespace| format!("{plural}/{namespace}/"));
        let items = store.objects.iter().filter(|(path, _)| path.starts_with(&begin));
        items.map(|(_, object)| object.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Handles a request that reads or writes one object.
    pub(crate) fn answer(
        &self,
        resource: &Resource,
        method: &Method,
        namespace: Option<&str>,
        name: Option<&str>,
        body: &[u8],
    ) -> Result<Response, Refusal> {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = |name: &str| format!("{}/{}/{name}", resource.plural, namespace.unwrap_or_default());
        if *method == Method::GET {
            let path = path(name.unwrap_or_default());
            let found = store.objects.get(&path).ok_or_else(|| Refusal::not_found(&path))?;
            return Ok(json_response(StatusCode::OK, found, "application/json"));
        }
        let mut object: Value = serde_json::from_slice(body)
            .map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))?;
        if !object.is_object() {
            return Err(Refusal::bad_request("the body is not an object"));
        }
        if resource.source == Source::Reviewed {
            object["status"] = json!({"allowed": true});
            return Ok(json_response(StatusCode::CREATED, &object, "application/json"));
        }
        store.version += 1;
        let version = store.version;
        let metadata = &mut object["metadata"];
        let expected_version = metadata["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let path = path(name.or(metadata["name"].as_str()).unwrap_or_default());
        let kept = resource.source == Source::Written;
        let before = store.objects.get(&path).filter(|_| kept);
        match (method.as_str(), before) {
            ("POST", None) => {
                metadata["uid"] = format!("{:08x}-0000-4000-8000-{version:012x}", mix(version) as u32).into();
                metadata["creationTimestamp"] = CREATED.into();
            }
            ("POST", Some(_)) => return Err(Refusal::exists(&path)),
            ("PUT", None) if kept => return Err(Refusal::not_found(&path)),
            ("PUT", Some(before)) => {
                if !expected_version.is_empty() && before["metadata"]["resourceVersion"] != expected_version {
                    return Err(Refusal::conflict(&path));
                }
                for field in ["uid", "creationTimestamp"] {
                    metadata[field] = before["metadata"][field].clone();
                }
            }
            ("PATCH" | "PUT", None) if !kept => {}
            _ => return Err(Refusal::not_allowed()),
        }
        metadata["resourceVersion"] = version.to_string().into();
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        if kept {
            store.objects.insert(path, object.clone());
        }
        let code = if *method == Method::POST { StatusCode::CREATED } else { StatusCode::OK };
        Ok(json_response(code, &object, "application/json"))
    }
}
