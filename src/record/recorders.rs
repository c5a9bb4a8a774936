//! The recorders of one term, together.

use std::{sync::Arc, time::Duration};

use futures::future::select_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{events, health::Health, memory::Pressure, notify, reports, status};
use crate::{
    audit::{command::Record, ledger::Delta, overview::Overview, recorded::Recorded},
    cluster::identity::API_VERSION,
    metrics::Metrics,
};

/// How long pending records may take after a signal.
const FLUSH: Duration = Duration::from_secs(10);

/// What is recorded, and where.
#[derive(Clone)]
pub struct RecorderSettings {
    /// Reads and writes all records.
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
    pub events: events::EventFilter,
    /// Events a second about what was found at once, and the measure of the rates for changes.
    pub events_per_second: f64,
    /// How long the API server keeps Events at least.
    pub event_ttl: Duration,
    /// How reports are written; `None` writes none.
    pub reports: Option<reports::ReportSettings>,
    /// Whether the `Audit` object is written.
    pub status: bool,
    /// Who is told outside of the cluster, if anybody is.
    pub notify: Option<notify::NotifySettings>,
    /// Whether the memory is near its limit; `None` where there is none.
    pub memory: watch::Receiver<Option<Pressure>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Recorders that run.
pub struct Recorders {
    tasks: JoinSet<()>,
}

/// What each recorder reports about itself.
#[derive(Default)]
struct Healths(Vec<watch::Receiver<Health>>);

impl Healths {
    /// Returns where one more recorder reports.
    fn add(&mut self) -> watch::Sender<Health> {
        let (sender, receiver) = watch::channel(Health::default());
        self.0.push(receiver);
        sender
    }
}

/// Passes deltas to each recorder that has a queue of its own.
struct Sinks {
    events: Option<events::EventSink>,
    reports: Option<reports::ReportSink>,
    notify: Option<notify::NotifySink>,
}

impl Record for Sinks {
    fn record(&mut self, delta: &Delta) {
        if let Some(events) = &self.events {
            events.record(delta);
        }
        if let Some(reports) = &self.reports {
            reports.record(delta);
        }
        if let Some(notify) = &self.notify {
            notify.record(delta);
        }
    }

    fn policies_refused(&mut self, note: &str) {
        if let Some(events) = &self.events {
            events.policies_refused(note);
        }
    }
}

impl RecorderSettings {
    /// Returns what tells the Events of this kaudit from those of others.
    fn audit(&self) -> String {
        format!("{}/{}", self.namespace, self.instance)
    }

    /// Returns what was recorded before, according to reports (none, if they are not written) and Events, which are written
    /// at once and not some seconds later. Waits until the server answers.
    async fn recorded(&self, reported: Recorded) -> Recorded {
        let written = events::load(&self.client, &self.namespaces, &self.audit()).await;
        let kept_since = Timestamp::now().checked_sub(self.event_ttl).unwrap_or(Timestamp::MIN);
        events::reconcile(reported, written, kept_since)
    }
}

impl Recorders {
    /// Starts them; the status is made from the overviews. Returns also what was recorded before, which is read until the
    /// server answers, and what takes the deltas.
    pub async fn start(
        settings: &RecorderSettings,
        overview: watch::Receiver<Option<Arc<Overview>>>,
    ) -> (Self, Recorded, Box<dyn Record>) {
        let RecorderSettings { client, namespace, audit_name, metrics, .. } = settings;
        let mut healths = Healths::default();
        let (mut tasks, mut sinks, mut recorded) =
            (JoinSet::new(), Sinks { events: None, reports: None, notify: None }, Recorded::default());
        if let Some(reports) = &settings.reports {
            let reports = reports::ReportSettings { client: client.clone(), ..reports.clone() };
            let mut loaded = reports::load(&reports).await;
            recorded = std::mem::take(&mut loaded.recorded);
            let (sink, run) = reports::start(reports, loaded, healths.add());
            sinks.reports = Some(sink);
            metrics.recorder_began("reports");
            tasks.spawn(run);
        }
        if settings.events != events::EventFilter::None {
            let own = ObjectReference {
                api_version: Some(API_VERSION.to_owned()),
                kind: Some("Audit".to_owned()),
                name: Some(audit_name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectReference::default()
            };
            let (sink, run) = events::start(events::EventSettings {
                client: client.clone(),
                filter: settings.events,
                per_second: settings.events_per_second,
                own,
                audit: settings.audit(),
                metrics: metrics.clone(),
                health: healths.add(),
            });
            recorded = settings.recorded(recorded).await;
            sinks.events = Some(sink);
            metrics.recorder_began("events");
            tasks.spawn(run);
        }
        if let Some(notify) = settings.notify.clone() {
            if sinks.events.is_none() && sinks.reports.is_none() {
                warn!(
                    "Neither Events nor reports are recorded, so nothing tells what receivers were told before: they are told \
                     of everything that stands"
                );
            }
            let (sink, runs) = notify::start(notify, || healths.add());
            sinks.notify = Some(sink);
            for run in runs {
                tasks.spawn(run);
            }
        }
        if settings.status {
            let settings = status::StatusSettings {
                client: client.clone(),
                namespace: namespace.clone(),
                name: audit_name.clone(),
                memory: settings.memory.clone(),
                metrics: metrics.clone(),
            };
            let (sender, health) = watch::channel(Health::default());
            tasks.spawn(join(healths.0, sender));
            metrics.recorder_began("status");
            tasks.spawn(status::run(settings, overview, health));
        }
        (Self { tasks }, recorded, Box::new(sinks))
    }

    /// Waits until everything is written, or until [`FLUSH`] after `stop`; returns whether everything was written, and has
    /// logged how much was not. Ends only after the sinks and the overviews have ended.
    pub async fn flush(mut self, stop: &CancellationToken) -> bool {
        let whole = tokio::select! {
            () = async { while self.tasks.join_next().await.is_some() {} } => true,
            () = async { stop.cancelled().await; sleep(FLUSH).await } => false,
        };
        // Those that are ended here say what they have not written.
        self.tasks.shutdown().await;
        whole
    }
}

/// Joins the health of the recorders, until they have ended.
async fn join(mut parts: Vec<watch::Receiver<Health>>, all: watch::Sender<Health>) {
    let mut running = vec![true; parts.len()];
    loop {
        let healths = parts.iter_mut().map(|part| part.borrow_and_update().clone());
        let health = healths.fold(Health::default(), |all, part| all.join(&part));
        all.send_if_modified(|known| std::mem::replace(known, health.clone()) != health);
        let changes = parts.iter_mut().enumerate().filter(|(part, _)| running.get(*part) == Some(&true));
        let changes: Vec<_> =
            changes.map(|(part, health)| Box::pin(async move { (part, health.changed().await) })).collect();
        if changes.is_empty() {
            return;
        }
        let ((part, goes_on), ..) = select_all(changes).await;
        if let Some(running) = running.get_mut(part) {
            *running = goes_on.is_ok();
        }
    }
}
