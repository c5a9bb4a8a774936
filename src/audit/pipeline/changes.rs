//! Changes of objects and of scopes, one at a time, as sources send them.

use std::time::Instant;

use tracing::{debug, info};

use super::{ObjectKeys, Pipeline, Purpose, QueuePriority, ResultContext};
use crate::{
    audit::{cache::Effect, settings::InitialObjects, work::Work},
    cluster::identity::is_exception,
    model::object::{Object, ObjectKey},
    source::change::{Change, WatchScope},
};

impl Pipeline {
    /// Applies a change.
    pub(super) fn apply(&mut self, change: Change, now: Instant) {
        if !matches!(change, Change::Quiet(_)) {
            self.publisher.note_changed();
        }
        if !matches!(change, Change::Quiet(_) | Change::Seen(..) | Change::Gone(..)) {
            self.schedule.note_lookups_changed();
        }
        match change {
            Change::Appeared(scope) => {
                if !self.objects.gate.is_open() {
                    self.schedule.unchanged.expect(scope.clone());
                }
                self.objects.appeared(scope, now);
            }
            Change::Succeeds(new, old) => self.objects.succeeds(new, old),
            Change::Vanished(scope) => {
                self.schedule.transitions.end_list(&scope);
                self.agenda.add(Work::Forget(Box::new(self.objects.vanished(&scope))));
            }
            Change::Discovered(discovered) => {
                let lacked_exceptions = self.objects.gate.may_lack_exceptions();
                self.objects.gate.discovered(discovered);
                self.results.recall_former_kinds(&self.objects);
                if lacked_exceptions && !self.objects.gate.may_lack_exceptions() {
                    self.agenda.look_again(&self.objects, self.results.withheld(None));
                }
            }
            Change::Listing(scope) => {
                self.objects.listing(&scope, now);
                self.schedule.transitions.begin_list(scope);
            }
            Change::Seen(scope, object) => self.seen(&scope, object, now),
            Change::Gone(scope, object) => {
                self.objects.note_change(&scope);
                if self.objects.cache.remove(&scope, &object.key, &object.uid) {
                    self.forget(&object.key, &object.uid, now);
                    self.schedule.keep_deleted(&self.objects, &scope, object);
                }
            }
            Change::GoneUnread(scope, key) => {
                self.objects.note_change(&scope);
                self.objects.gate.readable(&scope, &key);
                if let Some(uid) = self.objects.cache.uid(&key)
                    && self.objects.cache.remove(&scope, &key, &uid)
                {
                    self.forget(&key, &uid, now);
                }
            }
            Change::Skipped(scope, name, why) => self.objects.skipped(&scope, &name, &why),
            Change::Quiet(scope) => self.objects.heard(&scope),
            Change::Synced(scope) => self.synced(&scope),
            Change::Unreadable(scope, why) => self.objects.unreadable(&scope, why),
            Change::Restarted(scope, reason) => {
                let kind = &scope.kind;
                self.publisher.outputs.metrics.watch_restarted(&kind.group, &kind.plural, reason);
            }
        }
    }

    fn seen(&mut self, scope: &WatchScope, object: Object, now: Instant) {
        let (key, uid, body, state) = (object.key.clone(), object.uid.clone(), object.body.clone(), object.state());
        let projected = object.projected;
        let growth = self.objects.cache.growth(scope, &object);
        if let Err(why) = self.objects.check_room(&key, growth, self.results.ledger.usage()) {
            self.objects.cache.keep(scope, &object);
            return self.objects.skipped(scope, &key.path(), &why);
        }
        let effect = self.objects.cache.apply(scope, object);
        match &effect {
            Effect::Same => return self.objects.heard(scope),
            Effect::Replaced(former) => self.forget(&key, former, now),
            Effect::New => self.objects.gate.progressed(scope, now),
            Effect::Changed(_) => {}
        }
        self.objects.note_change(scope);
        self.objects.gate.readable(scope, &key);
        if is_exception(&key.kind) {
            return self.results.exception_seen(&self.objects, &key);
        }
        if !matches!(effect, Effect::Changed(_)) {
            self.results.owner_arrived(&uid);
        }
        if self.objects.are_streamed() {
            return self.schedule.queue.push(key, QueuePriority::Bulk, now);
        }
        if !self.objects.gate.lets_through(scope) {
            return;
        }
        let states = if let Effect::Changed(previous) = &effect { Some((previous.body(), &body)) } else { None };
        self.schedule.note_changed(&self.objects, &mut self.agenda, &key, states, now);
        if let Effect::Changed(previous) = effect {
            if previous.controller() != self.objects.cache.controller(&key) {
                let context = ResultContext { objects: &self.objects, schedule: &self.schedule };
                self.results.controller_changed(context, &key, &uid);
            }
            let relabelled = self.results.depend_on_labels() && previous.body().labels() != body.labels();
            if relabelled {
                self.results.owner_arrived(&uid);
            }
            let cache = &mut self.objects.cache;
            // A policy that failed may succeed the next time.
            let same =
                !relabelled && previous.inactive() == cache.is_inactive(&key) && !self.results.ledger.has_errors(&key);
            if same && self.schedule.is_invisible(cache, &key, (&previous, &body), projected) {
                self.results.ledger.holds_for(&key, state);
                return self.publisher.outputs.metrics.change_skipped();
            }
            self.schedule.keep_previous(scope, previous.into_object(key.clone()));
        }
        self.schedule.unchanged.remove(&key);
        self.schedule.evaluate_soon(&self.objects, key, QueuePriority::Change, now);
    }

