//! Events: one when a violation appears, one when it is resolved; one for what a change itself violated.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tracing::{debug, warn};

use super::{CONTROLLER, Failure, Health, failure};
use crate::{
    client::describe,
    ledger::{Delta, Violation},
    metrics::Metrics,
    object::ObjectKey,
};

/// Events that wait to be written; what comes beyond is held back.
const QUEUE: usize = 10_000;
/// Writes under way at a time.
const WRITES_AT_A_TIME: usize = 4;
/// Events of one object at once, and how long it takes until it may have one more.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_REFILL: Duration = Duration::from_secs(30);
/// How often is said what was held back.
const SUM_UP_EVERY: Duration = Duration::from_secs(30);
/// Attempts at a write that the server answers with an error that may pass.
const ATTEMPTS: u32 = 8;
/// Longest note that the API takes, in bytes.
const NOTE_BYTES: usize = 1024;
/// Where Events of cluster-scoped objects go, as the API demands.
const CLUSTER_SCOPED: &str = "default";

/// Takes deltas and never blocks.
#[derive(Clone)]
pub struct EventSink {
    queue: mpsc::Sender<Telling>,
    overflow: Arc<AtomicU64>,
    metrics: Arc<Metrics>,
}

/// One thing to tell.
enum Telling {
    Violation(Violated),
    /// Policies are refused: the note, and when.
    PoliciesRefused(String, Timestamp),
}

/// A violation that appeared or was resolved.
#[derive(Debug)]
struct Violated {
    object: ObjectKey,
    uid: Arc<str>,
    violation: Violation,
    resolved: bool,
    at: Timestamp,
    queued: Instant,
}

/// What an Events recorder needs.
pub struct Settings {
    /// Writes the Events.
    pub client: Client,
    /// Overall rate; a burst may be twice that.
    pub per_second: f64,
    /// What Events about kaudit itself are about: its `Audit` object.
    pub own: ObjectReference,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where trouble is said.
    pub health: Health,
}

/// Starts a recorder. The future ends when all sinks are gone and everything is written.
pub fn start(settings: Settings) -> (EventSink, impl Future<Output = ()> + Send) {
    let (queue, receiver) = mpsc::channel(QUEUE);
    let sink = EventSink { queue, overflow: Arc::default(), metrics: settings.metrics.clone() };
    let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let recorder = Recorder {
        overflow: sink.overflow.clone(),
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
    (sink, recorder.run(receiver))
}

impl EventSink {
    /// Tells what changed.
    pub fn record(&self, delta: &Delta) {
        let (at, queued) = (Timestamp::now(), Instant::now());
        let appeared = delta.appeared.iter().chain(&delta.moments).map(|violation| (violation, false));
        let resolved = delta.resolved.iter().map(|violation| (violation, true));
        for (violation, resolved) in appeared.chain(resolved) {
            let (object, uid) = (delta.object.clone(), delta.uid.clone());
            let told = Violated { object, uid, violation: violation.clone(), resolved, at, queued };
            self.queue(Telling::Violation(told));
        }
    }

    /// Tells that policies are refused, at kaudit's own object.
    pub fn policies_refused(&self, note: &str) {
        self.queue(Telling::PoliciesRefused(note.to_owned(), Timestamp::now()));
    }

    fn queue(&self, telling: Telling) {
        if self.queue.try_send(telling).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
            self.metrics.recorder_dropped("events", "overflow", 1);
        }
    }
}

