//! Events: one when a violation appears, one when it is resolved; one for what a transition itself violated.
//!
//! What is to be written waits in a `queue` and is written at the `rates` that the server bears, in the order of its priority:
//! changes of just now before what was found at once. The Events are also what a later run knows of it ([`load`](load())).

mod annotations;
pub(crate) mod bucket;
mod load;
mod note;
mod pauses;
mod queue;
mod rates;
mod recorder;
mod settings;
mod sink;
mod stored;
mod writer;

use self::recorder::EventRecorder;
pub use self::{
    annotations::{AUDIT, SINCE, VIOLATION},
    load::{WrittenEvents, load, reconcile},
    settings::{EventFilter, EventSettings},
    sink::EventSink,
};

/// Starts a recorder. The future ends when the sink is gone and everything is written.
pub fn start(settings: EventSettings) -> (EventSink, impl Future<Output = ()> + Send) {
    let (sink, incoming) = sink::channel();
    (sink, EventRecorder::new(settings).run(incoming))
}

#[cfg(test)]
mod tests;
