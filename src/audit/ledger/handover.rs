//! Violations that an owner covered until a moment ago. Most of them are soon resolved: an old revision is scaled down when
//! its Deployment is fixed, and dependents are deleted after their owner. So they are listed at once, because nothing covers
//! them any more, but reported as new only if they are still open after a delay.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use super::violation::{Id, Violation};
use crate::model::object::ObjectKey;

/// How long the report of a violation is delayed that an owner covered.
pub const HANDOVER: Duration = Duration::from_mins(1);

/// Violations whose report is delayed.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    pause: Duration,
    /// Until when each is delayed.
    held: HashMap<Id, Instant>,
    /// The same with their objects, in order of time. Entries of violations that ended or were held again are outdated.
    queue: VecDeque<(Instant, Id, ObjectKey)>,
}

impl Handovers {
    /// Makes it with this delay.
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }

    /// Removes the violations whose report is delayed from those that appeared, and marks them as not reported.
    pub(super) fn hold(&mut self, key: &ObjectKey, appeared: &mut Vec<Violation>, results: &mut [Violation]) {
        appeared.retain_mut(|new| {
            let was_covered = new.covered_by.take().is_some_and(|cover| cover.result.is_some());
            if was_covered && new.finding.outcome.is_violation() && !self.pause.is_zero() {
                let due = Instant::now() + self.pause;
                self.held.insert(new.id, due);
                self.queue.push_back((due, new.id, key.clone()));
            }
            let waits = self.is_held(new.id);
            if waits && let Some(result) = results.iter_mut().find(|result| result.id == new.id) {
                result.unreported = true;
            }
            !waits
        });
    }

    /// Whether the report of a violation is delayed.
    pub(super) fn is_held(&self, id: Id) -> bool {
        self.held.contains_key(&id)
    }

    /// Forgets resolved violations: when they appear again, that is another violation.
    pub(super) fn end<'a>(&mut self, resolved: impl IntoIterator<Item = &'a Violation>) {
        for ended in resolved {
            self.held.remove(&ended.id);
        }
    }

    /// Returns the objects with violations whose delay has passed, and forgets the delay.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        while self.queue.front().is_some_and(|(due, ..)| *due <= now)
            && let Some((due, id, key)) = self.queue.pop_front()
        {
            if self.held.get(&id) == Some(&due) {
                self.held.remove(&id);
                keys.push(key);
            }
        }
        keys.dedup();
        keys
    }
}
