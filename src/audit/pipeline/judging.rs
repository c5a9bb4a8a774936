//! From the queue to the judges and back, and what new policies change about it.

use std::sync::Arc;

use jiff::Timestamp;
use tracing::{error, info};

use super::{InitialObjects, Pipeline};
use crate::{
    audit::{
        command::Reload,
        judges::Judged,
        ledger::{Delta, dependents::Owners},
        queue::{Lane, QueuePriority, Queued},
        work::{Objects, Purpose},
    },
    judge::{evaluate::Job, set::PolicySet},
    model::{
        object::{Object, ObjectKey},
        verdict::{Finding, Outcome, Verdict},
    },
    telemetry::{Span, count},
};

impl Pipeline {
    /// Hands waiting objects to the judges.
    pub(super) fn dispatch(&mut self) {
        if self.is_busy() {
            return;
        }
        let ready = self.inventory.policies();
        while self.judges.are_free() {
            let size = self.judges.batch(self.queue.waiting() + self.transitions.deletions());
            let jobs: Vec<Job> = std::iter::from_fn(|| self.next_job(ready.as_ref())).take(size).collect();
            if jobs.is_empty() {
                return;
            }
            self.judges.judge(jobs);
        }
    }

    /// Takes the next object to judge, deletions and others by turns. Until the policies are `ready`, those that look others up
    /// would be wrong, and what depends on them waits.
    fn next_job(&mut self, ready: Option<&Arc<PolicySet>>) -> Option<Job> {
        let policies = &Arc::clone(ready.unwrap_or(&self.policies.set));
        if ready.is_some()
            && let Some(object) = self.transitions.next_deleted(self.queue.waiting() > 0)
        {
            return Some(self.job(object, None, true, policies));
        }
        loop {
            let key = self.queue.pop()?;
            let awaited = self.inventory.awaits_kinds(&self.policies.set, &key.kind);
            let lacking = self.inventory.lacks_kinds(&self.policies.set, &key.kind);
            if (ready.is_none() || awaited || lacking) && self.policies.dependencies(&key.kind).inventory {
                if let Some(queued) = self.queue.done(&key) {
                    self.inventory.wait_for_policies(key, queued, awaited);
                }
                continue;
            }
            let previous = self.transitions.take_previous(&key);
            if self.is_judged(&key)
                && let Some(object) = self.cache.object(&key)
            {
                return Some(self.job(object, previous, false, policies));
            }
            self.queue.done(&key);
            self.leave_unjudged(&key);
        }
    }

    /// Whether an object is evaluated here. Objects of other shards are evaluated there, and those that are inactive or in
    /// excluded namespaces nowhere; here both only serve lookups.
    fn is_judged(&self, key: &ObjectKey) -> bool {
        let settings = &self.settings;
        settings.shard.owns(key.namespace.as_deref())
            && (settings.judge_inactive || !self.cache.is_inactive(key))
            && !self.selection.as_ref().is_some_and(|selection| selection.excludes_namespace_of(key))
            && self.has_labels(key)
    }

    /// Whether an object has the labels that are asked for, if any are.
    fn has_labels(&self, key: &ObjectKey) -> bool {
        let Some(wanted) = self.selection.as_ref().and_then(|selection| selection.labels.as_ref()) else { return true };
        self.cache.object(key).is_some_and(|object| wanted.matches(&object.body.labels()))
    }

    /// Resolves what stands of an object that is not judged any more.
    fn leave_unjudged(&mut self, key: &ObjectKey) {
        if let Some(uid) = self.cache.uid(key) {
            self.retries.note(key, false);
            let delta = self.ledger.forget(key);
            self.record_with_dependents(key, &uid, delta);
        }
    }

    fn job(&mut self, object: Object, previous: Option<Object>, deleted: bool, policies: &Arc<PolicySet>) -> Job {
        let namespace = self.namespace_of(&object.key);
        Job { object, previous, deleted, namespace, policies: Arc::clone(policies) }
    }

    /// Returns the Namespace of an object, if its verdict depends on it.
    fn namespace_of(&mut self, key: &ObjectKey) -> Option<Object> {
        let name = key.namespace.clone().filter(|_| self.policies.dependencies(&key.kind).namespace)?;
        let scope = self.gate.joined().find(|scope| scope.kind.is("", "Namespace"))?;
        self.cache.object(&ObjectKey { kind: Arc::clone(&scope.kind), namespace: None, name, copy: 0 })
    }

