//! What concerns many objects is done a part at a time, so that the task that owns the state is never held for long.
//!
//! Invariant: until all of it is done, nothing else comes in but questions for the result, and nothing is handed to the judges.
//! So whatever is done in parts might as well have been done at once.

use std::time::Instant;

use super::{Pipeline, versions::in_version_of};
use crate::{
    audit::{
        queue::QueuePriority,
        work::{CHANGE, Objects, Purpose, Work},
    },
    model::object::ObjectKey,
    source::change::WatchScope,
};

impl Pipeline {
    /// Whether something came in that is not dealt with yet.
    pub(super) fn is_busy(&self) -> bool {
        !self.work.is_empty() || !self.received.is_empty() || !self.exceptions_changed.is_empty() || self.held.is_some()
    }

    /// Deals with what came in, as far as it may take long.
    pub(super) fn proceed(&mut self, now: Instant) {
        let mut left = self.turn;
        while left > 0 {
            if let Some(work) = self.work.front() {
                // What is published of the state is the state after it. Rules that depend on the time are evaluated again every
                // few seconds, which by itself changes nothing.
                self.revision += u64::from(!matches!(work, Work::Look(Purpose::JudgeSlice(_), _)));
                left = self.work(left, now);
            } else if !self.exceptions_changed.is_empty() && (self.received.is_empty() || self.held.is_some()) {
                self.excuse_after_changes();
            } else if let Some(command) = self.held.take() {
                self.execute(command);
            } else if let Some(change) = self.received.pop_front() {
                self.outputs.in_flight.leave(&change);
                self.apply(change, now);
                left = left.saturating_sub(CHANGE);
                if self.received.is_empty() && self.try_open(now) {
                    self.publish();
                }
            } else {
                break;
            }
        }
    }

    /// Does all that is left to do.
    pub(super) fn finish(&mut self, now: Instant) {
        self.excuse_after_changes();
        while !self.work.is_empty() {
            self.work(usize::MAX, now);
        }
    }

    /// Looks at objects for a purpose.
    pub(super) fn look(&mut self, purpose: Purpose, objects: Objects) {
        self.work.push_back(Work::Look(purpose, objects));
    }

    /// Works on what came first, on at most so many objects; returns how many of those are left.
    fn work(&mut self, mut left: usize, now: Instant) -> usize {
        let Some(mut work) = self.work.pop_front() else { return left };
        while left > 0 {
            if !self.step(&mut work, now) {
                return left;
            }
            left -= 1;
        }
        self.work.push_front(work);
        left
    }

    /// Deals with the next object; returns whether there was one.
    fn step(&mut self, work: &mut Work, now: Instant) -> bool {
        match work {
            Work::Look(purpose, objects) => {
                let next = objects.next(&self.cache);
                next.map(|key| self.look_at(*purpose, key, now)).is_some()
            }
            Work::Forget(gone) => gone.next().map(|(key, uid)| self.forget(&key, &uid, now)).is_some(),
            Work::Rename(keys, scope) => keys.next().map(|key| self.rename(&key, scope, now)).is_some(),
            Work::Excuse(keys) => keys.next().map(|key| self.excuse_object(&key)).is_some(),
            Work::Judge(waiting) => {
                let next = waiting.next();
                next.map(|waiting| self.enqueue(waiting.key, waiting.queued.priority, waiting.queued.since)).is_some()
            }
            Work::Update(marked, states) => {
                let next = marked.next();
                if next.is_none() {
                    self.update_inventory(std::mem::take(states), now);
                }
                next.map(|key| states.push(self.state_to_look_up(key))).is_some()
            }
        }
    }

    fn look_at(&mut self, purpose: Purpose, key: ObjectKey, now: Instant) {
        if matches!(purpose, Purpose::Admit | Purpose::Skip | Purpose::Renew | Purpose::Mark) {
            self.mark_for_inventory(&key, now);
        }
        if let Purpose::Renew = purpose {
            self.cache.set_projection(&key, None);
        }
        match purpose {
            Purpose::Skip => return self.unchanged.insert(key),
            Purpose::Mark => return,
            Purpose::JudgeSlice(slice) if !slice.holds(&key) => return,
            _ if self.unchanged.contains(&key) => return,
            _ => {}
        }
        match purpose {
            Purpose::Admit => {
                self.object_arrived(&key);
                self.judge_soon(key, QueuePriority::Bulk, now);
            }
            // What waits for the inventory is judged anyway.
            Purpose::Judge | Purpose::JudgeSlice(_) if self.inventory.waits(&key) => {}
            Purpose::Judge | Purpose::JudgeSlice(_) => self.enqueue(key, QueuePriority::Dependency, now),
            Purpose::Renew | Purpose::Skip | Purpose::Mark => self.enqueue(key, QueuePriority::Bulk, now),
        }
    }

    /// Knows an object by the key that it has in the version of a scope.
    fn rename(&mut self, key: &ObjectKey, scope: &WatchScope, now: Instant) {
        let renamed = in_version_of(key, scope);
        self.ledger.rename(key, renamed.clone());
        if self.owned.unlink(key) {
            self.link(&renamed);
        }
        self.unchanged.rename(key, renamed);
        self.leave(key, now);
        self.exception_gone(key);
    }
}
