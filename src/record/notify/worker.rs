//! Tells one receiver what is in its queue, one request at a time.
//!
//! What fails is tried again for as long as it takes, with growing pauses, while the queue fills; what the receiver refuses is
//! counted and not tried again.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::sleep_until,
};
use tracing::{info, warn};

use super::{
    http::{Message, SendError},
    notification::{Batch, Notification, Teller},
    queue::NotificationQueue,
    receiver::Receiver,
};
use crate::{
    audit::{
        command::Command,
        ledger::{Delta, Lifecycle},
    },
    cluster::backoff::Backoff,
    metrics::Metrics,
    record::health::Health,
    telemetry::{Span, count},
};

/// Pauses where the receiver does not say how long; each is made longer or shorter by up to a quarter, so that those of many
/// do not end at once.
const BACKOFF: Backoff = Backoff::between(Duration::from_millis(500), Duration::from_mins(1));
/// Failures in a row before they are told.
const FAILURES: u32 = 3;
/// Failures in a row after which a run that is ending gives up.
const LAST_FAILURES: u32 = 3;
/// How soon it is asked again what stands, while judging has not begun.
const NOT_YET: Duration = Duration::from_secs(2);

/// What a worker needs beside its receiver.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) teller: Teller,
    /// Answers what stands.
    pub(super) pipeline: mpsc::Sender<Command>,
    pub(super) metrics: Arc<Metrics>,
}

/// What was attempted.
enum Attempt {
    Sent(Result<(), SendError>),
    Standing(Option<Vec<Delta>>),
}

pub(super) struct Worker {
    receiver: Arc<Receiver>,
    surroundings: Surroundings,
    /// The name in metrics.
    label: String,
    health: watch::Sender<Health>,
    queue: NotificationQueue,
    /// The requests of the batch that is being told, the next first.
    unsent: VecDeque<Message>,
    /// They tell what stands, and are out of date when they have to wait.
    is_resent: bool,
    /// When everything that stands is sent again.
    resend: Option<Instant>,
    attempt: JoinSet<Attempt>,
    failures: u32,
    pause: Option<Instant>,
    /// Some of what came since the last success was left out.
    leaves_out: bool,
    /// The sink is gone.
    ending: bool,
}

impl Worker {
    pub(super) fn new(receiver: Arc<Receiver>, surroundings: Surroundings, health: watch::Sender<Health>) -> Self {
        let label = format!("notify/{}", receiver.name);
        surroundings.metrics.recorder_began(label.clone());
        Self {
            label,
            queue: NotificationQueue::new(receiver.batching),
            resend: receiver.resend_every().map(|_| Instant::now()),
            receiver,
            surroundings,
            health,
            unsent: VecDeque::new(),
            is_resent: false,
            attempt: JoinSet::new(),
            failures: 0,
            pause: None,
            leaves_out: false,
            ending: false,
        }
    }

