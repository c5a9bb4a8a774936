//! Reads the Events that the server stores, one at a time.
//!
//! Anyone who may create Events in a namespace can create some in the name of kaudit, of any size and content. So no
//! more than one Event is in memory at a time, only the fields that kaudit reads are decoded, and an Event that cannot
//! be decoded is skipped.

use std::io;

use futures::AsyncBufReadExt as _;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, api::ListParams, core::Request};
use serde::Deserialize;
use tracing::warn;

use super::annotations::EventAnnotations;
use crate::{cluster::identity::CONTROLLER, model::object::ObjectRef, source::json::ListReader};

/// Events in one response: etcd stores up to 1.5 MiB for each, and the API server holds a whole response in memory.
const PAGE: u32 = 100;

/// The fields of an Event that kaudit reads. `managedFields` are skipped: their depth has no limit.
#[derive(Debug, Deserialize)]
pub(super) struct StoredEvent {
    pub(super) metadata: StoredEventMetadata,
    pub(super) regarding: Option<ObjectRef>,
    pub(super) reason: Option<String>,
    /// For [`legacy_note`](super::legacy_note) only.
    pub(super) note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredEventMetadata {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) annotations: Option<EventAnnotations>,
}

/// Reads all Events of kaudits, page by page: the server cannot select the newest.
pub(super) async fn read(client: &Client, api: &Api<Event>, mut take: impl FnMut(StoredEvent)) -> kube::Result<()> {
    let mut page = ListParams::default().fields(&format!("reportingController={CONTROLLER}")).limit(PAGE);
    let mut unreadable = 0_usize;
    let mut decode = |item: &str| match serde_json::from_str(item) {
        Ok(event) => take(event),
        Err(_) => unreadable += 1,
    };
    while let Some(token) = read_page(client, api, &page, &mut decode).await? {
        page = page.continue_token(&token);
    }
    if unreadable > 0 {
        warn!("{unreadable} Events with the reportingController {CONTROLLER} cannot be decoded and are ignored");
    }
    Ok(())
}

/// Passes on the JSON of each Event of a page as it arrives; returns the token of the next page, if there is one.
async fn read_page(
    client: &Client,
    api: &Api<Event>,
    page: &ListParams,
    mut item: impl FnMut(&str),
) -> kube::Result<Option<String>> {
    let failed = |error: io::Error| kube::Error::ReadEvents(error);
    let request = Request::new(api.resource_url()).list(page).map_err(kube::Error::BuildRequest)?;
    let mut body = Box::pin(client.request_stream(request).await?);
    let mut list = ListReader::default();
    loop {
        let bytes = body.fill_buf().await.map_err(failed)?;
        let count = bytes.len();
        list.push(bytes);
        body.consume_unpin(count);
        while let Some(json) = list.next().map_err(|error| failed(io::Error::other(error)))? {
            item(json);
        }
        if count == 0 {
            break;
        }
    }
    if !list.is_complete() {
        return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, "the list of Events was truncated")));
    }
    Ok(list.metadata().and_then(|metadata| metadata.continue_.clone()).filter(|token| !token.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// Reads from a server with these pages of items; returns the names that were read, and the queries.
    async fn names(pages: Vec<String>) -> (kube::Result<Vec<String>>, Vec<String>) {
        let queries = Arc::new(Mutex::new(Vec::new()));
        let (pages, received) = (Arc::new(pages), Arc::clone(&queries));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = received.lock().unwrap().len();
            received.lock().unwrap().push(query);
            let token = if number + 1 < pages.len() { "more" } else { "" };
            let body = format!(r#"{{"metadata":{{"continue":"{token}"}},"items":[{}"#, pages[number]);
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
        });
        let client = Client::new(service, "default");
        let mut names = Vec::new();
        let api = Api::all(client.clone());
        let outcome = read(&client, &api, |event| names.extend(event.metadata.name)).await;
        let queries = queries.lock().unwrap().clone();
        (outcome.map(|()| names), queries)
    }

    fn event(name: &str, more: &str) -> String {
        format!(r#"{{"metadata":{{"name":"{name}"{more}}},"reason":"PolicyViolation","note":null}}"#)
    }

    #[tokio::test]
    async fn only_events_that_cannot_be_decoded_are_skipped() {
        let deep = |levels: usize| format!("{}{{}}{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels));
        let odd = [
            // Decoded, as kaudit does not read the odd fields.
            event("managed-fields", &format!(r#","managedFields":[{{"fieldsV1":{}}}]"#, deep(300))),
            event("deep", &format!(r#","labels":{}"#, deep(50_000))),
            event("spaced", r#","managedFields" : 7"#),
            // Not decoded.
            event("numbers", r#","annotations":{"a":7}"#),
            event("time", r#","creationTimestamp":"yesterday""#),
            event("nested", &format!(r#","annotations":{}"#, deep(300))),
            "7".to_owned(),
            "null".to_owned(),
            r#"{"metadata":null}"#.to_owned(),
        ];
        let first = [event("before", ""), odd.join(","), event("after", "")].join(",");
        let (names, queries) = names(vec![format!("{first}]}}"), format!("{}]}}", event("second-page", ""))]).await;
        assert_eq!(names.unwrap(), ["before", "managed-fields", "deep", "spaced", "after", "second-page"]);
        assert_eq!(queries.len(), 2);
        assert!(queries.iter().all(|query| query.contains("fieldSelector=reportingController")), "{queries:?}");
        assert!(queries[0].contains("limit=100") && queries[1].contains("continue=more"), "{queries:?}");
    }

    #[tokio::test]
    async fn a_list_that_ends_too_early_is_an_error() {
        for rest in ["", ",", "{", "]"] {
            let (names, _) = names(vec![format!("{}{rest}", event("a", ""))]).await;
            assert!(matches!(names, Err(kube::Error::ReadEvents(_))), "{rest}");
        }
    }
}
