//! Events: one when a violation appears, one when it is resolved, and one for each violation of a transition.
//!
//! Events wait in a `queue` and are written at the `rates` that the server can take, in the order of their priority:
//! recent changes before the backlog. A later run reads from the Events what was recorded ([`load`](load())).

mod annotations;
pub(crate) mod bucket;
mod legacy_note;
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
    load::{WrittenEvents, load, reconcile},
    settings::{EventFilter, EventSettings},
    sink::EventSink,
};

/// Starts a recorder. The future ends when the sink is dropped and everything is written.
pub fn start(settings: EventSettings) -> (EventSink, impl Future<Output = ()> + Send) {
    let (sink, incoming) = sink::channel();
    (sink, EventRecorder::new(settings).run(incoming))
}

#[cfg(test)]
mod tests;
