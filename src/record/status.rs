//! The `Audit` object: counts, coverage and conditions of this kaudit, for `kubectl get audits`.

mod conditions;
mod history;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

pub use self::history::HistorySettings;
use self::{
    conditions::{AuditCondition, ConditionTimes, conditions, covered},
    history::HistoryRecorder,
};
use crate::{
    audit::{overview::Overview, result::Summary},
    cluster::{
        error::describe,
        identity::{API_VERSION, CONTROLLER, MANAGED_BY, OWN_GROUP, OWN_VERSION},
    },
    metrics::Metrics,
    model::{coverage::State, verdict::Severity},
    record::{failure::WriteFailure, health::Health, memory::Pressure, patch::apply_patch},
    telemetry::Span,
};

/// Counts are written at most this often; a condition that changes is written at once.
const COUNTS_EVERY: Duration = Duration::from_secs(5);
/// Writes are at least this far apart, whatever changes.
const AT_LEAST: Duration = Duration::from_millis(500);
/// How often the status is applied again although nothing changed, which restores what others have changed or deleted.
/// If nothing differs, the server writes nothing.
const RESTORE_EVERY: Duration = Duration::from_secs(30);
/// The key of violations whose rule has no severity.
const UNRATED: &str = "unrated";
/// How long to wait after a failure that someone has to fix, such as a missing CRD.
const REFUSED: Duration = Duration::from_secs(30);

/// Which object is written, and how.
pub struct StatusSettings {
    /// Writes the status.
    pub client: Client,
    /// Namespace of the `Audit` object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The counts of each day.
    pub history: HistorySettings,
    /// Whether the memory is near its limit; `None` where there is none.
    pub memory: watch::Receiver<Option<Pressure>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Writes the status whenever it changed, until the pipeline ends; then once more.
pub async fn run(
    settings: StatusSettings,
    mut overview: watch::Receiver<Option<Arc<Overview>>>,
    mut health: watch::Receiver<Health>,
    own: watch::Sender<Health>,
) {
    let mut memory = settings.memory.clone();
    let mut recorder = StatusRecorder::new(settings);
    let (mut running, mut watches_memory) = (true, true);
    while running {
        let pause = recorder.pause();
        tokio::select! {
            changed = overview.changed() => running = changed.is_ok(),
            changed = health.changed() => if changed.is_err() { sleep(AT_LEAST).await },
            changed = memory.changed(), if watches_memory => watches_memory = changed.is_ok(),
            () = sleep(pause) => {}
        }
        let now = overview.borrow_and_update().clone();
        let Some(now) = now else { continue };
        let pressure = *memory.borrow_and_update();
        let status = recorder.status(&now, &health.borrow_and_update(), pressure);
        recorder.behind = status != recorder.written;
        recorder.is_transition = status.get("conditions") != recorder.written.get("conditions");
        if (recorder.behind && (recorder.is_due() || !running)) || recorder.is_to_be_restored() {
            recorder.write(status).await;
            own.send_replace(Health { lost: recorder.lost.clone(), ..Health::default() });
        }
        if recorder.created && running {
            recorder.history.update(&recorder.api, &recorder.settings.name, &now).await;
        }
    }
}

struct StatusRecorder {
    api: Api<DynamicObject>,
    settings: StatusSettings,
    /// The status that the server has.
    written: Value,
    /// Whether the current status differs from the written one.
    behind: bool,
    /// Whether a condition differs.
    is_transition: bool,
    created: bool,
    /// Version of the object as it was written last.
    version: Option<String>,
    last: Option<Instant>,
    /// The earliest time of the next attempt.
    refused_until: Option<Instant>,
    /// Why the last write failed, unless the CRD is missing.
    lost: String,
    /// Reason of the failure that was logged last.
    logged: String,
    /// The conditions of the last computed status.
    conditions: Vec<AuditCondition>,
    times: ConditionTimes,
    history: HistoryRecorder,
}

impl StatusRecorder {
    fn new(settings: StatusSettings) -> Self {
        let resource = ApiResource {
            group: OWN_GROUP.to_owned(),
            version: OWN_VERSION.to_owned(),
            api_version: API_VERSION.to_owned(),
            kind: "Audit".to_owned(),
            plural: "audits".to_owned(),
        };
        let api = Api::namespaced_with(settings.client.clone(), &settings.namespace, &resource);
        let history = HistoryRecorder::new(settings.history.clone());
        Self {
            api,
            settings,
            written: Value::Null,
            behind: false,
            is_transition: false,
            created: false,
            version: None,
            last: None,
            refused_until: None,
            lost: String::new(),
            logged: String::new(),
            conditions: Vec::new(),
            times: ConditionTimes::default(),
            history,
        }
    }

