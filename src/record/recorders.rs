//! The recorders that were asked for, together, for one term.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tracing::warn;

use super::{Record, events, status};
use crate::{discovery::OWN_GROUP, ledger::Delta, memory::Memory, metrics::Metrics, pipeline::Overview};

/// What is recorded, and where.
pub struct Settings {
    /// Writes everything.
    pub client: Client,
    /// Namespace of kaudit's own objects.
    pub namespace: String,
    /// Name of the `Audit` object.
    pub audit_name: String,
    /// The only namespaces that are judged; empty is all.
    pub namespaces: Vec<String>,
    /// Which Events are written.
    pub events: events::Choice,
    /// How many of them.
    pub events_per_second: f64,
    /// The `Audit` object is written.
    pub status: bool,
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

impl Settings {
    /// Namespace and name of the `Audit` object, which tell this kaudit from others.
    fn audit(&self) -> String {
        format!("{}/{}", self.namespace, self.audit_name)
    }

    /// Returns what was recorded before, according to reports (none, if they are not written) and Events. The sink is told
    /// which Events were not written then. Waits until the server answers.
    async fn memory(&self, reported: Memory, sink: &events::EventSink) -> Memory {
        let told = events::memory(&self.client, &self.namespaces, &self.audit()).await;
        let (memory, owed) = events::settle(reported, told, Timestamp::now());
        owed.iter().for_each(|delta| sink.record(delta));
        memory
    }
}

impl Recorders {
    /// Starts them; the status is drawn from the overviews. Returns also what was recorded before, which may have to be
    /// waited for, and what takes the deltas.
    pub async fn start(
        settings: &Settings,
        overview: watch::Receiver<Option<Arc<Overview>>>,
    ) -> (Self, Memory, Box<dyn Record>) {
        let Settings { client, namespace, audit_name, metrics, .. } = settings;
        let (health, trouble) = watch::channel(String::new());
        let (mut tasks, mut sinks) = (JoinSet::new(), Sinks { events: None });
        let mut memory = Memory::default();
        if settings.events != events::Choice::None {
            let own = ObjectReference {
                api_version: Some(format!("{OWN_GROUP}/{}", status::AUDIT_VERSION)),
                kind: Some("Audit".to_owned()),
                name: Some(audit_name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectReference::default()
            };
            let (sink, recorder) = events::start(events::Settings {
                client: client.clone(),
                choice: settings.events,
                per_second: settings.events_per_second,
                own,
                audit: settings.audit(),
                metrics: metrics.clone(),
                health,
            });
            memory = settings.memory(memory, &sink).await;
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
        (Self { tasks }, memory, Box::new(sinks))
    }

    /// Waits until everything is written, at most as long as `limit`. The sinks and the overviews must have ended.
    pub async fn flush(mut self, limit: Option<Duration>) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(limit.unwrap_or(Duration::MAX), all).await.is_err() {
            warn!("Not everything could be recorded in time");
        }
    }
}
