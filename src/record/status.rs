//! The `Audit` object: counts, coverage and conditions of this kaudit, for `kubectl get audits`.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{Failure, Said, failure};
use crate::{
    audit::overview::Overview,
    cluster::{
        error::describe,
        identity::{CONTROLLER, OWN_GROUP},
    },
    metrics::Metrics,
    model::coverage::State,
    rego::problem,
};

/// API version of the `Audit` kind, below `audits.kaudit.dev`.
pub const AUDIT_VERSION: &str = "v1alpha1";
/// Counts are written at most this often; a condition that turns is written at once.
const COUNTS_EVERY: Duration = Duration::from_secs(5);
/// Whatever happens, writes are at least this far apart.
const AT_LEAST: Duration = Duration::from_millis(500);
/// How long to wait after a write failed for good, e.g. because the CRD is not there.
const REFUSED: Duration = Duration::from_secs(30);

/// Which object is written, and how.
pub struct Settings {
    /// Writes the status.
    pub client: Client,
    /// Namespace of the `Audit` object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Writes the status whenever it changed, until the pipeline ends; then once more.
pub async fn run(
    settings: Settings,
    mut overview: watch::Receiver<Option<Arc<Overview>>>,
    mut said: watch::Receiver<Said>,
) {
    let mut recorder = Recorder::new(settings);
    let mut going_on = true;
    while going_on {
        let pause = recorder.pause();
        tokio::select! {
            changed = overview.changed() => going_on = changed.is_ok(),
            changed = said.changed() => if changed.is_err() { sleep(AT_LEAST).await },
            () = sleep(pause), if recorder.behind => {}
        }
        let now = overview.borrow_and_update().clone();
        let Some(now) = now else { continue };
        let status = recorder.status(&now, &said.borrow_and_update());
        recorder.behind = status != recorder.written;
        recorder.turned = status.get("conditions") != recorder.written.get("conditions");
        if recorder.behind && (recorder.is_due() || !going_on) {
            recorder.write(status).await;
        }
    }
}

struct Recorder {
    api: Api<DynamicObject>,
    settings: Settings,
    /// The status that the server has.
    written: Value,
    /// There is something that the server does not have yet.
    behind: bool,
    /// A condition is among it.
    turned: bool,
    created: bool,
    last: Option<Instant>,
    /// Nothing is tried before.
    refused_until: Option<Instant>,
    told: String,
    /// Status and time of each condition's last turn.
    turns: BTreeMap<String, (String, String)>,
}

impl Recorder {
    fn new(settings: Settings) -> Self {
        let resource = ApiResource {
            group: OWN_GROUP.to_owned(),
            version: AUDIT_VERSION.to_owned(),
            api_version: format!("{OWN_GROUP}/{AUDIT_VERSION}"),
            kind: "Audit".to_owned(),
            plural: "audits".to_owned(),
        };
        let api = Api::namespaced_with(settings.client.clone(), &settings.namespace, &resource);
        Self {
            api,
            settings,
            written: Value::Null,
            behind: false,
            turned: false,
            created: false,
            last: None,
            refused_until: None,
            told: String::new(),
            turns: BTreeMap::new(),
        }
    }

    fn is_due(&self) -> bool {
        let now = Instant::now();
        let rest = if self.turned { AT_LEAST } else { COUNTS_EVERY };
        self.last.is_none_or(|last| now >= last + rest) && self.refused_until.is_none_or(|until| now >= until)
    }

    fn pause(&self) -> Duration {
        let rest = if self.turned { AT_LEAST } else { COUNTS_EVERY };
        let until = self.refused_until.into_iter().chain(self.last.map(|last| last + rest)).max();
        until.map_or(AT_LEAST, |until| until.saturating_duration_since(Instant::now())).max(AT_LEAST)
    }

