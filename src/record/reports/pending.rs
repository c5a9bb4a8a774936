//! What waits between the pipeline and the recorder: objects whose results changed, each with its latest results.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::mpsc;

use crate::{
    audit::ledger::{Delta, Violation},
    model::object::ObjectRef,
};

/// The results of each object that changed and was not taken yet, by [`ObjectRef::identity`].
type ChangedResults = BTreeMap<String, (ObjectRef, Vec<Violation>)>;

/// Takes deltas and never blocks.
pub struct ReportSink {
    changes: Arc<Mutex<ChangedResults>>,
    /// Holds one message: the receiver takes all changes at once.
    wake: mpsc::Sender<()>,
}

/// The recorder's end.
pub(super) struct PendingChanges {
    changes: Arc<Mutex<ChangedResults>>,
    woken: mpsc::Receiver<()>,
}

/// Returns a sink and where its changes arrive.
pub(super) fn channel() -> (ReportSink, PendingChanges) {
    let (wake, woken) = mpsc::channel(1);
    let changes = Arc::<Mutex<ChangedResults>>::default();
    (ReportSink { changes: Arc::clone(&changes), wake }, PendingChanges { changes, woken })
}

impl ReportSink {
    /// Takes all results that an object has now.
    pub fn record(&self, delta: &Delta) {
        let object = ObjectRef::new(&delta.object, &delta.uid);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.insert(object.identity(), (object, delta.results.clone()));
        drop(changes);
        // Full: the recorder is woken already. Closed: nobody records any more.
        let _woken = self.wake.try_send(());
    }
}

impl PendingChanges {
    /// Returns when there is something to take, with `false` when the sink is gone.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub(super) async fn changed(&mut self) -> bool {
        self.woken.recv().await.is_some()
    }

    /// Takes all changes.
    pub(super) fn take(&self) -> impl Iterator<Item = (ObjectRef, Vec<Violation>)> {
        std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner)).into_values()
    }
}
