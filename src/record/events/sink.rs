//! The pipeline's end of the recorder: turns deltas into Events to write.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::queue::{EventContent, PendingEvent, Priority, ViolationChange};
use crate::{
    audit::{command::Record, ledger::Delta, queue::Lane},
    record::exception_notice::ExceptionNotice,
};

/// Takes deltas and never blocks.
#[derive(Clone)]
pub struct EventSink {
    // Unbounded: the recorder receives at once, so this holds almost nothing.
    sender: mpsc::UnboundedSender<Incoming>,
}

/// What the recorder receives.
pub(super) enum Incoming {
    Event(PendingEvent),
    /// Policies are refused: what they are, and since when.
    PoliciesRefused(String, Timestamp),
    /// A notice for the team that owns an exception.
    Exception(Box<ExceptionNotice>),
}

/// Returns a sink and the receiver of what it takes.
pub(super) fn channel() -> (EventSink, mpsc::UnboundedReceiver<Incoming>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSink { sender }, receiver)
}

impl Record for EventSink {
    /// Queues Events about the changes of an object's violations.
    fn record(&mut self, delta: &mut Delta) {
        let (at, now) = (Timestamp::now(), Instant::now());
        let priority = if delta.lane == Lane::Change { Priority::Change } else { Priority::Backlog };
        for (lifecycle, violation) in delta.changes() {
            let (object, violation) = (Arc::clone(&delta.object), violation.clone());
            let change = ViolationChange { object, violation, lifecycle, at };
            let content = EventContent::Violation(Box::new(change));
            self.send(Incoming::Event(PendingEvent {
                content,
                priority,
                queued: now,
                tried: false,
                span: delta.span.clone(),
            }));
        }
    }

    /// Queues an Event about kaudit itself.
    fn policies_refused(&mut self, note: &str) {
        self.send(Incoming::PoliciesRefused(note.to_owned(), Timestamp::now()));
    }
}

impl EventSink {
    /// Takes a notice about an exception, for an Event about it.
    pub(crate) fn exception(&self, notice: ExceptionNotice) {
        self.send(Incoming::Exception(Box::new(notice)));
    }

    fn send(&self, incoming: Incoming) {
        // An error means that the recorder has ended: it is too late to write.
        let _late = self.sender.send(incoming);
    }
}
