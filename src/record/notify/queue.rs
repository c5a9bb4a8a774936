//! The notifications that were not sent to one receiver yet.
//!
//! Bounded: notifications that do not fit are left out and counted, the latest of the least urgent first. Those about
//! one violation are sent in the order of its changes. A violation that is resolved before its appearance was sent gets
//! no notification, as with Events.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::notification::{Batch, Notification};
use crate::{
    audit::{ledger::Lifecycle, queue::Lane},
    record::delaying_queue::DelayingQueue,
};

/// How notifications are batched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batching {
    /// The most notifications in one batch.
    pub(super) items: usize,
    /// How long the first notification of a batch waits for others.
    pub(super) wait: Duration,
    /// The most notifications that wait.
    pub(super) queued: usize,
}

#[derive(Debug)]
pub(super) struct NotificationQueue {
    batching: Batching,
    /// By violation. All are due: a batch waits, not a notification.
    waiting: DelayingQueue<String, Lane, Arc<Notification>>,
    /// When the first notification since the queue was empty came.
    opened: Option<Instant>,
    left_out: u64,
}

impl NotificationQueue {
    pub(super) fn new(batching: Batching) -> Self {
        Self { batching, waiting: DelayingQueue::default(), opened: None, left_out: 0 }
    }

    /// Adds a notification; returns how many were left out because of it.
    pub(super) fn push(&mut self, notification: Arc<Notification>, now: Instant) -> u64 {
        let (violation, lane) = (notification.violation.clone(), notification.lane);
        if self.len() == 0 {
            self.opened = Some(now);
        }
        self.waiting.push(&violation, lane, notification, now);
        let is_full = self.len() > self.batching.queued;
        let left_out = u64::from(is_full && self.waiting.pop_last(now).is_some());
        self.left_out += left_out;
        left_out
    }

    /// Removes the notification that a violation appeared, if it was not sent before the violation was resolved;
    /// returns whether it was there.
    pub(super) fn supersede(&mut self, resolved: &Notification) -> bool {
        let is_it =
            |waiting: &Arc<Notification>| (waiting.since, waiting.event) == (resolved.since, Lifecycle::Appeared);
        self.waiting.remove_last(&resolved.violation, is_it).is_some()
    }

    /// Returns when the next batch may be taken; `None` if the queue is empty.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let whole = self.waiting.len() >= self.batching.items;
        let opened = self.opened.filter(|_| self.len() > 0);
        opened.map(|opened| if whole { now } else { opened + self.batching.wait })
    }

    /// Takes the next batch, with the count of the notifications left out since the last one.
    pub(super) fn take(&mut self, now: Instant) -> Batch {
        let next = || {
            let taken = self.waiting.pop(now)?;
            self.waiting.done(&taken.key);
            Some(taken.value)
        };
        let notifications = std::iter::from_fn(next).take(self.batching.items).collect();
        Batch { notifications, left_out: std::mem::take(&mut self.left_out) }
    }

    /// Makes every batch ready at once.
    pub(super) fn expedite(&mut self) {
        self.batching.wait = Duration::ZERO;
    }

    /// Returns how many notifications wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(message: &str, event: Lifecycle, lane: Lane) -> Arc<Notification> {
        Arc::new(Notification { lane, ..Notification::sample(event, message) })
    }

    fn queue(items: usize, queued: usize) -> NotificationQueue {
        NotificationQueue::new(Batching { items, wait: Duration::from_secs(5), queued })
    }

    fn drain(queue: &mut NotificationQueue, now: Instant) -> Vec<String> {
        let text = |notification: Arc<Notification>| format!("{} {}", notification.message, notification.event.word());
        queue.take(now).notifications.into_iter().map(text).collect()
    }

    use Lane::{Change, Snapshot};
    use Lifecycle::{Appeared, Happened, Resolved};

    #[test]
    fn a_batch_waits_until_it_is_full() {
        let (mut queue, now) = (queue(2, 10), Instant::now());
        assert_eq!(queue.due(now), None);
        queue.push(notification("a", Appeared, Change), now);
        let later = now + Duration::from_secs(1);
        assert_eq!(queue.due(later), Some(now + Duration::from_secs(5)));
        queue.push(notification("b", Appeared, Change), later);
        queue.push(notification("c", Appeared, Change), later);
        assert_eq!(queue.due(later), Some(later));
        assert_eq!(drain(&mut queue, later), ["a appeared", "b appeared"]);
        assert_eq!(queue.due(later), Some(now + Duration::from_secs(5)), "it has waited as long as the others");
        assert_eq!((drain(&mut queue, later), queue.due(later)), (vec!["c appeared".to_owned()], None));
    }

    #[test]
    fn changes_go_first_but_never_before_earlier_notifications_of_their_violation() {
        let (mut queue, now) = (queue(9, 10), Instant::now());
        queue.push(notification("a", Resolved, Snapshot), now);
        queue.push(notification("b", Appeared, Snapshot), now);
        queue.push(notification("c", Happened, Change), now);
        queue.push(notification("a", Appeared, Change), now);
        assert_eq!(drain(&mut queue, now), ["c happened", "a resolved", "a appeared", "b appeared"]);
    }

    #[test]
    fn a_violation_resolved_before_it_was_sent_is_not_sent() {
        let (mut queue, now) = (queue(9, 10), Instant::now());
        let resolved = notification("a", Resolved, Change);
        assert!(!queue.supersede(&resolved));
        queue.push(notification("a", Appeared, Snapshot), now);
        let another = Notification { since: now_plus(1), ..Notification::clone(&resolved) };
        assert!(!queue.supersede(&another), "another appearance");
        assert!(queue.supersede(&resolved) && queue.len() == 0 && queue.due(now).is_none());
    }

    fn now_plus(seconds: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn notifications_that_do_not_fit_are_counted_and_changes_are_kept() {
        let (mut queue, now) = (queue(9, 3), Instant::now());
        let left_out: u64 =
            ["a", "b", "c", "d"].iter().map(|message| queue.push(notification(message, Appeared, Snapshot), now)).sum();
        assert_eq!(left_out, 1);
        assert_eq!(queue.push(notification("e", Appeared, Change), now), 1);
        let batch = queue.take(now);
        let messages: Vec<_> = batch.notifications.iter().map(|notification| notification.message.as_str()).collect();
        assert_eq!((messages, batch.left_out), (vec!["e", "a", "b"], 2));
        queue.push(notification("f", Appeared, Change), now);
        assert_eq!(queue.take(now).left_out, 0, "it is counted once");
    }
}
