//! The results of evaluations: the ledger that compares them with those before, the owners that cover results of their
//! dependents, the exceptions that excuse violations, and the term in which changes are recorded.

mod excusing;
mod owners;
mod terms;

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    exceptions::Exceptions,
    ledger::{Cause, Delta, Ledger, dependents::Owners},
    owned::OwnedObjects,
    queue::{Lane, Queued},
    recording::Recording,
    schedule::Schedule,
    settings::PipelineSettings,
    watched::WatchedObjects,
};
use crate::{
    judge::set::PolicySet,
    metrics::Metrics,
    model::{
        object::{ObjectKey, ObjectVersion},
        verdict::{Finding, Verdict},
    },
    telemetry::Span,
};

/// The results of all objects, and what is recorded of them.
pub(crate) struct Results {
    pub(super) ledger: Ledger,
    owned: OwnedObjects,
    pub(super) exceptions: Exceptions,
    /// When an exception expires next, or is about to.
    next_expiry: Option<Timestamp>,
    /// The namespaces in which exceptions changed that are not applied to all results yet.
    exceptions_changed: BTreeSet<Option<Arc<str>>>,
    pub(super) recording: Recording,
    /// The keys of the labels of objects that deltas have.
    labels: BTreeSet<String>,
}

/// What results depend on in addition to verdicts.
#[derive(Clone, Copy)]
pub(super) struct ResultContext<'a> {
    /// An object's owners and their contents.
    pub(super) objects: &'a WatchedObjects,
    /// Whether a verdict about an owner is to come.
    pub(super) schedule: &'a Schedule,
}

impl Results {
    /// Creates it without results.
    pub(super) fn new(
        policies: &PolicySet,
        mut exceptions: Exceptions,
        settings: &PipelineSettings,
        labels: BTreeSet<String>,
        (metrics, delta_recorded): (Arc<Metrics>, watch::Sender<()>),
    ) -> Self {
        exceptions.set_policies(policies);
        let mut ledger = Ledger::new(settings.roll_up, settings.metrics_namespaces, settings.handover);
        ledger.set_policies(policies);
        Self {
            ledger,
            owned: OwnedObjects::default(),
            next_expiry: exceptions.next_turn(Timestamp::now()),
            exceptions,
            exceptions_changed: BTreeSet::new(),
            recording: Recording::new(metrics, delta_recorded),
            labels,
        }
    }

    /// Puts other policies in force; `same` is whether they evaluate alike.
    pub(super) fn replace_policies(&mut self, set: &PolicySet, same: bool) {
        self.exceptions.set_policies(set);
        if !same {
            self.ledger.set_policies(set);
        }
    }

    /// Whether other labels than before may lead to other results or deltas.
    pub(super) fn depend_on_labels(&self) -> bool {
        self.exceptions.select_by_labels() || !self.labels.is_empty()
    }

    /// Enters a verdict about the present state of an object, and records what it changed. `state` is that of the object now.
    pub(super) fn enter(
        &mut self,
        context: ResultContext<'_>,
        verdict: Verdict,
        state: Option<ObjectVersion>,
        (queued, span): (Option<Queued>, Span),
    ) {
        let (key, uid, now) = (verdict.key.clone(), Arc::clone(&verdict.uid), Timestamp::now());
        let without = verdict.results.is_empty();
        let owners = if without { Owners::default() } else { self.owners(context, &key, None) };
        let delta = self.ledger.record(verdict, state, &owners, Cause { lane: lane(queued), span }, now);
        self.record_with_dependents(context, &key, &uid, delta);
    }

    /// Records the transitions of a verdict that is not about the present state of its object.
    pub(super) fn enter_transitions(&mut self, verdict: Verdict, queued: Option<Queued>) {
        let delta = self.ledger.transitions(verdict, lane(queued), Timestamp::now());
        self.record(delta);
    }

    /// Records what changed, if anything did, with the present numbers of dependents.
    fn record(&mut self, delta: Option<Delta>) {
        let delta = delta.map(|delta| self.ledger.counted(delta));
        self.recording.record(delta);
    }

    /// Replaces the results of a verdict by an error if there is no room for them. The object's violations stay open.
    pub(super) fn check_room(&self, objects: &WatchedObjects, verdict: &mut Verdict) {
        if let Err(why) = objects.check_room(&verdict.key, self.ledger.growth(verdict), self.ledger.usage()) {
            let count = verdict.results.len();
            let error = Finding::object_error(&format!("{count} results of this object are not kept: {why}"));
            verdict.undecided.push([&error.rule.policy, &error.rule.name].map(Arc::clone));
            (verdict.results, verdict.unfinished) = (vec![error], true);
        }
    }

    /// Resolves the violations of a deleted object.
    pub(super) fn forget(&mut self, context: ResultContext<'_>, key: &ObjectKey, uid: &str) {
        self.owned.unlink(key);
        let delta = self.ledger.forget(key);
        self.record(delta);
        self.reconsider_dependents(context, key, uid);
        self.exception_gone(key);
    }

    /// Resolves the violations of an object that is no longer evaluated.
    pub(super) fn resolve_unevaluated(&mut self, context: ResultContext<'_>, key: &ObjectKey) {
        if let Some(uid) = context.objects.cache.uid(key) {
            let delta = self.ledger.forget(key);
            self.record_with_dependents(context, key, &uid, delta);
        }
    }

    /// Moves the results of an object to the key that it has in another API version.
    pub(super) fn rename(&mut self, objects: &WatchedObjects, key: &ObjectKey, renamed: &ObjectKey) {
        self.ledger.rename(key, renamed.clone());
        if self.owned.unlink(key) {
            self.link(objects, renamed);
        }
    }

    /// Records what the passing of time changes: violations are reported that owners covered until a moment ago, and counts of
    /// dependents that changed. Returns whether anything was reported.
    pub(super) fn tick(&mut self, context: ResultContext<'_>) -> bool {
        let handed_over = self.ledger.end_handovers(Instant::now());
        for key in &handed_over {
            self.reconsider(context, key, None);
        }
        for delta in self.ledger.recounted() {
            self.record(Some(delta));
        }
        !handed_over.is_empty()
    }
}

/// Returns the lane of an object's verdict by how the object was queued.
fn lane(queued: Option<Queued>) -> Lane {
    queued.map_or(Lane::Change, |queued| queued.priority.lane())
}
