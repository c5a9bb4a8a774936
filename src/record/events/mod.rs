//! Events: one when a violation appears, one when it is resolved; one for what a change itself violated.
//!
//! What is to be told waits in [`pending`]; [`writer`] makes Events of it within the rates of [`bucket`]; [`memory`] reads
//! them again after a restart.

mod bucket;
mod memory;
mod pending;
mod writer;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::{core::v1::ObjectReference, events::v1::Event};
use kube::Client;
use tokio::{sync::Notify, task::JoinSet, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::memory::remember;
use self::{
    bucket::Bucket,
    pending::{Pending, Telling, Turn, Violated, Waits},
    writer::{Notice, Writer, hashed, reference},
};
use super::{CONTROLLER, Health};
use crate::{ledger::Delta, metrics::Metrics, object::ObjectKey, queue::Lane};

/// Writes under way at a time.
const WRITES_AT_A_TIME: usize = 4;
/// Events of one object at once, and how long it takes until it may have one more.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_REFILL: Duration = Duration::from_secs(30);
/// How often is said what was held back.
const SUM_UP_EVERY: Duration = Duration::from_secs(30);

/// Which Events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Which {
    /// When a violation appears, and when it is resolved
    All,
    /// When a violation appears
    Appeared,
    /// None; known violations are remembered by reports alone
    None,
}

/// Takes deltas and never blocks.
pub struct EventSink {
    waiting: Arc<Waiting>,
    which: Which,
    metrics: Arc<Metrics>,
    /// Its end lets the recorder end.
    _open: DropGuard,
}

/// What waits, and word of it.
#[derive(Default)]
struct Waiting {
    pending: Mutex<Pending>,
    news: Notify,
}

impl Waiting {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where trouble is said.
    pub health: Health,
}

/// Starts a recorder. The future ends when the sink is gone and everything is written.
pub fn start(settings: Settings) -> (EventSink, impl Future<Output = ()> + Send) {
    let (waiting, closed) = (Arc::<Waiting>::default(), CancellationToken::new());
    let sink = EventSink {
        waiting: waiting.clone(),
        which: settings.which,
        metrics: settings.metrics.clone(),
        _open: closed.clone().drop_guard(),
    };
    let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let recorder = Recorder {
        waiting,
        overall: Bucket::new(settings.per_second * 2.0),
        objects: BTreeMap::new(),
        writes: JoinSet::new(),
        writer: Arc::new(Writer {
            instance: format!("{CONTROLLER}-{}", instance.as_deref().unwrap_or("local")).chars().take(128).collect(),
            client: settings.client,
            own: settings.own,
            metrics: settings.metrics,
            health: settings.health,
        }),
        per_second: settings.per_second,
    };
    (sink, recorder.run(closed))
}

impl EventSink {
    /// Tells what changed.
    pub fn record(&self, delta: &Delta) {
        let (at, queued) = (Timestamp::now(), Instant::now());
        let appeared = delta.appeared.iter().map(|violation| (violation, Turn::Appeared));
        let resolved = delta.resolved.iter().map(|violation| (violation, Turn::Resolved));
        let moments = delta.moments.iter().map(|violation| (violation, Turn::Happened));
        for (violation, turn) in appeared.chain(resolved).chain(moments) {
            if turn == Turn::Resolved && self.which == Which::Appeared {
                let withdrawn = self.waiting.pending().withdraw(violation.id);
                self.metrics.recorder_dropped("events", "superseded", u64::from(withdrawn));
                continue;
            }
            let (object, uid) = (delta.object.clone(), delta.uid.clone());
            let violated = Violated { object, uid, violation: violation.clone(), turn, at, queued };
            self.queue(Telling::Violation(violated), delta.lane);
        }
    }

    /// Tells that policies are refused, at kaudit's own object.
    pub fn policies_refused(&self, note: &str) {
        self.queue(Telling::PoliciesRefused(note.to_owned(), Timestamp::now()), Lane::Change);
    }

    fn queue(&self, telling: Telling, lane: Lane) {
        let (waits, length) = {
            let mut pending = self.waiting.pending();
            (pending.push(telling, lane), pending.len())
        };
        self.metrics.set_events_pending(length);
        match waits {
            Waits::Yes => self.waiting.news.notify_one(),
            // Of two, neither is written.
            Waits::Superseded => self.metrics.recorder_dropped("events", "superseded", 2),
            Waits::Dropped => self.metrics.recorder_dropped("events", "overflow", 1),
        }
    }
}

