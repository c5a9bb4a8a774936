//! Writes the Events of the queue, as fast as the rates and the server allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until},
};
use tracing::{debug, warn};

use super::{
    bucket::ObjectBuckets,
    pauses::Pauses,
    queue::{CLUSTER_SCOPED, EventContent, EventQueue, PendingEvent, Priority, TakenEvent},
    rates::Rates,
    settings::{EventFilter, EventSettings},
    sink::Incoming,
    writer::{EventWriter, PostError},
};
use crate::{
    audit::ledger::Lifecycle,
    cluster::identity::CONTROLLER,
    metrics::Metrics,
    model::object::ObjectRef,
    record::{event_reasons, health::Health},
    telemetry::Span,
};

/// Writes in flight at a time.
pub(super) const WRITES_AT_A_TIME: usize = 4;
/// How often the Events that are held back are summed up, and how long one has to wait before it counts.
const SUM_UP_EVERY: Duration = Duration::from_secs(30);

/// The error of an Event whose writing panicked; it is not tried again.
const PANICKED: &str = "kaudit failed while writing it, which is a bug";

/// An attempt to write an Event, and its result.
struct WriteAttempt {
    event: TakenEvent,
    result: Result<(), PostError>,
    took: Duration,
}

pub(super) struct EventRecorder {
    pub(super) queue: EventQueue,
    rates: Rates,
    objects: ObjectBuckets,
    pub(super) pauses: Pauses,
    writes: JoinSet<WriteAttempt>,
    /// Events that were dropped because of their object's rate, by namespace.
    dropped: BTreeMap<Option<Arc<str>>, usize>,
    /// Namespaces that have an Event about their Events being held back.
    summed_up: BTreeSet<Option<Arc<str>>>,
    /// Whether the sink is dropped.
    ending: bool,
    /// How many Events were lost, and why the last of them was.
    lost: Option<(usize, String)>,
    filter: EventFilter,
    metrics: Arc<Metrics>,
    health: watch::Sender<Health>,
    writer: Arc<EventWriter>,
}

impl EventRecorder {
    pub(super) fn new(settings: EventSettings) -> Self {
        let EventSettings { client, filter, per_second, own, audit, metrics, health } = settings;
        let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
        let instance = format!("{CONTROLLER}-{}", instance.as_deref().unwrap_or("local")).chars().take(128).collect();
        Self {
            queue: EventQueue::default(),
            rates: Rates::new(per_second),
            objects: ObjectBuckets::default(),
            pauses: Pauses::default(),
            writes: JoinSet::new(),
            dropped: BTreeMap::new(),
            summed_up: BTreeSet::new(),
            ending: false,
            lost: None,
            filter,
            metrics,
            health,
            writer: Arc::new(EventWriter { client, instance, own, audit }),
        }
    }

