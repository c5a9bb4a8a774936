//! One watch scope: from the events of kube's watcher to changes.

use std::{ops::RangeInclusive, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    time::{sleep, timeout},
};
use tracing::debug;

use super::failure::{Delay, classify, describe_watch, jittered};
use crate::{
    cluster::{client::Clients, identity::CONTROLLER},
    model::{coverage::State, object::Object, shard::Shard},
    source::{
        change::{Change, Unreadable, WatchScope},
        received::{Received, Secrets},
    },
};

/// Initial lists under way at a time: more would only slow each other down in the API server.
const LISTS_AT_A_TIME: usize = 8;
/// Objects in a page of a list. A page is held as a whole, and larger ones are not faster.
const PAGE: u32 = 200;
/// The server ends a watch after so many seconds, and the next one shows whether a right was revoked. Each scope draws its
/// own number, as client-go does, so that the watches of all kinds do not begin again in step.
const WATCH_SECONDS: RangeInclusive<u32> = 90..=150;
/// A watch that has been silent for this long works: a failure would have shown within the connect timeout.
const PROVEN: Duration = Duration::from_secs(15);
/// Failures in a row, other than clear refusals, after which a watch scope counts as failed.
const FAILURES: u32 = 3;

/// What all watch scopes of an informer share.
pub(super) struct Shared {
    pub(super) clients: Clients,
    secrets: Secrets,
    pub(super) shard: Shard,
    /// Whether to end after the first list, for `--once`.
    pub(super) once: bool,
    pub(super) changes: mpsc::Sender<Change>,
    lists: Semaphore,
    /// Wakes discovery.
    pub(super) rediscover: Notify,
    /// What followers have learned about their scopes.
    notes: mpsc::UnboundedSender<(WatchScope, Note)>,
}

/// What a follower has learned about its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// Its first list is complete.
    Listed,
    /// The server does not know it (404).
    NotFound,
}

impl Shared {
    pub(super) fn new(
        clients: Clients,
        shard: Shard,
        secrets: Secrets,
        once: bool,
        changes: mpsc::Sender<Change>,
        notes: mpsc::UnboundedSender<(WatchScope, Note)>,
    ) -> Self {
        let (lists, rediscover) = (Semaphore::new(LISTS_AT_A_TIME), Notify::new());
        Self { clients, secrets, shard, once, changes, lists, rediscover, notes }
    }

    pub(super) async fn send(&self, change: Change) {
        // Nobody listens any more when the pipeline has ended; the stream notices by itself.
        let _ended = self.changes.send(change).await;
    }

    fn note(&self, scope: &WatchScope, note: Note) {
        // With `once` nobody listens, as nothing comes or goes.
        let _unheard = self.notes.send((scope.clone(), note));
    }
}

/// How a stream ended.
#[derive(Debug)]
enum StreamEnd {
    /// Everything wanted was read, or the receiver of the changes is gone.
    Done,
    /// To begin again with a new list after this long.
    Again(Duration),
}

/// Lists and watches one scope, for ever or once.
pub(super) async fn follow(shared: Arc<Shared>, scope: WatchScope) {
    let client = shared.clients.reading.clone();
    let api: Api<Received> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &scope.kind),
        None => Api::all_with(client, &scope.kind),
    };
    let mut follower = Follower::new(shared, scope);
    let config = watcher::Config::default().timeout(fastrand::u32(WATCH_SECONDS)).page_size(PAGE);
    loop {
        match follower.stream(watcher(api.clone(), config.clone())).await {
            StreamEnd::Done => return,
            StreamEnd::Again(after) => sleep(jittered(after)).await,
        }
    }
}

struct Follower {
    shared: Arc<Shared>,
    scope: WatchScope,
    /// Goes back to none only when a watch works: a list that succeeds before each watch that fails is a loop, too.
    delay: Delay,
    /// Failures since the last success.
    failures: u32,
    /// A list is under way.
    listing: bool,
    /// [`Change::Synced`] was sent last.
    synced: bool,
    /// Nothing has shown yet that the watch works.
    unproven: bool,
}

impl Follower {
    fn new(shared: Arc<Shared>, scope: WatchScope) -> Self {
        Self { shared, scope, delay: Delay::default(), failures: 0, listing: true, synced: false, unproven: true }
    }

