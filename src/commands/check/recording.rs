//! What is recorded in the cluster, by the options of the command line.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    cli::{check::CheckArgs, cluster::RecordTarget},
    cluster::client::Clients,
    metrics::Metrics,
    record::{events, memory::Pressure, recorders, reports},
};

/// Returns the settings of all recorders that are wanted.
pub(super) fn settings(
    check: &CheckArgs,
    clients: &Clients,
    memory: watch::Receiver<Option<Pressure>>,
    metrics: &Arc<Metrics>,
) -> recorders::RecorderSettings {
    let shard = check.shard();
    recorders::RecorderSettings {
        client: clients.plain.clone(),
        namespace: clients.namespace().to_owned(),
        namespaces: check.scope.namespace.clone(),
        events: if check.records(RecordTarget::Events) { check.recording.events } else { events::EventFilter::None },
        events_per_second: f64::from(check.writing.events_per_second),
        event_ttl: check.writing.event_ttl,
        audit_name: shard.name(&check.recording.audit_name),
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
        memory,
        metrics: metrics.clone(),
    }
}
