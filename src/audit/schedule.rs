//! The schedule: which objects are evaluated when, under which policies, and with which state of the inventory.
//!
//! An object is evaluated when it changed, or when something did that its results depend on ([`dependents`]). What concerns
//! many objects becomes [`Work`], which the pipeline does in parts.

mod dependents;

use std::{num::NonZeroU64, sync::Arc, time::Instant};

use super::{
    cache::{Cache, Previous},
    clock::Clock,
    inventory::{InventorySync, ObjectState, Updated, Waiting},
    judges::Judges,
    policies::PoliciesInForce,
    queue::{Queue, QueuePriority, Queued},
    retries::Retries,
    settings::PipelineSettings,
    transitions::Transitions,
    unchanged::Unchanged,
    watched::WatchedObjects,
    work::{Agenda, ObjectKeys, Purpose, Work},
};
use crate::{
    judge::{evaluate::Job, set::PolicySet},
    model::{
        body::Body,
        object::{Object, ObjectKey, Projected},
        verdict::{Outcome, Verdict},
    },
    source::change::WatchScope,
};

/// Which objects are evaluated when, and by what.
pub(crate) struct Schedule {
    pub(super) policies: PoliciesInForce,
    pub(super) queue: Queue,
    pub(super) inventory: InventorySync,
    pub(super) judges: Judges,
    pub(super) retries: Retries,
    /// Objects that existed at the start and are evaluated when they change.
    pub(super) unchanged: Unchanged,
    pub(super) transitions: Transitions,
    clock: Clock,
    /// Whether other kinds may have been read than the inventory knows.
    lookups_changed: bool,
    /// See [`PipelineSettings::update_filter`].
    update_filter: bool,
}

impl Schedule {
    /// Makes an empty schedule.
    pub(super) fn new(policies: Arc<PolicySet>, settings: &PipelineSettings) -> Self {
        Self {
            queue: Queue::default(),
            inventory: InventorySync::new(&policies),
            policies: PoliciesInForce::new(policies),
            judges: Judges::default(),
            retries: Retries::default(),
            unchanged: Unchanged::default(),
            transitions: Transitions::default(),
            clock: Clock::new(settings.rejudge_every),
            lookups_changed: true,
            update_filter: settings.update_filter,
        }
    }

    /// Puts policies in force that read and look up something else than those before.
    pub(super) fn replace_policies(&mut self, set: Arc<PolicySet>) {
        self.policies.replace(set);
        self.inventory.reset(&self.policies.set);
        self.lookups_changed = true;
    }

    /// Notes that other kinds may have been read.
    pub(super) fn note_lookups_changed(&mut self) {
        self.lookups_changed = true;
    }

