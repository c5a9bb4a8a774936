//! Writes and deletes report objects at the server.
//!
//! Reports are applied (server-side apply, by force): one request creates or changes, nothing has to be read before, and
//! labels of others stay. `results` is an atomic list, so what is no longer applied is gone.

use std::{sync::Arc, time::Duration};

use kube::{
    Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use tokio::time::timeout;

use super::{
    format::Api,
    partitions::Prefix,
    report_set::{Plan, ReportKey, Stored, Write},
};
use crate::{
    cluster::{error::describe, identity::CONTROLLER},
    metrics::Metrics,
    record::failure::WriteFailure,
    telemetry::{Span, count},
};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The recorder's name in metrics.
const RECORDER: &str = "reports";

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApplyError {
    /// It may work later.
    Later(String),
    /// It cannot, and that is in order: the namespace is going away.
    Normal,
    /// It will not until somebody changes something.
    Refused(String),
    /// The server does not know this kind of report.
    NoApi,
}

/// What became of a plan.
#[derive(Debug)]
pub(super) struct PlanResult {
    pub(super) key: ReportKey,
    /// What the server has now, by name.
    pub(super) written: Vec<(String, Stored)>,
    pub(super) deleted: Vec<String>,
    /// Partitions that were not written.
    pub(super) left: Vec<Prefix>,
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
    pub(super) async fn execute(self, plan: Plan) -> PlanResult {
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

    async fn proceed(self, plan: Plan) -> PlanResult {
        let Plan { key, writes, deletes } = plan;
        let (written, deleted, left) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = PlanResult { key, written, deleted, left, error: None };
        for Write { prefix, name, report, content } in writes {
            if matches!(done.error, Some(ApplyError::Later(_) | ApplyError::NoApi)) {
                done.left.push(prefix);
                continue;
            }
            match self.apply(done.key.namespace.as_deref(), &name, &report).await {
                Ok(resource_version) => done.written.push((name, Stored { content: Some(content), resource_version })),
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

    async fn apply(
        &self,
        namespace: Option<&str>,
        name: &str,
        report: &serde_json::Value,
    ) -> Result<String, ApplyError> {
        let parameters = PatchParams::apply(CONTROLLER).force().validation_strict();
        let (api, patch) = (self.api(namespace), Patch::Apply(report));
        let applied = self.answer(api.patch_metadata(name, &parameters, &patch)).await?;
        Ok(applied.metadata.resource_version.unwrap_or_default())
    }

    /// Deletes a report object; one that is not there is fine.
    pub(super) async fn delete(&self, namespace: Option<&str>, name: &str) -> Result<(), ApplyError> {
        let (api, parameters) = (self.api(namespace), DeleteParams::default());
        match self.answer(api.delete(name, &parameters)).await {
            Ok(_) | Err(ApplyError::Normal) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn answer<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, ApplyError> {
        let (reason, failed) = match timeout(REQUEST_TIMEOUT, request).await {
            Ok(Ok(answer)) => {
                self.metrics.recorder_wrote(RECORDER);
                return Ok(answer);
            }
            Err(_) => ("timeout", ApplyError::Later(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()))),
            Ok(Err(error)) => match WriteFailure::of(&error) {
                WriteFailure::Normal("not_found") if !names_an_object(&error) => ("no_api", ApplyError::NoApi),
                WriteFailure::Normal(reason) => (reason, ApplyError::Normal),
                WriteFailure::Refused(reason) => (reason, ApplyError::Refused(describe(&error))),
                WriteFailure::Later => ("unavailable", ApplyError::Later(describe(&error))),
            },
        };
        self.metrics.recorder_dropped(RECORDER, reason, 1);
        Err(failed)
    }
}

/// Whether what was not found is an object (a namespace, a report) and not the kind itself.
fn names_an_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}
