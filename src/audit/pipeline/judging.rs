//! From the queue to the judges and back.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use tracing::{error, info};

use super::{Initial, Judged, Pipeline, Reload, dependents::Traits};
use crate::{
    audit::queue::Lane,
    judge::{
        evaluate::{Job, evaluate},
        set::PolicySet,
    },
    model::{
        object::{Object, ObjectKey},
        verdict::{Outcome, Verdict},
    },
    source::change::Feed,
};

/// Objects in one go of a judge: enough that the hand-over costs nothing, few enough that a change does not wait.
const BATCH: usize = 32;

impl Pipeline {
    /// Hands waiting objects to the judges.
    pub(super) fn dispatch(&mut self) {
        // Without what they look up, policies would be wrong.
        let Some(policies) = self.stock.policies() else { return };
        while self.judges.len() < self.judges_at_most {
            // Small batches while there is little to do, so that every judge has some of it.
            let size = ((self.queue.length() + self.departed.len()) / self.judges_at_most).clamp(1, BATCH);
            let mut jobs = Vec::with_capacity(size);
            while jobs.len() < size {
                if let Some(object) = self.departed.pop_front() {
                    jobs.push(self.job(object, None, true, &policies));
                    continue;
                }
                let Some(key) = self.queue.pop() else { break };
                if !self.settings.shard.owns(key.namespace.as_deref()) {
                    // Another shard judges it; here others are judged by it.
                    self.queue.done(&key);
                    continue;
                }
                let previous = self.before.remove(&key);
                match self.cache.object(&key) {
                    Some(object) => jobs.push(self.job(object, previous, false, &policies)),
                    None => {
                        self.queue.done(&key);
                    }
                }
            }
            if jobs.is_empty() {
                return;
            }
            let judge = |job: &Job| (evaluate(job), if job.deleted { Judged::Deletion } else { Judged::Present });
            self.judges.spawn_blocking(move || jobs.iter().map(judge).collect());
        }
    }

    fn job(&mut self, object: Object, previous: Option<Object>, deleted: bool, policies: &Arc<PolicySet>) -> Job {
        let namespace = self.namespace_of(&object.key);
        Job { object, previous, deleted, namespace, policies: Arc::clone(policies) }
    }

    /// Returns the Namespace of an object, where its verdict depends on it.
    fn namespace_of(&mut self, key: &ObjectKey) -> Option<Object> {
        let name = key.namespace.clone().filter(|_| self.depends(&key.kind).namespace)?;
        let feed = self.gate.joined().find(|feed| feed.kind.is("", "Namespace"))?;
        self.cache.object(&ObjectKey { kind: Arc::clone(&feed.kind), namespace: None, name, copy: 0 })
    }

    pub(super) fn judged(&mut self, verdict: Verdict, about: Judged) {
        let owed = if about == Judged::Present { self.queue.done(&verdict.key) } else { None };
        let metrics = &self.outputs.metrics;
        metrics.evaluated(verdict.took);
        let findings = verdict.results.iter().chain(&verdict.transitions);
        for finding in findings.filter(|finding| finding.outcome == Outcome::Error) {
            metrics.policy_failed(&finding.policy);
        }
        self.dirty = true;
        // The object may be gone, replaced, or waiting for its verdict under newer policies.
        let stands = about == Judged::Present
            && self.cache.uid(&verdict.key) == Some(&verdict.uid)
            && verdict.policies == self.policies.digest;
        if let Some(owed) = owed.filter(|_| stands) {
            metrics.verdict_after(owed.since.elapsed());
        }
        if self.settings.initial == Initial::Pass {
            if stands && verdict.results.is_empty() {
                self.cache.drop_object(&verdict.key);
                return self.ledger.record_clean(verdict.passed);
            }
            self.cache.let_go(&verdict.key);
        }
        let now = Timestamp::now();
        let delta = if stands { self.ledger.record(verdict, now) } else { self.ledger.transitions(verdict, now) };
        self.tell(delta, owed.map_or(Lane::Change, |owed| owed.lane));
    }

    pub(super) fn reload(&mut self, reload: Reload) {
        self.dirty = true;
        self.outputs.metrics.policies_reloaded(reload.is_ok());
        match reload {
            Err(why) => {
                error!("The policies could not be loaded; those loaded before stay in force:\n{why}");
                self.policy_error = Some(why);
                self.tell_refused();
            }
            Ok(policies) => {
                info!(rules = policies.rules(), digest = %policies.digest, "Policies loaded");
                self.policy_error = None;
                let same = policies.digest == self.policies.digest;
                self.policies = policies;
                self.tell_refused();
                if same {
                    return;
                }
                self.traits = Traits::default();
                self.cache.clear_projections();
                self.stock.reset(&self.policies);
                let now = Instant::now();
                let feeds: Vec<Feed> = self.gate.joined().filter(|_| self.gate.is_open()).cloned().collect();
                for feed in feeds {
                    let keys: Vec<_> = self.cache.keys(&feed).cloned().collect();
                    self.others_follow_all(&feed, &keys, now);
                    let keys = keys.into_iter().filter(|key| !self.baseline.contains(key));
                    self.queue.extend(keys, Lane::Snapshot, now);
                }
            }
        }
    }
}
