//! Rounds: when objects are evaluated again because the inventory changed, and which ones.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::model::object::{Kind, ObjectKey};

/// Rounds do not begin more often than this.
const EVERY: Duration = Duration::from_secs(1);
/// The longest delay between two rounds, however long they take.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// More changed places than this count as if everything had changed.
const PLACES: usize = 256;

/// A kind whose objects changed in the inventory, and the namespace that they are in.
pub(crate) type ChangedPlace = (Arc<Kind>, Option<Arc<str>>);

/// Objects whose results may depend on what changed in the inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Whether it is all objects whose policies look up others.
    pub(crate) all: bool,
    /// Those whose policies look up objects in one of these places.
    pub(crate) places: BTreeSet<ChangedPlace>,
    /// These objects.
    pub(crate) objects: BTreeSet<ObjectKey>,
}

impl Touched {
    /// Returns all objects whose policies look up others.
    pub(crate) fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the objects that depend on another change.
    pub(crate) fn add(&mut self, more: Self) {
        self.all |= more.all;
        self.places.extend(more.places);
        self.objects.extend(more.objects);
        if self.all || self.places.len() > PLACES {
            *self = Self::all();
        }
    }
}

/// When objects whose policies look up others are evaluated again: as soon as the inventory changed, but rounds that take long
/// take at most half of the time.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) wanted: Touched,
    /// When the running round began, and by when all of its objects were queued.
    under_way: Option<(Instant, Option<Instant>)>,
    not_before: Option<Instant>,
}

impl Rounds {
    /// Returns when the next one is due; `None` if none is wanted, or one is running.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        (!self.wanted.is_nothing() && self.under_way.is_none()).then(|| self.not_before.unwrap_or(now))
    }

    /// Begins a round if one is due; returns what is to be evaluated.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Touched> {
        self.due(now).filter(|due| *due <= now)?;
        (self.under_way, self.not_before) = (Some((now, None)), None);
        Some(std::mem::take(&mut self.wanted))
    }

    /// Ends the running round if its objects have been evaluated: all of them have been queued, and `waits` returns whether one
    /// that was queued up to a time still waits. What else is in the queue does not matter.
    pub(crate) fn end(&mut self, now: Instant, waits: impl FnOnce(Instant) -> bool) {
        let Some((began, queued)) = &mut self.under_way else { return };
        if !waits(*queued.get_or_insert(now)) {
            self.not_before = Some(now + (now - *began).clamp(EVERY, LONGEST_PAUSE));
            self.under_way = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_changed_places_count_as_everything() {
        let place = |number: usize| (Kind::sample("", "pods", "Pod"), Some(Arc::from(format!("n{number}"))));
        let in_places = |count: usize| Touched { places: (0..count).map(place).collect(), ..Touched::default() };
        let mut touched = Touched::default();
        touched.add(in_places(PLACES));
        assert_eq!(touched, in_places(PLACES));
        touched.add(in_places(PLACES + 1));
        assert_eq!(touched, Touched::all());
        touched.add(in_places(1));
        assert_eq!(touched, Touched::all());
    }

    #[test]
    fn a_round_ends_with_its_own_objects_and_the_pause_after_it_is_bounded() {
        let (mut rounds, start) = (Rounds::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        rounds.wanted = Touched::all();
        assert_eq!(rounds.begin(start), Some(Touched::all()));
        rounds.wanted = Touched::all();
        rounds.end(after(1), |queued| {
            assert_eq!(queued, after(1));
            true
        });
        assert_eq!((rounds.due(after(1)), rounds.begin(after(1))), (None, None), "one is under way");
        rounds.end(after(60), |queued| queued != after(1));
        assert_eq!(rounds.due(after(60)), Some(after(60) + LONGEST_PAUSE));
        assert_eq!(rounds.begin(after(60) + LONGEST_PAUSE), Some(Touched::all()));
        rounds.end(after(66), |_| false);
        rounds.wanted = Touched::all();
        assert_eq!(rounds.due(after(66)), Some(after(67)), "a short round");
    }
}
