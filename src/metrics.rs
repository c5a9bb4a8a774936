//! Counts and times about kaudit itself, as `OpenMetrics` text.
//!
//! Every label has few values: kinds, policies, reasons. Names and namespaces of objects are never labels.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use crate::model::{
    coverage::{Coverage, State},
    verdict::{Outcome, Severity},
};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// 10 µs to 2.6 s: one evaluation.
const EVALUATION_BUCKETS: [f64; 10] = [1e-5, 4e-5, 1.6e-4, 6.4e-4, 2.5e-3, 1e-2, 4e-2, 0.16, 0.64, 2.6];
/// 0.5 ms to 60 s: from a change to what comes of it.
const LATENCY_BUCKETS: [f64; 12] = [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];
const STATES: [State; 6] =
    [State::Syncing, State::Synced, State::Forbidden, State::Failed, State::TimedOut, State::Excluded];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    group: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindStateLabels {
    group: String,
    resource: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RestartLabels {
    group: String,
    resource: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ViolationLabels {
    policy: String,
    severity: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RecorderLabels {
    recorder: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropLabels {
    recorder: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: &'static str,
}

/// All metrics. Share it in an `Arc`; every method takes `&self` and is cheap.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    gate_open: Gauge,
    objects: Family<KindLabels, Gauge>,
    kind_state: Family<KindStateLabels, Gauge>,
    violations: Family<ViolationLabels, Gauge>,
    evaluations: Counter,
    evaluation_seconds: Histogram,
    policy_errors: Family<PolicyLabels, Counter>,
    queue_length: Gauge,
    events_pending: Gauge,
    verdict_latency: Histogram,
    event_latency: Histogram,
    recorder_writes: Family<RecorderLabels, Counter>,
    recorder_drops: Family<DropLabels, Counter>,
    recorder_retries: Family<RecorderLabels, Counter>,
    events_superseded: Counter,
    watch_restarts: Family<RestartLabels, Counter>,
    /// The reasons that were met, so that the series of a kind can be found again.
    restart_reasons: Mutex<BTreeSet<&'static str>>,
    policy_reloads: Family<ReloadLabels, Counter>,
    policies_refused: Gauge,
    leader: Gauge,
    unreadable_objects: Family<KindLabels, Counter>,
    changes_skipped: Counter,
    inventory_update_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers all metrics.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("kaudit"),
            gate_open: Gauge::default(),
            objects: Family::default(),
            kind_state: Family::default(),
            violations: Family::default(),
            evaluations: Counter::default(),
            evaluation_seconds: Histogram::new(EVALUATION_BUCKETS),
            policy_errors: Family::default(),
            queue_length: Gauge::default(),
            events_pending: Gauge::default(),
            verdict_latency: Histogram::new(LATENCY_BUCKETS),
            event_latency: Histogram::new(LATENCY_BUCKETS),
            recorder_writes: Family::default(),
            recorder_drops: Family::default(),
            recorder_retries: Family::default(),
            events_superseded: Counter::default(),
            watch_restarts: Family::default(),
            restart_reasons: Mutex::default(),
            policy_reloads: Family::default(),
            policies_refused: Gauge::default(),
            leader: Gauge::default(),
            unreadable_objects: Family::default(),
            changes_skipped: Counter::default(),
            inventory_update_seconds: Histogram::new(EVALUATION_BUCKETS),
        };
        metrics.register_state();
        metrics.register_counts_and_times();
        metrics
    }

    fn register_state(&mut self) {
        let registry = &mut self.registry;
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What was built", build);
        registry.register(
            "gate_open",
            "Whether the initial sync is over and judging has begun",
            self.gate_open.clone(),
        );
        registry.register("objects", "Objects known of a kind", self.objects.clone());
        registry.register("kind_state", "1 for the state that a kind is in, else 0", self.kind_state.clone());
        registry.register("violations", "Violations that stand now", self.violations.clone());
        registry.register(
            "policies_refused",
            "Policy files that were refused when the policies were loaded last",
            self.policies_refused.clone(),
        );
        registry.register("leader", "Whether this replica records: it leads, or is the only one", self.leader.clone());
        registry.register("queue_length", "Objects that wait to be judged", self.queue_length.clone());
        registry.register("events_pending", "Events that wait to be written", self.events_pending.clone());
    }

    fn register_counts_and_times(&mut self) {
        let registry = &mut self.registry;
        registry.register("evaluations", "Objects judged", self.evaluations.clone());
        registry.register_with_unit(
            "evaluation",
            "Time to judge one object",
            Unit::Seconds,
            self.evaluation_seconds.clone(),
        );
        registry.register("policy_errors", "Evaluations of a policy that failed", self.policy_errors.clone());
        registry.register_with_unit(
            "verdict_latency",
            "Time from a change to its verdict",
            Unit::Seconds,
            self.verdict_latency.clone(),
        );
        registry.register_with_unit(
            "event_latency",
            "Time from a change to its Event",
            Unit::Seconds,
            self.event_latency.clone(),
        );
        registry.register("recorder_writes", "Writes into the cluster", self.recorder_writes.clone());
        registry.register("recorder_drops", "What was not written, by reason", self.recorder_drops.clone());
        registry.register(
            "recorder_retries",
            "Writes into the cluster that failed and are tried again",
            self.recorder_retries.clone(),
        );
        registry.register(
            "events_superseded",
            "Events not written because the violation was over before",
            self.events_superseded.clone(),
        );
        registry.register("watch_restarts", "Watches that had to start again, by reason", self.watch_restarts.clone());
        registry.register("policy_reloads", "Times that the policies were loaded again", self.policy_reloads.clone());
        registry.register(
            "changes_skipped",
            "Changes of objects that no policy can see, and that were not judged",
            self.changes_skipped.clone(),
        );
        registry.register_with_unit(
            "inventory_update",
            "Time to bring what policies look up in other objects up to date",
            Unit::Seconds,
            self.inventory_update_seconds.clone(),
        );
        registry.register(
            "unreadable_objects",
            "Objects of a kind that could not be understood",
            self.unreadable_objects.clone(),
        );
    }

    /// Returns everything as `OpenMetrics` text.
    ///
    /// # Panics
    ///
    /// Never: only writing can fail, and a string takes everything.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// Tells whether judging has begun.
    pub fn set_gate_open(&self, open: bool) {
        self.gate_open.set(open.into());
    }

    /// Tells how many objects of a kind are known.
    pub fn set_objects(&self, group: &str, resource: &str, number: usize) {
        self.objects.get_or_create(&kind(group, resource)).set(gauge_value(number));
    }

    /// Tells the state that a kind is in.
    pub fn set_kind_state(&self, group: &str, resource: &str, state: State) {
        for each in STATES {
            self.kind_state.get_or_create(&kind_state(group, resource, each)).set((each == state).into());
        }
    }

    /// Removes the series of a kind that is no longer served.
    pub fn remove_kind(&self, group: &str, resource: &str) {
        let labels = kind(group, resource);
        self.objects.remove(&labels);
        self.unreadable_objects.remove(&labels);
        for state in STATES {
            self.kind_state.remove(&kind_state(group, resource, state));
        }
        for reason in self.restart_reasons.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            self.watch_restarts.remove(&restart(group, resource, reason));
        }
    }

    /// Sets how many results of one policy stand.
    pub fn set_violations(&self, policy: &str, severity: Option<Severity>, result: Outcome, number: usize) {
        self.violations.get_or_create(&violation(policy, severity, result)).set(gauge_value(number));
    }

    /// Takes over the coverage of all kinds.
    pub fn set_coverage(&self, coverage: &[Coverage]) {
        for kind in coverage.iter().filter(|kind| kind.state != State::Excluded) {
            self.set_objects(&kind.group, &kind.resource, kind.objects);
            self.set_kind_state(&kind.group, &kind.resource, kind.state);
        }
    }

    /// Counts an object that was judged.
    pub fn evaluated(&self, took: Duration) {
        self.evaluations.inc();
        self.evaluation_seconds.observe(took.as_secs_f64());
    }

    /// Counts a change that no policy can see.
    pub fn change_skipped(&self) {
        self.changes_skipped.inc();
    }

    /// Counts a new state of the inventory, and what it took to make it.
    pub fn inventory_updated(&self, took: Duration) {
        self.inventory_update_seconds.observe(took.as_secs_f64());
    }

    /// Counts an evaluation of a policy that failed.
    pub fn policy_failed(&self, policy: &str) {
        self.policy_errors.get_or_create(&PolicyLabels { policy: policy.to_owned() }).inc();
    }

    /// Tells whether this replica records.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Tells how many objects wait to be judged.
    pub fn set_queue_length(&self, number: usize) {
        self.queue_length.set(gauge_value(number));
    }

    /// Sets how many Events wait to be written.
    pub fn set_events_pending(&self, number: usize) {
        self.events_pending.set(gauge_value(number));
    }

    /// Counts the time from a change to its verdict.
    pub fn verdict_after(&self, latency: Duration) {
        self.verdict_latency.observe(latency.as_secs_f64());
    }

    /// Counts the time from a change to its Event.
    pub fn event_after(&self, latency: Duration) {
        self.event_latency.observe(latency.as_secs_f64());
    }

    /// Counts a write of a recorder (`events`, `status`).
    pub fn recorder_wrote(&self, recorder: &'static str) {
        self.recorder_writes.get_or_create(&RecorderLabels { recorder }).inc();
    }

    /// Counts what a recorder did not write, and why (`rate_limited`, `forbidden`).
    pub fn recorder_dropped(&self, recorder: &'static str, reason: &'static str, number: u64) {
        self.recorder_drops.get_or_create(&DropLabels { recorder, reason }).inc_by(number);
    }

    /// Counts a write of a recorder that failed and is tried again.
    pub fn recorder_retries(&self, recorder: &'static str) {
        self.recorder_retries.get_or_create(&RecorderLabels { recorder }).inc();
    }

    /// Counts Events that are not written as they are not true any more.
    pub fn events_superseded(&self, number: u64) {
        self.events_superseded.inc_by(number);
    }

    /// Counts a watch that had to start again, and why (`expired`, `closed`).
    pub fn watch_restarted(&self, group: &str, resource: &str, reason: &'static str) {
        self.restart_reasons.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        self.watch_restarts.get_or_create(&restart(group, resource, reason)).inc();
    }

    /// Counts a load of the policies after the first.
    pub fn policies_reloaded(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "failure" };
        self.policy_reloads.get_or_create(&ReloadLabels { result }).inc();
    }

    /// Tells how many files were refused when the policies were loaded last.
    pub fn set_policies_refused(&self, number: usize) {
        self.policies_refused.set(gauge_value(number));
    }

    /// Counts an object that could not be understood.
    pub fn object_unreadable(&self, group: &str, resource: &str) {
        self.unreadable_objects.get_or_create(&kind(group, resource)).inc();
    }
}

