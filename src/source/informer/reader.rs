//! The requests of one watch scope: a list, page by page, and a watch. Each object is passed on as soon as it has
//! arrived.

use std::{borrow::Cow, io, panic::resume_unwind, pin::Pin, sync::Arc, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt, TryFutureExt as _};
use http::{HeaderValue, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    api::{ListParams, WatchParams},
    core::Request,
};
use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use super::{failure::ReadFailure, list_slot::ListSlot, shared::InformerShared};
use crate::{
    cluster::identity::CONTROLLER,
    model::object::{Object, Projected},
    source::{
        change::{Change, WatchScope},
        json::ListReader,
        received::{ObjectFields, Received},
    },
};

/// Pages of one list that are read concurrently: the server encodes the JSON of each request on one core.
const PAGES_AT_A_TIME: usize = 4;

/// Timeout of a request for the current version.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads one watch scope and sends its objects as changes.
pub(super) struct ScopeReader {
    shared: Arc<InformerShared>,
    scope: WatchScope,
    request: Request,
}

impl ScopeReader {
    pub(super) fn new(shared: Arc<InformerShared>, scope: WatchScope) -> Self {
        let request = Request::new(scope.url_path());
        Self { shared, scope, request }
    }

    /// Lists the scope, in pages of at most `limit` objects or in one. Returns the version from which to watch it.
    ///
    /// Each page is requested as soon as the response for the one before contains its continue token, which most
    /// servers send before the first item: several pages arrive while the first is still read.
    pub(super) async fn list(self: &Arc<Self>, limit: Option<u32>) -> Result<String, ReadFailure> {
        let mut pages = JoinSet::new();
        let version = self.pages(limit, &mut pages).await;
        // Nothing of a failed list may arrive after the next one has started.
        pages.shutdown().await;
        version
    }

    /// Reads all pages, each in its own task.
    async fn pages(
        self: &Arc<Self>,
        limit: Option<u32>,
        pages: &mut JoinSet<Result<(), ReadFailure>>,
    ) -> Result<String, ReadFailure> {
        let (heads, mut head) = mpsc::unbounded_channel::<ListMeta>();
        let mut version = String::new();
        let mut next = Some(None);
        loop {
            if pages.len() < PAGES_AT_A_TIME
                && let Some(from) = next.take()
            {
                let slot = ListSlot::acquire(&self.shared.lists).await;
                if from.is_none() {
                    self.shared.send(Change::Listing(self.scope.clone())).await;
                }
                let parameters = ListParams {
                    label_selector: self.shared.options.label_selector.clone(),
                    limit,
                    continue_token: from,
                    ..ListParams::default()
                };
                pages.spawn(Arc::clone(self).page(parameters, heads.clone(), slot));
            }
            tokio::select! {
                Some(metadata) = head.recv() => {
                    if version.is_empty() {
                        version = metadata.resource_version.unwrap_or_default();
                    }
                    next = metadata.continue_.filter(|from| !from.is_empty()).map(Some);
                }
                Some(page) = pages.join_next() => match page {
                    Ok(page) => page?,
                    Err(failed) if failed.is_panic() => resume_unwind(failed.into_panic()),
                    // A page is cancelled only when the runtime shuts down.
                    Err(_) => {}
                },
            }
            if pages.is_empty() && next.is_none() && head.is_empty() {
                break;
            }
        }
        if version.is_empty() { Err(ReadFailure::NoResourceVersion) } else { Ok(version) }
    }

    /// Reads one page; sends its metadata as soon as it has arrived.
    async fn page(
        self: Arc<Self>,
        parameters: ListParams,
        heads: mpsc::UnboundedSender<ListMeta>,
        mut slot: ListSlot,
    ) -> Result<(), ReadFailure> {
        let request =
            self.request.list(&parameters).map_err(|error| ReadFailure::List(kube::Error::BuildRequest(error)))?;
        let client = &self.shared.clients.reading;
        let mut body = Box::pin(slot.hold_for(client.request_stream(request)).await.map_err(ReadFailure::List)?);
        let mut list = ListReader::default();
        let mut heads = Some(heads);
        loop {
            let bytes = slot
                .hold_for(body.fill_buf())
                .await
                .map_err(|error| ReadFailure::List(kube::Error::ReadEvents(error)))?;
            let count = bytes.len();
            list.push(bytes);
            body.consume_unpin(count);
            while let Some(item) = list.next()? {
                self.listed(Received::read(item)).await;
            }
            if (list.metadata().is_some() || list.is_complete())
                && let Some(heads) = heads.take()
            {
                // The receiver is closed if the list was given up.
                let _unheard = heads.send(list.metadata().cloned().unwrap_or_default());
            }
            if count == 0 {
                return if list.is_complete() { Ok(()) } else { Err(ReadFailure::Truncated) };
            }
        }
    }

