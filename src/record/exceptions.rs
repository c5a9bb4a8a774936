//! The status of `PolicyException`s, and Events about those that need attention: for the teams that own them.
//!
//! In: overviews, which have the exceptions with the status that the server has. Out: server-side apply of a status
//! that differs, and Events. Invariant: a quiet cluster causes no writes, also across restarts.

mod wanted;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};

use self::wanted::wanted;
use super::{
    events::EventSink,
    exception_notice::{self, ReportedNotice},
    failure::WriteFailure,
    health::Health,
    patch::apply_patch,
};
use crate::{
    audit::{
        exceptions::{ExceptionObject, ExceptionStatus, ExceptionSummary},
        overview::Overview,
    },
    cluster::{
        error::describe,
        identity::{API_VERSION, CONTROLLER, EXCEPTION_KIND, OWN_GROUP, OWN_VERSION},
    },
    metrics::Metrics,
    model::{object::ObjectRef, shard::Shard},
};

/// The name of this recorder in metrics.
const RECORDER: &str = "exceptions";
/// Writes are at least this far apart.
const BETWEEN_WRITES: Duration = Duration::from_millis(100);
/// A changed count of results of one exception is written at most this often.
const COUNTS_EVERY: Duration = Duration::from_secs(10);
/// Writes of one exception are at least this far apart, whatever changes.
const AT_LEAST: Duration = Duration::from_secs(1);
/// How long a status that others changed is left as it is: two kaudits with different options would otherwise overwrite
/// each other in turns.
const RESTORE_AFTER: Duration = Duration::from_mins(5);
/// How often statuses are compared without a new overview: the days left change with time.
const COMPARE_EVERY: Duration = Duration::from_mins(1);
/// How long to wait after a write that failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long to wait after a failure that someone has to fix, such as a missing permission.
const REFUSED: Duration = Duration::from_secs(30);
/// How long to wait where the CRD has no status.
const NO_STATUS: Duration = Duration::from_mins(5);
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What is recorded about exceptions, and where.
pub(super) struct ExceptionSettings {
    pub(super) client: Client,
    /// Only exceptions in these namespaces; empty is the whole cluster.
    pub(super) namespaces: Vec<String>,
    /// Only exceptions in the namespaces of this shard.
    pub(super) shard: Shard,
    /// Whether the status is written.
    pub(super) status: bool,
    /// Takes Events, if they are written.
    pub(super) events: Option<EventSink>,
    /// How long the API server keeps Events at least.
    pub(super) event_ttl: Duration,
    pub(super) metrics: Arc<Metrics>,
}

/// Writes statuses and sends Events until the pipeline ends, then writes the remaining statuses.
pub(super) async fn run(
    settings: ExceptionSettings,
    mut overview: watch::Receiver<Option<Arc<Overview>>>,
    health: watch::Sender<Health>,
) {
    let mut recorder = ExceptionRecorder::new(settings, health);
    let mut running = true;
    while running {
        let pause = recorder.pause(Instant::now());
        tokio::select! {
            changed = overview.changed() => running = changed.is_ok(),
            () = sleep(pause) => {}
        }
        let now = overview.borrow_and_update().clone();
        // Before everything is evaluated, the counts of results are too low.
        let Some(now) = now.filter(|overview| overview.evaluated) else { continue };
        recorder.compare(&now.exceptions, Timestamp::now());
        if let Some(key) = recorder.next_due(Instant::now()) {
            recorder.write(&key).await;
        }
    }
    recorder.finish().await;
}

/// The state of one exception.
#[derive(Debug)]
struct KnownException {
    object: Arc<ExceptionObject>,
    /// The status to write; `None` if the server has it.
    wanted: Option<ExceptionStatus>,
    /// The status that was written last, and when.
    written: Option<(ExceptionStatus, Instant)>,
    /// The earliest time of the next attempt.
    not_before: Option<Instant>,
    /// The notice of the last Event.
    reported: Option<ReportedNotice>,
}

impl KnownException {
    fn new(object: &Arc<ExceptionObject>) -> Self {
        Self { object: Arc::clone(object), wanted: None, written: None, not_before: None, reported: None }
    }

