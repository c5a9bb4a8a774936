//! Notifications: what Events tell in the cluster, told to receivers outside of it.
//!
//! In: the deltas of one term, and a file that names the receivers ([`NotifyConfig`]). Out: requests, or lines of a file. Each
//! receiver has a queue and a worker of its own, so that none waits for another. A `receiver` says who is told what; a
//! `format` makes requests of a batch of notifications; everything else is the same for all.
//!
//! What was told before a restart is not remembered here: whatever Events and reports hold was told.

mod config;
mod credential;
mod file;
mod formats;
mod http;
mod notification;
mod queue;
mod receiver;
mod route;
mod worker;

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

pub use self::config::NotifyConfig;
use self::{
    notification::{Notification, Teller},
    receiver::Receiver,
    worker::{Surroundings, Worker},
};
use super::health::Health;
use crate::{
    audit::{command::Command, ledger::Delta},
    metrics::Metrics,
};

/// Who is told, and by whom.
#[derive(Clone)]
pub struct NotifySettings {
    /// The receivers.
    pub config: Arc<NotifyConfig>,
    /// Namespace of the `Audit` object.
    pub namespace: String,
    /// Its name.
    pub audit_name: String,
    /// Answers what stands.
    pub pipeline: mpsc::Sender<Command>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Takes deltas and never blocks.
pub struct NotifySink {
    // The workers receive at once whatever comes, so these hold next to nothing.
    receivers: Vec<(Arc<Receiver>, mpsc::UnboundedSender<Arc<Notification>>)>,
}

/// Starts a worker for each receiver. Each future ends when the sink is gone and everything is told; `health` is asked for
/// where to report what is wrong, once for each.
pub fn start(
    settings: NotifySettings,
    mut health: impl FnMut() -> watch::Sender<Health>,
) -> (NotifySink, Vec<BoxFuture<'static, ()>>) {
    let NotifySettings { config, namespace, audit_name, pipeline, metrics } = settings;
    let surroundings = Surroundings { teller: Teller { namespace, name: audit_name }, pipeline, metrics };
    let (mut receivers, mut runs) = (Vec::new(), Vec::new());
    for receiver in config.receivers() {
        let (sender, incoming) = mpsc::unbounded_channel();
        runs.push(Worker::new(Arc::clone(receiver), surroundings.clone(), health()).run(incoming).boxed());
        receivers.push((Arc::clone(receiver), sender));
    }
    (NotifySink { receivers }, runs)
}

impl NotifySink {
    /// Takes what changed of an object's violations.
    pub fn record(&self, delta: &Delta) {
        for notification in Notification::of(delta, Timestamp::now()) {
            let notification = Arc::new(notification);
            for (receiver, sender) in &self.receivers {
                if receiver.matching.concerns(&notification) {
                    // An error says that the run is over, and so is the time to tell what is pending.
                    let _late = sender.send(Arc::clone(&notification));
                }
            }
        }
    }
}
