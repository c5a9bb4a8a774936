//! Watches: the changes of a resource as they happen.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    ApiServer, ServerState,
    faults::{Faults, WatchFault},
    forms::{self, ObjectForm},
    kinds::ResourceType,
    lists,
    request::RequestInfo,
    selectors::ObjectSelector,
    status::{ApiResult, ErrorStatus},
    store::{HistoryStep, Stored},
};

/// The time between the bookmarks of a watch.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// How long before its end a watch gets its last bookmark.
const BEFORE_END: Duration = Duration::from_secs(2);
/// The default timeout of a watch, in seconds.
const LONGEST: u64 = 1800;
/// Marks the end of the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// A watch.
pub(super) struct Watch {
    kind: Arc<ResourceType>,
    request: RequestInfo,
    selector: ObjectSelector,
    form: ObjectForm,
    /// The revision up to which all changes were sent or are irrelevant.
    position: u64,
    queue: VecDeque<Bytes>,
    /// Whether it ends after the queue was sent.
    ends: bool,
    epoch: u64,
    /// Number of events sent so far.
    sent: usize,
}

impl ServerState {
    /// Begins a watch.
    pub(super) fn watch(&self, request: &RequestInfo, kind: &Arc<ResourceType>) -> ApiResult<Watch> {
        let selector = ObjectSelector::of(request, kind)?;
        let version = lists::version(request).map_err(|why| ErrorStatus::new(500, "", why))?.unwrap_or_default();
        let form = if request.accepts("PartialObjectMetadata") { ObjectForm::Metadata } else { ObjectForm::Whole };
        let mut watch = Watch {
            kind: Arc::clone(kind),
            request: request.clone(),
            selector,
            form,
            position: version,
            queue: VecDeque::new(),
            ends: false,
            epoch: self.epoch,
            sent: 0,
        };
        let floor = self.watch_floor.max(kind.since);
        let initial = request.flag("sendInitialEvents");
        if initial || version == 0 {
            if version > self.store.revision {
                return Err(ErrorStatus::too_large_version(version, self.store.revision));
            }
            watch.position = self.store.revision;
            for (_, object) in self.store.all(&kind.storage).filter(|(_, object)| watch.selector.matches(object)) {
                watch.queue.push_back(watch.line("ADDED", object));
            }
            if initial && request.flag("allowWatchBookmarks") {
                watch.queue.push_back(watch.bookmark(watch.position, true));
            }
        } else if version < floor {
            let status = ErrorStatus::expired(format!("too old resource version: {version} ({floor})"));
            watch.queue.push_back(error(&status));
            watch.ends = true;
        }
        Ok(watch)
    }
}

impl Watch {
    fn line(&self, event_type: &str, object: &Stored) -> Bytes {
        event(event_type, &forms::json(&self.kind, &self.request.version, object, self.form))
    }

