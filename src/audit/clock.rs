//! `--rejudge-every`: objects whose results depend on the clock are evaluated again regularly, a part of them at a time.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use crate::model::object::ObjectKey;

/// Decides which part of the objects is evaluated again at which time.
#[derive(Debug)]
pub(crate) struct Clock {
    stroke: Option<Duration>,
    slices: u64,
    next: Option<Instant>,
    slice: u64,
}

/// One part of all objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    number: u64,
    of: u64,
}

impl Slice {
    /// Whether an object is in this part.
    pub(crate) fn holds(self, key: &ObjectKey) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() % self.of == self.number
    }
}

impl Clock {
    /// Makes a clock that goes through all objects once in `every`; `None` never does.
    pub(crate) fn new(every: Option<Duration>) -> Self {
        // Each part needs a pass over all keys, so there are only as many parts as are needed to spread the work.
        let slices = every.map_or(1, |every| every.as_secs().clamp(1, 120));
        let stroke = every.map(|every| every / u32::try_from(slices).unwrap_or(1));
        Self { stroke, slices, next: stroke.map(|stroke| Instant::now() + stroke), slice: 0 }
    }

    /// Returns when the next part is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the part that is due, if one is.
    pub(crate) fn strike(&mut self, now: Instant) -> Option<Slice> {
        let (stroke, next) = (self.stroke?, self.next?);
        if now < next {
            return None;
        }
        // Strokes that were missed are not made up for.
        self.next = Some((next + stroke).max(now));
        self.slice = (self.slice + 1) % self.slices;
        Some(Slice { number: self.slice, of: self.slices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::Kind;

    #[test]
    fn the_clock_names_every_object_once_in_its_time() {
        let every = Duration::from_secs(10);
        let mut clock = Clock::new(Some(every));
        assert!(clock.strike(Instant::now()).is_none());
        let first = clock.next().unwrap();
        let kind = Kind::sample("", "pods", "Pod");
        let keys: Vec<_> = (0..100)
            .map(|n| ObjectKey { kind: kind.clone(), namespace: None, name: n.to_string().into(), copy: 0 })
            .collect();
        let mut named = vec![0; keys.len()];
        for second in 0..10 {
            let slice = clock.strike(first + Duration::from_secs(second)).unwrap();
            for (key, count) in keys.iter().zip(&mut named) {
                *count += i32::from(slice.holds(key));
            }
        }
        assert_eq!(named, vec![1; keys.len()]);
        assert!(Clock::new(None).strike(first + every).is_none());
    }

    #[test]
    fn the_clock_makes_up_for_nothing() {
        let mut clock = Clock::new(Some(Duration::from_secs(10)));
        let late = clock.next().unwrap() + Duration::from_hours(1);
        assert!(clock.strike(late).is_some());
        assert!(clock.next().unwrap() >= late);
    }
}