struct Recorder {
    overflow: Arc<AtomicU64>,
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
    async fn run(mut self, mut queue: mpsc::Receiver<Telling>) {
        let mut sum_up = tokio::time::interval(SUM_UP_EVERY);
        sum_up.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                telling = queue.recv() => match telling {
                    Some(Telling::Violation(violated)) => self.tell(violated).await,
                    Some(Telling::PoliciesRefused(note, at)) => self.tell_own("PolicyRefused", note, at).await,
                    None => break,
                },
                _ = sum_up.tick() => self.sum_up().await,
                Some(_) = self.writes.join_next() => {}
            }
        }
        self.sum_up().await;
        while self.writes.join_next().await.is_some() {}
    }

    /// Tells something about kaudit itself.
    async fn tell_own(&mut self, reason: &str, note: String, at: Timestamp) {
        let name = hashed(&[reason, &note, &at.to_string()]);
        let event = self.writer.event(self.writer.own.clone(), ("Warning", reason), &note, (name, at));
        self.write(event, None).await;
    }

    async fn tell(&mut self, telling: Violated) {
        let now = Instant::now();
        let budget = self.objects.entry(telling.uid.clone()).or_insert_with(|| ObjectBudget {
            object: telling.object.clone(),
            bucket: Bucket::new(OBJECT_BURST),
            held_back: 0,
        });
        if budget.bucket.take(now, 1.0 / OBJECT_REFILL.as_secs_f64()).is_some() {
            budget.held_back += 1;
            self.writer.metrics.recorder_dropped("events", "object_rate", 1);
            return;
        }
        let name = name(&telling);
        let queued = telling.queued;
        let event = self.writer.event(
            reference(&telling.object, &telling.uid),
            if telling.resolved { ("Normal", "PolicyResolved") } else { ("Warning", "PolicyViolation") },
            &format!(
                "{}/{}: {}",
                telling.violation.finding.policy, telling.violation.finding.rule, telling.violation.finding.message
            ),
            (name, telling.at),
        );
        self.write(event, Some(queued)).await;
    }

    /// Says what was held back since the last time, and forgets objects that have their whole budget again.
    async fn sum_up(&mut self) {
        let now = Instant::now();
        let overflow = self.overflow.swap(0, Ordering::Relaxed);
        let mut sums = Vec::new();
        if overflow > 0 {
            let note =
                format!("{overflow} Events were held back, as more came than may be written; /status has them all");
            sums.push((self.writer.own.clone(), note));
        }
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
            let at = Timestamp::now();
            let name = hashed(&[regarding.uid.as_deref().unwrap_or_default(), &note, &at.to_string()]);
            let event = self.writer.event(regarding, ("Warning", "EventsHeldBack"), &note, (name, at));
            self.write(event, None).await;
        }
    }

    async fn write(&mut self, event: Event, queued: Option<Instant>) {
        while let Some(wait) = self.overall.take(Instant::now(), self.per_second) {
            sleep(wait).await;
        }
        while self.writes.len() >= WRITES_AT_A_TIME {
            self.writes.join_next().await;
        }
        let writer = self.writer.clone();
        self.writes.spawn(async move { writer.post(event, queued).await });
    }
}

struct Writer {
    client: Client,
    instance: String,
    own: ObjectReference,
    metrics: Arc<Metrics>,
    health: Health,
}

