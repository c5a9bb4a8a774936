//! Notifications: what Events tell in the cluster, told to receivers outside of it.
//!
//! In: the deltas of one term, and a file that names the receivers ([`NotifyConfig`]). Out: requests, or lines of a file. Each
//! receiver has a queue and a worker of its own, so that none waits for another. A `receiver` says who is told what; a
//! `format` makes requests of a batch of notifications; everything else is the same for all.
//!
//! The end of a violation goes to the receivers that were sent its appearance, whatever has changed since: labels, severity,
//! the leader. Events and reports hold their names over a restart. Others can create Events, so a recorded receiver counts only
//! if it is concerned with the namespace, policy and rule, which are the same for the whole time of a violation.

mod config;
mod credential;
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
    notification::{Notification, Teller},
    notified::Notified,
    receiver::Receiver,
    worker::{Surroundings, Worker},
};
use super::health::Health;
use crate::{
    audit::{
        command::Command,
        ledger::{Delta, Lifecycle},
        recorded::Recorded,
    },
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
    notified: Notified,
}

/// Starts a worker for each receiver. Each future ends when the sink is gone and everything is told; `health` is asked for
/// where to report what is wrong, once for each.
pub fn start(
    settings: NotifySettings,
    mut health: impl FnMut() -> watch::Sender<Health>,
) -> (NotifySink, Vec<BoxFuture<'static, ()>>) {
    let NotifySettings { config, namespace, audit_name, pipeline, metrics } = settings;
    let teller = Teller { namespace, name: audit_name, cluster: config.cluster() };
    let surroundings = Surroundings { teller, pipeline, metrics };
    let (mut receivers, mut runs) = (Vec::new(), Vec::new());
    for receiver in config.receivers() {
        let (sender, incoming) = mpsc::unbounded_channel();
        runs.push(Worker::new(Arc::clone(receiver), surroundings.clone(), health()).run(incoming).boxed());
        receivers.push((Arc::clone(receiver), sender));
    }
    (NotifySink { receivers, notified: Notified::default() }, runs)
}

impl NotifySink {
    /// Takes in which receivers an earlier run notified of what it recorded; before the first delta.
    pub fn recall(&mut self, recorded: &Recorded) {
        self.notified = Notified::new(recorded);
    }

    /// Takes what changed of an object's violations; returns the delta with the names of the receivers that were notified.
    pub fn record(&mut self, delta: &Delta) -> Delta {
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
                    // Alerts are sent again as long as their receiver is concerned.
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
                // An error says that the run is over, and so is the time to tell what is pending.
                let _late = sender.send(Arc::clone(&notification));
            }
        }
        let mut delta = delta.clone();
        for violation in delta.appeared.iter_mut().chain(&mut delta.results) {
            violation.notified = self.notified.of(namespace, violation.id);
        }
        delta
    }
}

#[cfg(test)]
mod tests;
