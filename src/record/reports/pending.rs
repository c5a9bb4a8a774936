//! The changes that wait between the pipeline and the recorder: objects whose results changed, each with its latest
//! results.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::mpsc;

use crate::{
    audit::{
        command::Record,
        ledger::{Delta, Violation},
        queue::Lane,
    },
    model::object::ObjectRef,
};

/// The latest results of an object that changed.
pub(super) struct ChangedResults {
    pub(super) object: Arc<ObjectRef>,
    pub(super) results: Vec<Violation>,
    /// `Change` if any of it follows a change in the cluster.
    pub(super) lane: Lane,
}

/// The changes that were not taken yet, by [`ObjectRef::identity`].
type Changes = BTreeMap<String, ChangedResults>;

/// Takes deltas and never blocks.
pub struct ReportSink {
    changes: Arc<Mutex<Changes>>,
    /// Holds one message: the receiver takes all changes at once.
    wake: mpsc::Sender<()>,
}

/// The recorder's end.
pub(super) struct PendingChanges {
    changes: Arc<Mutex<Changes>>,
    woken: mpsc::Receiver<()>,
}

/// Returns a sink and the receiver of its changes.
pub(super) fn channel() -> (ReportSink, PendingChanges) {
    let (wake, woken) = mpsc::channel(1);
    let changes = Arc::<Mutex<Changes>>::default();
    (ReportSink { changes: Arc::clone(&changes), wake }, PendingChanges { changes, woken })
}

impl Record for ReportSink {
    /// Replaces the waiting results of an object by the current ones.
    fn record(&mut self, delta: &mut Delta) {
        let object = Arc::clone(&delta.object);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = object.identity();
        let hurried = changes.get(&identity).is_some_and(|before| before.lane == Lane::Change);
        let lane = if hurried { Lane::Change } else { delta.lane };
        changes.insert(identity, ChangedResults { object, results: delta.results.clone(), lane });
        drop(changes);
        // Full: the recorder is woken already. Closed: the recorder has ended.
        let _woken = self.wake.try_send(());
    }
}

impl PendingChanges {
    /// Waits until there is something to take; returns `false` when the sink is dropped.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub(super) async fn changed(&mut self) -> bool {
        self.woken.recv().await.is_some()
    }

    /// Takes all changes.
    pub(super) fn take(&self) -> impl Iterator<Item = ChangedResults> {
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner)).into_values()
    }
}
