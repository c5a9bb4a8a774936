//! What a recorder of Events needs to know.

use std::sync::Arc;

use clap::ValueEnum;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::watch;

use crate::{metrics::Metrics, record::health::Health};

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
    /// Events a second about what was found at once, and the measure of the rates for changes.
    pub per_second: f64,
    /// What Events about kaudit itself are about: its `Audit` object.
    pub own: ObjectReference,
    /// Namespace and name of that, which tells the Events of this kaudit from those of others.
    pub audit: String,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Receives what is wrong.
    pub health: watch::Sender<Health>,
}
