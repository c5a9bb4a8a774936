//! What is recorded in the cluster, by the options of the command line.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::{
    audit::command::Command,
    cli::{check::CheckArgs, cluster::RecordTarget},
    cluster::client::Clients,
    metrics::Metrics,
    record::{
        events,
        memory::Pressure,
        notify::{NotifyConfig, NotifySettings},
        recorders, reports,
    },
};

/// Reads the receivers of notifications, if there are any.
///
/// # Errors
/// Says what is wrong with them, with file, line and column.
pub(super) fn receivers(check: &CheckArgs) -> anyhow::Result<Option<Arc<NotifyConfig>>> {
    check.writing.notify.as_deref().map(|path| NotifyConfig::load(path).map(Arc::new)).transpose()
}

/// Returns the settings of all recorders that are wanted; `pipeline` tells what stands.
pub(super) fn settings(
    check: &CheckArgs,
    clients: &Clients,
    receivers: Option<Arc<NotifyConfig>>,
    pipeline: &mpsc::Sender<Command>,
    memory: watch::Receiver<Option<Pressure>>,
    metrics: &Arc<Metrics>,
) -> recorders::RecorderSettings {
    let shard = check.shard();
    let (namespace, audit_name) = (clients.namespace().to_owned(), shard.name(&check.recording.audit_name));
    recorders::RecorderSettings {
        client: clients.plain.clone(),
        namespace: namespace.clone(),
        namespaces: check.scope.namespace.clone(),
        events: if check.records(RecordTarget::Events) { check.recording.events } else { events::EventFilter::None },
        events_per_second: f64::from(check.writing.events_per_second),
        event_ttl: check.writing.event_ttl,
        audit_name: audit_name.clone(),
        instance: check.recording.audit_name.clone(),
        reports: check.records(RecordTarget::Reports).then(|| reports::ReportSettings {
            client: clients.plain.clone(),
            choice: check.recording.report_api,
            layout: check.writing.report_layout,
            instance: reports::Instance::new(clients.namespace(), &check.recording.audit_name),
            owned: reports::Ownership { namespaces: check.scope.namespace.clone(), shard },
            metrics: metrics.clone(),
        }),
        status: check.records(RecordTarget::Status),
        notify: receivers.map(|config| NotifySettings {
            config,
            namespace,
            audit_name,
            pipeline: pipeline.clone(),
            metrics: metrics.clone(),
        }),
        memory,
        metrics: metrics.clone(),
    }
}
