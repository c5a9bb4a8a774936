//! What concerns many objects is done a part at a time, so that the task that owns the state is never held for long.
//!
//! Invariant: until all of it is done, nothing else is processed but queries for the result, and no evaluation is started. So
//! the outcome is the same as if all of it had been done at once.

use std::time::Instant;

use super::{Pipeline, QueuePriority, ResultContext};
use crate::{
    audit::{
        watched::in_version_of,
        work::{CHANGE, Purpose, Work},
    },
    model::object::ObjectKey,
    source::change::WatchScope,
};

impl Pipeline {
    /// Deals with what came in, as far as it may take long.
    pub(super) fn proceed(&mut self, now: Instant) {
        let mut left = self.agenda.turn;
        while left > 0 {
            if let Some(work) = self.agenda.work.front() {
                // The overview shows the state after all work. Rules that depend on the time are evaluated again every few
                // seconds, which by itself changes nothing.
                if !matches!(work, Work::Look(Purpose::JudgeSlice(_), _)) {
                    self.publisher.note_changed();
                }
                left = self.work(left, now);
            } else if self.results.have_changed_exceptions()
                && (self.agenda.received.is_empty() || self.agenda.held.is_some())
            {
                self.agenda.add(self.results.excuse_after_changes());
            } else if let Some(command) = self.agenda.held.take() {
                self.execute(command);
            } else if let Some(change) = self.agenda.received.pop_front() {
                self.publisher.outputs.in_flight.leave(&change);
                self.apply(change, now);
                left = left.saturating_sub(CHANGE);
                if self.agenda.received.is_empty() && self.try_open(now) {
                    self.publisher.publish(&self.objects, &self.schedule, &mut self.results);
                }
            } else {
                break;
            }
        }
    }

    /// Does all work that is left to do.
    pub(super) fn finish(&mut self, now: Instant) {
        if self.results.have_changed_exceptions() {
            self.publisher.note_changed();
            self.agenda.add(self.results.excuse_after_changes());
        }
        while !self.agenda.work.is_empty() {
            self.work(usize::MAX, now);
        }
    }

    /// Does the oldest work, for at most `left` objects; returns how many of these are left.
    fn work(&mut self, mut left: usize, now: Instant) -> usize {
        let Some(mut work) = self.agenda.work.pop_front() else { return left };
        while left > 0 {
            if !self.step(&mut work, now) {
                return left;
            }
            left -= 1;
        }
        self.agenda.work.push_front(work);
        left
    }

    /// Deals with the next object; returns whether there was one.
    fn step(&mut self, work: &mut Work, now: Instant) -> bool {
        let objects = &self.objects;
        match work {
            Work::Look(purpose, keys) => {
                let next = keys.next(&objects.cache);
                next.map(|key| self.look_at(*purpose, key, now)).is_some()
            }
            Work::Forget(gone) => gone.next().map(|(key, uid)| self.forget(&key, &uid, now)).is_some(),
            Work::Rename(keys, scope) => keys.next().map(|key| self.rename(&key, scope, now)).is_some(),
            Work::Excuse(keys) => {
                let context = ResultContext { objects, schedule: &self.schedule };
                keys.next().map(|key| self.results.excuse_object(context, &key)).is_some()
            }
            Work::Judge(waiting) => {
                let Some(waiting) = waiting.next() else { return false };
                self.schedule.enqueue(objects, waiting.key, waiting.queued.priority, waiting.queued.since);
                true
            }
            Work::Update(marked, states) => {
                let next = marked.next();
                if next.is_none() {
                    self.schedule.update_inventory(std::mem::take(states), now);
                }
                next.map(|key| states.push(objects.state_to_look_up(key))).is_some()
            }
        }
    }

    fn look_at(&mut self, purpose: Purpose, key: ObjectKey, now: Instant) {
        let (objects, schedule) = (&mut self.objects, &mut self.schedule);
        if matches!(purpose, Purpose::Admit | Purpose::Skip | Purpose::Renew | Purpose::Mark) {
            schedule.mark_for_inventory(&key, now);
        }
        if let Purpose::Renew = purpose {
            objects.cache.set_projection(&key, None);
        }
        match purpose {
            Purpose::Skip => return schedule.unchanged.insert(key),
            Purpose::Mark => return,
            Purpose::JudgeSlice(slice) if !slice.holds(&key) => return,
            _ if schedule.unchanged.contains(&key) => return,
            _ => {}
        }
        match purpose {
            Purpose::Admit => {
                self.results.object_arrived(objects, &key);
                schedule.evaluate_soon(objects, key, QueuePriority::Bulk, now);
            }
            // Objects that wait for the inventory are evaluated anyway.
            Purpose::Judge | Purpose::JudgeSlice(_) if schedule.inventory.waits(&key) => {}
            Purpose::Judge | Purpose::JudgeSlice(_) => schedule.enqueue(objects, key, QueuePriority::Dependency, now),
            Purpose::Renew | Purpose::Skip | Purpose::Mark => {
                schedule.enqueue(objects, key, QueuePriority::Bulk, now);
            }
        }
    }

    /// Gives an object the key that it has in the version of a scope.
    fn rename(&mut self, key: &ObjectKey, scope: &WatchScope, now: Instant) {
        let renamed = in_version_of(key, scope);
        self.results.rename(&self.objects, key, &renamed);
        self.schedule.unchanged.rename(key, renamed);
        self.schedule.forget(key);
        self.schedule.note_changed(&self.objects, &mut self.agenda, key, None, now);
        self.results.exception_gone(key);
    }
}
