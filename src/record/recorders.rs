//! The recorders of one term, together.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::select_all};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{
    earlier::{Attempts, EarlierRecords},
    events, exceptions,
    health::Health,
    memory::Pressure,
    mirror, notify,
    reports::{self, LoadedReports},
    status::{self, StatusSettings},
};
use crate::{
    audit::{command::Record, overview::Overview, recorded::Recorded},
    cluster::identity::API_VERSION,
    metrics::Metrics,
    model::{object::ObjectRef, shard::Shard},
};

/// How long pending records may take after a signal.
const FLUSH: Duration = Duration::from_secs(10);
/// How often records that could not be read are tried again.
const REREAD: Duration = Duration::from_secs(10);

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
    /// Only objects in these namespaces are recorded; empty is the whole cluster.
    pub namespaces: Vec<String>,
    /// Of the exceptions, only those in the namespaces of this shard are recorded.
    pub shard: Shard,
    /// Which Events are written.
    pub events: events::EventFilter,
    /// The rate of Events for the backlog, per second; the rates for changes are multiples of it.
    pub events_per_second: f64,
    /// How long the API server keeps Events at least.
    pub event_ttl: Duration,
    /// How reports are written; `None` writes none.
    pub reports: Option<reports::ReportSettings>,
    /// Whether the `Audit` object and the status of `PolicyException`s are written.
    pub status: bool,
    /// The counts of each day in the status of the `Audit` object.
    pub history: status::HistorySettings,
    /// The receivers of notifications, if there are any.
    pub notify: Option<notify::NotifySettings>,
    /// Where the results are mirrored, if they are.
    pub mirror: Option<mirror::MirrorSettings>,
    /// Whether the memory is near its limit; `None` where there is none.
    pub memory: watch::Receiver<Option<Pressure>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Recorders that run.
pub struct Recorders {
    /// Each returns whether it ended without a panic.
    tasks: JoinSet<bool>,
    /// Those among them that end with the overviews, not with the sinks.
    of_overviews: Vec<AbortHandle>,
    /// Recorders whose earlier records could not be read; they record nothing until that is possible.
    unread: Vec<UnreadRecords>,
    /// The health of each recorder, which has what it could not write by the end.
    healths: Vec<watch::Receiver<Health>>,
    settings: RecorderSettings,
}

/// The state at the start of a leadership term.
pub struct Started {
    /// The recorders.
    pub recorders: Recorders,
    /// What was recorded before, as far as it could be read.
    pub recorded: Recorded,
    /// What takes the deltas.
    pub sinks: Vec<Box<dyn Record>>,
}

/// Records of earlier runs that could not be read, so that their recorder does not run.
struct UnreadRecords {
    recorder: &'static str,
    why: String,
    /// Keeps the reason for the condition.
    _health: watch::Sender<Health>,
}

impl RecorderSettings {
    /// Returns what distinguishes this kaudit, with all its replicas and shards, from others of the cluster.
    pub(crate) fn instance_name(&self) -> String {
        format!("{}/{}", self.namespace, self.instance)
    }

    /// Makes metrics show the recorders before their first write, too.
    fn register_metrics(&self) {
        let names = [
            ("reports", self.reports.is_some()),
            ("events", self.events != events::EventFilter::None),
            ("exceptions", self.status),
            ("status", self.status),
        ];
        let written = names.into_iter().filter(|(_, is_written)| *is_written);
        written.for_each(|(name, _)| self.metrics.recorder_began(name));
    }

    /// Reads the reports of earlier runs; `None` if no reports are written.
    async fn load_earlier_reports(
        &self,
        attempts: Attempts,
    ) -> Option<(reports::ReportSettings, Result<LoadedReports, String>)> {
        let settings = reports::ReportSettings { client: self.client.clone(), ..self.reports.clone()? };
        let loaded = reports::load(&settings, attempts).await;
        Some((settings, loaded))
    }

    /// Reads the Events of earlier runs; `None` if no Events are written.
    async fn load_earlier_events(&self, attempts: Attempts) -> Option<Result<events::WrittenEvents, String>> {
        if self.events == events::EventFilter::None {
            return None;
        }
        let Self { client, metrics, .. } = self;
        let records = EarlierRecords { client, metrics, recorder: "events", attempts };
        Some(events::load(&records, &self.namespaces, &self.instance_name(), self.events).await)
    }

    fn exceptions(&self, events: Option<events::EventSink>) -> exceptions::ExceptionSettings {
        let Self { client, namespaces, shard, status, event_ttl, metrics, .. } = self.clone();
        exceptions::ExceptionSettings { client, namespaces, shard, status, events, event_ttl, metrics }
    }

