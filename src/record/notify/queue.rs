//! The notifications that were not sent to one receiver yet.
//!
//! Bounded: notifications that do not fit are left out and counted, the latest of the least urgent first. Those about
//! one violation are sent in the order of its changes. A violation that is resolved before its appearance was sent gets
//! no notification, as with Events.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use super::notification::{Batch, Notification};
use crate::audit::{ledger::Lifecycle, queue::Lane};

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

/// The position of a notification: whether it belongs to a snapshot, which is sent after the changes, and its sequence
/// number.
type NotificationPosition = (bool, u64);

#[derive(Debug)]
pub(super) struct NotificationQueue {
    batching: Batching,
    waiting: BTreeMap<NotificationPosition, Arc<Notification>>,
    /// The positions in `waiting` of the notifications about each violation, in order.
    violations: HashMap<String, VecDeque<NotificationPosition>>,
    /// When the first notification of the next batch was queued.
    opened: Option<Instant>,
    left_out: u64,
    last: u64,
}

impl NotificationQueue {
    pub(super) fn new(batching: Batching) -> Self {
        Self { batching, waiting: BTreeMap::new(), violations: HashMap::new(), opened: None, left_out: 0, last: 0 }
    }

    /// Adds a notification; returns how many were left out because of it.
    pub(super) fn push(&mut self, notification: Arc<Notification>, now: Instant) -> u64 {
        self.line_up(notification, now);
        self.leave_out()
    }

    /// Removes the notification that a violation appeared, if it was not sent before the violation was resolved;
    /// returns whether it was there.
    pub(super) fn supersede(&mut self, resolved: &Notification) -> bool {
        let is_it = |waiting: &Notification| {
            let known = (&waiting.violation, waiting.since, waiting.event);
            known == (&resolved.violation, resolved.since, Lifecycle::Appeared)
        };
        let last = self.violations.get(&resolved.violation).and_then(|positions| positions.back().copied());
        let superseded = last.filter(|position| self.waiting.get(position).is_some_and(|waiting| is_it(waiting)));
        superseded.is_some_and(|position| self.remove(position).is_some())
    }

    /// Returns when the next batch may be taken; `None` if the queue is empty.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let whole = self.waiting.len() >= self.batching.items;
        self.opened.map(|opened| if whole { now } else { opened + self.batching.wait })
    }

    /// Takes the next batch, with the count of the notifications left out since the last one.
    pub(super) fn take(&mut self) -> Batch {
        let positions: Vec<NotificationPosition> = self.waiting.keys().take(self.batching.items).copied().collect();
        let notifications = positions.into_iter().filter_map(|position| self.remove(position)).collect();
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

    fn line_up(&mut self, notification: Arc<Notification>, now: Instant) {
        self.last += 1;
        let positions = self.violations.entry(notification.violation.clone()).or_default();
        // Never before an earlier notification about the same violation.
        let backlog = notification.lane == Lane::Snapshot || positions.back().is_some_and(|(backlog, _)| *backlog);
        positions.push_back((backlog, self.last));
        self.waiting.insert((backlog, self.last), notification);
        self.opened.get_or_insert(now);
    }

    fn remove(&mut self, position: NotificationPosition) -> Option<Arc<Notification>> {
        let notification = self.waiting.remove(&position)?;
        if let Some(positions) = self.violations.get_mut(&notification.violation) {
            positions.retain(|known| *known != position);
            if positions.is_empty() {
                self.violations.remove(&notification.violation);
            }
        }
        if self.waiting.is_empty() {
            self.opened = None;
        }
        Some(notification)
    }

    fn leave_out(&mut self) -> u64 {
        let mut number = 0;
        while self.len() > self.batching.queued {
            let last = self.waiting.last_key_value().map(|(position, _)| *position);
            let removed = last.and_then(|position| self.remove(position));
            if removed.is_none() {
                break;
            }
            number += 1;
        }
        self.left_out += number;
        number
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

    fn drain(queue: &mut NotificationQueue) -> Vec<String> {
        let text = |notification: Arc<Notification>| format!("{} {}", notification.message, notification.event.word());
        queue.take().notifications.into_iter().map(text).collect()
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
        assert_eq!(drain(&mut queue), ["a appeared", "b appeared"]);
        assert_eq!(queue.due(later), Some(now + Duration::from_secs(5)), "it has waited as long as the others");
        assert_eq!((drain(&mut queue), queue.due(later)), (vec!["c appeared".to_owned()], None));
        assert!(queue.violations.is_empty());
    }

    #[test]
    fn changes_go_first_but_never_before_earlier_notifications_of_their_violation() {
        let (mut queue, now) = (queue(9, 10), Instant::now());
        queue.push(notification("a", Resolved, Snapshot), now);
        queue.push(notification("b", Appeared, Snapshot), now);
        queue.push(notification("c", Happened, Change), now);
        queue.push(notification("a", Appeared, Change), now);
        assert_eq!(drain(&mut queue), ["c happened", "a resolved", "b appeared", "a appeared"]);
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
        let batch = queue.take();
        let messages: Vec<_> = batch.notifications.iter().map(|notification| notification.message.as_str()).collect();
        assert_eq!((messages, batch.left_out), (vec!["e", "a", "b"], 2));
        queue.push(notification("f", Appeared, Change), now);
        assert_eq!(queue.take().left_out, 0, "it is counted once");
    }
}
