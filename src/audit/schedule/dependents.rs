//! Which other objects are evaluated again when something changes: those in a Namespace, those that look up other objects in
//! the inventory, and those whose results depend on the clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use super::{Agenda, ObjectKeys, ObjectState, Purpose, Schedule, Updated, Waiting, WatchedObjects, Work};
use crate::{
    audit::rounds::{ChangedPlace, Touched},
    judge::{dependencies::Dependencies, reads::LookupReach},
    model::{
        body::Body,
        object::{Kind, ObjectKey},
    },
    source::change::WatchScope,
};

impl Schedule {
    /// Adds what is due to the agenda, and returns when to call again.
    pub(in crate::audit) fn look_after_dependents(
        &mut self,
        objects: &WatchedObjects,
        agenda: &mut Agenda,
        now: Instant,
    ) -> Option<Instant> {
        if std::mem::take(&mut self.lookups_changed) {
            self.inventory.set_lookups(objects.lookup_state(&self.policies.set));
        }
        if self.inventory.rebuild(now) {
            agenda.look(Purpose::Mark, ObjectKeys::of(&objects.cache, objects.evaluated_scopes()));
            return None;
        }
        if self.inventory.due(now).is_some_and(|due| due <= now) {
            let marked = self.inventory.take_pending();
            agenda.add(Work::Update(marked.into_iter(), Vec::new()));
            return None;
        }
        enqueue_settled(self.inventory.settled(now), agenda);
        self.inventory.rounds.end(now, |queued| self.queue.has_dependencies_since(queued));
        if let Some(touched) = self.inventory.rounds.begin(now) {
            self.evaluate_touched(objects, agenda, touched);
        }
        while let Some(slice) = self.clock.strike(now) {
            self.evaluate_again(objects, agenda, None, |depends| depends.clock, Purpose::JudgeSlice(slice));
        }
        self.inventory.wake(now).into_iter().chain(self.clock.next()).min()
    }

    /// Has the objects evaluated that may depend on one that was created, was deleted, or went from one of two `states` to the
    /// other.
    pub(in crate::audit) fn note_changed(
        &mut self,
        objects: &WatchedObjects,
        agenda: &mut Agenda,
        key: &ObjectKey,
        states: Option<(&Body, &Body)>,
        now: Instant,
    ) {
        self.mark_for_inventory(key, now);
        if key.kind.is("", "Namespace") && !states.is_some_and(|(old, new)| self.is_same_namespace(old, new)) {
            self.evaluate_again(objects, agenda, Some(&key.name), |depends| depends.namespace, Purpose::Judge);
        }
    }

    /// Whether policies that evaluate what is in a Namespace read no difference between two states of it.
    fn is_same_namespace(&self, old: &Body, new: &Body) -> bool {
        let read = |body: &Body| self.policies.set.namespace_projection().hash(&body.json().ok()?);
        let old = read(old).filter(|_| self.update_filter);
        old.is_some() && old == read(new)
    }

    /// Marks an object for the next update of the inventory, if policies can look it up.
    pub(in crate::audit) fn mark_for_inventory(&mut self, key: &ObjectKey, now: Instant) {
        if self.policies.look_up(key) {
            self.inventory.mark(key, now);
        }
    }

    /// Has objects evaluated again of the kinds whose results depend on something, in one namespace or in all.
    pub(in crate::audit) fn evaluate_again(
        &mut self,
        objects: &WatchedObjects,
        agenda: &mut Agenda,
        namespace: Option<&Arc<str>>,
        on: impl Fn(Dependencies) -> bool,
        purpose: Purpose,
    ) {
        let mut scopes = objects.evaluated_scopes();
        scopes.retain(|scope| on(self.policies.dependencies(&scope.kind)));
        let objects = match namespace {
            Some(namespace) => ObjectKeys::in_namespace(scopes, namespace),
            None => ObjectKeys::of(&objects.cache, scopes),
        };
        agenda.look(purpose, objects);
    }

    /// Has the objects evaluated whose results may depend on what changed in the inventory.
    fn evaluate_touched(&mut self, objects: &WatchedObjects, agenda: &mut Agenda, touched: Touched) {
        if touched.all {
            return self.evaluate_again(objects, agenda, None, |depends| depends.inventory, Purpose::Judge);
        }
        if !touched.places.is_empty() {
            agenda.look(Purpose::Judge, ObjectKeys::at(self.dependent_places(objects, &touched.places)));
        }
        if !touched.objects.is_empty() {
            agenda.look_again(objects, touched.objects);
        }
    }

    /// Returns the scopes and namespaces of objects that look something up where objects changed.
    fn dependent_places(
        &self,
        objects: &WatchedObjects,
        changed: &BTreeSet<ChangedPlace>,
    ) -> Vec<(WatchScope, Option<Arc<str>>)> {
        let mut kinds: BTreeMap<Kind, Vec<&Option<Arc<str>>>> = BTreeMap::new();
        for (kind, namespace) in changed {
            let placed = Kind { namespaced: namespace.is_some(), ..Kind::clone(kind) };
            kinds.entry(placed).or_default().push(namespace);
        }
        let mut places = Vec::new();
        for scope in objects.evaluated_scopes() {
            let reach = |kind| self.policies.set.widest_reach(&scope.kind, kind);
            let reached: Vec<_> = kinds.iter().filter_map(|(kind, own)| Some((reach(kind)?, own))).collect();
            let namespaces: BTreeSet<Option<Arc<str>>> = if reached.iter().all(|(reach, _)| *reach == LookupReach::Own)
            {
                reached.into_iter().flat_map(|(_, own)| own).map(|namespace| (*namespace).clone()).collect()
            } else {
                objects.cache.namespaces(&scope).map(Option::<&_>::cloned).collect()
            };
            places.extend(namespaces.into_iter().map(|namespace| (scope.clone(), namespace)));
        }
        places
    }

    /// Begins to bring the inventory up to date with these states.
    pub(in crate::audit) fn update_inventory(&mut self, mut states: Vec<ObjectState>, now: Instant) {
        // Deleted objects go first: an object that is read in another version has the same place in `data.kubernetes`.
        states.sort_by_key(|(_, body)| body.is_some());
        self.inventory.update(&self.policies.set, states, !self.update_filter, now);
    }

    /// Accepts the updated inventory, and has the objects evaluated that waited for it.
    pub(in crate::audit) fn inventory_updated(&mut self, updated: Updated, agenda: &mut Agenda, now: Instant) {
        let mut evaluating: Vec<ObjectKey> = self.queue.judging().cloned().collect();
        evaluating.retain(|key| self.policies.dependencies(&key.kind).inventory);
        enqueue_settled(self.inventory.accept(updated, evaluating, now), agenda);
    }
}

fn enqueue_settled(settled: Vec<Waiting>, agenda: &mut Agenda) {
    if !settled.is_empty() {
        agenda.add(Work::Judge(settled.into_iter()));
    }
}