    fn is_due(&self) -> bool {
        let now = Instant::now();
        let rest = if self.is_transition { AT_LEAST } else { COUNTS_EVERY };
        self.last.is_none_or(|last| now >= last + rest) && self.refused_until.is_none_or(|until| now >= until)
    }

    fn is_to_be_restored(&self) -> bool {
        !self.behind && self.last.is_some_and(|last| last.elapsed() >= RESTORE_EVERY)
    }

    /// Returns how long to wait until the next write may be due, if nothing changes.
    fn pause(&self) -> Duration {
        if !self.behind {
            let restored = self.last.map_or(RESTORE_EVERY, |last| RESTORE_EVERY.saturating_sub(last.elapsed()));
            return restored.max(AT_LEAST);
        }
        let rest = if self.is_transition { AT_LEAST } else { COUNTS_EVERY };
        let until = self.refused_until.into_iter().chain(self.last.map(|last| last + rest)).max();
        until.map_or(AT_LEAST, |until| until.saturating_duration_since(Instant::now())).max(AT_LEAST)
    }

    fn status(&mut self, overview: &Overview, health: &Health, memory: Option<Pressure>) -> Value {
        self.conditions = conditions(overview, health, memory);
        let conditions = self.times.stamp(&self.conditions, Timestamp::now());
        let covered: Vec<_> = covered(overview).collect();
        let mut status = json!({
            "conditions": conditions,
            "summary": summary(overview, covered.iter().filter(|kind| kind.state == State::Synced).count()),
            "coverage": covered,
            "policies": policies(overview),
            "policyDigest": overview.policies.digest.to_string(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        let bundles = &overview.policies.bundles;
        if !bundles.is_empty() {
            status["bundles"] = json!(bundles);
        }
        status
    }

    async fn write(&mut self, mut status: Value) {
        self.last = Some(Instant::now());
        let span = Span::request("write status");
        let written = timeout(Duration::from_secs(10), self.try_write(&mut status)).await;
        if !matches!(written, Ok(Ok(_))) {
            span.fail("not_written");
        }
        span.end();
        self.lost.clear();
        match written {
            Ok(Ok(version)) => {
                let changed = version != self.version;
                if changed {
                    self.settings.metrics.recorder_wrote("status");
                }
                if changed && !self.behind {
                    let audit = format!("{}/{}", self.settings.namespace, self.settings.name);
                    warn!(audit, "The status was changed or deleted by others, and is written again");
                }
                self.version = version;
                (self.written, self.behind, self.refused_until) = (status, false, None);
                self.logged.clear();
            }
            Ok(Err(error)) => self.failed(&error),
            Err(_) => {
                "the status was not written: the API server did not answer within 10 s".clone_into(&mut self.lost);
                self.settings.metrics.recorder_dropped("status", "timeout", 1);
            }
        }
    }

    /// Writes the status, and the object if it is not there. Returns its version.
    async fn try_write(&mut self, status: &mut Value) -> kube::Result<Option<String>> {
        let parameters = PatchParams::apply(CONTROLLER).force();
        let name = self.settings.name.clone();
        let body = |status: Option<&Value>| {
            let mut body = json!({"apiVersion": API_VERSION, "kind": "Audit",
                "metadata": {"name": name, "labels": {MANAGED_BY: CONTROLLER}}});
            match status {
                Some(status) => body["status"] = status.clone(),
                None => body["spec"] = json!({}),
            }
            body
        };
        if !self.created {
            let object = self.api.patch(&name, &parameters, &apply_patch(&body(None))?).await?;
            self.created = true;
            self.times.adopt(&object.data["status"]["conditions"]);
            self.history.adopt(&object.data["status"]);
            status["conditions"] = self.times.stamp(&self.conditions, Timestamp::now()).into();
        }
        let patched = self.api.patch_status(&name, &parameters, &apply_patch(&body(Some(status)))?).await;
        let created = std::mem::replace(&mut self.created, !is_missing(&patched));
        if created && !self.created {
            // It was deleted since.
            return Box::pin(self.try_write(status)).await;
        }
        patched.map(|audit| audit.metadata.resource_version)
    }

    fn failed(&mut self, error: &kube::Error) {
        let (reason, what) = match WriteFailure::of(error) {
            WriteFailure::Normal("not_found") if !self.created => (
                "not_found",
                "the CRD audits.kaudit.dev or the namespace does not exist: install the chart's CRDs".to_owned(),
            ),
            WriteFailure::Later => ("unavailable", describe(error)),
            WriteFailure::Normal(reason) | WriteFailure::Refused(reason) => (reason, describe(error)),
        };
        if WriteFailure::of(error) != WriteFailure::Later {
            self.refused_until = Some(Instant::now() + REFUSED);
        }
        self.settings.metrics.recorder_dropped("status", reason, 1);
        if reason != "not_found" {
            self.lost = format!("the status was not written: {what}");
        }
        if self.logged != reason {
            reason.clone_into(&mut self.logged);
            let audit = format!("{}/{}", self.settings.namespace, self.settings.name);
            if reason == "not_found" {
                info!(audit, "No status is written: {what}");
            } else {
                warn!(audit, "The status could not be written, retrying: {what}");
            }
        }
    }
}

fn is_missing<T>(patched: &kube::Result<T>) -> bool {
    matches!(patched, Err(kube::Error::Api(status)) if status.code == 404)
}

/// Returns the counts of the whole audit. Every severity is listed, so that a column of kubectl shows 0 instead of
/// nothing.
fn summary(overview: &Overview, kinds: usize) -> Value {
    let Summary { objects, pass, fail, warn, error, skip, covered } = overview.summary;
    let (policies, by_severity) = (overview.policies.policies.len(), by_severity(&overview.by_severity));
    json!({"kinds": kinds, "objects": objects, "policies": policies, "pass": pass, "fail": fail, "warn": warn, "error": error,
        "skip": skip, "covered": covered, "bySeverity": by_severity})
}

fn by_severity(counts: &BTreeMap<Option<Severity>, usize>) -> BTreeMap<&'static str, usize> {
    let severities = Severity::ALL.map(|severity| (severity.word(), Some(severity)));
    let all = severities.into_iter().chain([(UNRATED, None)]);
    all.map(|(word, severity)| (word, counts.get(&severity).copied().unwrap_or_default())).collect()
}

/// Returns the counts of each policy. Constraints of one kind are one policy each, but counted together.
fn policies(overview: &Overview) -> Vec<Value> {
    let kinds = overview.policies.policies.chunk_by(|a, b| a.name == b.name);
    let counts = kinds.filter_map(|kind| {
        let policy = kind.first()?;
        let rules: usize = kind.iter().map(|policy| policy.rules.len()).sum();
        let [fail, warn, error] = overview.by_policy.get(&policy.name).copied().unwrap_or_default();
        Some(
            json!({"name": policy.name, "dialect": policy.dialect.to_string(), "source": policy.source, "rules": rules,
            "fail": fail, "warn": warn, "error": error}),
        )
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rego::analysis::yaml;

    #[test]
    fn every_severity_is_counted_and_defined_in_the_schema() {
        let counts = by_severity(&[(Some(Severity::High), 2), (None, 3)].into());
        let expected = [("critical", 0), ("high", 2), ("info", 0), ("low", 0), ("medium", 0), ("unrated", 3)];
        assert_eq!(counts, expected.into());
        let crd = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kaudit/crds/audits.kaudit.dev.yaml");
        let crd: Value = yaml::from_str(&std::fs::read_to_string(crd).unwrap()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        let known = schema["properties"]["summary"]["properties"]["bySeverity"]["properties"].as_object().unwrap();
        // The server drops fields that the schema does not define.
        assert!(known.keys().eq(counts.keys()), "{known:?}");
    }
}