struct Recorder {
    waiting: Arc<Waiting>,
    overall: Bucket,
    objects: BTreeMap<Arc<str>, ObjectBudget>,
    writes: JoinSet<()>,
    writer: Arc<Writer>,
    per_second: f64,
}

struct ObjectBudget {
    object: ObjectKey,
    bucket: Bucket,
    held_back: u64,
}

impl Recorder {
    async fn run(mut self, closed: CancellationToken) {
        let mut summed_up = Instant::now();
        loop {
            if summed_up.elapsed() >= SUM_UP_EVERY {
                self.sum_up().await;
                summed_up = Instant::now();
            }
            // Room first: what is taken out of the queue can be overtaken no more.
            self.room().await;
            let next = self.waiting.pending().pop();
            match next {
                Some(telling) => {
                    self.writer.metrics.set_events_pending(self.waiting.pending().len());
                    self.tell(telling);
                }
                None if closed.is_cancelled() => break,
                None => tokio::select! {
                    () = self.waiting.news.notified() => {}
                    () = closed.cancelled() => {}
                    () = sleep(SUM_UP_EVERY.saturating_sub(summed_up.elapsed())) => {}
                    Some(_) = self.writes.join_next() => {}
                },
            }
        }
        self.sum_up().await;
        while self.writes.join_next().await.is_some() {}
    }

    /// Waits until one more Event may be written.
    async fn room(&mut self) {
        while let Some(wait) = self.overall.wait(Instant::now(), self.per_second) {
            sleep(wait).await;
        }
        while self.writes.len() >= WRITES_AT_A_TIME {
            self.writes.join_next().await;
        }
    }

    fn tell(&mut self, telling: Telling) {
        match telling {
            Telling::Violation(violated) => self.tell_violation(&violated),
            Telling::PoliciesRefused(note, at) => {
                let name = hashed(&["PolicyRefused", &note, &at.to_string()]);
                let regarding = self.writer.own.clone();
                let reason = "PolicyRefused";
                let notice = Notice { regarding, warning: true, reason, note: &note, name, at, annotations: None };
                self.write(self.writer.event(notice), None);
            }
        }
    }

    fn tell_violation(&mut self, violated: &Violated) {
        let budget = self.objects.entry(violated.uid.clone()).or_insert_with(|| ObjectBudget {
            object: violated.object.clone(),
            bucket: Bucket::new(OBJECT_BURST),
            held_back: 0,
        });
        if budget.bucket.take(Instant::now(), 1.0 / OBJECT_REFILL.as_secs_f64()).is_some() {
            budget.held_back += 1;
            self.writer.metrics.recorder_dropped("events", "object_rate", 1);
            return;
        }
        self.write(self.writer.about(violated), Some(violated.queued));
    }

    /// Says what was held back since the last time, and forgets objects that have their whole budget again.
    async fn sum_up(&mut self) {
        let now = Instant::now();
        let mut sums = Vec::new();
        for (uid, budget) in &mut self.objects {
            if budget.held_back > 0 {
                let note = format!(
                    "{} more Events about this object were held back; the audit's status has all violations",
                    std::mem::take(&mut budget.held_back)
                );
                sums.push((reference(&budget.object, uid), note));
            }
        }
        self.objects.retain(|_, budget| !budget.bucket.is_full(now, 1.0 / OBJECT_REFILL.as_secs_f64()));
        for (regarding, note) in sums {
            let (at, reason) = (Timestamp::now(), "EventsHeldBack");
            let name = hashed(&[regarding.uid.as_deref().unwrap_or_default(), &note, &at.to_string()]);
            let notice = Notice { regarding, warning: true, reason, note: &note, name, at, annotations: None };
            let event = self.writer.event(notice);
            self.room().await;
            self.write(event, None);
        }
    }

    fn write(&mut self, event: Event, queued: Option<Instant>) {
        // Whoever comes here has waited for room.
        let _none = self.overall.take(Instant::now(), self.per_second);
        let writer = self.writer.clone();
        self.writes.spawn(async move { writer.post(event, queued).await });
    }
}