    fn status(&mut self, overview: &Overview, said: &Said) -> Value {
        let covered: Vec<_> = overview.coverage.iter().filter(|kind| kind.state != State::Excluded).collect();
        let missing: Vec<_> =
            covered.iter().filter(|kind| kind.state != State::Synced || !kind.message.is_empty()).collect();
        let waiting = covered.iter().filter(|kind| kind.state == State::Syncing).count();
        let errors = overview.summary.error;
        let loaded = match &overview.policy_error {
            Some(why) => (
                false,
                "LoadFailed",
                format!("the policies loaded before stay in force: {}", problem::summed_up(&why.problems)),
            ),
            None if overview.policies.is_partial() => (
                false,
                "PoliciesRefused",
                format!("the others are in force: {}", problem::summed_up(&overview.policies.problems)),
            ),
            None if !overview.inventory_error.is_empty() => {
                (false, "InventoryFailed", overview.inventory_error.clone())
            }
            None => (true, "Loaded", String::new()),
        };
        let conditions = [
            (
                "Synced",
                overview.synced,
                if overview.synced { "GateOpen" } else { "Syncing" },
                if overview.synced {
                    String::new()
                } else {
                    format!("{waiting} of {} kinds are being read", covered.len())
                },
            ),
            ("PoliciesLoaded", loaded.0, loaded.1, loaded.2),
            (
                "Complete",
                overview.synced && overview.complete,
                if !overview.synced {
                    "Syncing"
                } else if !missing.is_empty() {
                    "KindsNotRead"
                } else if errors > 0 {
                    "PolicyErrors"
                } else if overview.policies.is_partial() {
                    "PoliciesRefused"
                } else {
                    "AllRead"
                },
                match missing.first() {
                    Some(kind) => format!(
                        "{} kinds are not covered, among them {} ({})",
                        missing.len(),
                        kind.resource,
                        kind.state.as_str()
                    ),
                    None if errors > 0 => format!("{errors} evaluations failed"),
                    None if overview.policies.is_partial() => match overview.policies.refused_files().len() {
                        1 => "1 policy file is not judged by".to_owned(),
                        files => format!("{files} policy files are not judged by"),
                    },
                    None => String::new(),
                },
            ),
            (
                "Recording",
                said.trouble.is_empty(),
                if said.trouble.is_empty() { "Recording" } else { "WritesFail" },
                if said.trouble.is_empty() { said.note.clone() } else { said.trouble.clone() },
            ),
        ];
        let conditions: Vec<Value> = conditions
            .into_iter()
            .map(|(kind, value, reason, message)| self.condition(kind, value, reason, &message))
            .collect();
        let summary = &overview.summary;
        // Constraints of one kind are one policy each, but counted together.
        let kinds = overview.policies.policies.chunk_by(|a, b| a.name == b.name);
        let policies: Vec<Value> = kinds.filter_map(|kind| {
            let policy = kind.first()?;
            let rules: usize = kind.iter().map(|policy| policy.rules.len()).sum();
            let [fail, warn, error] = overview.by_policy.get(&policy.name).copied().unwrap_or_default();
            Some(json!({"name": policy.name, "dialect": policy.dialect.to_string(), "source": policy.source, "rules": rules,
                "fail": fail, "warn": warn, "error": error}))
        }).collect();
        json!({
            "conditions": conditions,
            "summary": {"kinds": covered.iter().filter(|kind| kind.state == State::Synced).count(), "objects": summary.objects,
                "pass": summary.pass, "fail": summary.fail, "warn": summary.warn, "error": summary.error, "skip": summary.skip},
            "coverage": covered,
            "policies": policies,
            "policyDigest": overview.policies.digest.to_string(),
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    fn condition(&mut self, kind: &str, value: bool, reason: &str, message: &str) -> Value {
        let value = if value { "True" } else { "False" };
        let turn = self.turns.entry(kind.to_owned()).or_default();
        if turn.0 != value {
            *turn = (value.to_owned(), Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        // The API convention's limit is 32 KiB; a status is no place for a page of parse errors.
        let message = &message[..message.floor_char_boundary(2_000)];
        json!({"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": turn.1})
    }

    async fn write(&mut self, mut status: Value) {
        self.last = Some(Instant::now());
        match timeout(Duration::from_secs(10), self.try_write(&mut status)).await {
            Ok(Ok(())) => {
                self.settings.metrics.recorder_wrote("status");
                (self.written, self.behind, self.refused_until) = (status, false, None);
                self.told.clear();
            }
            Ok(Err(error)) => self.failed(&error),
            Err(_) => self.settings.metrics.recorder_dropped("status", "timeout", 1),
        }
    }

    async fn try_write(&mut self, status: &mut Value) -> kube::Result<()> {
        let parameters = PatchParams::apply(CONTROLLER).force();
        let name = self.settings.name.clone();
        let body = |status: Option<&Value>| {
            let mut body = json!({"apiVersion": format!("{OWN_GROUP}/{AUDIT_VERSION}"), "kind": "Audit",
                "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": CONTROLLER}}});
            match status {
                Some(status) => body["status"] = status.clone(),
                None => body["spec"] = json!({}),
            }
            body
        };
        if !self.created {
            let object = self.api.patch(&name, &parameters, &Patch::Apply(body(None))).await?;
            self.created = true;
            self.keep_times(&object.data["status"]["conditions"], status);
        }
        let patched = self.api.patch_status(&name, &parameters, &Patch::Apply(body(Some(status)))).await;
        // Somebody deleted it: it is made again with the next attempt.
        self.created = !matches!(&patched, Err(kube::Error::Api(status)) if status.code == 404);
        patched.map(|_| ())
    }

    /// A condition that is as it was before this process started has not turned.
    fn keep_times(&mut self, before: &Value, status: &mut Value) {
        let known: Vec<&Value> = before.as_array().into_iter().flatten().collect();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            let same =
                known.iter().find(|old| old["type"] == condition["type"] && old["status"] == condition["status"]);
            let (Some(time), Some(kind)) =
                (same.and_then(|old| old["lastTransitionTime"].as_str()), condition["type"].as_str())
            else {
                continue;
            };
            if let Some(turn) = self.turns.get_mut(kind) {
                time.clone_into(&mut turn.1);
            }
            condition["lastTransitionTime"] = time.into();
        }
    }

    fn failed(&mut self, error: &kube::Error) {
        let (reason, what) = match failure(error) {
            Failure::Normal("not_found") if !self.created => (
                "not_found",
                "there is no kind audits.kaudit.dev (install the chart's CRD to have it), or no such namespace"
                    .to_owned(),
            ),
            Failure::Later => ("unavailable", describe(error)),
            Failure::Normal(reason) | Failure::Refused(reason) => (reason, describe(error)),
        };
        if failure(error) != Failure::Later {
            self.refused_until = Some(Instant::now() + REFUSED);
        }
        self.settings.metrics.recorder_dropped("status", reason, 1);
        if self.told != reason {
            reason.clone_into(&mut self.told);
            let audit = format!("{}/{}", self.settings.namespace, self.settings.name);
            if reason == "not_found" {
                info!(audit, "No status is written: {what}");
            } else {
                warn!(audit, "The status could not be written, trying on: {what}");
            }
        }
    }
}