    fn event_settings(&self, health: watch::Sender<Health>) -> events::EventSettings {
        let own = ObjectRef {
            api_version: API_VERSION.to_owned(),
            kind: "Audit".to_owned(),
            namespace: Some(self.namespace.as_str().into()),
            name: self.audit_name.as_str().into(),
            ..ObjectRef::default()
        };
        events::EventSettings {
            client: self.client.clone(),
            filter: self.events,
            per_second: self.events_per_second,
            own,
            audit: self.instance_name(),
            metrics: self.metrics.clone(),
            health,
        }
    }
}

impl Recorders {
    /// Starts the recorders. The status is made from the overviews, and written from now on. Returns when the records
    /// of earlier runs have been read, if they can be.
    pub async fn start(
        settings: &RecorderSettings,
        overview: watch::Receiver<Option<Arc<Overview>>>,
        attempts: Attempts,
    ) -> Started {
        let (of_overviews, unread, healths) = (Vec::new(), Vec::new(), Vec::new());
        let mut recorders = Self { tasks: JoinSet::new(), of_overviews, unread, healths, settings: settings.clone() };
        let [of_reports, of_events, of_exceptions] = std::array::from_fn(|_| recorders.health());
        let mut notify = recorders.notify();
        recorders.mirror(overview.clone());
        recorders.status(overview.clone());
        settings.register_metrics();
        // Concurrently: a wait for one delays neither the other, nor what waits for both, such as lines of output.
        let (reports, events) =
            tokio::join!(settings.load_earlier_reports(attempts), settings.load_earlier_events(attempts));
        let mut recorded = Recorded::default();
        let reports = reports.and_then(|(settings, loaded)| {
            recorders.start_with("reports", loaded, of_reports, |mut loaded, health| {
                recorded = std::mem::take(&mut loaded.recorded);
                reports::start(settings, loaded, health)
            })
        });
        let events = events.and_then(|written| {
            recorders.start_with("events", written, of_events, |written, health| {
                let kept_since = Timestamp::now().checked_sub(settings.event_ttl).unwrap_or(Timestamp::MIN);
                recorded = events::reconcile(std::mem::take(&mut recorded), written, kept_since);
                events::start(settings.event_settings(health))
            })
        });
        if let Some(notify) = &mut notify {
            notify.recall(&recorded);
        }
        recorders.exceptions(events.as_ref(), overview, of_exceptions);
        // Notifications first: they add to the delta.
        let sinks = [notify.map(boxed), events.map(boxed), reports.map(boxed)];
        Started { recorders, recorded, sinks: sinks.into_iter().flatten().collect() }
    }

    /// Adds a recorder; returns where it reports its health.
    fn health(&mut self) -> watch::Sender<Health> {
        let health = watch::Sender::new(Health::default());
        self.healths.push(health.subscribe());
        health
    }

    /// Runs a recorder, whose panic ends no other.
    fn spawn(
        &mut self,
        name: &'static str,
        health: watch::Sender<Health>,
        run: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let guard = PanicGuard { name, health, metrics: Arc::clone(&self.settings.metrics) };
        self.tasks.spawn(guard.watch(run))
    }

