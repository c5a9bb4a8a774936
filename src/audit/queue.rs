//! The work queue: the keys of objects that wait to be evaluated. The latest state of the object is evaluated.
//!
//! As in client-go's work queue, a key is in it once, is never handed to two threads at a time, and is queued again if it
//! changed during its evaluation. Nothing is dropped. The time that a key waits is bounded by the number of keys, not by the
//! number of changes: within a priority the oldest goes first, and no priority is without a share.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use crate::model::object::ObjectKey;

/// Why an object is evaluated, as far as recorders and metrics distinguish it; the more urgent reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The object changed just now.
    Change,
    /// The object is evaluated with many others: at the start, under new policies, because something it depends on changed.
    Snapshot,
}

impl Lane {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Change, Self::Snapshot];

    /// Returns the word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Snapshot => "snapshot",
        }
    }
}

/// The priorities of keys, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueuePriority {
    /// The object changed just now.
    Change,
    /// Something that its results depend on changed: a looked-up object, its Namespace, the time.
    Dependency,
    /// It is evaluated with all others: at the start, under new policies.
    Bulk,
}

impl QueuePriority {
    pub(crate) fn lane(self) -> Lane {
        if self == Self::Change { Lane::Change } else { Lane::Snapshot }
    }
}

/// The order of priorities, repeated: while keys of all priorities wait, every other key is that of a change. Instead of a
/// priority without keys, the highest one with keys is next.
const TURNS: [QueuePriority; 4] =
    [QueuePriority::Change, QueuePriority::Dependency, QueuePriority::Change, QueuePriority::Bulk];

/// An owner is evaluated after those of its dependents that are queued at most this long after it, so that the number of
/// results that it covers is known when it is reported.
const DEPENDENTS_FIRST: Duration = Duration::from_secs(5);

/// The number of keys for which memory is always kept.
const ROOM: usize = 1_024;

/// The place of a key among those of its priority: the lowest goes first. The number makes it unique.
type QueuePosition = (Instant, u64);

/// The keys of objects to evaluate.
#[derive(Debug, Default)]
pub struct Queue {
    /// By priority.
    order: [BTreeMap<QueuePosition, ObjectKey>; 3],
    waiting: HashMap<ObjectKey, WaitingKey>,
    judging: HashMap<ObjectKey, Queued>,
    /// How many positions were assigned, and how many keys were taken.
    positions: u64,
    turns: usize,
}

/// A key that waits.
#[derive(Debug)]
struct WaitingKey {
    queued: Queued,
    is_dependent: bool,
    /// `None` during the evaluation of its object: the key gets a position after that.
    position: Option<QueuePosition>,
}

/// How a key came into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// When its object, or something that its results depend on, changed first.
    pub since: Instant,
    /// The highest priority that it was queued with.
    pub(crate) priority: QueuePriority,
}

impl Queue {
    /// Adds `key`, or raises its priority if it waits already.
    pub(crate) fn push(&mut self, key: ObjectKey, priority: QueuePriority, now: Instant) {
        self.add(key, priority, false, now);
    }

    /// The same for a dependent, which goes before its owner, unless that changed.
    pub(crate) fn push_dependent(&mut self, key: ObjectKey, priority: QueuePriority, now: Instant) {
        self.add(key, priority, true, now);
    }

    fn add(&mut self, key: ObjectKey, priority: QueuePriority, is_dependent: bool, now: Instant) {
        if let Some(known) = self.waiting.get_mut(&key) {
            if known.queued.priority <= priority {
                return;
            }
            if let Some(position) = known.position.take() {
                self.order[known.queued.priority as usize].remove(&position);
            }
            known.queued.priority = priority;
        } else {
            let queued = Queued { since: now, priority };
            self.waiting.insert(key.clone(), WaitingKey { queued, is_dependent, position: None });
        }
        if !self.judging.contains_key(&key) {
            self.place(key);
        }
    }

