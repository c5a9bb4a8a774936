//! The recorders that were asked for, together, for one term.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::{sync::watch, task::JoinSet, time::timeout};
use tracing::warn;

use super::{Said, events, reports, status};
use crate::{
    audit::{command::Record, ledger::Delta, overview::Overview, recorded::Recorded},
    cluster::identity::OWN_GROUP,
    metrics::Metrics,
    model::shard::Shard,
};

/// What is recorded, and where.
#[derive(Clone)]
pub struct Settings {
    /// Writes everything.
    pub client: Client,
    /// Namespace of kaudit's own objects.
    pub namespace: String,
    /// Name of the `Audit` object.
    pub audit_name: String,
    /// Name of this kaudit in its namespace, the same for all its replicas and shards.
    pub instance: String,
    /// Only what is in these namespaces is recorded; empty is the whole cluster.
    pub namespaces: Vec<String>,
    /// Which Events are written.
    pub events: events::Which,
    /// At most as many of them in a second.
    pub events_per_second: f64,
    /// Reports are written, in this form; `None` writes none.
    pub reports: Option<reports::Settings>,
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
    reports: Option<reports::ReportSink>,
}

impl Record for Sinks {
    fn record(&mut self, delta: &Delta) {
        if let Some(events) = &self.events {
            events.record(delta);
        }
        if let Some(reports) = &self.reports {
            reports.record(delta);
        }
    }

    fn policies_refused(&mut self, note: &str) {
        if let Some(events) = &self.events {
            events.policies_refused(note);
        }
    }
}

impl Settings {
    /// What tells the Events of this kaudit from those of others.
    fn audit(&self) -> String {
        format!("{}/{}", self.namespace, self.instance)
    }

    /// Returns what was recorded before, according to reports (none, if they are not written) and Events, which are written
    /// at once and not some seconds later. The sink is told which Events were not written then. Waits until the server
    /// answers.
    async fn recorded(&self, reported: Recorded, sink: &events::EventSink) -> Recorded {
        let told = events::recorded(&self.client, &self.namespaces, &self.audit()).await;
        let (recorded, owed) = events::settle(reported, told, Timestamp::now());
        let own = owed.iter().filter(|delta| self.shard.owns(delta.object.namespace.as_deref()));
        own.for_each(|delta| sink.record(delta));
        recorded
    }
}

impl Recorders {
    /// Starts them; the status is drawn from the overviews. Returns also what was recorded before, which may have to be
    /// waited for, and what takes the deltas.
    pub async fn start(
        settings: &Settings,
        overview: watch::Receiver<Option<Arc<Overview>>>,
    ) -> (Self, Recorded, Box<dyn Record>) {
        let Settings { client, namespace, audit_name, metrics, .. } = settings;
        let ((health, trouble), (told, reports_said)) =
            (watch::channel(String::new()), watch::channel(Said::default()));
        let (mut tasks, mut sinks, mut recorded) =
            (JoinSet::new(), Sinks { events: None, reports: None }, Recorded::default());
        if let Some(reports) = &settings.reports {
            let reports = reports::Settings { client: client.clone(), ..reports.clone() };
            let mut loaded = reports::load(&reports).await;
            recorded = std::mem::take(&mut loaded.recorded);
            let (sink, recorder) = reports::start(reports, loaded, told);
            sinks.reports = Some(sink);
            tasks.spawn(recorder);
        }
        if settings.events != events::Which::None {
            let own = ObjectReference {
                api_version: Some(format!("{OWN_GROUP}/{}", status::AUDIT_VERSION)),
                kind: Some("Audit".to_owned()),
                name: Some(audit_name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectReference::default()
            };
            let (sink, recorder) = events::start(events::Settings {
                client: client.clone(),
                which: settings.events,
                per_second: settings.events_per_second,
                own,
                audit: settings.audit(),
                metrics: metrics.clone(),
                health,
            });
            recorded = settings.recorded(recorded, &sink).await;
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
            let (sender, said) = watch::channel(Said::default());
            tasks.spawn(join(trouble, reports_said, sender));
            tasks.spawn(status::run(settings, overview, said));
        }
        (Self { tasks }, recorded, Box::new(sinks))
    }

    /// Waits until everything is written, at most as long as `limit`. The sinks and the overviews must have ended.
    pub async fn flush(mut self, limit: Option<Duration>) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(limit.unwrap_or(Duration::MAX), all).await.is_err() {
            warn!("Not everything could be recorded in time");
        }
    }
}

/// Joins what the recorders say, until they have ended.
async fn join(mut events: watch::Receiver<String>, mut reports: watch::Receiver<Said>, all: watch::Sender<Said>) {
    let (mut events_go_on, mut reports_go_on) = (true, true);
    while events_go_on || reports_go_on {
        let (events_said, Said { trouble, note }) =
            (events.borrow_and_update().clone(), reports.borrow_and_update().clone());
        let said: Vec<String> = [events_said, trouble].into_iter().filter(|said| !said.is_empty()).collect();
        let said = Said { trouble: said.join("; "), note };
        all.send_if_modified(|known| std::mem::replace(known, said.clone()) != said);
        tokio::select! {
            changed = events.changed(), if events_go_on => events_go_on = changed.is_ok(),
            changed = reports.changed(), if reports_go_on => reports_go_on = changed.is_ok(),
        }
    }
}