    /// Tells what comes, until nothing comes any more and all is told, or the receiver does not take it.
    pub(super) async fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Arc<Notification>>) {
        let mut received = Vec::new();
        loop {
            self.surroundings.metrics.set_notifications_pending(&self.receiver.name, self.pending());
            let due = self.due(Instant::now());
            tokio::select! {
                biased;
                count = incoming.recv_many(&mut received, 256), if !self.ending => {
                    received.drain(..).for_each(|notification| self.receive(notification, Instant::now()));
                    if count == 0 {
                        self.end();
                    }
                }
                Some(attempt) = self.attempt.join_next() => match attempt {
                    Ok(Attempt::Sent(result)) => self.sent(result, Instant::now()),
                    Ok(Attempt::Standing(standing)) => self.resend(standing, Instant::now()),
                    Err(_) => self.sent(Err(SendError::Refused("made kaudit fail, which is a bug".into())), Instant::now()),
                },
                () = until(due), if due.is_some() => self.proceed(Instant::now()),
                else => break,
            }
            if self.ending && self.attempt.is_empty() && self.pending() == 0 {
                break;
            }
        }
    }

    fn receive(&mut self, notification: Arc<Notification>, now: Instant) {
        // Who is sent what stands may know of a violation before its appearance is told.
        let is_ended = notification.event == Lifecycle::Resolved && self.receiver.resend_every().is_none();
        if is_ended && self.queue.supersede(&notification) {
            return;
        }
        if !self.receiver.matching.tells(notification.event) {
            return;
        }
        let left_out = self.queue.push(notification, now);
        if left_out > 0 {
            self.dropped("overflow", left_out);
            if !std::mem::replace(&mut self.leaves_out, true) {
                warn!(
                    receiver = self.receiver.name,
                    "More notifications wait than may: some are left out, which is told"
                );
            }
        }
    }

    /// Notes that nothing comes any more, and that there is no time to wait.
    fn end(&mut self) {
        self.ending = true;
        self.queue.expedite();
        (self.pause, self.resend) = (None, None);
    }

    /// Returns how many notifications are not told yet.
    fn pending(&self) -> usize {
        let unsent = if self.is_resent { 0 } else { self.unsent.iter().map(|message| message.tells).sum() };
        self.queue.len() + unsent
    }

    /// Returns when to go on; `None` if something else has to happen first.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        if !self.attempt.is_empty() {
            return None;
        }
        let due = if self.unsent.is_empty() { self.queue.due(now).into_iter().chain(self.resend).min()? } else { now };
        Some(due.max(self.pause.unwrap_or(due)))
    }

    /// Sends the next request of the batch, or begins another batch.
    fn proceed(&mut self, now: Instant) {
        if self.unsent.is_empty() {
            self.is_resent = false;
            let batch =
                if self.queue.due(now).is_some_and(|due| due <= now) { self.queue.take() } else { Batch::default() };
            if !batch.notifications.is_empty() {
                self.put_into_words(&batch);
            } else if self.resend.is_some_and(|due| due <= now) {
                let asking = standing(self.surroundings.pipeline.clone());
                self.attempt.spawn(async { Attempt::Standing(asking.await) });
                return;
            }
        }
        if let Some(message) = self.unsent.front().cloned() {
            let receiver = Arc::clone(&self.receiver);
            self.attempt.spawn(async move {
                let span = Span::request("notify");
                span.set(|| {
                    [("kaudit.receiver", receiver.name.clone().into()), ("kaudit.notifications", count(message.tells))]
                });
                let result = receiver.send(&message).await;
                if result.is_err() {
                    span.fail("not_sent");
                }
                span.end();
                Attempt::Sent(result)
            });
        }
    }

    fn put_into_words(&mut self, batch: &Batch) {
        match self.receiver.messages(batch, &self.surroundings.teller) {
            Ok(messages) => self.unsent.extend(messages),
            Err(why) => {
                self.dropped("template", batch.notifications.len() as u64);
                self.report(format!("cannot be told: {why}"));
            }
        }
    }

    /// Sends everything again that stands.
    fn resend(&mut self, standing: Option<Vec<Delta>>, now: Instant) {
        let Some(every) = self.receiver.resend_every().filter(|_| !self.ending) else { return };
        let Some(standing) = standing else {
            self.resend = Some(now + NOT_YET);
            return;
        };
        self.resend = Some(now + every);
        let time = Timestamp::now();
        let notifications = standing.iter().flat_map(|delta| Notification::standing(delta, time));
        let concerned: Vec<_> =
            notifications.filter(|told| self.receiver.matching.concerns(told)).map(Arc::new).collect();
        for notifications in concerned.chunks(self.receiver.batching.items) {
            self.put_into_words(&Batch { notifications: notifications.to_vec(), left_out: 0 });
        }
        self.is_resent = true;
    }

    fn sent(&mut self, result: Result<(), SendError>, now: Instant) {
        match result {
            Ok(()) => {
                self.surroundings.metrics.recorder_wrote(self.label.clone());
                (self.failures, self.pause, self.leaves_out) = (0, None, false);
                self.unsent.pop_front();
                self.report(String::new());
            }
            Err(SendError::Refused(why)) => {
                (self.failures, self.pause) = (0, None);
                let tells = self.unsent.pop_front().map_or(0, |message| message.tells);
                self.dropped("refused", tells as u64);
                self.report(why);
            }
            Err(SendError::Later(at_least, why)) => {
                self.failures += 1;
                self.surroundings.metrics.recorder_retries(self.label.clone());
                let pause = BACKOFF.after(self.failures).mul_f64(0.75 + fastrand::f64() / 2.0);
                self.pause = Some(now + pause.max(at_least));
                if self.failures >= FAILURES || !at_least.is_zero() {
                    self.report(why);
                }
                if std::mem::take(&mut self.is_resent) {
                    self.unsent.clear();
                    self.resend = self.resend.map(|_| now);
                }
                if self.ending && self.failures >= LAST_FAILURES {
                    self.give_up();
                }
            }
        }
    }

    /// Drops what is not told yet, and says so.
    fn give_up(&mut self) {
        let notifications = self.pending();
        if notifications > 0 {
            self.dropped("unavailable", notifications as u64);
            warn!(
                receiver = self.receiver.name,
                notifications, "Notifications were not sent before the end, and are lost"
            );
        }
        self.unsent.clear();
        self.queue = NotificationQueue::new(self.receiver.batching);
    }

    fn dropped(&self, reason: &'static str, number: u64) {
        self.surroundings.metrics.recorder_dropped(self.label.clone(), reason, number);
    }

    /// Reports what is wrong, or that nothing is any more; logs what is new.
    fn report(&self, why: String) {
        let name = &self.receiver.name;
        let trouble = if why.is_empty() { why } else { format!("receiver {name} {why}") };
        let changed = self.health.send_if_modified(|known| {
            let changed = known.trouble != trouble;
            known.trouble.clone_from(&trouble);
            changed
        });
        match trouble.as_str() {
            "" if changed => info!(receiver = name, "The receiver takes notifications again"),
            "" => {}
            trouble if changed => warn!("Notifications are not delivered: {trouble}"),
            _ => {}
        }
    }
}

/// Also when the time to tell what is pending is over.
impl Drop for Worker {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Asks a pipeline what stands; `None` if it has not begun to judge, or is gone.
async fn standing(pipeline: mpsc::Sender<Command>) -> Option<Vec<Delta>> {
    let (answer, received) = oneshot::channel();
    pipeline.send(Command::Standing(answer)).await.ok()?;
    received.await.ok()?
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
