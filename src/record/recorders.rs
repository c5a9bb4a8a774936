//! The recorders that were asked for, together, for one term.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tracing::warn;

use super::{Record, events, status};
use crate::{discovery::OWN_GROUP, ledger::Delta, metrics::Metrics, pipeline::Overview, shard::Shard};

/// What is recorded, and where.
#[derive(Clone)]
pub struct Settings {
    /// Writes everything.
    pub client: Client,
    /// Namespace of kaudit's own objects.
    pub namespace: String,
    /// Name of the `Audit` object.
    pub audit_name: String,
    /// Which Events are written.
    pub events: events::Which,
    /// At most as many of them in a second.
    pub events_per_second: f64,
    /// The `Audit` object is written.
    pub status: bool,
    /// What of all that was recorded is this process's to change.
    pub shard: Shard,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Recorders under way.
pub struct Recorders {
    tasks: JoinSet<()>,
}

/// Takes deltas for each recorder that has its own queue.
struct Sinks {
    events: Option<events::EventSink>,
}

impl Record for Sinks {
    fn record(&mut self, delta: &Delta) {
        if let Some(events) = &self.events {
            events.record(delta);
        }
    }

    fn policies_refused(&mut self, note: &str) {
        if let Some(events) = &self.events {
            events.policies_refused(note);
        }
    }
}

impl Recorders {
    /// Starts them; the status is drawn from the overviews. Returns also what takes the deltas.
    pub fn start(settings: &Settings, overview: watch::Receiver<Option<Arc<Overview>>>) -> (Self, Box<dyn Record>) {
        let Settings { client, namespace, audit_name, metrics, .. } = settings;
        let (health, trouble) = watch::channel(String::new());
        let (mut tasks, mut sinks) = (JoinSet::new(), Sinks { events: None });
        if settings.events != events::Which::None {
            let own = ObjectReference {
                api_version: Some(format!("{OWN_GROUP}/{}", status::AUDIT_VERSION)),
                kind: Some("Audit".to_owned()),
                name: Some(audit_name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectReference::default()
            };
            let settings = events::Settings {
                client: client.clone(),
                which: settings.events,
                per_second: settings.events_per_second,
                own,
                metrics: metrics.clone(),
                health,
            };
            let (sink, recorder) = events::start(settings);
            sinks.events = Some(sink);
            tasks.spawn(recorder);
        }
        if settings.status {
            let settings = status::Settings {
                client: client.clone(),
                namespace: namespace.clone(),
                name: audit_name.clone(),
                metrics: metrics.clone(),
            };
            tasks.spawn(status::run(settings, overview, trouble));
        }
        (Self { tasks }, Box::new(sinks))
    }

    /// Waits until everything is written, at most as long as `limit`. The sinks and the overviews must have ended.
    pub async fn flush(mut self, limit: Option<Duration>) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(limit.unwrap_or(Duration::MAX), all).await.is_err() {
            warn!("Not everything could be recorded in time");
        }
    }
}
