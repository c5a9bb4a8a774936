//! What the tasks of an informer share.

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

/// How an informer reads.
#[derive(Clone)]
pub struct ReadOptions {
    /// What is kept of the values in Secrets.
    pub secrets: Secrets,
    /// Whether to end after each kind's first list.
    pub once: bool,
    /// With `once`, whether discovery is repeated some seconds later, to confirm which kinds are gone.
    pub confirms: bool,
    /// Reads only objects whose labels fit; `None` is all.
    pub label_selector: Option<String>,
    /// Compresses what was read.
    pub packing: Packing,
    /// Bounds the bytes of what was read and is not taken yet.
    pub in_flight: InFlight,
    /// The policies in force, to find out beside the pipeline whether they can see what changed.
    pub policies: Option<watch::Receiver<Arc<PolicySet>>>,
}

impl ReadOptions {
    /// Reads each kind once, and leaves the objects as they are.
    pub fn once(secrets: Secrets) -> Self {
        Self {
            secrets,
            once: true,
            confirms: false,
            label_selector: None,
            packing: Packing::default(),
            in_flight: InFlight::default(),
            policies: None,
        }
    }
}

/// What all watch scopes of an informer share.
pub(super) struct Shared {
    pub(super) clients: Clients,
    pub(super) options: ReadOptions,
    pub(super) shard: Shard,
    pub(super) changes: mpsc::Sender<Change>,
    pub(super) lists: Arc<Semaphore>,
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
        // With `once` nobody listens, as nothing comes or goes.
        let _unheard = self.notes.send((scope.clone(), note));
    }
}
