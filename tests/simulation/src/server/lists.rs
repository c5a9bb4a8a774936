//! Lists: pages, versions and expiry.

use std::{ops::Bound, sync::Arc};

use bytes::Bytes;
use serde_json::json;

use super::{
    ServerState,
    forms::{self, ObjectForm},
    kinds::ResourceType,
    request::RequestInfo,
    selectors::ObjectSelector,
    status::{ApiResult, ErrorStatus},
    store::Stored,
};

/// The message for a page whose version was compacted.
const TOO_OLD_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                            list without the continue parameter, or use the continue token in this response to retrieve the \
                            remainder of the results. Continuing with the provided token results in an inconsistent list - \
                            objects that were created, modified, or deleted between the time the first chunk was returned \
                            and now may show up in the list.";
const TOO_OLD_LIST: &str = "The resourceVersion for the provided list is too old.";

/// The requested part and revision of a list.
struct ListPage {
    limit: usize,
    /// The revision; `None` for the current one.
    revision: Option<u64>,
    /// The key after which the page begins.
    after: Option<String>,
}

/// Parses the version in the query; `None` if it is empty.
pub(super) fn version(request: &RequestInfo) -> Result<Option<u64>, String> {
    match request.parameter("resourceVersion") {
        "" => Ok(None),
        text => {
            let invalid = || {
                format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
            };
            text.parse().map(Some).map_err(|_| invalid())
        }
    }
}

/// Validates the match mode of the version in the query.
pub(super) fn check_match(request: &RequestInfo) -> ApiResult<()> {
    let forbidden = |why: &str| {
        let why = format!("Forbidden: {why}");
        Err(ErrorStatus::invalid_options("ListOptions", "resourceVersionMatch", "FieldValueForbidden", &why))
    };
    let (watch, version) = (request.verb == "watch", request.parameter("resourceVersion"));
    let initial = !request.parameter("sendInitialEvents").is_empty();
    match request.parameter("resourceVersionMatch") {
        "" if initial => forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        "" => Ok(()),
        "NotOlderThan" if initial && watch => Ok(()),
        _ if watch => forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        _ if version.is_empty() => forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"),
        "Exact" if version == "0" => forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
        "Exact" | "NotOlderThan" => Ok(()),
        other => {
            let why = format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\"");
            Err(ErrorStatus::invalid_options("ListOptions", "resourceVersionMatch", "FieldValueNotSupported", &why))
        }
    }
}

impl ServerState {
    /// Returns a list, or a page of it.
    pub(super) fn list(&self, request: &RequestInfo, kind: &Arc<ResourceType>) -> ApiResult<Bytes> {
        let selector = ObjectSelector::of(request, kind)?;
        let page = self.page(request, kind)?;
        let present = self.store.revision;
        let revision = page.revision.unwrap_or(present);
        if revision > present {
            return Err(ErrorStatus::too_large_version(revision, present));
        }
        let earlier = (revision < present).then(|| self.store.at(&kind.storage, revision));
        let from = page.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let objects = match &earlier {
            Some(objects) => Some(objects),
            None => self.store.of(&kind.storage),
        };
        let objects = objects.into_iter().flat_map(|objects| objects.range::<str, _>((from, Bound::Unbounded)));
        // Any following object counts as remaining, selected or not, as in the real server.
        let mut objects = objects.filter(|(_, object)| selector.is_inside(object)).peekable();
        let (mut items, mut last): (Vec<&Arc<Stored>>, _) = (Vec::new(), None);
        while items.len() < page.limit
            && let Some((key, object)) = objects.next()
        {
            items.extend(Some(object).filter(|object| selector.matches(object)));
            last = Some(key);
        }
        let next = last
            .filter(|_| request.selected.is_empty() && objects.peek().is_some())
            .map(|last| format!("{revision}.{last}"));
        let remaining = next.as_ref().filter(|_| !selector.is_selective()).map(|_| objects.count());
        Ok(write(request, kind, &items, revision, next, remaining))
    }

