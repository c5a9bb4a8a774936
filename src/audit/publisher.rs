//! What a pipeline publishes about itself while it runs: progress, metrics, and the overview for the status.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    ledger::Ledger,
    overview::{Overview, Progress},
    phases::Phases,
    queue::{Lane, Queued},
    result::Summary,
    results::Results,
    schedule::Schedule,
    watched::WatchedObjects,
};
use crate::{
    judge::set::PolicySet,
    metrics::Metrics,
    model::{
        body::Packing,
        verdict::{Class, Outcome, Verdict},
    },
    source::change::InFlight,
};

/// How often the metric of watch activity is set if nothing changes: most kinds are heard of once a minute.
const ACTIVITY_EVERY: Duration = Duration::from_secs(5);
/// Scopes that are named in the progress.
const NAMED: usize = 5;

/// What a pipeline publishes while it runs.
pub struct Outputs {
    /// How far it is.
    pub progress: watch::Sender<Progress>,
    /// The overview, at most every [`OVERVIEW_EVERY`](super::pipeline::OVERVIEW_EVERY).
    pub overview: watch::Sender<Option<Arc<Overview>>>,
    /// Sent to whenever a delta is recorded, at once and each time.
    pub delta_recorded: watch::Sender<()>,
    /// The policies in force, as they were loaded.
    pub policies: watch::Sender<Arc<PolicySet>>,
    /// Compresses objects for the pipeline's cache, which trains the dictionary.
    pub packing: Packing,
    /// Bounds the bytes of the changes that are not applied yet.
    pub in_flight: InFlight,
    /// The keys of the labels of objects that deltas have.
    pub labels: BTreeSet<String>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Publishes the progress and the overview of a pipeline when they changed.
pub(crate) struct Publisher {
    pub(super) outputs: Outputs,
    pub(super) phases: Phases,
    /// Everything that existed at the start has been evaluated.
    pub(super) evaluated: bool,
    /// Grows with each change that the overview or the result shows.
    pub(super) revision: u64,
    /// The revision that the overview shows.
    published: Option<u64>,
    /// When the metric of watch activity was set last.
    activity_set: Option<Instant>,
}

impl Publisher {
    /// Creates it for a pipeline that starts.
    pub(super) fn new(outputs: Outputs) -> Self {
        Self { outputs, phases: Phases::begin(), evaluated: false, revision: 0, published: None, activity_set: None }
    }

    /// Notes that what the overview or the result shows has changed.
    pub(super) fn note_changed(&mut self) {
        self.revision += 1;
    }

    /// Notes that everything that existed at the start has been evaluated.
    pub(super) fn note_evaluated(&mut self) {
        self.phases.evaluated();
        let was_evaluated = std::mem::replace(&mut self.evaluated, true);
        self.revision += u64::from(!was_evaluated);
    }

    /// Publishes the progress, and what depends on more than it if anything changed.
    pub(super) fn publish(&mut self, objects: &WatchedObjects, schedule: &Schedule, results: &mut Results) {
        let (gate, metrics) = (&objects.gate, &self.outputs.metrics);
        let (scopes_done, scopes) = gate.progress();
        let waiting_for = gate.waiting_for().take(NAMED).map(ToString::to_string).collect();
        let progress =
            Progress { open: gate.is_open(), scopes_done, scopes, waiting_for, queue: schedule.queue.waiting() };
        metrics.set_queue_length(progress.queue);
        let has_changed = self.published != Some(self.revision);
        if has_changed || self.activity_set.is_none_or(|set| set.elapsed() >= ACTIVITY_EVERY) {
            self.activity_set = Some(Instant::now());
            metrics.set_watch_activity(gate.activity());
        }
        self.outputs.progress.send_if_modified(|known| {
            let new = *known != progress;
            *known = progress;
            new
        });
        if !has_changed {
            return;
        }
        self.published = Some(self.revision);
        let overview = self.overview(objects, schedule, results);
        if !matches!(&*self.outputs.overview.borrow(), Some(known) if known.coverage == overview.coverage) {
            metrics.set_coverage(&overview.coverage);
        }
        metrics.set_complete(overview.synced && overview.complete);
        let exceptions: Vec<_> = overview.exceptions.iter().map(|known| (known.state, known.expires_at)).collect();
        metrics.set_exceptions(&exceptions);
        metrics.set_violations(results.ledger.counts_by_namespace());
        metrics.set_covered(results.ledger.covered());
        metrics.set_rule_objects(results.ledger.rule_counts());
        self.outputs.overview.send_replace(Some(Arc::new(overview)));
    }

