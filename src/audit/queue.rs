//! The keys that wait to be judged: the latest state wins, nothing is dropped, no key is judged twice at a time.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use crate::model::object::ObjectKey;

/// Why a key waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The object changed just now. Goes first, so that twenty thousand objects at the gate or under new policies do
    /// not delay the one that somebody is looking at.
    Change,
    /// It is part of a snapshot, or the policies changed.
    Snapshot,
}

/// Keys to judge.
#[derive(Debug, Default)]
pub struct Queue {
    change: VecDeque<ObjectKey>,
    snapshot: VecDeque<ObjectKey>,
    /// Every key that waits. The lanes may hold a key twice or one that waits no more.
    waiting: HashMap<ObjectKey, Owed>,
    judging: HashMap<ObjectKey, Owed>,
}

/// A verdict that is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Since when.
    pub since: Instant,
    /// And why.
    pub lane: Lane,
}

impl Queue {
    /// Lets `key` wait, if it does not yet; a change moves it before the snapshot.
    pub fn push(&mut self, key: ObjectKey, lane: Lane, now: Instant) {
        match self.waiting.get_mut(&key) {
            Some(_) if lane == Lane::Snapshot => return,
            Some(owed) => owed.lane = lane,
            None => {
                self.waiting.insert(key.clone(), Owed { since: now, lane });
            }
        }
        // A key under judgement comes back into its lane when that is done.
        if !self.judging.contains_key(&key) {
            match lane {
                Lane::Change => self.change.push_back(key),
                Lane::Snapshot => self.snapshot.push_back(key),
            }
        }
    }

    /// Lets several keys wait.
    pub fn extend(&mut self, keys: impl IntoIterator<Item = ObjectKey>, lane: Lane, now: Instant) {
        for key in keys {
            self.push(key, lane, now);
        }
    }

    /// Takes the next key; it counts as being judged until [`Queue::done`].
    pub fn pop(&mut self) -> Option<ObjectKey> {
        loop {
            let key = self.change.pop_front().or_else(|| self.snapshot.pop_front())?;
            if self.judging.contains_key(&key) {
                continue;
            }
            if let Some(owed) = self.waiting.remove(&key) {
                self.judging.insert(key.clone(), owed);
                return Some(key);
            }
        }
    }

    /// Ends the judging of `key`; returns how that verdict was owed. A key that changed meanwhile waits again.
    pub fn done(&mut self, key: &ObjectKey) -> Option<Owed> {
        if self.waiting.contains_key(key) {
            self.change.push_back(key.clone());
        }
        self.judging.remove(key)
    }

    /// Takes a key out, because its object is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.waiting.remove(key);
    }

    /// How many keys wait.
    pub fn length(&self) -> usize {
        self.waiting.len()
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
    fn forgets_what_is_gone() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(key("a"), Lane::Snapshot, now);
        queue.forget(&key("a"));
        assert!(queue.pop().is_none() && queue.is_idle());
    }
}