    /// Whether the server's current version is lower than one that it returned earlier, so that a watch from there
    /// would be silent until as much has happened again. `false` if the server does not return its version.
    pub(super) async fn is_behind(&self, version: &str) -> bool {
        #[derive(Deserialize)]
        struct ListHead {
            metadata: ListMeta,
        }
        let label_selector = self.shared.options.label_selector.clone();
        let parameters = ListParams { label_selector, limit: Some(1), ..ListParams::default() };
        let Ok(request) = self.request.list(&parameters) else { return false };
        let mut slot = ListSlot::acquire(&self.shared.lists).await;
        let head = slot.hold_for(self.shared.clients.reading.request::<ListHead>(request));
        let response = timeout(HEAD_TIMEOUT, head).await;
        let Ok(Ok(ListHead { metadata })) = response else { return false };
        let now = metadata.resource_version.as_deref().unwrap_or_default();
        // Not every aggregated API has numeric versions.
        matches!((now.parse::<u64>(), version.parse::<u64>()), (Ok(now), Ok(known)) if 0 < now && now < known)
    }

    /// Starts a watch from a version, which the server ends after `seconds`.
    pub(super) async fn watch(&self, version: &str, seconds: u32) -> Result<Watch, ReadFailure> {
        let label_selector = self.shared.options.label_selector.clone();
        let parameters = WatchParams { label_selector, ..WatchParams::default() }.timeout(seconds);
        let request = self.request.watch(&parameters, version);
        let mut request = request.map_err(|error| ReadFailure::WatchStart(kube::Error::BuildRequest(error)))?;
        // If compressed, each event would be a separate gzip member, of which decompression reads only the first.
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let lines = self.shared.clients.reading.request_stream(request).map_err(ReadFailure::WatchStart).await?;
        Ok(Watch { lines: Box::pin(lines), line: Vec::new() })
    }

    /// Whether an object belongs to this shard; the others are dropped before they are parsed.
    fn reads(&self, received: &Received) -> bool {
        self.shared.shard.reads(&self.scope.kind, received.namespace())
    }

    /// Returns why an object does not belong to this kind, if so. When a CRD is replaced by one with the other scope,
    /// the list and watch return objects of the new kind.
    fn is_misplaced(&self, received: &Received) -> Option<&'static str> {
        match (received.namespace(), self.scope.kind.namespaced) {
            (Some(_), false) => Some("it has a namespace, but its kind is cluster-scoped"),
            (None, true) if received.problem().is_none() => Some("it has no namespace, but its kind is namespaced"),
            _ => None,
        }
    }

    /// Sends an object of a list.
    async fn listed(&self, received: Received) {
        if let Some(change) = self.seen(received, |_| None) {
            self.shared.send(change).await;
        }
    }

    /// Sends the new state of an object.
    pub(super) async fn changed(&self, received: Received) {
        let policies = self.shared.options.policies.as_ref().map(|policies| Arc::clone(&policies.borrow()));
        if let Some(change) = self.seen(received, |object| policies?.projected(object)) {
            self.shared.send(change).await;
        }
    }

    /// Builds the object, with everything that takes time, so that the pipeline has little to do.
    fn seen(&self, received: Received, projected: impl FnOnce(&Object) -> Option<Projected>) -> Option<Change> {
        if !self.reads(&received) {
            return None;
        }
        let name = received.name();
        if let Some(why) = self.is_misplaced(&received) {
            return Some(Change::Skipped(self.scope.clone(), name, why.to_owned()));
        }
        match received.into_object(&self.scope.kind, self.shared.options.secrets, 0) {
            Ok(object) if is_own_event(&object) => None,
            Ok(mut object) => {
                object.projected = projected(&object);
                object.body = self.shared.options.packing.pack(object.body);
                Some(Change::Seen(self.scope.clone(), object))
            }
            Err(why) => Some(Change::Skipped(self.scope.clone(), name, why)),
        }
    }

    /// Sends the deletion of an object.
    pub(super) async fn gone(&self, received: Received) {
        if !self.reads(&received) {
            return;
        }
        let key = received.key(&self.scope.kind);
        if let Ok(object) = received.into_object(&self.scope.kind, self.shared.options.secrets, 0) {
            self.shared.send(Change::Gone(self.scope.clone(), object)).await;
        } else if let Some(key) = key {
            self.shared.send(Change::GoneUnread(self.scope.clone(), key)).await;
        }
    }
}

