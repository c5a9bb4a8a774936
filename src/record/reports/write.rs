//! Writes and deletes report objects at the server.
//!
//! Reports are applied (server-side apply, by force): one request creates or changes, nothing has to be read before,
//! and labels of others are kept. `results` is an atomic list, so results that are no longer applied are removed.

use std::{ops::Range, sync::Arc, time::Duration};

use kube::{
    Client,
    api::{DeleteParams, DynamicObject, PatchParams},
};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    format::{Api, content_digest, result_id},
    partitions::Prefix,
    report_set::{ReportKey, ReportPlan, Stored, Write},
};
use crate::{
    audit::ledger::Id,
    cluster::{error::describe, identity::CONTROLLER},
    metrics::Metrics,
    record::{failure::WriteFailure, patch::apply_patch},
    telemetry::{Span, count},
};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The most dry-run requests to find the results that the server refuses; results that are not decided by then are left
/// out, too.
const MOST_TRIALS: usize = 64;
/// The recorder's name in metrics.
const RECORDER: &str = "reports";

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApplyError {
    /// It may work later.
    Later(String),
    /// It cannot, which is not a failure: the namespace is terminating.
    Normal,
    /// It will not until someone fixes the cause.
    Refused(String),
    /// It will not, because of its content.
    Invalid(String),
    /// The server does not serve this kind of report.
    NoApi,
}

/// The result of a plan.
#[derive(Debug)]
pub(super) struct PlanResult {
    pub(super) key: ReportKey,
    /// What the server has now, by name.
    pub(super) written: Vec<(String, Stored)>,
    pub(super) deleted: Vec<String>,
    /// Partitions that were not written.
    pub(super) left: Vec<Prefix>,
    /// Results that the server refuses, by partition, and why: the report was written without them.
    pub(super) refused: Vec<(Prefix, Vec<Id>)>,
    pub(super) why_refused: String,
    pub(super) error: Option<ApplyError>,
}

/// Writes into one report API.
#[derive(Clone)]
pub(super) struct ReportWriter {
    pub(super) client: Client,
    pub(super) metrics: Arc<Metrics>,
    pub(super) api: Api,
}

impl ReportWriter {
    /// Executes a plan; deletes only after everything is written.
    pub(super) async fn execute(self, plan: ReportPlan) -> PlanResult {
        let span = Span::request("write reports");
        span.set(|| {
            let namespace = plan.key.namespace.as_deref().unwrap_or_default().to_owned();
            let (written, deleted) = (count(plan.writes.len()), count(plan.deletes.len()));
            [
                ("k8s.namespace.name", namespace.into()),
                ("kaudit.reports.written", written),
                ("kaudit.reports.deleted", deleted),
            ]
        });
        let done = self.proceed(plan).await;
        if done.error.is_some() {
            span.fail("not_written");
        }
        span.end();
        done
    }