    fn page(&self, request: &RequestInfo, kind: &ResourceType) -> ApiResult<ListPage> {
        let limit = match request.parameter("limit") {
            "" | "0" => usize::MAX,
            text => text
                .parse()
                .map_err(|_| ErrorStatus::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?,
        };
        let version =
            version(request).map_err(|why| ErrorStatus::bad_request(format!("invalid resource version: {why}")))?;
        let token = request.parameter("continue");
        if !token.is_empty() {
            if version.is_some_and(|version| version != 0) {
                return Err(ErrorStatus::bad_request("specifying resource version is not allowed when using continue"));
            }
            let parsed = token.split_once('.').and_then(|(revision, after)| Some((revision.parse().ok()?, after)));
            let Some((revision, after)): Option<(i64, &str)> = parsed else {
                let why = "invalid continue token: continue key is not valid: invalid character 'x' looking for beginning of value";
                return Err(ErrorStatus::bad_request(why));
            };
            // A negative revision continues with the current state.
            let revision = u64::try_from(revision).ok();
            if revision.is_some_and(|revision| revision < self.store.compacted) {
                return Err(ErrorStatus {
                    continue_token: Some(format!("-1.{after}")),
                    ..ErrorStatus::expired(TOO_OLD_PAGE)
                });
            }
            return Ok(ListPage { limit, revision, after: Some(after.to_owned()) });
        }
        let Some(version) = version else { return Ok(ListPage { limit, revision: None, after: None }) };
        if version > self.store.revision {
            return Err(ErrorStatus::too_large_version(version, self.store.revision));
        }
        let is_page = limit != usize::MAX;
        let exact = match request.parameter("resourceVersionMatch") {
            "Exact" => true,
            // A single object is read in its current state, if that is not too old.
            "" => is_page && version > 0 && request.selected.is_empty(),
            _ => false,
        };
        if exact && version < self.store.compacted {
            return Err(ErrorStatus::expired(TOO_OLD_LIST));
        }
        // Lists from the server's cache are not paginated. Events are not cached.
        let cached = version == 0 && (kind.custom() || kind.kind != "Event");
        let limit = if cached { usize::MAX } else { limit };
        Ok(ListPage { limit, revision: exact.then_some(version), after: None })
    }
}

/// Writes a list like the server: items come first for custom resources.
fn write(
    request: &RequestInfo,
    kind: &ResourceType,
    items: &[&Arc<Stored>],
    revision: u64,
    next: Option<String>,
    remaining: Option<usize>,
) -> Bytes {
    let metadata_only = request.accepts("PartialObjectMetadataList");
    let form = if metadata_only { ObjectForm::Metadata } else { ObjectForm::Item };
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    match next {
        Some(next) => metadata["continue"] = next.into(),
        None if kind.custom() && !metadata_only => metadata["continue"] = "".into(),
        None => {}
    }
    if let Some(remaining) = remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let objects: Vec<Bytes> = items.iter().map(|item| forms::json(kind, &request.version, item, form)).collect();
    let objects = objects.join(&b","[..]);
    let (list_kind, api_version) = if metadata_only {
        ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned())
    } else {
        (kind.list_kind.as_str(), kind.api_version(&request.version))
    };
    let (front, back) = if kind.custom() && !metadata_only {
        (
            format!("{{\"apiVersion\":\"{api_version}\",\"items\":["),
            format!("],\"kind\":\"{list_kind}\",\"metadata\":{metadata}}}\n"),
        )
    } else {
        (
            format!("{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["),
            "]}\n".to_owned(),
        )
    };
    if metadata_only && items.is_empty() {
        return format!("{}null}}\n", front.trim_end_matches('[')).into();
    }
    [front.as_bytes(), &objects, back.as_bytes()].concat().into()
}
