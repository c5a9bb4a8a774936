//! Rounds: when objects are judged again because the policies see something else in the inventory, and which ones.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::model::object::ObjectKey;

/// Rounds do not begin more often than this.
const EVERY: Duration = Duration::from_secs(1);

/// Objects whose verdicts may depend on what changed in the inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Touched {
    /// Only these.
    Objects(BTreeSet<ObjectKey>),
    /// All that look something up.
    All,
}

impl Default for Touched {
    fn default() -> Self {
        Self::Objects(BTreeSet::new())
    }
}

impl Touched {
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Objects(keys) if keys.is_empty())
    }

    /// Adds what was touched by another change.
    pub(crate) fn add(&mut self, more: Self) {
        match (self, more) {
            (Self::Objects(keys), Self::Objects(more)) => keys.extend(more),
            (all, Self::All) => *all = Self::All,
            (Self::All, Self::Objects(_)) => {}
        }
    }
}

/// When objects that look something up are judged again: as soon as the policies see something else, but only half of
/// the time.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) wanted: Touched,
    began: Option<Instant>,
    not_before: Option<Instant>,
}

impl Rounds {
    /// Returns when the next one is due; `None` if none is wanted, or one is under way.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        (!self.wanted.is_nothing() && self.began.is_none()).then(|| self.not_before.unwrap_or(now))
    }

    /// Begins a round if one is due; returns what is to be judged.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Touched> {
        self.due(now).filter(|due| *due <= now)?;
        (self.began, self.not_before) = (Some(now), None);
        Some(std::mem::take(&mut self.wanted))
    }

    /// Notes that nothing waits to be judged: the round is over, if there was one.
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some(began) = self.began.take() {
            self.not_before = Some(now + (now - began).max(EVERY));
        }
    }
}