    /// Returns the status that the server has: the overview may be older than the last write.
    fn present(&self) -> Option<&ExceptionStatus> {
        let written = self.written.as_ref().filter(|(_, at)| at.elapsed() < RESTORE_AFTER);
        written.map(|(status, _)| status).or(self.object.status.as_ref())
    }

    /// Returns when the wanted status may be written, which is `now` if nothing delays it.
    fn due(&self, now: Instant) -> Option<Instant> {
        let wanted = self.wanted.as_ref()?;
        let is_minor = |present: &ExceptionStatus| {
            (present.accepted, present.observed_generation) == (wanted.accepted, wanted.observed_generation)
        };
        let rest = if self.present().is_some_and(is_minor) { COUNTS_EVERY } else { AT_LEAST };
        let rested = self.written.as_ref().map(|(_, at)| *at + rest);
        rested.into_iter().chain(self.not_before).max().or(Some(now))
    }
}

struct ExceptionRecorder {
    settings: ExceptionSettings,
    known: BTreeMap<ObjectRef, KnownException>,
    /// The earliest time of the next attempt.
    not_before: Option<Instant>,
    /// Reason of the failure that was logged last.
    logged: &'static str,
    health: watch::Sender<Health>,
}

impl ExceptionRecorder {
    fn new(settings: ExceptionSettings, health: watch::Sender<Health>) -> Self {
        Self { settings, known: BTreeMap::new(), not_before: None, logged: "", health }
    }

    /// Whether this process records about an exception.
    fn owns(&self, exception: &ObjectRef) -> bool {
        let ExceptionSettings { namespaces, shard, .. } = &self.settings;
        let namespace = exception.namespace.as_deref().unwrap_or_default();
        shard.owns(Some(namespace)) && (namespaces.is_empty() || namespaces.iter().any(|own| own == namespace))
    }

    /// Computes the statuses to write, and sends the Events.
    fn compare(&mut self, exceptions: &[ExceptionSummary], now: Timestamp) {
        let mut present = BTreeSet::new();
        for summary in exceptions {
            let Some(object) = summary.object.as_ref().filter(|object| self.owns(&object.reference)) else { continue };
            let known = self.known.entry(object.reference.clone()).or_insert_with(|| KnownException::new(object));
            known.object = Arc::clone(object);
            if let Some(events) = &self.settings.events {
                let ttl = SignedDuration::try_from(self.settings.event_ttl).unwrap_or(SignedDuration::MAX);
                if let Some(notice) = exception_notice::due(summary, object, &mut known.reported, (now, ttl)) {
                    events.exception(notice);
                }
            }
            if self.settings.status {
                let wanted = wanted(summary, object, known.present(), now);
                known.wanted = Some(wanted).filter(|wanted| known.present() != Some(wanted));
            }
            present.insert(&object.reference);
        }
        self.known.retain(|exception, _| present.contains(exception));
        self.forget_trouble();
    }

    /// Clears the failures of statuses that need no write any more: the exception is deleted, or has its status
    /// although the response was an error.
    fn forget_trouble(&mut self) {
        let is_wanted = |known: &KnownException| known.wanted.is_some();
        self.known.values_mut().filter(|known| !is_wanted(known)).for_each(|known| known.not_before = None);
        if self.logged != "no_status" && !self.known.values().any(|known| known.not_before.is_some()) {
            self.logged = "";
            self.health.send_if_modified(|health| std::mem::take(health) != Health::default());
        }
    }

    /// Returns when the next status may be written, and of which exception it is.
    fn next(&self, now: Instant) -> Option<(Instant, &ObjectRef)> {
        let due = self.known.iter().filter_map(|(exception, known)| Some((known.due(now)?, exception))).min()?;
        Some((due.0.max(self.not_before.unwrap_or(due.0)), due.1))
    }

    fn next_due(&self, now: Instant) -> Option<ObjectRef> {
        self.next(now).filter(|(due, _)| *due <= now).map(|(_, exception)| exception.clone())
    }

    fn pause(&self, now: Instant) -> Duration {
        let due = self.next(now).map_or(COMPARE_EVERY, |(due, _)| due.saturating_duration_since(now));
        due.clamp(BETWEEN_WRITES, COMPARE_EVERY)
    }

