//! Writing and deleting of reports at the server.
//!
//! Reports are applied (server-side apply, by force): one request creates or changes, nothing has to be read before, and
//! labels of others stay. `results` is an atomic list, so what is not applied any more is gone.

use std::{sync::Arc, time::Duration};

use kube::{
    Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use tokio::time::timeout;

use super::{
    book::{Home, Known, Plan, Write},
    model::Api,
    shards::Prefix,
};
use crate::{
    cluster::{error::describe, identity::CONTROLLER},
    metrics::Metrics,
    record::{Failure, failure},
};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How the recorder is called in metrics.
const RECORDER: &str = "reports";

/// Why something was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unwritten {
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
pub(super) struct Carried {
    pub(super) home: Home,
    /// What the server has now, by name.
    pub(super) written: Vec<(String, Known)>,
    pub(super) deleted: Vec<String>,
    /// What is to be written another time.
    pub(super) left: Vec<Prefix>,
    /// The first that went wrong.
    pub(super) trouble: Option<Unwritten>,
}

/// Writes into one report API.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) metrics: Arc<Metrics>,
    pub(super) api: Api,
}

impl Writer {
    /// Writes what a plan says; deletes only after everything is written.
    pub(super) async fn carry_out(self, plan: Plan) -> Carried {
        let Plan { home, writes, deletes } = plan;
        let (written, deleted, left) = (Vec::new(), Vec::new(), Vec::new());
        let mut carried = Carried { home, written, deleted, left, trouble: None };
        for Write { prefix, name, report, content } in writes {
            if matches!(carried.trouble, Some(Unwritten::Later(_) | Unwritten::NoApi)) {
                carried.left.push(prefix);
                continue;
            }
            match self.apply(carried.home.namespace.as_deref(), &name, &report).await {
                Ok(version) => carried.written.push((name, Known { content: Some(content), version })),
                Err(Unwritten::Normal) => carried.trouble = carried.trouble.or(Some(Unwritten::Normal)),
                Err(trouble) => {
                    carried.left.push(prefix);
                    carried.trouble = Some(trouble);
                }
            }
        }
        for name in deletes {
            if carried.trouble.is_some() {
                break;
            }
            match self.delete(carried.home.namespace.as_deref(), &name).await {
                Ok(()) => carried.deleted.push(name),
                Err(trouble) => carried.trouble = Some(trouble),
            }
        }
        carried
    }

    fn place(&self, namespace: Option<&str>) -> kube::Api<DynamicObject> {
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
    ) -> Result<String, Unwritten> {
        let parameters = PatchParams::apply(CONTROLLER).force().validation_strict();
        let (place, patch) = (self.place(namespace), Patch::Apply(report));
        let applied = self.answer(place.patch_metadata(name, &parameters, &patch)).await?;
        Ok(applied.metadata.resource_version.unwrap_or_default())
    }

    /// Deletes a report, or finds that it is not there.
    pub(super) async fn delete(&self, namespace: Option<&str>, name: &str) -> Result<(), Unwritten> {
        let (place, parameters) = (self.place(namespace), DeleteParams::default());
        match self.answer(place.delete(name, &parameters)).await {
            Ok(_) | Err(Unwritten::Normal) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    async fn answer<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, Unwritten> {
        let (reason, trouble) = match timeout(PATIENCE, request).await {
            Ok(Ok(answer)) => {
                self.metrics.recorder_wrote(RECORDER);
                return Ok(answer);
            }
            Err(_) => ("timeout", Unwritten::Later(format!("no answer within {} s", PATIENCE.as_secs()))),
            Ok(Err(error)) => match failure(&error) {
                Failure::Normal("not_found") if !names_an_object(&error) => ("no_api", Unwritten::NoApi),
                Failure::Normal(reason) => (reason, Unwritten::Normal),
                Failure::Refused(reason) => (reason, Unwritten::Refused(describe(&error))),
                Failure::Later => ("unavailable", Unwritten::Later(describe(&error))),
            },
        };
        self.metrics.recorder_dropped(RECORDER, reason, 1);
        Err(trouble)
    }
}

/// Whether what was not found is an object (a namespace, a report), and not the whole kind.
fn names_an_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}