    /// Gives a key that waits its position.
    fn place(&mut self, key: ObjectKey) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let Queued { since, priority } = waiting.queued;
        let after_dependents = priority != QueuePriority::Change && !waiting.is_dependent;
        let at = if after_dependents { since + DEPENDENTS_FIRST } else { since };
        self.positions += 1;
        let position = (at, self.positions);
        waiting.position = Some(position);
        self.order[priority as usize].insert(position, key);
    }

    /// Takes the next key; its object counts as being evaluated until [`Queue::done`].
    pub fn pop(&mut self) -> Option<ObjectKey> {
        let turn = TURNS[self.turns % TURNS.len()];
        self.turns += 1;
        let key = match self.order[turn as usize].pop_first() {
            Some((_, key)) => key,
            None => self.order.iter_mut().find_map(BTreeMap::pop_first)?.1,
        };
        let waiting = self.waiting.remove(&key)?;
        self.judging.insert(key.clone(), waiting.queued);
        Some(key)
    }

    /// Ends the evaluation of `key`, which waits again if it was queued meanwhile; returns how it had come into the queue.
    pub fn done(&mut self, key: &ObjectKey) -> Option<Queued> {
        let queued = self.judging.remove(key)?;
        self.place(key.clone());
        Some(queued)
    }

    /// Returns the keys whose objects are being evaluated.
    pub fn judging(&self) -> impl Iterator<Item = &ObjectKey> {
        self.judging.keys()
    }

    /// Whether `key` waits to be evaluated, or to be evaluated again.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.waiting.contains_key(key)
    }

    /// Whether `key` waits or is being evaluated.
    pub fn is_on_its_way(&self, key: &ObjectKey) -> bool {
        self.has(key) || self.judging.contains_key(key)
    }

    /// Removes a key whose object was deleted.
    pub fn forget(&mut self, key: &ObjectKey) {
        if let Some(WaitingKey { queued, position: Some(position), .. }) = self.waiting.remove(key) {
            self.order[queued.priority as usize].remove(&position);
        }
    }

    /// Returns how many keys wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether keys that were queued up to a time, as something they depend on changed, wait or are being evaluated.
    pub(crate) fn has_dependencies_since(&self, time: Instant) -> bool {
        let dependency = |queued: &Queued| queued.priority == QueuePriority::Dependency && queued.since <= time;
        let first = self.order[QueuePriority::Dependency as usize].first_key_value();
        first.is_some_and(|((at, _), _)| *at <= time + DEPENDENTS_FIRST) || self.judging.values().any(dependency)
    }

    /// Gives back the memory of many keys, when none waits.
    pub fn shrink(&mut self) {
        self.waiting.shrink_to(ROOM);
        self.judging.shrink_to(ROOM);
    }

    /// Whether nothing waits and nothing is being evaluated.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.judging.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        QueuePriority::{Bulk, Change, Dependency},
        *,
    };
    use crate::model::object::Kind;

    fn key(name: &str) -> ObjectKey {
        let kind = Kind::sample("", "pods", "Pod");
        ObjectKey { kind, namespace: None, name: name.into(), copy: 0 }
    }

    fn rest(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop()).map(|key| key.name.to_string()).collect()
    }

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn changes_overtake_the_snapshot_and_come_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["a", "b", "c"] {
            queue.push(key(name), Bulk, now);
        }
        queue.push(key("c"), Change, now);
        queue.push(key("c"), Change, now);
        assert_eq!(rest(&mut queue), ["c", "a", "b"]);
    }

    #[test]
    fn a_key_is_never_evaluated_twice_at_a_time_and_its_last_change_is_not_lost() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key("a"), Change, now);
        assert_eq!(queue.pop(), Some(key("a")));
        queue.push(key("a"), Change, now);
        assert_eq!(queue.pop(), None);
        assert!(!queue.is_idle());
        assert!(queue.done(&key("a")).is_some());
        assert_eq!(queue.pop(), Some(key("a")));
        queue.done(&key("a"));
        assert!(queue.is_idle() && queue.pop().is_none());
    }

    #[test]
    fn a_key_that_changes_often_is_in_the_queue_once() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        for time in 0..1_000 {
            for priority in [Bulk, Dependency, Change, Dependency] {
                queue.push(key("hot"), priority, after(start, time));
            }
        }
        queue.push(key("quiet"), Change, after(start, 1_000));
        assert_eq!((queue.waiting(), queue.order.iter().map(BTreeMap::len).sum::<usize>()), (2, 2));
        assert_eq!(rest(&mut queue), ["hot", "quiet"]);
    }

    #[test]
    fn the_wait_depends_on_the_keys_and_not_on_their_changes() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let hot: Vec<_> = (0..150).map(|number| key(&number.to_string())).collect();
        let mut waited = None;
        for evaluation in 0..10_000_u64 {
            let now = after(start, evaluation);
            // Each key changes during each evaluation.
            for key in &hot {
                queue.push(key.clone(), Change, now);
            }
            if evaluation == 5_000 {
                queue.push(key("new"), Change, now);
            }
            let evaluated = queue.pop().unwrap();
            if evaluated == key("new") {
                waited = Some(evaluation - 5_000);
            }
            queue.done(&evaluated);
        }
        assert!(waited.is_some_and(|evaluations| evaluations <= 151), "{waited:?}");
    }

    #[test]
    fn every_priority_gets_its_share_under_load_of_the_others() {
        for starved in [Change, Dependency, Bulk] {
            let (mut queue, start) = (Queue::default(), Instant::now());
            let names = ["a", "b", "c"];
            for name in names {
                queue.push(key(name), starved, start);
            }
            let mut evaluated = Vec::new();
            for evaluation in 0..12 {
                for (number, priority) in [Change, Dependency, Bulk].into_iter().enumerate() {
                    if priority != starved {
                        queue.push(key(&format!("hot {number}")), priority, after(start, evaluation));
                    }
                }
                let next = queue.pop().unwrap();
                queue.done(&next);
                evaluated.push(next.name.to_string());
            }
            assert!(names.iter().all(|name| evaluated.iter().any(|key| key == name)), "{starved:?}: {evaluated:?}");
        }
    }

    #[test]
    fn dependents_of_a_snapshot_go_first() {
        for priority in [Dependency, Bulk] {
            let (mut queue, now) = (Queue::default(), Instant::now());
            queue.push(key("owner"), priority, now);
            queue.push_dependent(key("pod"), priority, now);
            queue.push(key("changed"), Change, now);
            assert_eq!(rest(&mut queue), ["changed", "pod", "owner"], "{priority:?}");
        }
    }

    #[test]
    fn dependents_do_not_hold_back_an_owner_for_ever() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        queue.push(key("owner"), Bulk, start);
        let evaluated = (0..100).find(|second| {
            let now = after(start, second * 1_000);
            for name in ["a", "b"] {
                queue.push_dependent(key(name), Bulk, now);
            }
            let next = queue.pop().unwrap();
            queue.done(&next);
            next == key("owner")
        });
        assert!(evaluated.is_some_and(|second| second <= 8), "{evaluated:?}");
    }

    #[test]
    fn a_round_ends_when_its_keys_are_evaluated_and_not_when_the_queue_is_empty() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        queue.push(key("hot"), Change, start);
        queue.push(key("bulk"), Bulk, start);
        queue.push(key("looks up"), Dependency, start);
        assert!(queue.has_dependencies_since(start));
        while let Some(next) = queue.pop() {
            assert!(next == key("hot") || queue.has_dependencies_since(start));
            queue.done(&next);
            queue.push(key("hot"), Change, after(start, 1));
            if next == key("looks up") {
                break;
            }
        }
        queue.push(key("later"), Dependency, after(start, 1));
        assert!(!queue.has_dependencies_since(start) && !queue.is_idle());
    }

    #[test]
    fn memory_of_many_keys_is_given_back() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for number in 0..10 * ROOM {
            queue.push(key(&number.to_string()), Bulk, now);
        }
        queue.forget(&key("0"));
        while let Some(key) = queue.pop() {
            queue.done(&key);
        }
        queue.push(key("0"), Bulk, now);
        queue.push(key("a"), Change, now);
        queue.shrink();
        let room = [queue.waiting.capacity(), queue.judging.capacity()];
        assert!(room.iter().all(|room| *room <= 2 * ROOM), "{room:?}");
        assert_eq!(rest(&mut queue), ["a", "0"]);
    }

    #[test]
    fn deleted_objects_are_forgotten() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key("a"), Bulk, now);
        queue.forget(&key("a"));
        assert!(queue.pop().is_none() && queue.is_idle());
    }
}
