//! Who else is to be judged when something changes: those whose Namespace it is, who look it up in the inventory, or whose
//! verdict depends on the clock; and whether a change is a reason to judge at all.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Pipeline, inventory::Restocked};
use crate::{
    audit::queue::Lane,
    judge::dependencies::Dependencies,
    model::{
        body::Body,
        object::{Kind, Object, ObjectKey},
    },
    source::change::WatchScope,
};

/// What was found out of kinds under the present policies.
#[derive(Debug, Default)]
pub(super) struct Traits {
    /// What verdicts on them depend on.
    depends: HashMap<Arc<Kind>, Dependencies>,
    /// Whether policies can look them up, in namespaces or outside of them.
    looked_up: HashMap<(Arc<Kind>, bool), bool>,
}

impl Pipeline {
    /// Returns what verdicts on a kind depend on beside the object.
    pub(super) fn depends(&mut self, kind: &Arc<Kind>) -> Dependencies {
        let policies = &self.policies;
        *self.traits.depends.entry(Arc::clone(kind)).or_insert_with(|| policies.dependencies(kind))
    }

    /// Does what is due, and returns when to look again.
    pub(super) fn look_after_dependents(&mut self, now: Instant) -> Option<Instant> {
        if !self.gate.is_open() {
            return None;
        }
        if self.stock.due(now).is_some_and(|due| due <= now) {
            self.restock(now);
        }
        while let Some(slice) = self.clock.strike(now) {
            self.judge_again(|key, depends| depends.clock && slice.holds(key), now);
        }
        self.stock.due(now).into_iter().chain(self.clock.next()).min()
    }

    /// Lets all that may depend on an object follow: it changed, came or went.
    pub(super) fn others_follow(&mut self, key: &ObjectKey, now: Instant) {
        self.can_be_looked_up(key, now);
        if key.kind.is("", "Namespace") {
            let inside = |other: &ObjectKey| other.namespace.as_ref() == Some(&key.name);
            self.judge_again(|other, depends| depends.namespace && inside(other), now);
        }
    }

    /// The same for a whole watch scope that was admitted.
    pub(super) fn others_follow_all(&mut self, scope: &WatchScope, keys: &[ObjectKey], now: Instant) {
        for key in keys {
            self.can_be_looked_up(key, now);
        }
        if scope.kind.is("", "Namespace") {
            self.judge_again(|_, depends| depends.namespace, now);
        }
    }

    fn can_be_looked_up(&mut self, key: &ObjectKey, now: Instant) {
        let place = (Arc::clone(&key.kind), key.namespace.is_some());
        let reads = self.policies.inventory_reads();
        if *self.traits.looked_up.entry(place).or_insert_with(|| reads.touches(&key.as_placed())) {
            self.stock.note(key, now);
        }
    }

    /// Lets objects that may be judged wait for it.
    fn judge_again(&mut self, wanted: impl Fn(&ObjectKey, Dependencies) -> bool, now: Instant) {
        let scopes: Vec<WatchScope> = self.gate.joined().filter(|_| self.gate.is_open()).cloned().collect();
        for scope in scopes {
            let depends = self.depends(&scope.kind);
            if depends == Dependencies::default() {
                continue;
            }
            let keys = self.cache.keys(&scope).filter(|key| wanted(key, depends) && !self.baseline.contains(*key));
            self.queue.extend(keys.cloned(), Lane::Snapshot, now);
        }
    }

    /// Begins to bring the inventory up to date.
    fn restock(&mut self, now: Instant) {
        let noted = self.stock.take_noted();
        let mut states = Vec::with_capacity(noted.len());
        for key in noted {
            let scope = self.cache.scope(&key).filter(|scope| self.gate.lets_through(scope));
            let object = scope.and_then(|_| self.cache.object(&key));
            states.push((key, object.map(|object| object.body)));
        }
        self.stock.make(&self.policies, states, !self.settings.update_filter, now);
    }

    /// Takes in a new state of the inventory.
    pub(super) fn restocked(&mut self, made: Restocked, now: Instant) {
        self.outputs.metrics.inventory_updated(made.took);
        self.dirty = true;
        if self.stock.accept(made) {
            self.judge_again(|_, depends| depends.inventory, now);
        }
    }

    /// Whether no policy can see what changed in an object since it was judged.
    pub(super) fn is_out_of_sight(&mut self, before: &Object, known: Option<NonZeroU64>, body: &Body) -> bool {
        let (key, kind) = (&before.key, &before.key.kind);
        // Objects of the base line were not judged yet; what failed may not the next time.
        if !self.settings.update_filter || self.baseline.contains(key) || self.ledger.has_errors(key) {
            return false;
        }
        // That it changed at all is what such policies look at.
        if self.depends(kind).transition {
            return false;
        }
        let projection = |body: &Body| NonZeroU64::new(self.policies.projection(kind).hash(&body.json().ok()?)?);
        let now = projection(body);
        let same = now.is_some() && known.or_else(|| projection(&before.body)) == now;
        self.cache.set_projection(&before.key, now);
        same
    }

    /// Keeps the state before a change, for policies that look at changes.
    pub(super) fn changes(&mut self, scope: &WatchScope, before: Object) {
        if !self.listing.contains(scope) && self.depends(&scope.kind).transition {
            self.before.entry(before.key.clone()).or_insert(before);
        }
    }

    /// Keeps the last state of a deleted object, for policies that look at changes.
    pub(super) fn departs(&mut self, scope: &WatchScope, object: Object) {
        let live = self.gate.lets_through(scope) && !self.listing.contains(scope);
        let own = self.settings.shard.owns(object.key.namespace.as_deref());
        if live && own && self.depends(&scope.kind).transition {
            self.departed.push_back(object);
        }
    }
}

/// Tells when which objects are judged again because time went by: a part of them at each stroke.
#[derive(Debug)]
pub(super) struct Clock {
    stroke: Option<Duration>,
    slices: u64,
    next: Option<Instant>,
    slice: u64,
}

/// One part of all objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    number: u64,
    of: u64,
}

impl Slice {
    fn holds(self, key: &ObjectKey) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() % self.of == self.number
    }
}

impl Clock {
    /// Makes a clock that names every object once in `every`.
    pub(super) fn new(every: Option<Duration>) -> Self {
        // A stroke looks at all keys, so there are not more than needed to spread the work.
        let slices = every.map_or(1, |every| every.as_secs().clamp(1, 120));
        let stroke = every.map(|every| every / u32::try_from(slices).unwrap_or(1));
        Self { stroke, slices, next: stroke.map(|stroke| Instant::now() + stroke), slice: 0 }
    }

    fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the part that is due.
    fn strike(&mut self, now: Instant) -> Option<Slice> {
        let (stroke, next) = (self.stroke?, self.next?);
        if now < next {
            return None;
        }
        // After a standstill nothing is made up for.
        self.next = Some((next + stroke).max(now));
        self.slice = (self.slice + 1) % self.slices;
        Some(Slice { number: self.slice, of: self.slices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
