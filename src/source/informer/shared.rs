//! State that the tasks of an informer share.

use std::sync::Arc;

use tokio::sync::{Notify, Semaphore, mpsc, watch};

use super::list_slot;
use crate::{
    cluster::client::Clients,
    judge::set::PolicySet,
    model::{body::Packing, shard::Shard},
    source::{
        change::{Change, InFlight, WatchScope},
        received::Secrets,
    },
};

/// Options of an informer.
#[derive(Clone)]
pub struct ReadOptions {
    /// How values of Secrets are handled.
    pub secrets: Secrets,
    /// Whether to end after each kind's first list.
    pub once: bool,
    /// Whether the cluster should have the kind of exceptions, so that discovery may only lack it for a moment.
    pub expects_exceptions: bool,
    /// With `once`, whether discovery is repeated some seconds later, to confirm which kinds are gone.
    pub confirms: bool,
    /// Reads only objects whose labels match; `None` reads all.
    pub label_selector: Option<String>,
    /// How object bodies are compressed.
    pub packing: Packing,
    /// Bounds the bytes in flight to the pipeline.
    pub in_flight: InFlight,
    /// The policies in force, to find out outside the pipeline whether they can see a change.
    pub policies: Option<watch::Receiver<Arc<PolicySet>>>,
}

impl ReadOptions {
    /// Returns options that read each kind once and do not change the objects.
    pub fn once(secrets: Secrets) -> Self {
        Self {
            secrets,
            once: true,
            expects_exceptions: false,
            confirms: false,
            label_selector: None,
            packing: Packing::default(),
            in_flight: InFlight::default(),
            policies: None,
        }
    }
}

/// State that all watch scopes of an informer share.
pub(super) struct InformerShared {
    pub(super) clients: Clients,
    pub(super) options: ReadOptions,
    pub(super) shard: Shard,
    pub(super) changes: mpsc::Sender<Change>,
    pub(super) lists: Arc<Semaphore>,
    /// Wakes discovery.
    pub(super) rediscover: Notify,
    /// Receives what followers have learned about their scopes.
    notes: mpsc::UnboundedSender<(WatchScope, Note)>,
}

/// What a follower has learned about its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// Its first list is complete.
    Listed,
    /// The server answered 404.
    NotFound,
}

impl InformerShared {
    pub(super) fn new(
        clients: Clients,
        shard: Shard,
        options: ReadOptions,
        changes: mpsc::Sender<Change>,
        notes: mpsc::UnboundedSender<(WatchScope, Note)>,
    ) -> Self {
        let (lists, rediscover) = (list_slot::all(), Notify::new());
        Self { clients, options, shard, changes, lists, rediscover, notes }
    }

    pub(super) async fn send(&self, change: Change) {
        self.options.in_flight.send(&self.changes, change).await;
    }

    pub(super) fn note(&self, scope: &WatchScope, note: Note) {
        // With `once` the notes are not read, as no kinds come or go.
        let _unheard = self.notes.send((scope.clone(), note));
    }
}
