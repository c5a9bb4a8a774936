//! Reports: what stands now, for whoever looks at a namespace with kubectl or a report viewer.
//!
//! The recorder begins with what earlier runs have left ([`load`]), which is also the memory of what was told before,
//! and changes it by deltas only. So what no delta is about, such as results of kinds that cannot be read, stays. A
//! report is written when what it says ([`model`]) differs from what the server has, some seconds after its last change;
//! results are spread over reports of bounded size ([`shards`]).
//!
//! Nothing is lost when the server is slow or away: what waits is the set of objects that changed, with their latest
//! results.

mod book;
mod load;
mod model;
mod recorder;
mod shards;
mod write;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::Client;
use tokio::sync::{mpsc, watch};

pub use self::{
    load::{Loaded, Scope, load},
    model::{Api, Choice, Instance, Layout},
};
use self::{model::Subject, recorder::Recorder};
use super::Said;
use crate::{
    audit::ledger::{Delta, Violation},
    metrics::Metrics,
};

/// What is reported, where and how.
#[derive(Clone)]
pub struct Settings {
    /// Reads and writes.
    pub client: Client,
    /// Which API.
    pub choice: Choice,
    /// What one report is about.
    pub layout: Layout,
    /// Whose reports.
    pub instance: Instance,
    /// In which namespaces.
    pub scope: Scope,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Objects whose results changed, each with all of them.
type Pending = Mutex<BTreeMap<String, (Subject, Vec<Violation>)>>;

/// Takes deltas and never blocks.
pub struct ReportSink {
    pending: Arc<Pending>,
    /// Says that there is something; it says so once until it is heard.
    wake: mpsc::Sender<()>,
}

impl ReportSink {
    /// Takes what stands now of an object.
    pub fn record(&self, delta: &Delta) {
        let subject = Subject::new(&delta.object, &delta.uid);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(subject.identity(), (subject, delta.results.clone()));
        drop(pending);
        // Full: it was told already. Closed: nobody records any more.
        let _told = self.wake.try_send(());
    }
}

/// Starts a recorder with what was found. The future ends when the sink is gone and everything is written.
pub fn start(
    settings: Settings,
    loaded: Loaded,
    said: watch::Sender<Said>,
) -> (ReportSink, impl Future<Output = ()> + Send) {
    let (wake, woken) = mpsc::channel(1);
    let pending = Arc::<Pending>::default();
    let sink = ReportSink { pending: Arc::clone(&pending), wake };
    (sink, Recorder::new(settings, loaded, said, pending).run(woken))
}