    /// Handles the end of a list.
    fn synced(&mut self, scope: &WatchScope) {
        self.objects.heard(scope);
        self.schedule.transitions.end_list(scope);
        let gone = self.objects.cache.listed(scope);
        self.agenda.add(Work::Forget(Box::new(gone.into_iter())));
        let first = self.objects.gate.synced(scope);
        if let Some((old, same)) = self.objects.take_replaced(scope) {
            // The results of an object stay until it is evaluated in the new version.
            let renamed: Vec<ObjectKey> = same.iter().cloned().collect();
            self.schedule.transitions.end_list(&old);
            let gone = self.objects.vanished(&old).filter(move |(key, _)| !same.contains(key));
            self.agenda.add(Work::Forget(Box::new(gone)));
            self.agenda.add(Work::Rename(renamed.into_iter(), scope.clone()));
        }
        debug!(%scope, objects = self.objects.cache.len(scope), "Synced");
        if first && self.objects.gate.is_open() {
            self.admit(scope);
            if is_exception(&scope.kind) {
                self.agenda.look_again(&self.objects, self.results.withheld(scope.namespace.as_ref()));
            }
        }
    }

    /// Opens the gate if it is time; returns whether it opened just now.
    pub(super) fn try_open(&mut self, now: Instant) -> bool {
        if !self.objects.gate.try_open(now) {
            return false;
        }
        let scopes: Vec<_> = self.objects.gate.joined().cloned().collect();
        let objects: usize = scopes.iter().map(|scope| self.objects.cache.len(scope)).sum();
        info!(scopes = scopes.len(), objects, "Everything is synced; evaluation begins");
        for scope in &scopes {
            self.admit(scope);
        }
        for key in self.objects.of_cluster() {
            self.schedule.mark_for_inventory(&key, now);
        }
        self.results.recall_former_kinds(&self.objects);
        self.publisher.phases.synced();
        self.publisher.outputs.metrics.set_gate_open(true);
        self.publisher.note_changed();
        true
    }

    /// Has the objects of a scope evaluated, which until now were only kept.
    fn admit(&mut self, scope: &WatchScope) {
        if self.objects.are_streamed() || is_exception(&scope.kind) {
            return;
        }
        let keys = ObjectKeys::of(&self.objects.cache, [scope.clone()]);
        if !self.objects.evaluates(&scope.kind) {
            return self.agenda.look(Purpose::Mark, keys);
        }
        self.results.recall(ResultContext { objects: &self.objects, schedule: &self.schedule }, scope);
        // For a scope that replaced another, it is already known which of its objects have not changed.
        let skipped = self.settings.initial == InitialObjects::Skip && self.schedule.unchanged.covers(scope);
        self.agenda.look(if skipped { Purpose::Skip } else { Purpose::Admit }, keys);
        if scope.kind.is("", "Namespace") {
            let (objects, agenda) = (&self.objects, &mut self.agenda);
            self.schedule.evaluate_again(objects, agenda, None, |depends| depends.namespace, Purpose::Judge);
        }
    }

    /// Forgets everything about a deleted object.
    pub(super) fn forget(&mut self, key: &ObjectKey, uid: &str, now: Instant) {
        self.schedule.forget(key);
        self.schedule.note_changed(&self.objects, &mut self.agenda, key, None, now);
        self.results.forget(ResultContext { objects: &self.objects, schedule: &self.schedule }, key, uid);
    }
}
