//! Notifications: what Events report inside the cluster, sent to receivers outside of it.
//!
//! In: the deltas of one leadership term, and a file that names the receivers ([`NotifyConfig`]). Out: requests, or
//! lines of a file. Each receiver has its own queue and worker, so that none waits for another. A `receiver` decides
//! which notifications are sent; a `format` makes requests from a batch of notifications; everything else is the same
//! for all.
//!
//! A resolution goes to the receivers that were sent the appearance of the violation, whatever has changed since:
//! labels, severity, the leader. Events and reports keep the names of these receivers across restarts. Others can
//! create Events too, so a recorded receiver counts only if it matches the namespace, policy and rule, which never
//! change during the life of a violation.

mod bus;
mod config;
mod file;
mod formats;
mod http;
mod notification;
mod notified;
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
    notification::{AuditIdentity, Notification},
    notified::Notified,
    receiver::Receiver,
    worker::{Worker, WorkerContext},
};
use super::health::Health;
use crate::{
    audit::{
        command::{Command, Record},
        ledger::{Delta, Lifecycle},
        recorded::Recorded,
    },
    metrics::Metrics,
};

/// The receivers of notifications, and the `Audit` object that sends them.
#[derive(Clone)]
pub struct NotifySettings {
    /// The receivers.
    pub config: Arc<NotifyConfig>,
    /// Namespace of the `Audit` object.
    pub namespace: String,
    /// Its name.
    pub audit_name: String,
    /// Takes the query for open violations.
    pub pipeline: mpsc::Sender<Command>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Takes deltas and never blocks.
pub struct NotifySink {
    // Unbounded: the workers receive at once, so these hold almost nothing.
    receivers: Vec<(Arc<Receiver>, mpsc::UnboundedSender<Arc<Notification>>)>,
    notified: Notified,
}

/// Starts a worker for each receiver. Each future ends when the sink is dropped and every notification is sent;
/// `health` is called once for each worker and returns where it reports its health.
pub fn start(
    settings: NotifySettings,
    mut health: impl FnMut() -> watch::Sender<Health>,
) -> (NotifySink, Vec<BoxFuture<'static, ()>>) {
    let NotifySettings { config, namespace, audit_name, pipeline, metrics } = settings;
    let audit = AuditIdentity { namespace, name: audit_name, cluster: config.cluster() };
    let context = WorkerContext { audit, pipeline, metrics };
    let (mut receivers, mut runs) = (Vec::new(), Vec::new());
    for receiver in config.receivers() {
        let (sender, incoming) = mpsc::unbounded_channel();
        runs.push(Worker::new(Arc::clone(receiver), context.clone(), health()).run(incoming).boxed());
        receivers.push((Arc::clone(receiver), sender));
    }
    (NotifySink { receivers, notified: Notified::default() }, runs)
}

impl NotifySink {
    /// Reads from the records of an earlier run which receivers were notified. Must be called before the first delta.
    pub fn recall(&mut self, recorded: &Recorded) {
        self.notified = Notified::new(recorded);
    }
}

impl Record for NotifySink {
    /// Sends notifications about the changes of an object's violations. Adds the names of the notified receivers, which
    /// Events and reports keep for the next run.
    fn record(&mut self, delta: &mut Delta) {
        let namespace = &delta.object.namespace;
        for (notification, violation) in Notification::of(delta, Timestamp::now()) {
            let notification = Arc::new(notification);
            let known = match notification.event {
                Lifecycle::Resolved => self.notified.end(namespace, violation),
                Lifecycle::Appeared | Lifecycle::Happened => None,
            };
            let is_notified = |receiver: &Receiver| {
                let concerns = || receiver.matching.concerns(&notification);
                match &known {
                    // Resends may have sent the alert to any receiver that it matches.
                    Some(known) => {
                        let was_notified = known.has(&receiver.name) && receiver.matching.may_concern(&notification);
                        was_notified || (receiver.resend_every().is_some() && concerns())
                    }
                    None => concerns(),
                }
            };
            let receivers: Vec<_> = self.receivers.iter().filter(|(receiver, _)| is_notified(receiver)).collect();
            if notification.event == Lifecycle::Appeared {
                let names = receivers.iter().map(|(receiver, _)| receiver.name.as_str());
                self.notified.begin(namespace, violation.id, names);
            }
            for (_, sender) in receivers {
                // An error means that the worker has ended: it is too late to send.
                let _late = sender.send(Arc::clone(&notification));
            }
        }
        for violation in delta.appeared.iter_mut().chain(&mut delta.results) {
            violation.notified = self.notified.of(namespace, violation.id);
        }
    }
}

#[cfg(test)]
mod tests;
