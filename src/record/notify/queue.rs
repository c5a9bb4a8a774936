//! The notifications that one receiver was not told yet.
//!
//! Bounded: what is more than fits is left out, the latest of the least urgent first, and counted. Notifications about one
//! violation are told in the order in which it happened. Of a violation that is over before anybody was told of it nobody
//! needs to know, as of Events.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use super::notification::{Batch, Notification};
use crate::audit::{ledger::Lifecycle, queue::Lane};

/// How notifications are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batching {
    /// At most so many at a time.
    pub(super) items: usize,
    /// How long the first of them waits for others.
    pub(super) wait: Duration,
    /// At most so many wait.
    pub(super) queued: usize,
}

/// Whether it is part of what was found at once, which waits until what somebody just changed is told; and its number.
type Place = (bool, u64);

#[derive(Debug)]
pub(super) struct NotificationQueue {
    batching: Batching,
    waiting: BTreeMap<Place, Arc<Notification>>,
    /// The places in `waiting` of what is about one violation, in order.
    violations: HashMap<String, VecDeque<Place>>,
    /// When the first of the next batch came.
    opened: Option<Instant>,
    left_out: u64,
    last: u64,
}

impl NotificationQueue {
    pub(super) fn new(batching: Batching) -> Self {
        Self { batching, waiting: BTreeMap::new(), violations: HashMap::new(), opened: None, left_out: 0, last: 0 }
    }

    /// Adds one; returns how many were left out for that.
    pub(super) fn push(&mut self, notification: Arc<Notification>, now: Instant) -> u64 {
        self.line_up(notification, now);
        self.leave_out()
    }

    /// Removes that a violation appeared, if that was not told and it is over now; returns whether it was there.
    pub(super) fn supersede(&mut self, resolved: &Notification) -> bool {
        let is_it = |waiting: &Notification| {
            let known = (&waiting.violation, waiting.since, waiting.event);
            known == (&resolved.violation, resolved.since, Lifecycle::Appeared)
        };
        let last = self.violations.get(&resolved.violation).and_then(|places| places.back().copied());
        let superseded = last.filter(|place| self.waiting.get(place).is_some_and(|waiting| is_it(waiting)));
        superseded.is_some_and(|place| self.remove(place).is_some())
    }

    /// Returns when the next batch may be taken; `None` if there is nothing to tell.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let whole = self.waiting.len() >= self.batching.items;
        self.opened.map(|opened| if whole { now } else { opened + self.batching.wait })
    }

    /// Takes the next batch, with what was left out until now.
    pub(super) fn take(&mut self) -> Batch {
        let places: Vec<Place> = self.waiting.keys().take(self.batching.items).copied().collect();
        let notifications = places.into_iter().filter_map(|place| self.remove(place)).collect();
        Batch { notifications, left_out: std::mem::take(&mut self.left_out) }
    }

    /// Lets everything be taken at once.
    pub(super) fn expedite(&mut self) {
        self.batching.wait = Duration::ZERO;
    }

    /// Returns how many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn line_up(&mut self, notification: Arc<Notification>, now: Instant) {
        self.last += 1;
        let places = self.violations.entry(notification.violation.clone()).or_default();
        // Never before what happened to the same violation earlier.
        let backlog = notification.lane == Lane::Snapshot || places.back().is_some_and(|(backlog, _)| *backlog);
        places.push_back((backlog, self.last));
        self.waiting.insert((backlog, self.last), notification);
        self.opened.get_or_insert(now);
    }

    fn remove(&mut self, place: Place) -> Option<Arc<Notification>> {
        let notification = self.waiting.remove(&place)?;
        if let Some(places) = self.violations.get_mut(&notification.violation) {
            places.retain(|known| *known != place);
            if places.is_empty() {
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
            let last = self.waiting.last_key_value().map(|(place, _)| *place);
            let removed = last.and_then(|place| self.remove(place));
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
        let text = |told: Arc<Notification>| format!("{} {}", told.message, told.event.word());
        queue.take().notifications.into_iter().map(text).collect()
    }

    use Lane::{Change, Snapshot};
    use Lifecycle::{Appeared, Happened, Resolved};

    #[test]
    fn a_batch_waits_for_others_until_it_is_whole() {
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
    fn changes_go_first_but_never_before_what_happened_earlier() {
        let (mut queue, now) = (queue(9, 10), Instant::now());
        queue.push(notification("a", Resolved, Snapshot), now);
        queue.push(notification("b", Appeared, Snapshot), now);
        queue.push(notification("c", Happened, Change), now);
        queue.push(notification("a", Appeared, Change), now);
        assert_eq!(drain(&mut queue), ["c happened", "a resolved", "b appeared", "a appeared"]);
    }

    #[test]
    fn what_is_over_before_it_was_told_is_not_told() {
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
    fn what_does_not_fit_is_counted_and_what_was_just_changed_is_kept() {
        let (mut queue, now) = (queue(9, 3), Instant::now());
        let left_out: u64 =
            ["a", "b", "c", "d"].iter().map(|message| queue.push(notification(message, Appeared, Snapshot), now)).sum();
        assert_eq!(left_out, 1);
        assert_eq!(queue.push(notification("e", Appeared, Change), now), 1);
        let batch = queue.take();
        let messages: Vec<_> = batch.notifications.iter().map(|told| told.message.as_str()).collect();
        assert_eq!((messages, batch.left_out), (vec!["e", "a", "b"], 2));
        queue.push(notification("f", Appeared, Change), now);
        assert_eq!(queue.take().left_out, 0, "it is counted once");
    }
}