    async fn stream(&mut self, stream: impl Stream<Item = watcher::Result<Event<Received>>>) -> StreamEnd {
        let shared = self.shared.clone();
        // Held for the list only. Not a reason to end: the semaphore is never closed.
        let mut permit = shared.lists.acquire().await.ok();
        let mut stream = pin!(stream);
        self.listing = true;
        loop {
            let next = if self.unproven && !self.listing {
                let Ok(next) = timeout(PROVEN, stream.next()).await else {
                    self.proven().await;
                    continue;
                };
                next
            } else {
                stream.next().await
            };
            if shared.changes.is_closed() {
                return StreamEnd::Done;
            }
            match next {
                None => return StreamEnd::Again(self.delay.next(0)),
                Some(Ok(Event::Init)) => {
                    // What the list does not name is gone, which only its end shows.
                    (self.listing, self.synced) = (true, false);
                    shared.send(Change::Listing(self.scope.clone())).await;
                }
                Some(Ok(Event::InitApply(received))) => self.seen(received).await,
                Some(Ok(Event::InitDone)) => {
                    drop(permit.take());
                    (self.listing, self.unproven) = (false, true);
                    self.readable().await;
                    shared.note(&self.scope, Note::Listed);
                    if shared.once {
                        return StreamEnd::Done;
                    }
                }
                Some(Ok(Event::Apply(received))) => {
                    self.proven().await;
                    self.seen(received).await;
                    self.announce();
                }
                Some(Ok(Event::Delete(received))) => {
                    self.proven().await;
                    self.gone(received).await;
                    self.announce();
                }
                Some(Err(error)) => {
                    if let Some(end) = self.failed(&error).await {
                        return end;
                    }
                }
            }
        }
    }

    /// Notes a failure; returns how to go on, unless the stream itself tries again.
    async fn failed(&mut self, error: &watcher::Error) -> Option<StreamEnd> {
        let (code, reason) = classify(error);
        let message = describe_watch(error);
        debug!(feed = %self.scope, code, message, "Reading failed");
        self.failures += 1;
        let refused = matches!(code, 401 | 403 | 404 | 405);
        // The list is too old: not a failure as long as it does not happen again and again.
        let expired = code == 410;
        if !expired && (refused || self.failures >= FAILURES) {
            let state = if matches!(code, 401 | 403) { State::Forbidden } else { State::Failed };
            self.synced = false;
            self.shared.send(Change::Unreadable(self.scope.clone(), Unreadable { state, message })).await;
            if self.shared.once {
                return Some(StreamEnd::Done);
            }
        }
        self.shared.send(Change::Restarted(self.scope.clone(), reason)).await;
        if code == 404 {
            self.shared.note(&self.scope, Note::NotFound);
        }
        let after = self.delay.next(code);
        if self.listing || expired {
            // kube would go on from the expired version, or list again without waiting for its turn.
            return Some(StreamEnd::Again(after));
        }
        self.unproven = true;
        sleep(jittered(after)).await;
        None
    }

    /// The watch works.
    async fn proven(&mut self) {
        self.delay = Delay::default();
        self.unproven = false;
        self.readable().await;
    }

    /// The watch scope can be read, and all of it is known.
    async fn readable(&mut self) {
        self.failures = 0;
        if !std::mem::replace(&mut self.synced, true) {
            self.shared.send(Change::Synced(self.scope.clone())).await;
        }
    }

    /// Whether an object belongs to this shard; the others are dropped before they are parsed.
    fn reads(&self, received: &Received) -> bool {
        self.shared.shard.reads(&self.scope.kind, received.namespace())
    }

    async fn seen(&self, received: Received) {
        if !self.reads(&received) {
            return;
        }
        let name = received.name();
        let change = match received.into_object(&self.scope.kind, self.shared.secrets, 0) {
            Ok(object) if is_own_event(&object) => return,
            Ok(object) => Change::Seen(self.scope.clone(), object),
            Err(why) => Change::Skipped(self.scope.clone(), name, why),
        };
        self.shared.send(change).await;
    }

    async fn gone(&self, received: Received) {
        if !self.reads(&received) {
            return;
        }
        let key = received.key(&self.scope.kind);
        if let Ok(object) = received.into_object(&self.scope.kind, self.shared.secrets, 0) {
            self.shared.send(Change::Gone(self.scope.clone(), object)).await;
        } else if let Some(key) = key {
            self.shared.send(Change::GoneUnread(self.scope.clone(), key)).await;
        }
    }

    /// Has discovery repeated when a kind may have come or gone.
    fn announce(&self) {
        if announces_kinds(&self.scope) {
            self.shared.rediscover.notify_one();
        }
    }
}

/// Whether changes of a watch scope may mean that kinds come or go.
pub(super) fn announces_kinds(scope: &WatchScope) -> bool {
    scope.kind.is("apiextensions.k8s.io", "CustomResourceDefinition")
        || scope.kind.is("apiregistration.k8s.io", "APIService")
}

/// Whether an object is an Event that kaudit wrote, which only `--include events` brings here.
fn is_own_event(object: &Object) -> bool {
    object.key.kind.kind == "Event"
        && object.body.json().is_ok_and(|json| {
            serde_json::from_slice::<serde_json::Value>(&json).is_ok_and(|event| {
                ["reportingController", "reportingComponent"].iter().any(|field| event[field] == CONTROLLER)
            })
        })
}

#[cfg(test)]
mod tests;
