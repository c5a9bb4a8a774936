//! Metrics about kaudit itself, as `OpenMetrics` text.
//!
//! A metric is one line in the table below and a method that sets or counts it, so that labels and units are in this file
//! only. Every label has few values: kinds, policies, reasons; names and namespaces of objects are never labels.

use std::{
    borrow::Cow,
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
    exception::ExceptionState,
    verdict::{Outcome, Severity, Shared},
};

/// Of a metric that is not there before it is set.
type NoLabels = [(&'static str, &'static str); 0];

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// 10 µs to 2.6 s: one evaluation.
const EVALUATION_BUCKETS: [f64; 10] = [1e-5, 4e-5, 1.6e-4, 6.4e-4, 2.5e-3, 1e-2, 4e-2, 0.16, 0.64, 2.6];
/// 0.5 ms to 60 s: from a change to what comes of it.
const LATENCY_BUCKETS: [f64; 12] = [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

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
struct ExceptionLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RecorderLabels {
    recorder: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReceiverLabels {
    receiver: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropLabels {
    recorder: Cow<'static, str>,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SharedLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: &'static str,
}

/// Declares the metrics: what [`Metrics`] holds, what is registered and in which order they are written, all in one table. A
/// name is that of the field, without the `kaudit_` before it and without what `OpenMetrics` puts behind it; what has
/// buckets is a time in seconds.
macro_rules! metrics {
    ($($name:ident: $metric:ty, $help:literal $(, $buckets:expr)?;)*) => {
        /// All metrics. Share it in an `Arc`; every method takes `&self` and is cheap.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            /// The reasons that were met, so that the series of a kind can be found again.
            restart_reasons: Mutex<BTreeSet<&'static str>>,
            $($name: $metric,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("kaudit");
                registry.register("build", "What was built", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
                $(let $name = metrics!(@register registry $name $help $($buckets)?);)*
                Self { registry, restart_reasons: Mutex::default(), $($name,)* }
            }
        }
    };
    (@register $registry:ident $name:ident $help:literal) => {{
        let metric = Default::default();
        $registry.register(stringify!($name), $help, Clone::clone(&metric));
        metric
    }};
    (@register $registry:ident $name:ident $help:literal $buckets:expr) => {{
        let seconds = Histogram::new($buckets);
        $registry.register_with_unit(stringify!($name), $help, Unit::Seconds, seconds.clone());
        seconds
    }};
}

metrics! {
    gate_open: Gauge, "Whether the initial sync is over and judging has begun";
    objects: Family<KindLabels, Gauge>, "Objects known of a kind";
    kind_state: Family<KindStateLabels, Gauge>, "1 for the state that a kind is in, else 0";
    violations: Family<ViolationLabels, Gauge>, "Violations that stand now";
    exceptions: Family<ExceptionLabels, Gauge>, "Exceptions by whether they apply";
    policies_refused: Gauge, "Policy files that were refused when the policies were loaded last";
    leader: Gauge, "Whether this replica records: it leads, or is the only one";
    memory_bytes: Family<NoLabels, Gauge>, "Memory of the container, without what the kernel would drop first";
    memory_limit_bytes: Family<NoLabels, Gauge>, "Memory that the container may have";
    queue_length: Gauge, "Objects that wait to be judged";
    events_pending: Gauge, "Events that wait to be written";
    notifications_pending: Family<ReceiverLabels, Gauge>, "Notifications that wait to be sent to a receiver";
    evaluations: Counter, "Objects judged";
    evaluation: Histogram, "Time to judge one object", EVALUATION_BUCKETS;
    policy_errors: Family<PolicyLabels, Counter>, "Evaluations of a policy that failed";
    evaluator_differences: Counter, "Evaluations that regorus answered otherwise than a compiled policy";
    shared_verdicts: Family<SharedLabels, Counter>, "Objects that look like one that was judged before, or like none";
    shared_verdict_differences: Counter, "Objects judged otherwise than one that looks the same";
    verdict_latency: Histogram, "Time from a change to its verdict", LATENCY_BUCKETS;
    event_latency: Histogram, "Time from a change to its Event", LATENCY_BUCKETS;
    recorder_writes: Family<RecorderLabels, Counter>, "Writes into the cluster";
    recorder_drops: Family<DropLabels, Counter>, "What was not written, by reason";
    recorder_retries: Family<RecorderLabels, Counter>, "Writes into the cluster that failed and are tried again";
    events_superseded: Counter, "Events not written because the violation was over before";
    watch_restarts: Family<RestartLabels, Counter>, "Watches that had to start again, by reason";
    policy_reloads: Family<ReloadLabels, Counter>, "Times that the policies were loaded again";
    changes_skipped: Counter, "Changes of objects that no policy can see, and that were not judged";
    inventory_update: Histogram, "Time to bring what policies look up in other objects up to date", EVALUATION_BUCKETS;
    unreadable_objects: Family<KindLabels, Counter>, "Objects of a kind that could not be understood";
}

impl Metrics {
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

    /// Sets whether judging has begun, that is, whether the gate is open.
    pub fn set_gate_open(&self, open: bool) {
        self.gate_open.set(open.into());
    }

    /// Sets how many objects of a kind are in the cache.
    pub fn set_objects(&self, group: &str, resource: &str, number: usize) {
        self.objects.get_or_create(&kind(group, resource)).set(gauge_value(number));
    }

    /// Sets the state of a kind: 1 for this one, 0 for all others.
    pub fn set_kind_state(&self, group: &str, resource: &str, state: State) {
        for each in State::ALL {
            self.kind_state.get_or_create(&kind_state(group, resource, each)).set((each == state).into());
        }
    }

    /// Removes all series of a kind that is no longer served.
    pub fn remove_kind(&self, group: &str, resource: &str) {
        let labels = kind(group, resource);
        self.objects.remove(&labels);
        self.unreadable_objects.remove(&labels);
        for state in State::ALL {
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

    /// Sets how many exceptions are in each state.
    pub fn set_exceptions(&self, states: &[ExceptionState]) {
        for state in ExceptionState::ALL {
            let number = states.iter().filter(|known| **known == state).count();
            self.exceptions.get_or_create(&ExceptionLabels { state: state.as_str() }).set(gauge_value(number));
        }
    }

    /// Sets objects and state of all kinds that are not excluded.
    pub fn set_coverage(&self, coverage: &[Coverage]) {
        for kind in coverage.iter().filter(|kind| kind.state != State::Excluded) {
            self.set_objects(&kind.group, &kind.resource, kind.objects);
            self.set_kind_state(&kind.group, &kind.resource, kind.state);
        }
    }

    /// Counts an object that was judged.
    pub fn evaluated(&self, took: Duration) {
        self.evaluations.inc();
        self.evaluation.observe(took.as_secs_f64());
    }

    /// Counts a change that touches no field which a policy reads.
    pub fn change_skipped(&self) {
        self.changes_skipped.inc();
    }

    /// Counts an update of the inventory, and how long it took.
    pub fn inventory_updated(&self, took: Duration) {
        self.inventory_update.observe(took.as_secs_f64());
    }

    /// Counts an evaluation of a policy that failed.
    pub fn policy_failed(&self, policy: &str) {
        self.policy_errors.get_or_create(&PolicyLabels { policy: policy.to_owned() }).inc();
    }

    /// Counts an evaluation on which the two evaluators differed.
    pub fn evaluators_differed(&self) {
        self.evaluator_differences.inc();
    }

    /// Counts an object whose verdict can be shared, by whether it was.
    pub fn verdict_shared(&self, shared: Shared) {
        self.shared_verdicts.get_or_create(&SharedLabels { result: shared.word() }).inc();
    }

    /// Counts an object whose verdict is another one than that which was to be shared.
    pub fn shared_verdict_differed(&self) {
        self.shared_verdict_differences.inc();
    }

    /// Sets whether this replica records.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Sets how much memory the container has and may have. Until then there are no such series.
    pub fn set_memory(&self, used: u64, limit: u64) {
        for (gauge, bytes) in [(&self.memory_bytes, used), (&self.memory_limit_bytes, limit)] {
            gauge.get_or_create(&[]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// Sets how many objects wait to be judged.
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

    /// Sets how many notifications wait to be sent to a receiver.
    pub fn set_notifications_pending(&self, receiver: &str, number: usize) {
        let labels = ReceiverLabels { receiver: receiver.to_owned() };
        self.notifications_pending.get_or_create(&labels).set(gauge_value(number));
    }

    /// Counts a write of a recorder (`events`, `reports`, `status`), or a request of one that notifies (`notify/` and the name
    /// of the receiver).
    pub fn recorder_wrote(&self, recorder: impl Into<Cow<'static, str>>) {
        self.recorder_writes.get_or_create(&RecorderLabels { recorder: recorder.into() }).inc();
    }

    /// Counts what a recorder did not write, and why (`object_rate`, `forbidden`).
    pub fn recorder_dropped(&self, recorder: impl Into<Cow<'static, str>>, reason: &'static str, number: u64) {
        self.recorder_drops.get_or_create(&DropLabels { recorder: recorder.into(), reason }).inc_by(number);
    }

    /// Counts a write of a recorder that failed and is tried again.
    pub fn recorder_retries(&self, recorder: impl Into<Cow<'static, str>>) {
        self.recorder_retries.get_or_create(&RecorderLabels { recorder: recorder.into() }).inc();
    }

    /// Counts Events that are not written because they are no longer true.
    pub fn events_superseded(&self, number: u64) {
        self.events_superseded.inc_by(number);
    }

    /// Counts a watch that had to start again, and why (`expired`, `closed`).
    pub fn watch_restarted(&self, group: &str, resource: &str, reason: &'static str) {
        self.restart_reasons.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        self.watch_restarts.get_or_create(&restart(group, resource, reason)).inc();
    }

    /// Counts a reload of the policies, that is, every load but the first.
    pub fn policies_reloaded(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "failure" };
        self.policy_reloads.get_or_create(&ReloadLabels { result }).inc();
    }

    /// Sets how many policy files the last load refused.
    pub fn set_policies_refused(&self, number: usize) {
        self.policies_refused.set(gauge_value(number));
    }

    /// Counts an object that could not be parsed.
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
        let metrics = Metrics::default();
        metrics.set_gate_open(true);
        metrics.set_objects("apps", "deployments", 3);
        metrics.set_kind_state("apps", "deployments", State::TimedOut);
        metrics.set_violations("image", Some(Severity::High), Outcome::Fail, 2);
        metrics.set_violations("image", Some(Severity::High), Outcome::Fail, 1);
        metrics.evaluated(Duration::from_micros(52));
        metrics.change_skipped();
        metrics.inventory_updated(Duration::from_millis(5));
        metrics.policy_failed("image");
        metrics.evaluators_differed();
        metrics.verdict_shared(Shared::Hit);
        metrics.shared_verdict_differed();
        metrics.set_memory(200 << 20, 256 << 20);
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
