//! Events: one when a violation appears, one when it is resolved; one for what a change itself violated.
//!
//! What is to be told waits in a [`queue`] and is written at the rates of [`bucket`] and in the order in which it matters:
//! changes of just now before what was found at once. The Events are also what a later run knows of it ([`memory`]).

mod bucket;
mod memory;
mod pauses;
mod queue;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until},
};
use tracing::{debug, warn};

pub use self::memory::{recorded, settle};
use self::{
    bucket::{Bucket, Objects},
    pauses::Pauses,
    queue::{About, Place, Queue, Rank, Telling, Turn, Violated},
    writer::{Failed, Writer},
};
use super::Health;
use crate::{
    audit::{ledger::Delta, queue::Lane},
    cluster::identity::CONTROLLER,
    metrics::Metrics,
};

/// The violation that an Event is about, on each that is about one.
pub const VIOLATION: &str = "kaudit.dev/violation";
/// Since when it stands; not on Events about what only happened.
pub const SINCE: &str = "kaudit.dev/since";
/// Namespace and name of the `Audit` of the kaudit that wrote an Event.
pub const AUDIT: &str = "kaudit.dev/audit";
/// Reasons of Events about violations.
const APPEARED: &str = "PolicyViolation";
const RESOLVED: &str = "PolicyResolved";

/// Writes under way at a time.
const WRITES_AT_A_TIME: usize = 4;
/// How often is said what was held back, and from when on it is worth saying.
const SUM_UP_EVERY: Duration = Duration::from_secs(30);

/// Which Events on violations are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// When a violation appears, and when it is resolved
    All,
    /// Only when a violation appears
    Appeared,
    /// None at all, as if --record did not name events
    None,
}

/// What an Events recorder needs.
pub struct Settings {
    /// Writes the Events.
    pub client: Client,
    /// Which are written.
    pub which: Which,
    /// Overall rate; a burst may be twice that.
    pub per_second: f64,
    /// What Events about kaudit itself are about: its `Audit` object.
    pub own: ObjectReference,
    /// Namespace and name of that: what tells the Events of this kaudit from those of others.
    pub audit: String,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where trouble is said.
    pub health: Health,
}

/// Takes deltas and never blocks.
pub struct EventSink {
    // The recorder takes in at once what comes, so this holds next to nothing.
    news: mpsc::UnboundedSender<News>,
}

enum News {
    Telling(Box<Telling>),
    PoliciesRefused(String, Timestamp),
}

impl EventSink {
    /// Tells what changed.
    pub fn record(&self, delta: &Delta) {
        let (at, queued) = (Timestamp::now(), Instant::now());
        let rank = if delta.lane == Lane::Change { Rank::Change } else { Rank::Backlog };
        let turns = [
            (&delta.appeared, Turn::Appeared),
            (&delta.transitions, Turn::Happened),
            (&delta.resolved, Turn::Resolved),
        ];
        for (violations, turn) in turns {
            for violation in violations {
                let (object, uid, violation) = (delta.object.clone(), delta.uid.clone(), violation.clone());
                let about = About::Violation(Violated { object, uid, violation, turn, at });
                self.tell(News::Telling(Box::new(Telling { about, rank, queued, tried: false })));
            }
        }
    }

    /// Tells that policies are refused, at kaudit's own object.
    pub fn policies_refused(&self, note: &str) {
        self.tell(News::PoliciesRefused(note.to_owned(), Timestamp::now()));
    }

    fn tell(&self, news: News) {
        // An error says that the run is over, and its time to write what is pending too.
        let _late = self.news.send(news);
    }
}

/// Starts a recorder. The future ends when the sink is gone and everything is written.
pub fn start(settings: Settings) -> (EventSink, impl Future<Output = ()> + Send) {
    let (news, receiver) = mpsc::unbounded_channel();
    let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let recorder = Recorder {
        queue: Queue::default(),
        overall: Bucket::new(settings.per_second * 2.0, settings.per_second),
        objects: Objects::default(),
        pauses: Pauses::default(),
        writes: JoinSet::new(),
        dropped: BTreeMap::new(),
        summed_up: BTreeSet::new(),
        ending: false,
        which: settings.which,
        metrics: settings.metrics,
        health: settings.health,
        writer: Arc::new(Writer {
            client: settings.client,
            instance: format!("{CONTROLLER}-{}", instance.as_deref().unwrap_or("local")).chars().take(128).collect(),
            own: settings.own,
            audit: settings.audit,
        }),
    };
    (EventSink { news }, recorder.run(receiver))
}

