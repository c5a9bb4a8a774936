//! Settings of the recorders, from the options of the command line.

use std::{
    fs::File,
    os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    sync::Arc,
};

use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::{
    audit::{command::Command, history::History},
    cli::{check::CheckArgs, cluster::RecordTarget},
    cluster::client::Clients,
    fleet::keys,
    metrics::Metrics,
    record::{
        events,
        memory::Pressure,
        mirror::MirrorSettings,
        notify::{NotifyConfig, NotifySettings},
        recorders, reports,
        status::HistorySettings,
    },
    run::wiring::Wiring,
    source::discovery::Served,
};

/// Reads the receivers of notifications, if there are any.
///
/// # Errors
/// If their file is invalid, with file, line and column.
pub(crate) fn receivers(check: &CheckArgs) -> anyhow::Result<Option<Arc<NotifyConfig>>> {
    check.writing.notify.as_deref().map(|path| NotifyConfig::load(path).map(Arc::new)).transpose()
}

/// Returns the first report API that may be written and is served.
pub(crate) fn report_api(check: &CheckArgs, served: &Served) -> Option<reports::Api> {
    let is_served = |api: &reports::Api| {
        served.kinds.iter().any(|kind| (&*kind.group, &*kind.plural) == (api.group(), api.kind(true).1))
    };
    check.recording.report_api.apis().iter().copied().find(is_served)
}

/// Logs what is recorded, and where.
pub(crate) fn announce(settings: &recorders::RecorderSettings, api: Option<reports::Api>) {
    info!("{}", announcement(settings, api));
}

fn announcement(settings: &recorders::RecorderSettings, api: Option<reports::Api>) -> String {
    let events = (settings.events != events::EventFilter::None).then(|| "Events".to_owned());
    let reports = settings.reports.as_ref().map(|_| match api {
        Some(api) => format!("reports ({})", api.group()),
        None => "reports (no report API is served yet)".to_owned(),
    });
    let status = settings.status.then(|| format!("the Audit {}/{}", settings.namespace, settings.audit_name));
    let exceptions = settings.status.then(|| "the status of PolicyExceptions".to_owned());
    let recorded: Vec<String> = [events, reports, exceptions, status].into_iter().flatten().collect();
    match &recorded[..] {
        [] => "Recording nothing in the cluster; to record: --record events,reports,status".to_owned(),
        [one] => format!("Recording {one}"),
        [first @ .., last] => format!("Recording {} and {last}", first.join(", ")),
    }
}

/// Warns if standard input is a pipe, which only `-f -` reads.
pub(crate) fn warn_of_unread_input() {
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    if input.and_then(|file| file.metadata()).is_ok_and(|input| input.file_type().is_fifo()) {
        warn!("Standard input is a pipe, but this run watches a cluster: use -f - to check manifests from it");
    }
}

/// Returns how the results are mirrored, if they are.
///
/// # Errors
/// If the cluster has no usable name, or a file of the login cannot be used.
pub(crate) fn mirror(
    check: &CheckArgs,
    wiring: &Wiring,
    pipeline: &mpsc::Sender<Command>,
) -> anyhow::Result<Option<MirrorSettings>> {
    let cluster = &check.page.cluster_name;
    if check.mirror.fleet.is_empty() && check.mirror.server.is_none() {
        return Ok(None);
    }
    keys::check_cluster(cluster).map_err(|why| anyhow::anyhow!("--fleet {why}"))?;
    let servers = match &check.mirror.server {
        Some(server) => Arc::clone(server),
        None => Arc::new(check.nats.servers(&check.mirror.fleet, Some(keys::inbox(cluster)))?),
    };
    Ok(Some(MirrorSettings {
        servers,
        cluster: cluster.as_str().into(),
        labels: check.mirror.cluster_label.iter().cloned().collect(),
        shard: check.shard(),
        instance: String::new(),
        pipeline: pipeline.clone(),
        progress: wiring.progress(),
        delta_recorded: wiring.reported(),
        metrics: Arc::clone(wiring.metrics()),
    }))
}

/// Returns the settings of all enabled recorders; `pipeline` returns the open violations for notifications.
pub(crate) fn settings(
    check: &CheckArgs,
    clients: &Clients,
    receivers: Option<Arc<NotifyConfig>>,
    pipeline: &mpsc::Sender<Command>,
    memory: watch::Receiver<Option<Pressure>>,
    history: watch::Sender<Arc<History>>,
    metrics: &Arc<Metrics>,
) -> recorders::RecorderSettings {
    let (shard, is_in_pod) = (check.shard(), clients.is_in_pod());
    let (namespace, audit_name) = (clients.namespace().to_owned(), shard.name(&check.recording.audit_name));
    recorders::RecorderSettings {
        client: clients.plain.clone(),
        namespace: namespace.clone(),
        namespaces: check.scope.namespace.clone(),
        shard,
        events: Some(check.recording.events)
            .filter(|_| check.records(RecordTarget::Events, is_in_pod))
            .unwrap_or(events::EventFilter::None),
        events_per_second: f64::from(check.writing.events_per_second),
        event_ttl: check.writing.event_ttl,
        audit_name: audit_name.clone(),
        instance: check.recording.audit_name.clone(),
        reports: check.records(RecordTarget::Reports, is_in_pod).then(|| reports::ReportSettings {
            client: clients.plain.clone(),
            choice: check.recording.report_api,
            layout: check.writing.report_layout,
            instance: reports::Instance::new(clients.namespace(), &check.recording.audit_name),
            owned: reports::Ownership { namespaces: check.scope.namespace.clone(), shard },
            metrics: metrics.clone(),
        }),
        status: check.records(RecordTarget::Status, is_in_pod),
        notify: receivers.map(|config| NotifySettings {
            config,
            namespace,
            audit_name,
            pipeline: pipeline.clone(),
            metrics: metrics.clone(),
        }),
        mirror: None,
        history: HistorySettings { pipeline: pipeline.clone(), shown: history },
        memory,
        metrics: metrics.clone(),
    }
}
