//! The work queue of the judges: keys of objects, of which the latest state is judged.
//!
//! As in client-go's work queue, a key is in it once, is never handed to two judges at a time, and is queued again if it
//! changed while it was judged. Nothing is dropped.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use crate::model::object::ObjectKey;

/// Which of two priorities a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The object changed just now. Goes first, so that twenty thousand objects at the gate or under new policies do
    /// not delay the one that somebody is looking at.
    Change,
    /// The object is judged with many others: at the gate, under new policies, because something it depends on changed.
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

/// Keys for which there is room at any time.
const ROOM: usize = 1_024;

/// Keys of objects to judge, changes before snapshots.
#[derive(Debug, Default)]
pub struct Queue {
    change: VecDeque<ObjectKey>,
    snapshot: VecDeque<ObjectKey>,
    /// Every key that waits. The lanes may hold a key twice, or one that no longer waits.
    waiting: HashMap<ObjectKey, Queued>,
    judging: HashMap<ObjectKey, Queued>,
}

/// How a key came into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// When its object, or what the verdict depends on, changed first.
    pub since: Instant,
    /// The higher of the priorities that were asked for.
    pub lane: Lane,
}

impl Queue {
    /// Adds `key`, if it does not wait already; a change moves it before the snapshot.
    pub fn push(&mut self, key: ObjectKey, lane: Lane, now: Instant) {
        self.add(key, lane, false, now);
    }

    /// The same for a dependent: of a snapshot it is judged before its owner, which then knows for how many it stands.
    pub fn push_dependent(&mut self, key: ObjectKey, lane: Lane, now: Instant) {
        self.add(key, lane, true, now);
    }

    fn add(&mut self, key: ObjectKey, lane: Lane, is_dependent: bool, now: Instant) {
        match self.waiting.get_mut(&key) {
            Some(_) if lane == Lane::Snapshot => return,
            Some(queued) => queued.lane = lane,
            None => {
                self.waiting.insert(key.clone(), Queued { since: now, lane });
            }
        }
        // A key that is being judged is queued again by `done`.
        if !self.judging.contains_key(&key) {
            match lane {
                Lane::Change => self.change.push_back(key),
                Lane::Snapshot if is_dependent => self.snapshot.push_front(key),
                Lane::Snapshot => self.snapshot.push_back(key),
            }
        }
    }

    /// Takes the next key; it counts as being judged until [`Queue::done`].
    pub fn pop(&mut self) -> Option<ObjectKey> {
        loop {
            let key = self.change.pop_front().or_else(|| self.snapshot.pop_front())?;
            if self.judging.contains_key(&key) {
                continue;
            }
            if let Some(queued) = self.waiting.remove(&key) {
                self.judging.insert(key.clone(), queued);
                return Some(key);
            }
        }
    }

    /// Ends the judging of `key`, and queues it again if it changed meanwhile; returns how it had come into the queue.
    pub fn done(&mut self, key: &ObjectKey) -> Option<Queued> {
        if self.waiting.contains_key(key) {
            self.change.push_back(key.clone());
        }
        self.judging.remove(key)
    }

    /// Returns the keys that are being judged.
    pub fn judging(&self) -> impl Iterator<Item = &ObjectKey> {
        self.judging.keys()
    }

    /// Whether `key` waits to be judged, or to be judged again.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.waiting.contains_key(key)
    }

    /// Whether `key` waits or is being judged.
    pub fn is_on_its_way(&self, key: &ObjectKey) -> bool {
        self.has(key) || self.judging.contains_key(key)
    }

    /// Removes a key whose object is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.waiting.remove(key);
    }

    /// Returns how many keys wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives back the room that many keys took, when nothing waits.
    pub fn shrink(&mut self) {
        for lane in [&mut self.change, &mut self.snapshot] {
            lane.retain(|key| self.waiting.contains_key(key));
            lane.shrink_to(ROOM);
        }
        self.waiting.shrink_to(ROOM);
        self.judging.shrink_to(ROOM);
    }

    /// Whether nothing waits and nothing is being judged.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.judging.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::Kind;

    fn key(name: &str) -> ObjectKey {
        let kind = Kind::sample("", "pods", "Pod");
        ObjectKey { kind, namespace: None, name: name.into(), copy: 0 }
    }

    #[test]
    fn changes_overtake_the_snapshot_and_come_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["a", "b", "c"] {
            queue.push(key(name), Lane::Snapshot, now);
        }
        queue.push(key("c"), Lane::Change, now);
        queue.push(key("c"), Lane::Change, now);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|key| key.name.to_string()).collect();
        assert_eq!(order, ["c", "a", "b"]);
    }

    #[test]
    fn a_key_is_never_judged_twice_at_a_time_and_its_last_change_is_not_lost() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key("a"), Lane::Change, now);
        assert_eq!(queue.pop(), Some(key("a")));
        queue.push(key("a"), Lane::Change, now);
        assert_eq!(queue.pop(), None);
        assert!(!queue.is_idle());
        assert!(queue.done(&key("a")).is_some());
        assert_eq!(queue.pop(), Some(key("a")));
        queue.done(&key("a"));
        assert!(queue.is_idle() && queue.pop().is_none());
    }

    #[test]
    fn dependents_of_a_snapshot_go_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key("owner"), Lane::Snapshot, now);
        queue.push_dependent(key("pod"), Lane::Snapshot, now);
        queue.push(key("changed"), Lane::Change, now);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|key| key.name.to_string()).collect();
        assert_eq!(order, ["changed", "pod", "owner"]);
    }

    #[test]
    fn what_many_keys_took_is_given_back() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for number in 0..10 * ROOM {
            queue.push(key(&number.to_string()), Lane::Snapshot, now);
        }
        queue.forget(&key("0"));
        while let Some(key) = queue.pop() {
            queue.done(&key);
        }
        queue.push(key("0"), Lane::Snapshot, now);
        queue.push(key("a"), Lane::Change, now);
        queue.shrink();
        let room =
            [queue.waiting.capacity(), queue.judging.capacity(), queue.change.capacity(), queue.snapshot.capacity()];
        assert!(room.iter().all(|room| *room <= 2 * ROOM), "{room:?}");
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(key("a")), Some(key("0")), None));
    }

    #[test]
    fn forgets_what_is_gone() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key("a"), Lane::Snapshot, now);
        queue.forget(&key("a"));
        assert!(queue.pop().is_none() && queue.is_idle());
    }
}
