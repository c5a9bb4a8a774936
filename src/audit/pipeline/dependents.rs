//! Which other objects are to be judged when something changes: those in a Namespace, those that look others up in the
//! inventory, those whose verdicts depend on the clock; and whether a change is a reason to judge at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    sync::Arc,
    time::Instant,
};

use super::Pipeline;
use crate::{
    audit::{
        cache::Previous,
        inventory::{ObjectState, Updated, Waiting},
        queue::QueuePriority,
        rounds::{ChangedPlace, Touched},
        work::{Objects, Purpose, Work},
    },
    cluster::identity::is_exception,
    judge::{dependencies::Dependencies, reads::LookupReach},
    model::{
        body::Body,
        object::{Kind, Object, ObjectKey, Projected},
    },
    source::change::WatchScope,
};

impl Pipeline {
    /// Does what is due, and returns when to look again.
    pub(super) fn look_after_dependents(&mut self, now: Instant) -> Option<Instant> {
        if !self.gate.is_open() || self.is_busy() {
            return None;
        }
        self.look_after_lookups();
        if self.inventory.rebuild(now) {
            self.look(Purpose::Mark, Objects::of(&self.cache, self.judged_scopes()));
            return None;
        }
        if self.inventory.due(now).is_some_and(|due| due <= now) {
            let marked = self.inventory.take_pending();
            self.work.push_back(Work::Update(marked.into_iter(), Vec::new()));
            return None;
        }
        let settled = self.inventory.settled(now);
        self.judge_settled(settled);
        self.inventory.rounds.end(now, |queued| self.queue.has_dependencies_since(queued));
        if let Some(touched) = self.inventory.rounds.begin(now) {
            self.judge_touched(touched);
        }
        while let Some(slice) = self.clock.strike(now) {
            self.judge_again(None, |depends| depends.clock, Purpose::JudgeSlice(slice));
        }
        self.inventory.wake(now).into_iter().chain(self.clock.next()).min()
    }

    /// Queues an object, at once or when the policies can look up what happened before it changed.
    pub(super) fn judge_soon(&mut self, key: ObjectKey, priority: QueuePriority, now: Instant) {
        if !self.evaluates(&key.kind) {
            return;
        }
        let looks_up = self.policies.dependencies(&key.kind).inventory;
        let ready = if looks_up { self.inventory.wait(key, priority, now) } else { Some(key) };
        if let Some(key) = ready {
            self.enqueue(key, priority, now);
        }
    }

    /// Queues an object.
    pub(super) fn enqueue(&mut self, key: ObjectKey, priority: QueuePriority, now: Instant) {
        if !self.evaluates(&key.kind) {
            return;
        }
        match self.cache.controller(&key) {
            Some(_) => self.queue.push_dependent(key, priority, now),
            None => self.queue.push(key, priority, now),
        }
    }

    fn judge_settled(&mut self, settled: Vec<Waiting>) {
        if !settled.is_empty() {
            self.work.push_back(Work::Judge(settled.into_iter()));
        }
    }

    /// Queues what may depend on an object that was created, was deleted, or went from one of two `states` to the other.
    pub(super) fn rejudge_dependents(&mut self, key: &ObjectKey, states: Option<(&Body, &Body)>, now: Instant) {
        self.mark_for_inventory(key, now);
        if key.kind.is("", "Namespace") && !states.is_some_and(|(old, new)| self.is_same_namespace(old, new)) {
            self.judge_again(Some(&key.name), |depends| depends.namespace, Purpose::Judge);
        }
    }

    /// Whether policies that judge what is in a Namespace see no difference between two states of it.
    fn is_same_namespace(&self, old: &Body, new: &Body) -> bool {
        let seen = |body: &Body| self.policies.set.namespace_projection().hash(&body.json().ok()?);
        let old = seen(old).filter(|_| self.settings.update_filter);
        old.is_some() && old == seen(new)
    }

    pub(super) fn mark_for_inventory(&mut self, key: &ObjectKey, now: Instant) {
        if self.policies.look_up(key) {
            self.inventory.mark(key, now);
        }
    }

    /// Queues objects that may be judged, of kinds whose verdicts depend on something, in one namespace or in all.
    pub(super) fn judge_again(
        &mut self,
        namespace: Option<&Arc<str>>,
        on: impl Fn(Dependencies) -> bool,
        purpose: Purpose,
    ) {
        let mut scopes = self.judged_scopes();
        scopes.retain(|scope| on(self.policies.dependencies(&scope.kind)));
        let objects = match namespace {
            Some(namespace) => Objects::in_namespace(scopes, namespace),
            None => Objects::of(&self.cache, scopes),
        };
        self.look(purpose, objects);
    }

    /// Queues the objects whose verdicts may depend on what changed in the inventory.
    fn judge_touched(&mut self, touched: Touched) {
        if touched.all {
            return self.judge_again(None, |depends| depends.inventory, Purpose::Judge);
        }
        if !touched.places.is_empty() {
            let objects = Objects::at(self.dependent_places(&touched.places));
            self.look(Purpose::Judge, objects);
        }
        if !touched.objects.is_empty() {
            self.judge_objects_again(touched.objects);
        }
    }