impl Writer {
    fn event(
        &self,
        regarding: ObjectReference,
        (type_, reason): (&str, &str),
        note: &str,
        at: (String, Timestamp),
    ) -> Event {
        let namespace = regarding.namespace.clone().unwrap_or_else(|| CLUSTER_SCOPED.to_owned());
        Event {
            metadata: ObjectMeta { name: Some(at.0), namespace: Some(namespace), ..ObjectMeta::default() },
            action: Some("Audit".to_owned()),
            event_time: Some(MicroTime(at.1)),
            note: Some(cut(note, NOTE_BYTES).to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }

    async fn post(&self, event: Event, queued: Option<Instant>) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let mut wait = Duration::from_millis(250);
        let mut answered = 0;
        loop {
            let Err(error) = api.create(&PostParams::default(), &event).await else {
                self.metrics.recorder_wrote("events");
                if let Some(queued) = queued {
                    self.metrics.event_after(queued.elapsed());
                }
                self.health.send_if_modified(|trouble| !std::mem::take(trouble).is_empty());
                return;
            };
            // New credentials may take longer than the attempts.
            answered += u32::from(matches!(&error, kube::Error::Api(status) if status.code != 401));
            match failure(&error) {
                Failure::Normal(reason) => {
                    debug!(namespace, reason, "Event not written");
                    if reason != "already_exists" {
                        self.metrics.recorder_dropped("events", reason, 1);
                    }
                    return;
                }
                Failure::Later if answered < ATTEMPTS => self.trouble(&format!("Events wait: {}", describe(&error))),
                Failure::Later | Failure::Refused(_) => {
                    self.trouble(&format!("Events cannot be written in namespace {namespace}: {}", describe(&error)));
                    let reason = if let Failure::Refused(reason) = failure(&error) { reason } else { "unavailable" };
                    self.metrics.recorder_dropped("events", reason, 1);
                    return;
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(10));
        }
    }

    fn trouble(&self, what: &str) {
        let new = self.health.send_if_modified(|known| {
            known != what && {
                what.clone_into(known);
                true
            }
        });
        if new {
            warn!("{what}");
        }
    }
}

fn reference(object: &ObjectKey, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.kind.api_version()),
        kind: Some(object.kind.kind.clone()),
        name: Some(object.name.to_string()),
        namespace: object.namespace.as_deref().map(str::to_owned),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

/// A name that is the same whenever the same thing is told, so that nothing is told twice. Names of objects would
/// break the server's rules for names.
fn name(telling: &Violated) -> String {
    let finding = &telling.violation.finding;
    let since = telling.violation.since.as_nanosecond().to_string();
    let what = if telling.resolved { "resolved" } else { "appeared" };
    hashed(&[&telling.uid, &finding.policy, &finding.rule, &finding.message, &since, what])
}

fn hashed(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(16).fold("kaudit-".to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

/// Cuts at a character, at most `bytes` long.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    size: f64,
    filled: Option<Instant>,
}

impl Bucket {
    fn new(size: f64) -> Self {
        Self { tokens: size.max(1.0), size: size.max(1.0), filled: None }
    }

    /// Takes a token, or returns how long there will be none.
    fn take(&mut self, now: Instant, per_second: f64) -> Option<Duration> {
        self.fill(now, per_second);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return None;
        }
        Some(Duration::from_secs_f64(((1.0 - self.tokens) / per_second).clamp(0.001, 3_600.0)))
    }

    fn fill(&mut self, now: Instant, per_second: f64) {
        let since = self.filled.replace(now).map_or(0.0, |before| now.duration_since(before).as_secs_f64());
        self.tokens = (self.tokens + since * per_second).min(self.size);
    }

    fn is_full(&mut self, now: Instant, per_second: f64) -> bool {
        self.fill(now, per_second);
        self.tokens >= self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_the_rate() {
        let (mut bucket, start) = (Bucket::new(2.0), Instant::now());
        assert_eq!(bucket.take(start, 0.5), None);
        assert_eq!(bucket.take(start, 0.5), None);
        assert_eq!(bucket.take(start, 0.5), Some(Duration::from_secs(2)));
        assert_eq!(bucket.take(start + Duration::from_secs(2), 0.5), None);
        assert!(!bucket.is_full(start + Duration::from_secs(5), 0.5));
        assert!(bucket.is_full(start + Duration::from_secs(6), 0.5));
    }

    #[test]
    fn notes_are_cut_at_a_character() {
        let long = "ä".repeat(600);
        assert_eq!(cut(&long, 1023).len(), 1022);
        assert_eq!(cut("short", 1024), "short");
    }

    #[test]
    fn names_do_not_confuse_neighbouring_parts() {
        assert_ne!(hashed(&["ab", "c"]), hashed(&["a", "bc"]));
        assert_eq!(hashed(&["ab", "c"]).len(), "kaudit-".len() + 32);
    }
}
