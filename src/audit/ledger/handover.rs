//! Violations that an owner covered until a moment ago. Most of them end soon: an old revision is scaled down when its
//! Deployment is fixed, and dependents are deleted after their owner. So they are listed at once, as nothing covers them any
//! more, and reported as new only if they are still there after a pause.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use super::violation::{Id, Violation};
use crate::model::object::ObjectKey;

/// How long the report of a violation waits that an owner covered.
pub const HANDOVER: Duration = Duration::from_mins(1);

/// Violations whose report waits.
#[derive(Debug, Default)]
pub(super) struct Handovers {
    pause: Duration,
    /// Until when each waits.
    held: HashMap<Id, Instant>,
    /// The same with their objects, in order of time. Entries of violations that ended or were held again are outdated.
    queue: VecDeque<(Instant, Id, ObjectKey)>,
}

impl Handovers {
    /// Makes it for a pause.
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }

    /// Takes those whose report waits out of the violations of an object that appeared, and marks them as not reported.
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

    /// Whether the report of a violation waits.
    pub(super) fn is_held(&self, id: Id) -> bool {
        self.held.contains_key(&id)
    }

    /// Forgets violations that ended: their next appearance is another.
    pub(super) fn end<'a>(&mut self, resolved: impl IntoIterator<Item = &'a Violation>) {
        for ended in resolved {
            self.held.remove(&ended.id);
        }
    }

    /// Ends the pauses that are over; returns the objects with violations that may be reported now.
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
