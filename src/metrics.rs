//! Metrics about kaudit itself, in the `OpenMetrics` text format.
//!
//! A metric is one line in the table below and a method that updates it, so that units are defined in this file only, and labels
//! next to it. Every label has few values: kinds, policies, reasons, and a configurable number of namespaces. Names of
//! objects are never labels.
//!
//! No label uses a name that Prometheus adds to scraped targets (`namespace`, `pod`, `job`): it would be renamed, or
//! mistaken for that of kaudit itself.

pub mod fleet;
mod labels;
pub mod recent;
mod table;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use self::{
    labels::{
        AppearedByRuleLabels, DropLabels, ExceptionLabels, KindLabels, KindStateLabels, PolicyLabels, ReceiverLabels,
        RecorderLabels, ReloadLabels, ReportedLabels, RestartLabels, RuleLabels, SharedLabels, ViolationLabels,
    },
    recent::RecentNamespaces,
    table::SeriesTable,
};
use crate::model::{
    coverage::{Coverage, State},
    exception::ExceptionState,
    rule_counts::RuleCounts,
    rule_numbers::RuleName,
    verdict::{Class, Finding, Severity, Shared},
};

/// The empty label set of a metric that is absent until it is set.
type NoLabels = [(&'static str, &'static str); 0];

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// 10 µs to 2.6 s, for one evaluation.
const EVALUATION_BUCKETS: [f64; 10] = [1e-5, 4e-5, 1.6e-4, 6.4e-4, 2.5e-3, 1e-2, 4e-2, 0.16, 0.64, 2.6];
/// 0.5 ms to 60 s, from a change to its verdict or Event.
const LATENCY_BUCKETS: [f64; 12] = [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Declares the metrics: the fields of [`Metrics`], their registration and their order, all in one table. The name of a
/// metric is that of its field, with the prefix `kaudit_` and the suffixes of `OpenMetrics`; a metric with buckets is a
/// histogram of durations in seconds.
macro_rules! metrics {
    ($($name:ident: $metric:ty, $help:literal $(, $buckets:expr)?;)*) => {
        /// All metrics. Share them in an `Arc`; all methods take `&self` and are cheap.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            /// The restart reasons that occurred, so that the series of a kind can be removed.
            restart_reasons: Mutex<BTreeSet<&'static str>>,
            /// The namespaces that have series of new violations.
            recent_namespaces: Mutex<RecentNamespaces<AppearedByRuleLabels>>,
            $($name: $metric,)*
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("kaudit");
                registry.register("build", "Build information", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
                $(let $name = metrics!(@register registry $name $help $($buckets)?);)*
                let metrics = Self { registry, restart_reasons: Mutex::default(),
                    recent_namespaces: Mutex::default(), $($name,)* };
                metrics.start_time_seconds.set(Timestamp::now().as_second());
                metrics
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
    start_time_seconds: Gauge, "When this process started, in Unix time";
    gate_open: Gauge, "Whether the initial sync is complete and evaluation has started";
    complete: Gauge, "Whether every kind in scope is synced and every policy was evaluated without error";
    objects: SeriesTable<KindLabels>, "Objects of a kind in the cache";
    kind_state: SeriesTable<KindStateLabels>, "1 for the current state of a kind, else 0";
    watch_activity_timestamp_seconds: SeriesTable<KindLabels>,
        "When the API server last sent an event or bookmark for a synced kind";
    last_change_timestamp_seconds: Gauge, "When an object last changed; initially the start time of this process";
    violations: SeriesTable<ViolationLabels>,
        "Open violations by namespace of their objects, without those covered by an owner";
    violations_covered: Gauge, "Results of dependents covered by a result of their owner";
    rule_objects: SeriesTable<RuleLabels>,
        "Objects that a rule applies to, by outcome; without objects whose results an owner covers";
    violations_appeared: Family<ReportedLabels, Counter>,
        "Violations reported as new, by lane: change (of their object) or snapshot (many objects evaluated)";
    violations_appeared_by_rule: Family<AppearedByRuleLabels, Counter>, "New violations by rule and by the namespace \
        of their objects; a series starts with the first violation and ends when its namespace is displaced";
    violations_resolved: Family<ReportedLabels, Counter>,
        "Violations reported as resolved, by lane: change (of their object) or snapshot (many objects evaluated)";
    exceptions: Family<ExceptionLabels, Gauge>, "Exceptions by state";
    exceptions_next_end_timestamp_seconds: Family<NoLabels, Gauge>,
        "When the next exception in use expires";
    policies: Gauge, "Policies in force";
    policies_refused: Gauge, "Policy files refused at the last load";
    bundles_stale: Gauge, "Policy bundles that may be outdated";
    leader: Gauge, "Whether this replica is the leader, which records";
    recording_start_time_seconds: Family<NoLabels, Gauge>, "When this replica started recording";
    memory_bytes: Family<NoLabels, Gauge>, "Memory used by the container, without reclaimable caches";
    memory_limit_bytes: Family<NoLabels, Gauge>, "Memory limit of the container";
    queue_length: Gauge, "Objects waiting for evaluation";
    events_pending: Gauge, "Events waiting to be written";
    notifications_pending: Family<ReceiverLabels, Gauge>, "Notifications waiting to be sent to a receiver";
    evaluations: Counter, "Objects evaluated";
    evaluation: Histogram, "Time to evaluate one object", EVALUATION_BUCKETS;
    policy_errors: Family<PolicyLabels, Counter>, "Failed evaluations of a policy";
    shared_verdicts: Family<SharedLabels, Counter>,
        "Evaluations by whether a cached result of an equal object was used";
    shared_verdict_differences: Counter, "Objects whose results differ from the cached result of an equal object";
    verdict_latency: Histogram, "Time from a change to its verdict", LATENCY_BUCKETS;
    event_latency: Histogram, "Time from a change to its Event", LATENCY_BUCKETS;
    recorder_writes: Family<RecorderLabels, Counter>, "Writes to the cluster";
    recorder_last_write_timestamp_seconds: Family<RecorderLabels, Gauge>,
        "When a recorder last wrote into the cluster; initially its start time";
    recorder_drops: Family<DropLabels, Counter>, "Dropped records, by reason";
    recorder_retries: Family<RecorderLabels, Counter>, "Failed writes to the cluster that are retried";
    events_superseded: Counter, "Events not written because the violation was resolved first";
    watch_restarts: Family<RestartLabels, Counter>, "Watch restarts, by reason";
    policy_reloads: Family<ReloadLabels, Counter>, "Policy reloads, by result";
    changes_skipped: Counter, "Object changes that were not evaluated because no policy reads the changed fields";
    inventory_update: Histogram, "Time to update the lookup inventory", EVALUATION_BUCKETS;
    unreadable_objects: Family<KindLabels, Counter>, "Objects of a kind that could not be parsed";
}

impl Metrics {
    /// Returns everything as `OpenMetrics` text.
    ///
    /// # Panics
    ///
    /// Never: encoding fails only if writing does, and writing to a string does not fail.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// Sets whether the gate is open, that is, whether evaluation has started.
    pub fn set_gate_open(&self, open: bool) {
        self.gate_open.set(open.into());
    }

    /// Sets whether everything in scope is known and every policy ran.
    pub fn set_complete(&self, complete: bool) {
        self.complete.set(complete.into());
    }

    /// Removes the series of a kind that is no longer served.
    pub fn remove_kind(&self, group: &str, resource: &str) {
        self.unreadable_objects.remove(&kind(group, resource));
        for reason in self.restart_reasons.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            self.watch_restarts.remove(&restart(group, resource, reason));
        }
    }

    /// Sets the number of open results by namespace, policy, severity and outcome.
    pub fn set_violations(&self, open: impl IntoIterator<Item = (Arc<str>, Class, usize)>) {
        let row = |(resource_namespace, class, count): (_, Class, _)| {
            let (severity, result) = (severity(&class), class.outcome.word());
            (ViolationLabels { resource_namespace, policy: class.policy, severity, result }, gauge_value(count))
        };
        self.violations.replace(open.into_iter().map(row).collect());
    }

    /// Sets how many results of dependents their owners cover.
    pub fn set_covered(&self, count: usize) {
        self.violations_covered.set(gauge_value(count));
    }

    /// Sets the number of objects that each rule applies to, by outcome.
    pub fn set_rule_objects(&self, rules: BTreeMap<RuleName, RuleCounts>) {
        let rows = |([policy, rule], counts): (RuleName, RuleCounts)| {
            let row = move |(outcome, count)| {
                let (policy, rule) = (Arc::clone(&policy), Arc::clone(&rule));
                (RuleLabels { policy, rule, outcome }, gauge_value(count))
            };
            let RuleCounts { failing, excused, error, .. } = counts;
            [("pass", counts.pass()), ("failing", failing), ("excused", excused), ("error", error)].map(row)
        };
        self.rule_objects.replace(rules.into_iter().flat_map(rows).collect());
    }

    /// Creates the series of violations that may be reported, with the value 0: Prometheus does not see the increase of
    /// a counter that starts with 1.
    pub fn expect_violations(&self, class: &Class, lane: &'static str) {
        for counter in [&self.violations_appeared, &self.violations_resolved] {
            drop(counter.get_or_create(&reported(class, lane)));
        }
    }

    /// Sets the maximum number of namespaces with series of new violations; with 0 the namespace label is empty.
    pub fn limit_namespaces(&self, most: usize) {
        self.recent_namespaces.lock().unwrap_or_else(PoisonError::into_inner).limit(most);
    }

    /// Counts a violation that is reported as new, of an object in `namespace`.
    pub fn violation_appeared(&self, finding: &Finding, namespace: Option<&Arc<str>>, lane: &'static str) {
        let class = finding.class();
        self.violations_appeared.get_or_create(&reported(&class, lane)).inc();
        let labels = |resource_namespace| AppearedByRuleLabels {
            resource_namespace,
            policy: Arc::clone(&class.policy),
            rule: Arc::clone(&finding.rule.name),
            severity: severity(&class),
            result: class.outcome.word(),
            lane,
        };
        let mut recent = self.recent_namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let (labels, ended) = recent.label(namespace, Instant::now(), labels);
        for series in ended {
            self.violations_appeared_by_rule.remove(&series);
        }
        self.violations_appeared_by_rule.get_or_create(&labels).inc();
    }

    /// Counts a violation that is reported as resolved.
    pub fn violation_resolved(&self, class: &Class, lane: &'static str) {
        self.violations_resolved.get_or_create(&reported(class, lane)).inc();
    }

    /// Sets the number of exceptions by state, and when the next exception in use expires.
    pub fn set_exceptions(&self, exceptions: &[(ExceptionState, Option<Timestamp>)]) {
        use ExceptionState::{Active, Expiring};
        for state in ExceptionState::ALL {
            let count = exceptions.iter().filter(|(known, _)| *known == state).count();
            self.exceptions.get_or_create(&ExceptionLabels { state: state.as_str() }).set(gauge_value(count));
        }
        let in_use = exceptions.iter().filter(|(state, _)| matches!(state, Active | Expiring));
        match in_use.filter_map(|(_, end)| *end).min() {
            Some(end) => _ = self.exceptions_next_end_timestamp_seconds.get_or_create(&[]).set(end.as_second()),
            None => _ = self.exceptions_next_end_timestamp_seconds.remove(&[]),
        }
    }

    /// Sets the number of objects and the state of all kinds that are not excluded.
    pub fn set_coverage(&self, coverage: &[Coverage]) {
        let covered = || coverage.iter().filter(|kind| kind.state != State::Excluded);
        let objects = covered().map(|known| (kind(&known.group, &known.resource), gauge_value(known.objects)));
        self.objects.replace(objects.collect());
        let states = covered().flat_map(|known| {
            State::ALL.map(|state| {
                let (group, resource) = (known.group.clone(), known.resource.clone());
                (KindStateLabels { group, resource, state: state.as_str() }, (known.state == state).into())
            })
        });
        self.kind_state.replace(states.collect());
    }

    /// Sets when the server last sent anything about each synced kind, given as group and plural.
    pub fn set_watch_activity<'k>(&self, activity: impl IntoIterator<Item = (&'k str, &'k str, Timestamp)>) {
        let rows = activity.into_iter().map(|(group, resource, at)| (kind(group, resource), at.as_second()));
        self.watch_activity_timestamp_seconds.replace(rows.collect());
    }

    /// Sets the time at which an object last changed.
    pub fn set_last_change(&self, at: Timestamp) {
        self.last_change_timestamp_seconds.set(at.as_second());
    }

    /// Counts an evaluated object and records the time it took.
    pub fn evaluated(&self, took: Duration) {
        self.evaluations.inc();
        self.evaluation.observe(took.as_secs_f64());
    }

    /// Counts a change of an object that is not evaluated because no policy reads the changed fields.
    pub fn change_skipped(&self) {
        self.changes_skipped.inc();
    }

    /// Records the time that an update of the lookup inventory took.
    pub fn inventory_updated(&self, took: Duration) {
        self.inventory_update.observe(took.as_secs_f64());
    }

    /// Counts a failed evaluation of a policy.
    pub fn policy_failed(&self, policy: &str) {
        self.policy_errors.get_or_create(&PolicyLabels { policy: policy.to_owned() }).inc();
    }

    /// Counts an object whose verdict can be cached, by whether a cached result was used.
    pub fn verdict_shared(&self, shared: Shared) {
        self.shared_verdicts.get_or_create(&SharedLabels { result: shared.word() }).inc();
    }

    /// Counts an object whose verdict differs from the cached one that it would have shared.
    pub fn shared_verdict_differed(&self) {
        self.shared_verdict_differences.inc();
    }

    /// Sets whether this replica is the leader, which records.
    pub fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Sets the time at which this replica started recording.
    pub fn recording_began(&self) {
        self.recording_start_time_seconds.get_or_create(&[]).set(Timestamp::now().as_second());
    }

    /// Sets the memory usage and limit of the container. There are no such series before the first call.
    pub fn set_memory(&self, used: u64, limit: u64) {
        for (gauge, bytes) in [(&self.memory_bytes, used), (&self.memory_limit_bytes, limit)] {
            gauge.get_or_create(&[]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// Sets how many objects wait to be evaluated.
    pub fn set_queue_length(&self, count: usize) {
        self.queue_length.set(gauge_value(count));
    }

    /// Sets how many Events wait to be written.
    pub fn set_events_pending(&self, count: usize) {
        self.events_pending.set(gauge_value(count));
    }

    /// Records the time from a change to its verdict.
    pub fn verdict_after(&self, latency: Duration) {
        self.verdict_latency.observe(latency.as_secs_f64());
    }

    /// Records the time from a change to its Event.
    pub fn event_after(&self, latency: Duration) {
        self.event_latency.observe(latency.as_secs_f64());
    }

    /// Sets how many notifications wait to be sent to a receiver.
    pub fn set_notifications_pending(&self, receiver: &str, count: usize) {
        let labels = ReceiverLabels { receiver: receiver.to_owned() };
        self.notifications_pending.get_or_create(&labels).set(gauge_value(count));
    }

    /// Creates the series of a recorder that starts, before its first write.
    pub fn recorder_began(&self, recorder: impl Into<Cow<'static, str>>) {
        let labels = RecorderLabels { recorder: recorder.into() };
        drop(self.recorder_writes.get_or_create(&labels));
        drop(self.recorder_retries.get_or_create(&labels));
        self.recorder_last_write_timestamp_seconds.get_or_create(&labels).set(Timestamp::now().as_second());
    }

    /// Counts a write of a recorder (`events`, `reports`, `status`), or a request of a notifier (`notify/` and the name
    /// of the receiver).
    pub fn recorder_wrote(&self, recorder: impl Into<Cow<'static, str>>) {
        let labels = RecorderLabels { recorder: recorder.into() };
        self.recorder_writes.get_or_create(&labels).inc();
        self.recorder_last_write_timestamp_seconds.get_or_create(&labels).set(Timestamp::now().as_second());
    }

    /// Counts records that a recorder dropped, by reason (`object_rate`, `forbidden`).
    pub fn recorder_dropped(&self, recorder: impl Into<Cow<'static, str>>, reason: &'static str, count: u64) {
        self.recorder_drops.get_or_create(&DropLabels { recorder: recorder.into(), reason }).inc_by(count);
    }

    /// Counts a failed write of a recorder that will be retried.
    pub fn recorder_retries(&self, recorder: impl Into<Cow<'static, str>>) {
        self.recorder_retries.get_or_create(&RecorderLabels { recorder: recorder.into() }).inc();
    }

    /// Counts Events that are not written because they are outdated.
    pub fn events_superseded(&self, count: u64) {
        self.events_superseded.inc_by(count);
    }

    /// Counts a restart of a watch, by reason (`expired`, `closed`).
    pub fn watch_restarted(&self, group: &str, resource: &str, reason: &'static str) {
        self.restart_reasons.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        self.watch_restarts.get_or_create(&restart(group, resource, reason)).inc();
    }

    /// Counts a reload of the policies, that is, every load but the first.
    pub fn policies_reloaded(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "failure" };
        self.policy_reloads.get_or_create(&ReloadLabels { result }).inc();
    }

    /// Sets how many policies are in force.
    pub fn set_policies(&self, count: usize) {
        self.policies.set(gauge_value(count));
    }

    /// Sets how many policy files the last load refused.
    pub fn set_policies_refused(&self, count: usize) {
        self.policies_refused.set(gauge_value(count));
    }

    /// Sets how many policy bundles may be outdated.
    pub fn set_bundles_stale(&self, count: usize) {
        self.bundles_stale.set(gauge_value(count));
    }

    /// Counts an object that could not be parsed.
    pub fn object_unreadable(&self, group: &str, resource: &str) {
        self.unreadable_objects.get_or_create(&kind(group, resource)).inc();
    }
}

fn kind(group: &str, resource: &str) -> KindLabels {
    KindLabels { group: group.to_owned(), resource: resource.to_owned() }
}

fn restart(group: &str, resource: &str, reason: &'static str) -> RestartLabels {
    RestartLabels { group: group.to_owned(), resource: resource.to_owned(), reason }
}

fn severity(class: &Class) -> &'static str {
    class.severity.map_or("", Severity::word)
}

fn reported(class: &Class, lane: &'static str) -> ReportedLabels {
    ReportedLabels { policy: Arc::clone(&class.policy), severity: severity(class), result: class.outcome.word(), lane }
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