    /// Returns the scopes and namespaces of objects that look something up where objects changed.
    fn dependent_places(&mut self, changed: &BTreeSet<ChangedPlace>) -> Vec<(WatchScope, Option<Arc<str>>)> {
        let mut kinds: BTreeMap<Kind, Vec<&Option<Arc<str>>>> = BTreeMap::new();
        for (kind, namespace) in changed {
            let placed = Kind { namespaced: namespace.is_some(), ..Kind::clone(kind) };
            kinds.entry(placed).or_default().push(namespace);
        }
        let mut places = Vec::new();
        for scope in self.judged_scopes() {
            let reach = |kind| self.policies.set.widest_reach(&scope.kind, kind);
            let reached: Vec<_> = kinds.iter().filter_map(|(kind, own)| Some((reach(kind)?, own))).collect();
            let namespaces: BTreeSet<Option<Arc<str>>> = if reached.iter().all(|(reach, _)| *reach == LookupReach::Own)
            {
                reached.into_iter().flat_map(|(_, own)| own).map(|namespace| (*namespace).clone()).collect()
            } else {
                self.cache.namespaces(&scope).map(Option::<&_>::cloned).collect()
            };
            places.extend(namespaces.into_iter().map(|namespace| (scope.clone(), namespace)));
        }
        places
    }

    /// Queues those of some objects that may be judged.
    pub(super) fn judge_objects_again(&mut self, keys: BTreeSet<ObjectKey>) {
        let judged = |key: &ObjectKey| {
            let scope = self.cache.scope(key).filter(|_| self.cache.uid(key).is_some() && !is_exception(&key.kind));
            scope.is_some_and(|scope| self.gate.lets_through(&scope))
        };
        let keys: Vec<ObjectKey> = keys.into_iter().filter(judged).collect();
        self.look(Purpose::Judge, Objects::from(keys));
    }

    /// Returns the scopes whose objects may be judged; none before the gate is open.
    pub(super) fn judged_scopes(&self) -> Vec<WatchScope> {
        let judged = self.gate.joined().filter(|scope| self.gate.is_open() && !is_exception(&scope.kind));
        judged.cloned().collect()
    }

    /// Returns the state of an object that policies can look up now.
    pub(super) fn state_to_look_up(&self, key: ObjectKey) -> ObjectState {
        let scope = self.cache.scope(&key).filter(|scope| self.gate.lets_through(scope));
        let object = scope.and_then(|_| self.cache.object(&key));
        (key, object.map(|object| object.body))
    }

    /// Begins to bring the inventory up to date.
    pub(super) fn update_inventory(&mut self, mut states: Vec<ObjectState>, now: Instant) {
        // What is gone goes first: an object that is read in another version has the same place in `data.kubernetes`.
        states.sort_by_key(|(_, body)| body.is_some());
        self.inventory.update(&self.policies.set, states, !self.settings.update_filter, now);
    }

    pub(super) fn inventory_updated(&mut self, updated: Updated, now: Instant) {
        self.outputs.metrics.inventory_updated(updated.took);
        self.revision += 1;
        let mut judging: Vec<ObjectKey> = self.queue.judging().cloned().collect();
        judging.retain(|key| self.policies.dependencies(&key.kind).inventory);
        let settled = self.inventory.accept(updated, judging, now);
        self.judge_settled(settled);
    }

    /// Whether no policy can see what changed in an object since it was judged; its reader may have `projected` it already.
    pub(super) fn is_invisible(
        &mut self,
        key: &ObjectKey,
        previous: &Previous,
        body: &Body,
        projected: Option<Projected>,
    ) -> bool {
        // Objects that have not changed since the start may never have been judged, and a policy that failed may succeed the
        // next time.
        if !self.settings.update_filter || self.unchanged.contains(key) || self.ledger.has_errors(key) {
            return false;
        }
        // Policies about transitions look at the change itself.
        if self.policies.dependencies(&key.kind).transition {
            return false;
        }
        let projection =
            |body: &Body| NonZeroU64::new(self.policies.set.projection(&key.kind).hash(&body.json().ok()?)?);
        let known = projected.filter(|projected| projected.policies == self.policies.set.digest);
        let now = known.map(|projected| projected.hash).or_else(|| projection(body));
        let same = now.is_some() && previous.projection().or_else(|| projection(previous.body())) == now;
        self.cache.set_projection(key, now);
        same
    }

    /// Keeps the state before a change, for policies about transitions.
    pub(super) fn changed(&mut self, scope: &WatchScope, previous: Object) {
        if self.transitions.are_watched(scope) && self.policies.dependencies(&scope.kind).transition {
            self.transitions.update(previous);
        }
    }

    /// Keeps the last state of a deleted object, for policies about transitions.
    pub(super) fn deleted(&mut self, scope: &WatchScope, last: Object) {
        let live = self.gate.lets_through(scope) && self.transitions.are_watched(scope) && self.evaluates(&scope.kind);
        let own = self.settings.shard.owns(last.key.namespace.as_deref());
        if live && own && self.policies.dependencies(&scope.kind).transition {
            self.transitions.delete(last);
        }
    }
}