fn kind(group: &str, resource: &str) -> KindLabels {
    KindLabels { group: group.to_owned(), resource: resource.to_owned() }
}

fn kind_state(group: &str, resource: &str, state: State) -> KindStateLabels {
    KindStateLabels { group: group.to_owned(), resource: resource.to_owned(), state: state.as_str() }
}

fn restart(group: &str, resource: &str, reason: &'static str) -> RestartLabels {
    RestartLabels { group: group.to_owned(), resource: resource.to_owned(), reason }
}

fn violation(policy: &str, severity: Option<Severity>, result: Outcome) -> ViolationLabels {
    let severity = severity.map_or("", Severity::word);
    ViolationLabels { policy: policy.to_owned(), severity, result: result.word() }
}

fn gauge_value(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything once.
    fn sample() -> Metrics {
        let metrics = Metrics::new();
        metrics.set_gate_open(true);
        metrics.set_objects("apps", "deployments", 3);
        metrics.set_kind_state("apps", "deployments", State::TimedOut);
        metrics.set_violations("image", Some(Severity::High), Outcome::Fail, 2);
        metrics.set_violations("image", Some(Severity::High), Outcome::Fail, 1);
        metrics.evaluated(Duration::from_micros(52));
        metrics.change_skipped();
        metrics.inventory_updated(Duration::from_millis(5));
        metrics.policy_failed("image");
        metrics.set_queue_length(2);
        metrics.verdict_after(Duration::from_millis(3));
        metrics.event_after(Duration::from_millis(7));
        metrics.recorder_wrote("events");
        metrics.recorder_dropped("events", "rate_limited", 5);
        metrics.recorder_retries("events");
        metrics.set_events_pending(6);
        metrics.events_superseded(2);
        metrics.watch_restarted("apps", "deployments", "expired");
        metrics.policies_reloaded(false);
        metrics.set_policies_refused(4);
        metrics.object_unreadable("apps", "deployments");
        metrics
    }

    #[test]
    fn names_and_labels_are_a_contract() {
        let mut text = sample().encode().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        assert!(text.ends_with("# EOF\n"));
        // The series of a family have no order of their own.
        let mut states: Vec<&str> = text.lines().filter(|line| line.starts_with("kaudit_kind_state{")).collect();
        states.sort_unstable();
        let states = states.join("\n");
        text = text.lines().filter(|line| !line.starts_with("kaudit_kind_state{")).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(format!("{text}\n\n{states}"));
    }

    #[test]
    fn what_is_gone_leaves_no_series() {
        let metrics = sample();
        metrics.remove_kind("apps", "deployments");
        let text = metrics.encode();
        assert!(!text.contains("deployments"), "{text}");
    }
}