/// An event of a watch.
pub(super) struct ReceivedEvent {
    pub(super) what: EventType,
    /// The object's state: the last one of a deleted object; a bookmark has only a version.
    pub(super) object: Received,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventType {
    /// The object was created or changed.
    Applied,
    Deleted,
    /// There was no other event up to this version.
    Bookmark,
}

impl ReceivedEvent {
    /// Parses a line of a watch.
    fn read(line: &[u8]) -> Result<Self, ReadFailure> {
        #[derive(Deserialize)]
        struct WatchLine<'a, O> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            object: O,
        }
        let what = |word: &str| match word {
            "ADDED" | "MODIFIED" => Some(EventType::Applied),
            "DELETED" => Some(EventType::Deleted),
            "BOOKMARK" => Some(EventType::Bookmark),
            _ => None,
        };
        // The object is parsed with the line, unless the line is unusual.
        if let Ok(WatchLine::<ObjectFields<'_>> { r#type, object }) = serde_json::from_slice(line)
            && let Some(what) = what(&r#type)
        {
            return Ok(Self { what, object: object.into() });
        }
        let WatchLine::<&RawValue> { r#type, object } = serde_json::from_slice(line).map_err(ReadFailure::NoEvent)?;
        let what = match (what(&r#type), &*r#type) {
            (Some(what), _) => what,
            (None, "ERROR") => {
                let status = serde_json::from_str(object.get()).map_err(ReadFailure::NoEvent)?;
                return Err(ReadFailure::WatchRefused(status));
            }
            (None, other) => {
                return Err(ReadFailure::NoEvent(serde_json::Error::custom(format!("unknown type {other:?}"))));
            }
        };
        Ok(Self { what, object: Received::read(object.get()) })
    }
}

/// A watch that has started.
pub(super) struct Watch {
    lines: Pin<Box<dyn AsyncBufRead + Send>>,
    /// The part of the next line that has arrived.
    line: Vec<u8>,
}

impl Watch {
    /// Waits for the next event; `None` when the server has ended the watch.
    ///
    /// # Cancel safety
    /// The part of an event that has arrived is kept for the next call.
    pub(super) async fn next(&mut self) -> Option<Result<ReceivedEvent, ReadFailure>> {
        match self.lines.read_until(b'\n', &mut self.line).await {
            // A truncated line is dropped.
            Ok(_) if !self.line.ends_with(b"\n") => None,
            Ok(_) => {
                let event = ReceivedEvent::read(&self.line);
                self.line.clear();
                Some(event)
            }
            Err(error) if is_end(&error) => None,
            Err(error) => Some(Err(ReadFailure::WatchBroken(kube::Error::ReadEvents(error)))),
        }
    }
}

/// Whether the connection was closed at the end of a chunk, as by a server that shuts down, or was silent for so long
/// that it may be dead. Silence is normal: a server need not send bookmarks, and sends none for a kind without objects.
fn is_end(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let is_over =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut);
        if error.downcast_ref().is_some_and(is_over) || error.to_string().contains("unexpected EOF during chunk") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether an object is an Event that kaudit wrote; Events are read only with `--include events`.
fn is_own_event(object: &Object) -> bool {
    object.key.kind.kind == "Event"
        && object.body.json().is_ok_and(|json| {
            serde_json::from_slice::<serde_json::Value>(&json).is_ok_and(|event| {
                ["reportingController", "reportingComponent"].iter().any(|field| event[field] == CONTROLLER)
            })
        })
}
