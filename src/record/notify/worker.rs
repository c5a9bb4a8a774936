//! Sends one receiver the notifications in its queue, one request at a time.
//!
//! A request that fails is retried without limit, with growing pauses, while the queue fills; one that the receiver
//! refuses is counted and not retried.

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
    http::RequestError,
    notification::{AuditIdentity, Batch, Notification},
    queue::NotificationQueue,
    receiver::{Outgoing, Receiver},
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

/// Pauses, unless the receiver asks for longer ones; each is varied by up to a quarter, so that many retries do not
/// coincide.
const BACKOFF: Backoff = Backoff::between(Duration::from_millis(500), Duration::from_mins(1));
/// Failures in a row before they are reported.
const FAILURES: u32 = 3;
/// Failures in a row after which a worker gives up at the end of the run.
const LAST_FAILURES: u32 = 3;
/// How soon the open violations are queried again while evaluation has not started.
const NOT_YET: Duration = Duration::from_secs(2);

/// What a worker needs besides its receiver.
#[derive(Clone)]
pub(super) struct WorkerContext {
    pub(super) audit: AuditIdentity,
    /// Takes the query for open violations.
    pub(super) pipeline: mpsc::Sender<Command>,
    pub(super) metrics: Arc<Metrics>,
}

/// The result of a request to the receiver, or of the query for open violations.
enum WorkerResult {
    Sent(Result<(), RequestError>),
    OpenViolations(Option<Vec<Delta>>),
}

pub(super) struct Worker {
    receiver: Arc<Receiver>,
    context: WorkerContext,
    /// The name in metrics.
    label: String,
    health: watch::Sender<Health>,
    queue: NotificationQueue,
    /// The requests of the current batch that are not sent yet, the next first.
    unsent: VecDeque<Outgoing>,
    /// Whether they resend open violations, which are out of date when they have to wait.
    is_resent: bool,
    /// When all open violations are sent again.
    resend: Option<Instant>,
    attempt: JoinSet<WorkerResult>,
    failures: u32,
    /// How many notifications will not be sent.
    lost: u64,
    pause: Option<Instant>,
    /// Whether notifications were left out since the last success.
    leaves_out: bool,
    /// Whether the sink is dropped.
    ending: bool,
}

impl Worker {
    pub(super) fn new(receiver: Arc<Receiver>, context: WorkerContext, health: watch::Sender<Health>) -> Self {
        let label = format!("notify/{}", receiver.name);
        context.metrics.recorder_began(label.clone());
        Self {
            label,
            queue: NotificationQueue::new(receiver.batching),
            resend: receiver.resend_every().map(|_| Instant::now()),
            receiver,
            context,
            health,
            unsent: VecDeque::new(),
            is_resent: false,
            attempt: JoinSet::new(),
            failures: 0,
            lost: 0,
            pause: None,
            leaves_out: false,
            ending: false,
        }
    }