    async fn proceed(self, plan: ReportPlan) -> PlanResult {
        let ReportPlan { key, writes, deletes } = plan;
        let (written, deleted, left, refused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut done = PlanResult { key, written, deleted, left, refused, why_refused: String::new(), error: None };
        for Write { prefix, name, mut report } in writes {
            if matches!(done.error, Some(ApplyError::Later(_) | ApplyError::NoApi)) {
                done.left.push(prefix);
                continue;
            }
            let namespace = done.key.namespace.clone();
            let mut applied = self.apply(namespace.as_deref(), &name, &report).await;
            if let Err(ApplyError::Invalid(why)) = &applied
                && let Ok(refused) = self.refused(namespace.as_deref(), &name, &report).await
                && !refused.is_empty()
            {
                done.why_refused.clone_from(why);
                done.refused.push((prefix, leave_out(&mut report, &refused)));
                self.metrics.recorder_dropped(RECORDER, "refused_result", refused.len() as u64);
                if results(&report).is_empty() {
                    continue;
                }
                applied = self.apply(namespace.as_deref(), &name, &report).await;
            }
            match applied {
                Ok(resource_version) => {
                    done.written.push((name, Stored { content: Some(content_digest(&report)), resource_version }));
                }
                Err(ApplyError::Normal) => done.error = done.error.or(Some(ApplyError::Normal)),
                Err(error) => {
                    done.left.push(prefix);
                    done.error = Some(error);
                }
            }
        }
        for name in deletes {
            if done.error.is_some() {
                break;
            }
            match self.delete(done.key.namespace.as_deref(), &name).await {
                Ok(()) => done.deleted.push(name),
                Err(error) => done.error = Some(error),
            }
        }
        done
    }

    fn api(&self, namespace: Option<&str>) -> kube::Api<DynamicObject> {
        let resource = self.api.resource(namespace.is_some());
        match namespace {
            Some(namespace) => kube::Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => kube::Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn apply(&self, namespace: Option<&str>, name: &str, report: &Value) -> Result<String, ApplyError> {
        self.answer(self.request(namespace, name, report, false)).await
    }

    async fn request(
        &self,
        namespace: Option<&str>,
        name: &str,
        report: &Value,
        dry_run: bool,
    ) -> kube::Result<String> {
        let parameters = PatchParams { dry_run, ..PatchParams::apply(CONTROLLER).force().validation_strict() };
        let applied = self.api(namespace).patch_metadata(name, &parameters, &apply_patch(report)?).await?;
        Ok(applied.metadata.resource_version.unwrap_or_default())
    }

    /// Finds the results because of which the server refuses a report; returns their indexes, in ascending order.
    async fn refused(&self, namespace: Option<&str>, name: &str, report: &Value) -> Result<Vec<usize>, ApplyError> {
        let try_results = async |indexes: Range<usize>| {
            let mut part = report.clone();
            part["results"] = results(report).get(indexes).unwrap_or_default().into();
            attempt(self.request(namespace, name, &part, true)).await.map_err(|(_, error)| error)
        };
        // A report that is refused without results is refused for another reason.
        try_results(0..0).await?;
        let (mut refused, mut ranges, mut trials) = (Vec::new(), Vec::new(), 0);
        ranges.push(0..results(report).len());
        while let Some(range) = ranges.pop() {
            trials += 1;
            if trials > MOST_TRIALS {
                refused.extend(range);
                continue;
            }
            match try_results(range.clone()).await {
                Ok(_) => {}
                Err(ApplyError::Invalid(_)) if range.len() <= 1 => refused.extend(range),
                Err(ApplyError::Invalid(_)) => {
                    let middle = range.start + range.len() / 2;
                    ranges.extend([middle..range.end, range.start..middle]);
                }
                Err(error) => return Err(error),
            }
        }
        refused.sort_unstable();
        Ok(refused)
    }

    /// Deletes a report object; a missing one is not an error.
    pub(super) async fn delete(&self, namespace: Option<&str>, name: &str) -> Result<(), ApplyError> {
        let (api, parameters) = (self.api(namespace), DeleteParams::default());
        match self.answer(api.delete(name, &parameters)).await {
            Ok(_) | Err(ApplyError::Normal) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn answer<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, ApplyError> {
        match attempt(request).await {
            Ok(answer) => {
                self.metrics.recorder_wrote(RECORDER);
                Ok(answer)
            }
            Err((reason, error)) => {
                self.metrics.recorder_dropped(RECORDER, reason, 1);
                Err(error)
            }
        }
    }
}

/// Returns the response to a request, or the error with its reason for metrics.
async fn attempt<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, (&'static str, ApplyError)> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Err(_) => Err(("timeout", ApplyError::Later(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())))),
        Ok(Err(error)) => Err(match WriteFailure::of(&error) {
            WriteFailure::Normal("not_found") if !names_an_object(&error) => ("no_api", ApplyError::NoApi),
            WriteFailure::Normal(reason) => (reason, ApplyError::Normal),
            WriteFailure::Refused(reason @ "invalid") => (reason, ApplyError::Invalid(describe(&error))),
            WriteFailure::Refused(reason) => (reason, ApplyError::Refused(describe(&error))),
            WriteFailure::Later => ("unavailable", ApplyError::Later(describe(&error))),
        }),
    }
}

fn results(report: &Value) -> &[Value] {
    report["results"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Removes the results at these indexes from a report and its summary; returns their ids.
fn leave_out(report: &mut Value, indexes: &[usize]) -> Vec<Id> {
    let is_refused = |index: &usize| indexes.contains(index);
    let (refused, accepted): (Vec<_>, Vec<_>) =
        results(report).iter().cloned().enumerate().partition(|(index, _)| is_refused(index));
    for (_, result) in &refused {
        let outcome = result["result"].as_str().unwrap_or_default();
        if let Some(count) = report["summary"][outcome].as_u64() {
            report["summary"][outcome] = count.saturating_sub(1).into();
        }
    }
    report["results"] = accepted.into_iter().map(|(_, result)| result).collect();
    refused.iter().filter_map(|(_, result)| result_id(result)).collect()
}

/// Whether the error is about an object that was not found (a namespace, a report), and not about the kind itself.
fn names_an_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}