    async fn write(&mut self, exception: &ObjectRef) {
        let Some(known) = self.known.get_mut(exception) else { return };
        let Some(status) = known.wanted.clone() else { return };
        let answer = timeout(REQUEST_TIMEOUT, patch(&self.settings.client, exception, &status)).await;
        let now = Instant::now();
        self.not_before = Some(now + BETWEEN_WRITES);
        match answer {
            Ok(Ok(())) => {
                let ObjectRef { namespace, name, .. } = exception;
                debug!(namespace = namespace.as_deref(), object = %name, "Status of a PolicyException written");
                self.settings.metrics.recorder_wrote(RECORDER);
                (known.written, known.wanted, known.not_before) = (Some((status, now)), None, None);
                self.logged = "";
                self.health.send_if_modified(|health| std::mem::take(health) != Health::default());
            }
            Ok(Err(error)) => self.failed(exception, &error, now),
            Err(_) => {
                self.settings.metrics.recorder_retries(RECORDER);
                self.not_before = Some(now + RETRY_AFTER);
            }
        }
    }

    fn failed(&mut self, exception: &ObjectRef, error: &kube::Error, now: Instant) {
        let failure = WriteFailure::of(error);
        if is_without_status(error) {
            self.not_before = Some(now + NO_STATUS);
            if std::mem::replace(&mut self.logged, "no_status") != "no_status" {
                info!(
                    "PolicyExceptions get no status: the installed CRD has no status subresource; apply the chart's CRD policyexceptions.kaudit.dev"
                );
            }
            return self.settings.metrics.recorder_dropped(RECORDER, "no_status", 1);
        }
        if let Some(known) = self.known.get_mut(exception) {
            known.not_before = Some(now + if failure == WriteFailure::Later { RETRY_AFTER } else { REFUSED });
        }
        match failure {
            WriteFailure::Later => {
                self.settings.metrics.recorder_retries(RECORDER);
                self.not_before = Some(now + RETRY_AFTER);
            }
            // The exception or its namespace is being deleted.
            WriteFailure::Normal(reason) => self.settings.metrics.recorder_dropped(RECORDER, reason, 1),
            WriteFailure::Refused(reason) => {
                self.settings.metrics.recorder_dropped(RECORDER, reason, 1);
                let trouble = format!("the status of {exception} was not written: {}", describe(error));
                if std::mem::replace(&mut self.logged, reason) != reason {
                    warn!("{trouble}; retrying every {} s", REFUSED.as_secs());
                }
                self.health.send_replace(Health { trouble: trouble.clone(), lost: trouble, ..Health::default() });
            }
        }
    }

    /// Writes the remaining statuses, with one attempt each.
    async fn finish(mut self) {
        let unwritten = self.known.iter().filter(|(_, known)| known.wanted.is_some());
        let left: Vec<ObjectRef> = unwritten.map(|(exception, _)| exception.clone()).collect();
        if left.is_empty() || self.logged == "no_status" {
            return;
        }
        let unwritten = |number: usize| format!("the status of {number} PolicyExceptions was not written in time");
        self.health.send_modify(|health| health.lost = unwritten(left.len()));
        for exception in &left {
            self.write(exception).await;
            sleep(BETWEEN_WRITES).await;
        }
        let lost = self.known.values().filter(|known| known.wanted.is_some()).count();
        self.health.send_modify(|health| {
            health.lost = if lost > 0 && self.logged != "no_status" { unwritten(lost) } else { String::new() };
        });
    }
}

async fn patch(client: &Client, exception: &ObjectRef, status: &ExceptionStatus) -> kube::Result<()> {
    let resource = ApiResource {
        group: OWN_GROUP.to_owned(),
        version: OWN_VERSION.to_owned(),
        api_version: API_VERSION.to_owned(),
        kind: EXCEPTION_KIND.to_owned(),
        plural: "policyexceptions".to_owned(),
    };
    let (namespace, name) = (exception.namespace.as_deref().unwrap_or_default(), &exception.name);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let body =
        json!({"apiVersion": API_VERSION, "kind": EXCEPTION_KIND, "metadata": {"name": name}, "status": status.json()});
    api.patch_status(name, &PatchParams::apply(CONTROLLER).force(), &apply_patch(&body)?).await.map(drop)
}

/// Whether the CRD has no status subresource: then the error does not name the object.
fn is_without_status(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

#[cfg(test)]
mod tests;
