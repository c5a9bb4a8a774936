//! The settings of the Event recorder.

use std::sync::Arc;

use clap::ValueEnum;
use kube::Client;
use tokio::sync::watch;

use crate::{metrics::Metrics, model::object::ObjectRef, record::health::Health};

/// Which Events on violations are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EventFilter {
    /// When a violation appears, and when it is resolved
    All,
    /// Only when a violation appears
    Appeared,
    /// None at all, as if --record did not name events
    None,
}

/// Which Events are written, how fast, and as whom.
pub struct EventSettings {
    /// Writes the Events.
    pub client: Client,
    /// Which are written.
    pub filter: EventFilter,
    /// The rate for the backlog in Events per second; the rates for changes are multiples of it.
    pub per_second: f64,
    /// The object that Events about kaudit itself refer to: its `Audit` object.
    pub own: ObjectRef,
    /// Namespace and name of that object, which distinguish the Events of this kaudit from those of others.
    pub audit: String,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Receives the health of the recorder.
    pub health: watch::Sender<Health>,
}