    /// Sends notifications until the sink is dropped and all are sent, or the receiver does not accept them.
    pub(super) async fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Arc<Notification>>) {
        let mut received = Vec::new();
        loop {
            self.context.metrics.set_notifications_pending(&self.receiver.name, self.pending());
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
                    Ok(WorkerResult::Sent(result)) => self.sent(result, Instant::now()),
                    Ok(WorkerResult::OpenViolations(open)) => self.resend(open, Instant::now()),
                    Err(_) => self.sent(Err(RequestError::Refused("was not sent the notification, because kaudit panicked (a bug)".into())), Instant::now()),
                },
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.proceed(Instant::now()),
                else => break,
            }
            if self.ending && self.attempt.is_empty() && self.pending() == 0 {
                break;
            }
        }
    }

    fn receive(&mut self, notification: Arc<Notification>, now: Instant) {
        // A receiver that gets resends may have the violation before its appearance is sent, so its resolution is sent,
        // too.
        let is_ended = notification.event == Lifecycle::Resolved && self.receiver.resend_every().is_none();
        if is_ended && self.queue.supersede(&notification) {
            return;
        }
        if !self.receiver.matching.wants(notification.event) {
            return;
        }
        let left_out = self.queue.push(notification, now);
        if left_out > 0 {
            self.dropped("overflow", left_out);
            if !std::mem::replace(&mut self.leaves_out, true) {
                warn!(
                    receiver = self.receiver.name,
                    "The queue of this receiver is full: some notifications are left out, and the next message has their count"
                );
            }
        }
    }

    /// Notes that the sink is dropped: what is left is sent without waiting.
    fn end(&mut self) {
        self.ending = true;
        self.queue.expedite();
        (self.pause, self.resend) = (None, None);
    }

    /// Returns how many notifications are not sent yet.
    fn pending(&self) -> usize {
        let unsent = if self.is_resent { 0 } else { self.unsent.iter().map(Outgoing::notifications).sum() };
        self.queue.len() + unsent
    }

    /// Returns when to continue; `None` while a request is in flight or nothing is to be sent.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        if !self.attempt.is_empty() {
            return None;
        }
        let due = if self.unsent.is_empty() { self.queue.due(now).into_iter().chain(self.resend).min()? } else { now };
        Some(due.max(self.pause.unwrap_or(due)))
    }

    /// Sends the next request of the batch, or starts the next batch.
    fn proceed(&mut self, now: Instant) {
        if self.unsent.is_empty() {
            self.is_resent = false;
            let batch =
                if self.queue.due(now).is_some_and(|due| due <= now) { self.queue.take(now) } else { Batch::default() };
            if !batch.notifications.is_empty() {
                self.queue_messages(&batch);
            } else if self.resend.is_some_and(|due| due <= now) {
                let query = open_violations(self.context.pipeline.clone());
                self.attempt.spawn(async { WorkerResult::OpenViolations(query.await) });
                return;
            }
        }
        if let Some(message) = self.unsent.front().cloned() {
            let receiver = Arc::clone(&self.receiver);
            self.attempt.spawn(async move {
                let span = Span::request("notify");
                span.set(|| {
                    [
                        ("kaudit.receiver", receiver.name.clone().into()),
                        ("kaudit.notifications", count(message.notifications())),
                    ]
                });
                let result = receiver.send(&message).await;
                if result.is_err() {
                    span.fail("not_sent");
                }
                span.end();
                WorkerResult::Sent(result)
            });
        }
    }

    fn queue_messages(&mut self, batch: &Batch) {
        match self.receiver.outgoing(batch, &self.context.audit) {
            Ok(messages) => self.unsent.extend(messages),
            Err(why) => {
                self.dropped("template", batch.notifications.len() as u64);
                self.report(format!("was not sent notifications, because they cannot be formatted: {why}"));
            }
        }
    }

    /// Queues requests that send all open violations again.
    fn resend(&mut self, open: Option<Vec<Delta>>, now: Instant) {
        let Some(every) = self.receiver.resend_every().filter(|_| !self.ending) else { return };
        let Some(open) = open else {
            self.resend = Some(now + NOT_YET);
            return;
        };
        self.resend = Some(now + every);
        let time = Timestamp::now();
        let notifications = open.iter().flat_map(|delta| Notification::open(delta, time));
        let concerned: Vec<_> =
            notifications.filter(|notification| self.receiver.matching.concerns(notification)).map(Arc::new).collect();
        for notifications in concerned.chunks(self.receiver.batching.items) {
            self.queue_messages(&Batch { notifications: notifications.to_vec(), left_out: 0 });
        }
        self.is_resent = true;
    }

    fn sent(&mut self, result: Result<(), RequestError>, now: Instant) {
        match result {
            Ok(()) => {
                self.context.metrics.recorder_wrote(self.label.clone());
                (self.failures, self.pause, self.leaves_out) = (0, None, false);
                self.unsent.pop_front();
                self.report(String::new());
            }
            Err(RequestError::Refused(why)) => {
                (self.failures, self.pause) = (0, None);
                let refused = self.unsent.pop_front();
                if let Some(parts) = refused.as_ref().and_then(Outgoing::split) {
                    parts.into_iter().rev().for_each(|part| self.unsent.push_front(part));
                    return;
                }
                let notifications = refused.map_or(0, |message| message.notifications());
                self.dropped("refused", notifications as u64);
                self.report(why);
            }
            Err(RequestError::Later(at_least, why)) => {
                self.failures += 1;
                self.context.metrics.recorder_retries(self.label.clone());
                let pause = BACKOFF.with_jitter(self.failures);
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

    /// Drops the notifications that are not sent yet, and logs how many.
    fn give_up(&mut self) {
        let notifications = self.pending();
        if notifications > 0 {
            self.dropped("unavailable", notifications as u64);
            warn!(
                receiver = self.receiver.name,
                notifications, "Notifications were not sent before shutdown, and are lost"
            );
        }
        self.unsent.clear();
        self.queue = NotificationQueue::new(self.receiver.batching);
    }

    /// Counts notifications that will not be sent, and reports the loss.
    fn dropped(&mut self, reason: &'static str, number: u64) {
        self.context.metrics.recorder_dropped(self.label.clone(), reason, number);
        self.lost += number;
        let lost = format!("{} notifications were not sent to {}", self.lost, self.receiver.name);
        self.health.send_modify(|health| health.lost = lost);
    }

    /// Reports what is wrong; an empty `why` ends the trouble. Logs only changes.
    fn report(&self, why: String) {
        let name = &self.receiver.name;
        let trouble = if why.is_empty() { why } else { format!("receiver {name} {why}") };
        let changed = self.health.send_if_modified(|known| {
            let changed = known.trouble != trouble;
            known.trouble.clone_from(&trouble);
            changed
        });
        match trouble.as_str() {
            "" if changed => info!(receiver = name, "The receiver accepts notifications again"),
            "" => {}
            trouble if changed => warn!("Notifications are not delivered: {trouble}"),
            _ => {}
        }
    }
}

/// Counts what is not sent as lost, also when the worker is aborted.
impl Drop for Worker {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Queries a pipeline for the open violations; `None` if evaluation has not started, or the pipeline has ended.
async fn open_violations(pipeline: mpsc::Sender<Command>) -> Option<Vec<Delta>> {
    let (answer, received) = oneshot::channel();
    pipeline.send(Command::Standing(answer)).await.ok()?;
    received.await.ok()?
}
