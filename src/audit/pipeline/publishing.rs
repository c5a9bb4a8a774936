//! What a pipeline publishes about itself: progress, metrics, the overview for the status, the whole result.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{Overview, Pipeline, Progress};
use crate::{
    audit::{
        queue::Lane,
        result::{AuditResult, Entry, KIND, PolicySummary, Summary},
    },
    cluster::identity::API_VERSION,
    judge::set::PolicySet,
    model::{
        coverage::Coverage,
        object::ObjectRef,
        verdict::{Class, Outcome},
    },
};

/// Scopes that are named to whoever asks what the gate waits for.
const NAMED: usize = 5;

impl Pipeline {
    /// Publishes the progress, and what depends on more than it if anything changed.
    pub(super) fn publish(&mut self) {
        let (scopes_done, scopes) = self.gate.progress();
        let waiting_for = self.gate.waiting_for().take(NAMED).map(ToString::to_string).collect();
        let progress =
            Progress { open: self.gate.is_open(), scopes_done, scopes, waiting_for, queue: self.queue.waiting() };
        self.outputs.metrics.set_queue_length(progress.queue);
        self.outputs.metrics.set_watch_activity(self.gate.activity());
        self.outputs.progress.send_if_modified(|known| {
            let new = *known != progress;
            *known = progress;
            new
        });
        if self.published == Some(self.revision) {
            return;
        }
        self.published = Some(self.revision);
        let overview = self.overview();
        self.outputs.metrics.set_coverage(&overview.coverage);
        self.outputs.metrics.set_complete(overview.synced && overview.complete);
        let exceptions: Vec<_> = overview.exceptions.iter().map(|known| (known.state, known.expires_at)).collect();
        self.outputs.metrics.set_exceptions(&exceptions);
        self.outputs.metrics.set_violations(self.ledger.counts_by_namespace());
        self.outputs.overview.send_replace(Some(Arc::new(overview)));
    }

    fn coverage(&self) -> Vec<Coverage> {
        let inactive = |scope: &_| if self.settings.judge_inactive { 0 } else { self.cache.inactive(scope) };
        self.gate.coverage(|scope| (self.cache.len(scope), inactive(scope)))
    }

    fn summary(&self) -> Summary {
        let (objects, pass) = (self.ledger.judged(), self.ledger.passed());
        let mut summary = Summary { objects, pass, covered: self.ledger.covered(), ..Summary::default() };
        for (class, count) in self.ledger.counts() {
            *summary.of(class.outcome) += count;
        }
        summary
    }

    fn overview(&self) -> Overview {
        let summary = self.summary();
        let mut by_policy: BTreeMap<Arc<str>, [usize; 3]> = BTreeMap::new();
        for (Class { policy, outcome, .. }, count) in self.ledger.counts() {
            let slot = match outcome {
                Outcome::Fail => 0,
                Outcome::Warn => 1,
                Outcome::Error => 2,
                Outcome::Skip => continue,
            };
            by_policy.entry(policy.clone()).or_default()[slot] += count;
        }
        Overview {
            synced: self.gate.is_open(),
            complete: self.is_complete(&summary),
            summary,
            coverage: self.coverage(),
            policies: Arc::clone(&self.policies.set),
            by_policy,
            exceptions: self.exceptions.summaries(self.ledger.excused(), Timestamp::now()),
            policy_error: self.policies.error.clone(),
            inventory_error: self.inventory.problem.clone(),
        }
    }

    /// Whether every kind in scope was read and every policy ran.
    fn is_complete(&self, summary: &Summary) -> bool {
        let judged = summary.error == 0 && self.inventory.problem.is_empty() && !self.policies.set.is_partial();
        self.gate.is_complete() && judged
    }

    /// Makes known which policies are in force.
    pub(super) fn publish_policies(&mut self, policies: &Arc<PolicySet>) {
        self.outputs.policies.send_replace(Arc::clone(policies));
        self.outputs.metrics.set_policies(policies.policies.len());
        self.outputs
            .metrics
            .set_bundles_stale(policies.bundles.iter().filter(|bundle| !bundle.stale.is_empty()).count());
        for class in policies.classes() {
            for lane in Lane::ALL {
                self.outputs.metrics.expect_violations(&class, lane.as_str());
            }
        }
    }

    /// Counts the policy files that are refused, and has a note about them recorded.
    pub(super) fn publish_refused(&mut self) {
        let (files, note) = self.policies.refused();
        self.outputs.metrics.set_policies_refused(files);
        if files > 0 {
            self.recording.policies_refused(&note);
        }
    }

    /// Returns the whole result, whose entries are in no order.
    pub(super) fn result(&self) -> AuditResult {
        let summary = self.summary();
        let mut results: Vec<Entry> = Vec::with_capacity(summary.fail + summary.warn + summary.error + summary.skip);
        for (key, standing) in self.ledger.objects() {
            let resource = Arc::new(ObjectRef::new(key, &standing.uid));
            let location = self.cache.location(key);
            results.extend(standing.results.iter().map(|known| {
                let covered_by = known.covered_by.as_ref().and_then(|uid| self.owner_reference(key, uid));
                let dependents = self.ledger.dependents(&standing.uid, &known.finding);
                let entry = Entry::new(&known.finding, &resource, location, standing.owner.as_ref());
                Entry { covered_by, dependents, since: Some(known.since), ..entry }
            }));
        }
        let mut policies: Vec<_> = self.policies.set.policies.iter().map(PolicySummary::from).collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        AuditResult {
            api_version: API_VERSION,
            kind: KIND,
            scope: None,
            complete: self.gate.is_open() && self.is_complete(&summary),
            summary,
            coverage: self.coverage(),
            policies,
            bundles: self.policies.set.bundles.clone(),
            refused: self.policies.set.refused().cloned().collect(),
            not_judged: self.policies.set.unjudged.clone(),
            exceptions: self.exceptions.summaries(self.ledger.excused(), Timestamp::now()),
            baseline: None,
            results,
            ended: self.recording.ended.iter().cloned().collect(),
        }
    }
}