    /// Returns the counts and the coverage.
    fn overview(&self, objects: &WatchedObjects, schedule: &Schedule, results: &Results) -> Overview {
        let summary = summary(&results.ledger);
        let mut by_policy: BTreeMap<Arc<str>, [usize; 3]> = BTreeMap::new();
        let mut by_severity = BTreeMap::new();
        for (Class { policy, severity, outcome }, count) in results.ledger.counts() {
            if outcome.is_violation() {
                *by_severity.entry(*severity).or_default() += count;
            }
            let slot = match outcome {
                Outcome::Fail => 0,
                Outcome::Warn => 1,
                Outcome::Error => 2,
                Outcome::Skip => continue,
            };
            by_policy.entry(policy.clone()).or_default()[slot] += count;
        }
        Overview {
            synced: objects.gate.is_open(),
            evaluated: self.evaluated,
            complete: is_complete(objects, schedule, &summary),
            summary,
            coverage: objects.coverage(|| results.are_withheld()),
            policies: Arc::clone(&schedule.policies.set),
            policies_since: schedule.policies.since,
            by_severity,
            by_policy,
            exceptions: results.exceptions.summaries(results.ledger.excused(), Timestamp::now()),
            policy_error: schedule.policies.error.clone(),
            inventory_error: schedule.inventory.problem.clone(),
            nothing_found: objects.nothing_found().unwrap_or_default(),
        }
    }

    /// Makes known which policies are in force.
    pub(super) fn publish_policies(&self, policies: &Arc<PolicySet>) {
        let metrics = &self.outputs.metrics;
        self.outputs.policies.send_replace(Arc::clone(policies));
        metrics.set_policies(policies.policies.len());
        metrics.set_bundles_stale(policies.bundles.iter().filter(|bundle| !bundle.stale.is_empty()).count());
        for class in policies.classes() {
            for lane in Lane::ALL {
                metrics.expect_violations(&class, lane.as_str());
            }
        }
    }

    /// Counts a verdict, and for one about an object's present state how long the object waited for it.
    pub(super) fn count(&self, verdict: &Verdict, queued: Option<Queued>) {
        let metrics = &self.outputs.metrics;
        metrics.evaluated(verdict.took);
        verdict.shared.into_iter().for_each(|shared| metrics.verdict_shared(shared));
        for policy in &verdict.shared_differences {
            tracing::error!(
                %policy,
                object = %verdict.key,
                "a cached result differs from a fresh evaluation of the object; result sharing is disabled until the \
                 policies change; please report this with the policy and the object"
            );
        }
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
}

/// Counts the results in a ledger.
pub(super) fn summary(ledger: &Ledger) -> Summary {
    let (objects, pass) = (ledger.evaluated(), ledger.passed());
    let mut summary = Summary { objects, pass, covered: ledger.covered(), ..Summary::default() };
    for (class, count) in ledger.counts() {
        *summary.of(class.outcome) += count;
    }
    summary
}

/// Whether every kind in scope was read, with at least one object, and every policy was evaluated.
pub(super) fn is_complete(objects: &WatchedObjects, schedule: &Schedule, summary: &Summary) -> bool {
    let evaluated = summary.error == 0 && schedule.inventory.problem.is_empty() && !schedule.policies.set.is_partial();
    evaluated && objects.are_complete()
}
