//! The result stream of the long run: a line for each violation that appears, is resolved, or came with a change.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::{sync::mpsc, task::JoinSet};
use tracing::warn;

use crate::{
    audit::{ledger::Delta, result::Entry},
    model::object::ObjectRef,
    output::{StreamEvent, Streams},
};

/// Lines that wait for the reader of standard output; more are dropped.
const LINES: usize = 10_000;

/// Writes lines on a thread of their own; returns what takes the deltas, and never blocks.
pub(super) fn write(mut streams: Streams, helpers: &mut JoinSet<()>) -> impl Fn(&Delta) + Send + Sync + use<> {
    let (sender, mut lines) = mpsc::channel::<(StreamEvent, Entry, Timestamp)>(LINES);
    helpers.spawn_blocking(move || {
        while let Some((event, entry, time)) = lines.blocking_recv() {
            match streams.line(event, &entry, time) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => warn!("Results cannot be written: {error:#}"),
            }
        }
    });
    move |delta| {
        let (resource, now) = (Arc::new(ObjectRef::new(&delta.object, &delta.uid)), Timestamp::now());
        let appeared = delta.appeared.iter().map(|violation| (StreamEvent::Appeared, violation));
        let resolved = delta.resolved.iter().map(|violation| (StreamEvent::Resolved, violation));
        let transitions = delta.transitions.iter().map(|violation| (StreamEvent::Happened, violation));
        for (event, violation) in appeared.chain(resolved).chain(transitions) {
            // The reader is gone, or too slow: /status has the verdicts all the same.
            let _dropped = sender.try_send((event, Entry::new(&violation.finding, &resource, None), now));
        }
    }
}