    /// Starts a recorder with the records of earlier runs, if these could be read; returns its sink.
    fn start_with<T, S, R: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &'static str,
        loaded: Result<T, String>,
        health: watch::Sender<Health>,
        start: impl FnOnce(T, watch::Sender<Health>) -> (S, R),
    ) -> Option<S> {
        match loaded {
            Ok(loaded) => {
                let (sink, run) = start(loaded, health.clone());
                self.spawn(name, health, run);
                Some(sink)
            }
            Err(why) => {
                self.unread.push(UnreadRecords::new(name, why, health));
                None
            }
        }
    }

    /// Starts to send notifications, if there are receivers.
    fn notify(&mut self) -> Option<notify::NotifySink> {
        let settings = self.settings.notify.clone()?;
        if self.settings.events == events::EventFilter::None && self.settings.reports.is_none() {
            warn!(
                "Neither Events nor reports are recorded, so it is unknown which notifications were sent before: receivers get \
                 all open violations"
            );
        }
        let (sink, runs) = notify::start(settings, || self.health());
        for run in runs {
            let health = self.health();
            self.spawn("notify", health, run);
        }
        Some(sink)
    }

    /// Starts to mirror the results, if they are mirrored.
    fn mirror(&mut self, overview: watch::Receiver<Option<Arc<Overview>>>) {
        if let Some(settings) = self.settings.mirror.clone() {
            let (client, health) = (self.settings.client.clone(), self.health());
            let task = self.spawn("fleet", health.clone(), mirror::run(settings, client, overview, health));
            self.of_overviews.push(task);
        }
    }

    /// Starts to write the status, if it is written, with the health of all recorders that were added before.
    fn status(&mut self, overview: watch::Receiver<Option<Arc<Overview>>>) {
        let RecorderSettings { client, namespace, audit_name, status, history, memory, metrics, .. } =
            self.settings.clone();
        if !status {
            return;
        }
        let (healths, (sender, health)) = (self.healths.clone(), watch::channel(Health::default()));
        self.tasks.spawn(async move {
            join(healths, sender).await;
            true
        });
        let (own, settings) =
            (self.health(), StatusSettings { client, namespace, name: audit_name, history, memory, metrics });
        let task = self.spawn("status", own.clone(), status::run(settings, overview, health, own));
        self.of_overviews.push(task);
    }

    /// Starts to record what becomes of exceptions, if their status or Events are written.
    fn exceptions(
        &mut self,
        events: Option<&events::EventSink>,
        overview: watch::Receiver<Option<Arc<Overview>>>,
        health: watch::Sender<Health>,
    ) {
        let settings = self.settings.exceptions(events.cloned());
        if settings.status || settings.events.is_some() {
            let task = self.spawn("exceptions", health.clone(), exceptions::run(settings, overview, health));
            self.of_overviews.push(task);
        }
    }

    /// Waits until records that could not be read can be read; without end if there are none.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn readable(&self) {
        if self.unread.is_empty() {
            pending::<()>().await;
        }
        loop {
            sleep(REREAD).await;
            for unread in &self.unread {
                let is_readable = match unread.recorder {
                    "reports" => {
                        self.settings.load_earlier_reports(Attempts::One).await.is_none_or(|(_, loaded)| loaded.is_ok())
                    }
                    _ => self.settings.load_earlier_events(Attempts::One).await.is_none_or(|loaded| loaded.is_ok()),
                };
                if is_readable {
                    return;
                }
            }
        }
    }

    /// Waits until everything is written, or until [`FLUSH`] after `stop`; logs what was not written, and returns
    /// whether everything was. Ends only after the sinks and the overviews have ended.
    pub async fn flush(mut self, stop: &CancellationToken) -> bool {
        let unread = std::mem::take(&mut self.unread);
        for UnreadRecords { recorder, why, .. } in &unread {
            warn!(recorder, "Nothing was written, because the records of earlier runs cannot be read: {why}");
        }
        let all = unread.is_empty();
        // Dropping them ends their health, for which the status waits.
        drop(unread);
        let late = async {
            stop.cancelled().await;
            sleep(FLUSH).await;
        };
        let all = self.join(late).await && all;
        let losses: Vec<_> = self.healths.iter().map(|health| health.borrow().lost.clone()).collect();
        let losses: Vec<_> = losses.into_iter().filter(|lost| !lost.is_empty()).collect();
        if !losses.is_empty() {
            warn!("Not everything was recorded: {}", losses.join("; "));
        }
        all && losses.is_empty()
    }

    /// Waits until everything is written, or for [`FLUSH`]. Recorders of overviews are aborted: they continue in the
    /// next term. Ends only after the sinks have ended.
    pub async fn end(mut self) {
        self.unread.clear();
        self.of_overviews.iter().for_each(AbortHandle::abort);
        self.join(sleep(FLUSH)).await;
    }

    /// Waits for the end of all tasks until `limit` ends; returns whether everything was written.
    async fn join(&mut self, limit: impl Future<Output = ()>) -> bool {
        let joined = async {
            let mut whole = true;
            while let Some(ended) = self.tasks.join_next().await {
                whole &= ended.unwrap_or(false);
            }
            whole
        };
        let whole = tokio::select! {
            whole = joined => whole,
            () = limit => false,
        };
        // Recorders that are aborted here log what they have not written.
        self.tasks.shutdown().await;
        whole
    }
}

impl UnreadRecords {
    fn new(recorder: &'static str, why: String, health: watch::Sender<Health>) -> Self {
        let trouble = format!("no {recorder} are written until the {recorder} of earlier runs can be read: {why}");
        warn!("Recording starts without this recorder: {trouble}");
        health.send_replace(Health { trouble, ..Health::default() });
        Self { recorder, why, _health: health }
    }
}

fn boxed(sink: impl Record + 'static) -> Box<dyn Record> {
    Box::new(sink)
}

/// Reports the panic of a recorder, which ends that recorder and no other.
struct PanicGuard {
    name: &'static str,
    health: watch::Sender<Health>,
    metrics: Arc<Metrics>,
}

impl PanicGuard {
    /// Runs a recorder; returns whether it ended without a panic.
    async fn watch(self, run: impl Future<Output = ()>) -> bool {
        if AssertUnwindSafe(run).catch_unwind().await.is_ok() {
            return true;
        }
        let trouble =
            format!("the recorder of {} failed, which is a bug: it records nothing until kaudit restarts", self.name);
        error!("{trouble}");
        self.metrics.recorder_dropped(self.name, "panic", 1);
        self.health.send_replace(Health { trouble, ..Health::default() });
        false
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