    /// Enters a verdict into the ledger and records what it changed.
    pub(super) fn judged(&mut self, Judged { mut verdict, state, deleted }: Judged) {
        let queued = if deleted { None } else { self.queue.done(&verdict.key) };
        // The object may be gone, replaced, or queued again for newer policies.
        let stands =
            !deleted && self.cache.has(&verdict.key, &verdict.uid) && verdict.policies == self.policies.set.digest;
        self.revision += 1;
        self.count(&verdict, queued.filter(|_| stands));
        let span = self.trace(&verdict, queued);
        let now = Timestamp::now();
        self.excuse(&mut verdict, now);
        self.withhold(&mut verdict);
        if stands {
            self.bound(&mut verdict);
            self.retries.note(&verdict.key, verdict.unfinished);
        }
        if self.settings.initial == InitialObjects::Stream {
            // Manifests have no uid, and no owners.
            if stands && verdict.results.is_empty() && verdict.uid.is_empty() {
                self.cache.drop_object(&verdict.key);
                return self.ledger.record_clean(&verdict.passed);
            }
            self.cache.drop_body(&verdict.key);
        }
        let lane = queued.map_or(Lane::Change, |queued| queued.priority.lane());
        if self.policies.dependencies(&verdict.key.kind).inventory {
            self.inventory.note_judged(&verdict.key);
        }
        if !stands {
            return self.recording.record(self.ledger.transitions(verdict, lane, now));
        }
        let (key, uid) = (verdict.key.clone(), Arc::clone(&verdict.uid));
        // What came since the object was taken, and is no reason to judge it again, no policy can see.
        let state = if self.queue.has(&key) { state } else { self.cache.state(&key) };
        let owners = if verdict.results.is_empty() { Owners::default() } else { self.owners(&key, None) };
        let delta = self.ledger.record(verdict, state, &owners, lane, now).map(|delta| Delta { span, ..delta });
        self.record_with_dependents(&key, &uid, delta);
    }

    /// Replaces the results of a verdict by an error if they have no room. What is open of the object stays open.
    fn bound(&self, verdict: &mut Verdict) {
        if let Err(why) = self.room(&verdict.key, self.ledger.growth(verdict)) {
            let count = verdict.results.len();
            let error = Finding::object_error(&format!("{count} results of this object are not kept: {why}"));
            verdict.undecided.push([&error.rule.policy, &error.rule.name].map(Arc::clone));
            (verdict.results, verdict.unfinished) = (vec![error], true);
        }
    }

    /// Counts a verdict, and for one that stands how long its object waited for it.
    fn count(&self, verdict: &Verdict, queued: Option<Queued>) {
        let metrics = &self.outputs.metrics;
        metrics.evaluated(verdict.took);
        verdict.shared.into_iter().for_each(|shared| metrics.verdict_shared(shared));
        if !verdict.shared_differences.is_empty() {
            metrics.shared_verdict_differed();
        }
        let findings = verdict.results.iter().chain(&verdict.transitions);
        for finding in findings.filter(|finding| finding.outcome == Outcome::Error) {
            metrics.policy_failed(&finding.rule.policy);
        }
        if let Some(queued) = queued {
            metrics.verdict_after(queued.since.elapsed());
        }
    }

    /// Tells the way of a change from the watch to its verdict; returns what writes that follow belong to.
    fn trace(&self, verdict: &Verdict, queued: Option<Queued>) -> Span {
        let is_change = |queued: &Queued| {
            queued.priority == QueuePriority::Change && self.settings.initial != InitialObjects::Stream
        };
        let Some(queued) = queued.filter(is_change) else { return Span::default() };
        let span = Span::since("change", queued.since);
        span.set(|| {
            let ObjectKey { kind, namespace, name, .. } = &verdict.key;
            [
                ("kaudit.object.kind", kind.kind.clone().into()),
                ("k8s.namespace.name", namespace.as_deref().unwrap_or_default().to_owned().into()),
                ("kaudit.object.name", name.to_string().into()),
                ("kaudit.results", count(verdict.results.len())),
            ]
        });
        span.took("judge", verdict.took);
        span.end();
        span
    }

    /// Judges by new policies, or says why not.
    pub(super) fn reload(&mut self, reload: Reload) {
        self.revision += 1;
        self.outputs.metrics.policies_reloaded(reload.is_ok());
        match reload {
            Err(why) => {
                error!("The policies could not be loaded; those loaded before stay in force:\n{why}");
                self.policies.error = Some(why);
                self.publish_refused();
            }
            Ok(set) => {
                info!(rules = set.rules(), digest = %set.digest, "Policies loaded");
                let same = set.digest == self.policies.set.digest;
                self.publish_policies(&set);
                self.exceptions.judged_by(&set);
                if !same {
                    self.ledger.judged_by(&set);
                }
                self.policies.replace(set);
                self.publish_refused();
                if !same {
                    self.judge_everything();
                }
            }
        }
    }

    /// Queues every object, for policies that read and look up something else than those before.
    fn judge_everything(&mut self) {
        self.inventory.reset(&self.policies.set);
        self.lookups_changed = true;
        self.look(Purpose::Renew, Objects::of(&self.cache, self.judged_scopes()));
    }
}