    fn bookmark(&self, revision: u64, ends_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({INITIAL_END: "true"});
        }
        let object = Stored::new(json!({"metadata": metadata}));
        self.line("BOOKMARK", &object)
    }

    /// Returns the event of a history step for this watch.
    fn step(&self, step: &HistoryStep) -> Option<Bytes> {
        let selected = |object: &Option<Arc<Stored>>| object.clone().filter(|object| self.selector.matches(object));
        match (selected(&step.before), selected(&step.after)) {
            (None, Some(after)) => Some(self.line("ADDED", &after)),
            (Some(_), Some(after)) => Some(self.line("MODIFIED", &after)),
            (Some(_), None) if step.last.is_some() => step.last.as_ref().map(|last| self.line("DELETED", last)),
            (Some(before), None) => {
                // It still exists but is no longer selected: its last selected state, with the version of the change.
                let mut value = before.value.clone();
                value["metadata"]["resourceVersion"] = step.revision.to_string().into();
                Some(self.line("DELETED", &Stored::new(value)))
            }
            (None, None) => None,
        }
    }

    /// Queues the changes since then. Returns whether the watch continues.
    fn catch_up(&mut self, state: &ServerState) -> bool {
        let current = state.resource(&self.kind.group, &self.kind.plural);
        if state.epoch != self.epoch || current.is_none_or(|current| current.since != self.kind.since) {
            return false;
        }
        if state.store.revision > self.position {
            for step in state.store.since(&self.kind.storage, self.position) {
                self.queue.extend(self.step(&step));
            }
            self.position = state.store.revision;
        }
        true
    }

    /// Returns the body: a line for each event until the watch ends.
    pub(super) fn stream(
        self,
        server: ApiServer,
        faults: Arc<dyn Faults>,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let seconds = self.request.parameter("timeoutSeconds").parse().unwrap_or(LONGEST);
        let end = Instant::now() + Duration::from_secs(seconds);
        let bookmark = self.request.flag("allowWatchBookmarks").then(|| next_bookmark(Instant::now(), end));
        let changes = server.changes();
        let body = WatchBody { watch: self, server, faults, changes, end, bookmark };
        stream::unfold(Some(body), |body| async move {
            let mut body = body?;
            match body.next().await {
                Some(Ok(line)) => Some((Ok(line), Some(body))),
                Some(Err(error)) => Some((Err(error), None)),
                None => None,
            }
        })
    }
}

/// The body of a response to a watch.
struct WatchBody {
    watch: Watch,
    server: ApiServer,
    faults: Arc<dyn Faults>,
    changes: watch::Receiver<u64>,
    end: Instant,
    /// When the next bookmark is due, if they are enabled.
    bookmark: Option<Instant>,
}

impl WatchBody {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            self.changes.mark_unchanged();
            if !self.watch.ends && !self.server.with(|state| self.watch.catch_up(state)) {
                self.watch.ends = true;
            }
            if let Some(line) = self.watch.queue.pop_front() {
                return self.send(line).await;
            }
            if self.watch.ends {
                return None;
            }
            let bookmark = self.bookmark.unwrap_or(self.end);
            tokio::select! {
                biased;
                changed = self.changes.changed() => if changed.is_err() { return None },
                () = sleep_until(self.end) => return None,
                () = sleep_until(bookmark) => {
                    self.bookmark = Some(next_bookmark(bookmark, self.end));
                    self.watch.queue.push_back(self.watch.bookmark(self.watch.position, false));
                }
            }
        }
    }

    /// Sends a line, unless a fault prevents it.
    async fn send(&mut self, line: Bytes) -> Option<io::Result<Bytes>> {
        let number = self.watch.sent;
        self.watch.sent += 1;
        match self.faults.deliver(&self.watch.request, number) {
            WatchFault::None => Some(Ok(line)),
            WatchFault::Delay(time) => {
                sleep(time).await;
                Some(Ok(line))
            }
            WatchFault::End => None,
            WatchFault::Break => Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer"))),
            WatchFault::Cut => {
                self.watch.ends = true;
                self.watch.queue.clear();
                Some(Ok(line.slice(..line.len() / 2)))
            }
            WatchFault::Expire => {
                self.watch.ends = true;
                self.watch.queue.clear();
                let status = ErrorStatus::expired(format!("too old resource version: {} (1)", self.watch.position));
                Some(Ok(error(&status)))
            }
            WatchFault::Hang => std::future::pending().await,
        }
    }
}

fn next_bookmark(from: Instant, end: Instant) -> Instant {
    let last = end.checked_sub(BEFORE_END).unwrap_or(end);
    if from < last { last.min(from + BOOKMARKS) } else { end + BOOKMARKS }
}

fn event(event_type: &str, object: &[u8]) -> Bytes {
    [format!("{{\"type\":\"{event_type}\",\"object\":").as_bytes(), object, b"}\n"].concat().into()
}

fn error(status: &ErrorStatus) -> Bytes {
    event("ERROR", status.body().to_string().as_bytes())
}