    pub(super) async fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Incoming>) {
        let mut sum_up = interval(SUM_UP_EVERY);
        sum_up.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut received = Vec::new();
        loop {
            self.metrics.set_events_pending(self.queue.len() + self.writes.len());
            let due = self.due(Instant::now());
            tokio::select! {
                biased;
                count = incoming.recv_many(&mut received, 256), if !self.ending => {
                    received.drain(..).for_each(|incoming| self.receive(incoming));
                    if count == 0 {
                        self.ending = true;
                        self.queue.expedite(Instant::now());
                    }
                }
                Some(Ok(attempt)) = self.writes.join_next() => self.written(attempt, Instant::now()),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.write_next(Instant::now()),
                _ = sum_up.tick(), if !self.ending => self.sum_up(Instant::now()),
                else => break,
            }
            if self.ending && self.queue.len() + self.writes.len() == 0 && !self.report_dropped() {
                break;
            }
        }
        self.report_health();
    }

    /// Returns when the next Event may be written; `None` if none waits or enough are in flight.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        let (due, priority) = self.queue.next(now).filter(|_| self.writes.len() < WRITES_AT_A_TIME)?;
        Some(due.max(self.rates.ready(priority, now)).max(self.pauses.server_until().unwrap_or(now)))
    }

    pub(super) fn receive(&mut self, incoming: Incoming) {
        let pending = match incoming {
            Incoming::Event(pending) => pending,
            Incoming::PoliciesRefused(note, at) => {
                return self.report(event_reasons::REFUSED, &self.writer.own.clone(), &note, at);
            }
            Incoming::Exception(notice) => {
                // Among the backlog, where namespaces take turns: a namespace can have very many exceptions.
                let subject = format!("{} {}", notice.reason, notice.object.reference.path());
                let event = Box::new(self.writer.exception_event(&notice));
                return self.push_own(EventContent::Own(subject, event), Priority::Backlog);
            }
        };
        if let EventContent::Violation(change) = &pending.content
            && change.lifecycle == Lifecycle::Resolved
        {
            if self.queue.supersede(change) {
                // Neither its appearance nor its resolution gets an Event.
                return self.metrics.events_superseded(2);
            }
            if self.filter == EventFilter::Appeared {
                return;
            }
        }
        if !self.queue.push(pending) {
            self.metrics.recorder_dropped("events", "overflow", 1);
        }
    }

    /// Queues an Event about kaudit itself; it replaces a waiting one with the same reason and namespace.
    fn report(&mut self, reason: &str, regarding: &ObjectRef, note: &str, at: Timestamp) {
        let subject = format!("{reason} {}", regarding.namespace.as_deref().unwrap_or_default());
        let event = Box::new(self.writer.own_event(regarding, reason, note, at));
        self.push_own(EventContent::Own(subject, event), Priority::Own);
    }

    fn push_own(&mut self, content: EventContent, priority: Priority) {
        let (queued, span) = (Instant::now(), Span::default());
        self.queue.push(PendingEvent { content, priority, queued, tried: false, span });
    }

    /// Starts to write the next Event that may be written. Those before it are put back until their object has a token
    /// or their namespace's pause ends.
    fn write_next(&mut self, now: Instant) {
        while let Some((_, priority)) = self.queue.next(now) {
            if self.rates.ready(priority, now) > now {
                return;
            }
            let Some(mut event) = self.queue.pop(now) else { return };
            let pending = &mut event.value;
            if let Some(until) = self.pauses.namespace_until(pending.content.namespace(), now) {
                self.wait_on(event, until);
                continue;
            }
            // An Event that was tried has taken its token already.
            if let EventContent::Violation(change) = &pending.content
                && !pending.tried
                && let Err(until) = self.objects.take(&change.object.uid, now)
            {
                self.wait_for_object(event, until);
                continue;
            }
            self.rates.take(priority, now);
            pending.tried = true;
            let (writer, posting) = (self.writer.clone(), self.writer.event(&pending.content));
            let span = pending.span.child_request("write event");
            self.writes.spawn(async move {
                let began = Instant::now();
                let posted = AssertUnwindSafe(writer.post(&posting)).catch_unwind().await;
                let result = posted.unwrap_or_else(|_| Err(PostError::Never("panic", PANICKED.to_owned())));
                if result.is_err() {
                    span.fail("not_written");
                }
                span.end();
                WriteAttempt { event, result, took: began.elapsed() }
            });
            return;
        }
    }

    /// Puts an Event back until its object has a token. Events about transitions, which nothing else bounds, are
    /// dropped instead; at the end all are, as there is no time left to wait.
    fn wait_for_object(&mut self, event: TakenEvent, until: Instant) {
        match &event.value.content {
            EventContent::Violation(change) if self.ending || change.lifecycle == Lifecycle::Happened => {
                *self.dropped.entry(change.object.namespace.clone()).or_default() += 1;
                self.metrics.recorder_dropped("events", "object_rate", 1);
                self.queue.finish(&event);
            }
            _ => self.queue.put_back(event, until),
        }
    }

    fn written(&mut self, attempt: WriteAttempt, now: Instant) {
        let WriteAttempt { event, result, took } = attempt;
        match &result {
            Err(PostError::Server(..)) => self.rates.overloaded(now),
            _ => self.rates.answered(took, now),
        }
        let namespace = event.value.content.namespace().to_owned();
        match result {
            Err(PostError::Namespace(at_least, why)) => {
                self.pauses.namespace_failed(&namespace, at_least, why, now);
                self.metrics.recorder_retries("events");
                self.wait_on(event, now);
            }
            Err(PostError::Server(at_least, why)) => {
                self.pauses.server_failed(at_least, why, now);
                self.metrics.recorder_retries("events");
                self.wait_on(event, now);
            }
            Ok(()) => {
                self.metrics.recorder_wrote("events");
                if matches!(event.value.content, EventContent::Violation(_)) {
                    self.metrics.event_after(event.value.queued.elapsed());
                }
                self.finished(&event);
            }
            Err(PostError::Normal(reason)) => {
                debug!(namespace, reason, "Event not written");
                if reason != "already_exists" {
                    self.metrics.recorder_dropped("events", reason, 1);
                }
                self.finished(&event);
            }
            Err(PostError::Never(reason, why)) => {
                warn!(namespace, "An Event cannot be written: {why}");
                self.metrics.recorder_dropped("events", reason, 1);
                self.lose(why);
                self.finished(&event);
            }
        }
        self.report_health();
    }

    /// Notes that an Event is written, or never will be.
    fn finished(&mut self, event: &TakenEvent) {
        self.pauses.succeeded(event.value.content.namespace());
        self.queue.finish(event);
    }

    /// Puts an Event back until its namespace accepts Events; drops it if that is hopeless at the end.
    fn wait_on(&mut self, event: TakenEvent, until: Instant) {
        if self.ending && self.pauses.is_hopeless(event.value.content.namespace()) {
            self.metrics.recorder_dropped("events", "unavailable", 1);
            self.lose(self.pauses.trouble());
            self.queue.finish(&event);
        } else {
            self.queue.put_back(event, until);
        }
    }

    fn lose(&mut self, why: String) {
        let (number, _) = self.lost.take().unwrap_or_default();
        self.lost = Some((number + 1, why));
    }

    fn report_health(&self) {
        let lost = self.lost.as_ref();
        let lost = lost.map(|(number, why)| format!("{number} Events were not written: {why}")).unwrap_or_default();
        let health = Health { trouble: self.pauses.trouble(), lost, ..Health::default() };
        let mut changed = false;
        self.health.send_if_modified(|known| {
            changed = known.trouble != health.trouble;
            std::mem::replace(known, health.clone()) != health
        });
        if changed && !health.trouble.is_empty() {
            warn!("{}", health.trouble);
        }
    }

    /// Reports the namespaces whose Events have waited long because there are many, once for as long as they do, and
    /// the Events that were dropped. Namespaces that accept no Events are left out: the recorder's health reports them.
    pub(super) fn sum_up(&mut self, now: Instant) {
        self.objects.tidy(now);
        let waiting = now.checked_sub(SUM_UP_EVERY).map(|since| self.queue.waiting_since(since)).unwrap_or_default();
        self.summed_up.retain(|namespace| waiting.contains_key(namespace));
        for (namespace, count) in waiting {
            if self.pauses.is_pausing(namespace.as_deref().unwrap_or(CLUSTER_SCOPED)) {
                continue;
            }
            if self.summed_up.insert(namespace.clone()) {
                let note = format!(
                    "{count} Events about violations in this namespace wait to be written, as there are more than may be written at \
                     once; Events about recent changes are written first"
                );
                self.report(event_reasons::HELD_BACK, &self.namespace(namespace.as_deref()), &note, Timestamp::now());
            }
        }
        self.report_dropped();
    }

    /// Reports how many Events were dropped; returns whether any were.
    fn report_dropped(&mut self) -> bool {
        let dropped = std::mem::take(&mut self.dropped);
        let any = !dropped.is_empty();
        for (namespace, count) in dropped {
            let note = format!(
                "{count} Events about objects in this namespace were not written, because single objects exceeded their rate limit"
            );
            self.report(event_reasons::DROPPED, &self.namespace(namespace.as_deref()), &note, Timestamp::now());
        }
        any
    }

    /// Returns a reference to a namespace; without a name, to the `Audit` object.
    fn namespace(&self, name: Option<&str>) -> ObjectRef {
        let Some(name) = name else { return self.writer.own.clone() };
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            namespace: Some(name.into()),
            name: name.into(),
            ..ObjectRef::default()
        }
    }
}

/// Logs how many Events were not written, also when the recorder is aborted.
impl Drop for EventRecorder {
    fn drop(&mut self) {
        let events = self.queue.len() + self.writes.len();
        if events > 0 {
            warn!(
                events,
                "Events were not written before shutdown; the next run writes those whose violations are still open"
            );
        }
    }
}