struct Recorder {
    queue: Queue,
    overall: Bucket,
    objects: Objects,
    pauses: Pauses,
    writes: JoinSet<(Place, Telling, Result<(), Failed>)>,
    /// Events that are not written for their object's sake, by namespace.
    dropped: BTreeMap<Option<Arc<str>>, usize>,
    /// Namespaces of which it was said that their Events wait.
    summed_up: BTreeSet<Option<Arc<str>>>,
    /// Nothing comes any more.
    ending: bool,
    which: Which,
    metrics: Arc<Metrics>,
    health: Health,
    writer: Arc<Writer>,
}

impl Recorder {
    async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        let mut sum_up = interval(SUM_UP_EVERY);
        sum_up.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = Vec::new();
        loop {
            self.metrics.set_events_pending(self.queue.len() + self.writes.len());
            let due = self.due(Instant::now());
            tokio::select! {
                biased;
                count = news.recv_many(&mut taken, 256), if !self.ending => {
                    taken.drain(..).for_each(|news| self.take_in(news));
                    if count == 0 {
                        self.ending = true;
                        self.queue.hurry();
                    }
                }
                Some(written) = self.writes.join_next() => match written {
                    Ok((place, telling, result)) => self.written(place, telling, result, Instant::now()),
                    Err(failed) => debug!(%failed, "A write died"),
                },
                () = until(due), if due.is_some() => self.write_next(Instant::now()),
                _ = sum_up.tick(), if !self.ending => self.sum_up(Instant::now()),
                else => break,
            }
            if self.ending && self.queue.len() + self.writes.len() == 0 && !self.say_dropped() {
                break;
            }
        }
    }

    /// When the next Event may be written; `None` if that depends on something else.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        let due = self.queue.due(now).filter(|_| self.writes.len() < WRITES_AT_A_TIME)?;
        Some(due.max(self.overall.ready(now)).max(self.pauses.server_until().unwrap_or(now)))
    }

    fn take_in(&mut self, news: News) {
        let telling = match news {
            News::Telling(telling) => *telling,
            News::PoliciesRefused(note, at) => {
                let own = self.writer.own.clone();
                return self.say("PolicyRefused", own, &note, at);
            }
        };
        if let About::Violation(violated) = &telling.about
            && violated.turn == Turn::Resolved
        {
            if self.queue.supersede(&violated.violation) {
                // Both that it appeared and that it was resolved.
                return self.metrics.events_superseded(2);
            }
            if self.which == Which::Appeared {
                return;
            }
        }
        if !self.queue.push(telling) {
            self.metrics.recorder_dropped("events", "overflow", 1);
        }
    }

    /// Lets something about kaudit itself wait; the newest of a kind about something is enough.
    fn say(&mut self, reason: &str, regarding: ObjectReference, note: &str, at: Timestamp) {
        let subject = format!("{reason} {}", regarding.namespace.as_deref().unwrap_or_default());
        let event = Box::new(self.writer.about_self(regarding, reason, note, at));
        let about = About::Own(subject, event);
        self.queue.push(Telling { about, rank: Rank::Own, queued: Instant::now(), tried: false });
    }

    /// Begins to write the next Event that may be. The rest waits until its object may have one more, or its namespace
    /// takes any.
    fn write_next(&mut self, now: Instant) {
        while self.overall.ready(now) <= now {
            let Some((place, mut telling)) = self.queue.pop(now) else { return };
            if let Some(until) = self.pauses.namespace_until(telling.about.namespace(), now) {
                self.wait_on(place, telling, until);
                continue;
            }
            // An attempt was paid for, whatever came of it.
            if let About::Violation(violated) = &telling.about
                && !telling.tried
                && let Err(until) = self.objects.take(&violated.uid, now)
            {
                self.wait_for_object(place, telling, until);
                continue;
            }
            // There is one, as was asked above.
            let _token = self.overall.take(now);
            telling.tried = true;
            let (writer, event) = (self.writer.clone(), self.writer.event(&telling.about));
            self.writes.spawn(async move {
                let result = writer.post(&event).await;
                (place, telling, result)
            });
            return;
        }
    }

    /// Lets something wait until its object may have one more Event. What nothing else bounds is not written, nor what
    /// there is no more time for.
    fn wait_for_object(&mut self, place: Place, telling: Telling, until: Instant) {
        match &telling.about {
            About::Violation(violated) if self.ending || violated.turn == Turn::Happened => {
                *self.dropped.entry(violated.object.namespace.clone()).or_default() += 1;
                self.metrics.recorder_dropped("events", "object_rate", 1);
            }
            _ => self.queue.rest(place, telling, until),
        }
    }

    fn written(&mut self, place: Place, telling: Telling, result: Result<(), Failed>, now: Instant) {
        let namespace = telling.about.namespace().to_owned();
        match result {
            Ok(()) => {
                self.metrics.recorder_wrote("events");
                if matches!(telling.about, About::Violation(_)) {
                    self.metrics.event_after(telling.queued.elapsed());
                }
                self.pauses.works(&namespace);
            }
            Err(Failed::Normal(reason)) => {
                debug!(namespace, reason, "Event not written");
                if reason != "already_exists" {
                    self.metrics.recorder_dropped("events", reason, 1);
                }
                self.pauses.works(&namespace);
            }
            Err(Failed::Never(reason, why)) => {
                warn!(namespace, "An Event cannot be written: {why}");
                self.metrics.recorder_dropped("events", reason, 1);
                self.pauses.works(&namespace);
            }
            Err(Failed::Namespace(at_least, why)) => {
                self.pauses.namespace_failed(&namespace, at_least, why, now);
                self.metrics.recorder_retries("events");
                self.wait_on(place, telling, now);
            }
            Err(Failed::Server(at_least, why)) => {
                self.pauses.server_failed(at_least, why, now);
                self.metrics.recorder_retries("events");
                self.wait_on(place, telling, now);
            }
        }
        self.tell_trouble();
    }

    /// Lets something wait until its namespace takes Events, unless there is no more time for that.
    fn wait_on(&mut self, place: Place, telling: Telling, until: Instant) {
        if self.ending && self.pauses.is_hopeless(telling.about.namespace()) {
            self.metrics.recorder_dropped("events", "unavailable", 1);
        } else {
            self.queue.rest(place, telling, until);
        }
    }

    fn tell_trouble(&self) {
        let trouble = self.pauses.trouble();
        let new = self.health.send_if_modified(|known| {
            *known != trouble && {
                known.clone_from(&trouble);
                true
            }
        });
        if new && !trouble.is_empty() {
            warn!("{trouble}");
        }
    }

    /// Says where Events wait for long, once for as long as they do, and what was not written.
    fn sum_up(&mut self, now: Instant) {
        self.objects.tidy(now);
        let waiting = now.checked_sub(SUM_UP_EVERY).map(|since| self.queue.waiting_since(since)).unwrap_or_default();
        self.summed_up.retain(|namespace| waiting.contains_key(namespace));
        for (namespace, count) in waiting {
            if self.summed_up.insert(namespace.clone()) {
                let note = format!(
                    "{count} Events about violations here wait to be written, as there are more than may be written at \
                     once; those about changes go first"
                );
                self.say("EventsHeldBack", self.namespace(namespace.as_deref()), &note, Timestamp::now());
            }
        }
        self.say_dropped();
    }

    /// Says what was not written; whether there is something to say.
    fn say_dropped(&mut self) -> bool {
        let dropped = std::mem::take(&mut self.dropped);
        let any = !dropped.is_empty();
        for (namespace, count) in dropped {
            let note =
                format!("{count} Events about objects here were not written, as there were too many of one object");
            self.say("EventsDropped", self.namespace(namespace.as_deref()), &note, Timestamp::now());
        }
        any
    }

    /// Refers to a namespace, in itself; to the `Audit` for what is in none.
    fn namespace(&self, name: Option<&str>) -> ObjectReference {
        let Some(name) = name else { return self.writer.own.clone() };
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }
}

/// Also when the time to write what is pending is over.
impl Drop for Recorder {
    fn drop(&mut self) {
        let events = self.queue.len() + self.writes.len();
        if events > 0 {
            warn!(events, "Events were not written in time; the next run writes what still stands then");
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