    /// Whether nothing waits to be evaluated, is being evaluated, or will be after a change of the inventory.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.transitions.deletions() == 0 && self.inventory.is_current()
    }

    /// Whether an object waits to be evaluated or is being evaluated.
    pub(super) fn is_pending(&self, key: &ObjectKey) -> bool {
        self.queue.is_on_its_way(key) || self.inventory.waits(key)
    }

    /// Gives back memory that only many objects at a time need.
    pub(super) fn shrink(&mut self) {
        self.queue.shrink();
        self.inventory.shrink();
    }

    /// Queues an object, at once or when the policies can look up what happened before it changed.
    pub(super) fn evaluate_soon(
        &mut self,
        objects: &WatchedObjects,
        key: ObjectKey,
        priority: QueuePriority,
        now: Instant,
    ) {
        if !objects.evaluates(&key.kind) {
            return;
        }
        let looks_up = self.policies.dependencies(&key.kind).inventory;
        let ready = if looks_up { self.inventory.wait(key, priority, now) } else { Some(key) };
        if let Some(key) = ready {
            self.enqueue(objects, key, priority, now);
        }
    }

    /// Queues an object.
    pub(super) fn enqueue(&mut self, objects: &WatchedObjects, key: ObjectKey, priority: QueuePriority, now: Instant) {
        if !objects.evaluates(&key.kind) {
            return;
        }
        match objects.cache.controller(&key) {
            Some(_) => self.queue.push_dependent(key, priority, now),
            None => self.queue.push(key, priority, now),
        }
    }

    /// Forgets that an object is to be evaluated.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.queue.forget(key);
        self.unchanged.remove(key);
        self.transitions.take_previous(key);
        self.retries.note(key, false);
    }

    /// Starts the evaluation of waiting objects; returns those that waited and must no longer be evaluated.
    pub(super) fn dispatch(&mut self, objects: &WatchedObjects) -> Vec<ObjectKey> {
        let mut unevaluated = Vec::new();
        let ready = self.inventory.policies();
        while self.judges.are_free() {
            let size = self.judges.batch(self.queue.waiting() + self.transitions.deletions());
            let next = || self.next_job(objects, ready.as_ref(), &mut unevaluated);
            let jobs: Vec<Job> = std::iter::from_fn(next).take(size).collect();
            if jobs.is_empty() {
                break;
            }
            self.judges.judge(jobs);
        }
        unevaluated
    }

    /// Takes the next object to evaluate, deletions and others by turns. Until the policies are `ready`, those that look up other
    /// objects would have wrong results, so the objects that depend on them wait.
    fn next_job(
        &mut self,
        objects: &WatchedObjects,
        ready: Option<&Arc<PolicySet>>,
        unevaluated: &mut Vec<ObjectKey>,
    ) -> Option<Job> {
        let policies = &Arc::clone(ready.unwrap_or(&self.policies.set));
        if ready.is_some()
            && let Some(object) = self.transitions.next_deleted(self.queue.waiting() > 0)
        {
            return Some(self.job(objects, object, None, true, policies));
        }
        loop {
            let key = self.queue.pop()?;
            if self.inventory.waits(&key) {
                // It changed since it was queued, and is queued again when what happened before has arrived.
                self.queue.done(&key);
                continue;
            }
            let awaited = self.inventory.awaits_kinds(&self.policies.set, &key.kind);
            let lacking = self.inventory.lacks_kinds(&self.policies.set, &key.kind);
            if (ready.is_none() || awaited || lacking) && self.policies.dependencies(&key.kind).inventory {
                if let Some(queued) = self.queue.done(&key) {
                    self.inventory.wait_for_policies(key, queued, awaited);
                }
                continue;
            }
            let previous = self.transitions.take_previous(&key);
            if objects.is_evaluated(&key)
                && let Some(object) = objects.cache.object(&key)
            {
                return Some(self.job(objects, object, previous, false, policies));
            }
            self.queue.done(&key);
            self.retries.note(&key, false);
            unevaluated.push(key);
        }
    }

    fn job(
        &mut self,
        objects: &WatchedObjects,
        object: Object,
        previous: Option<Object>,
        deleted: bool,
        policies: &Arc<PolicySet>,
    ) -> Job {
        let needs_namespace = self.policies.dependencies(&object.key.kind).namespace;
        let namespace = if needs_namespace { objects.namespace_of(&object.key) } else { None };
        Job { object, previous, deleted, namespace, policies: Arc::clone(policies) }
    }

    /// Takes an object out of those that are being evaluated. Returns how it was queued, unless it was forgotten meanwhile, and
    /// whether the verdict is about its present state under the policies in force.
    pub(super) fn take_evaluated(
        &mut self,
        objects: &WatchedObjects,
        verdict: &Verdict,
        deleted: bool,
    ) -> (Option<Queued>, bool) {
        let queued = if deleted { None } else { self.queue.done(&verdict.key) };
        // The object may be gone, replaced, or queued again for newer policies.
        let is_present = objects.cache.has(&verdict.key, &verdict.uid);
        (queued, !deleted && is_present && verdict.policies == self.policies.set.digest)
    }

    /// Marks the errors of a verdict as ones that may not recur, if its rules may need a Namespace and none has been read yet:
    /// what is known of these rules stays until then.
    pub(super) fn leave_undecided(&mut self, objects: &WatchedObjects, verdict: &mut Verdict) {
        if self.policies.dependencies(&verdict.key.kind).namespace && objects.awaits_namespace_of(&verdict.key) {
            let errors = verdict.results.iter().filter(|result| result.outcome == Outcome::Error);
            verdict.undecided.extend(errors.map(|error| [&error.rule.policy, &error.rule.name].map(Arc::clone)));
        }
    }

    /// Notes that there was a verdict about an object.
    pub(super) fn note_evaluated(&mut self, key: &ObjectKey) {
        if self.policies.dependencies(&key.kind).inventory {
            self.inventory.note_evaluated(key);
        }
    }

    /// Whether nothing changed in an object that a policy reads, since it was evaluated; its reader may have `projected` it
    /// already.
    pub(super) fn is_invisible(
        &mut self,
        cache: &mut Cache,
        key: &ObjectKey,
        (previous, body): (&Previous, &Body),
        projected: Option<Projected>,
    ) -> bool {
        // Objects that have not changed since the start may never have been evaluated. Policies about transitions read the
        // change itself.
        if !self.update_filter || self.unchanged.contains(key) || self.policies.dependencies(&key.kind).transition {
            return false;
        }
        let projection =
            |body: &Body| NonZeroU64::new(self.policies.set.projection(&key.kind).hash(&body.json().ok()?)?);
        let known = projected.filter(|projected| projected.policies == self.policies.set.digest);
        let now = known.map(|projected| projected.hash).or_else(|| projection(body));
        let same = now.is_some() && previous.projection().or_else(|| projection(previous.body())) == now;
        cache.set_projection(key, now);
        same
    }

    /// Keeps the state before a change, for policies about transitions.
    pub(super) fn keep_previous(&mut self, scope: &WatchScope, previous: Object) {
        if self.transitions.are_watched(scope) && self.policies.dependencies(&scope.kind).transition {
            self.transitions.update(previous);
        }
    }

    /// Keeps the last state of a deleted object, for policies about transitions.
    pub(super) fn keep_deleted(&mut self, objects: &WatchedObjects, scope: &WatchScope, last: Object) {
        let live = objects.gate.lets_through(scope)
            && self.transitions.are_watched(scope)
            && objects.evaluates(&scope.kind)
            && objects.owns_namespace_of(&last.key);
        if live && self.policies.dependencies(&scope.kind).transition {
            self.transitions.delete(last);
        }
    }
}
