//! The long run: checks the objects of a cluster, and every change, until a signal comes.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use kube::Api;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::lines;
use crate::{
    audit::{command::Command, history::History},
    cli::{
        check::CheckArgs,
        cluster::{RecordTarget, UiAuth},
    },
    cluster::{
        client::Clients,
        lease::{self, Candidate, ClusterStore, Times},
    },
    metrics::Metrics,
    output::Streams,
    record::{memory, mirror::MirrorSettings, recorders, reports, term::Terms},
    run::{
        checked,
        connect::reach,
        exceptions::{self, ExceptionFiles},
        policies::{self, SourceState},
        recording,
        sources::PolicySources,
        wiring::{self, AuditRules, CHANGES, Wiring},
    },
    serve::{
        access::AccessSettings,
        admin::{self, Admin, Pages, Status},
        ui,
    },
    source::{
        discovery::Served,
        informer::{Informer, ReadOptions},
    },
    telemetry::Span,
};

/// How long the last lines may take once everything else is written.
const PRINTING: Duration = Duration::from_secs(2);

/// The inputs of a long run.
pub(super) struct WatchInputs {
    /// The first policies and exceptions.
    pub(super) rules: AuditRules,
    /// The sources of these policies, and the state from which they were loaded.
    pub(super) sources: (PolicySources, SourceState),
    /// The files of these exceptions.
    pub(super) exception_files: ExceptionFiles,
    /// Counters.
    pub(super) metrics: Arc<Metrics>,
    /// The span of the start.
    pub(super) span: Span,
}

/// Checks a cluster until `stop`; returns the exit code.
pub(super) async fn run(
    check: &CheckArgs,
    WatchInputs { rules, sources, exception_files, metrics, span }: WatchInputs,
    stop: CancellationToken,
) -> anyhow::Result<u8> {
    recording::warn_of_unread_input();
    let streams = Streams::open(&check.output, check.log.color)?;
    let receivers = recording::receivers(check)?;
    let (mut wiring, changes, commands) = Wiring::new(CHANGES, &rules.policies, stop.clone(), metrics);
    wiring.include_labels(receivers.iter().flat_map(|receivers| receivers.label_keys()).collect());
    let mirror = recording::mirror(check, &wiring, &commands)?;
    let mut helpers = JoinSet::new();
    let page = serve(check, &wiring, &commands, &stop, &mut helpers).await?;
    let (memory, of_memory) = watch::channel(None);
    let history = watch::Sender::default();
    helpers.spawn(memory::follow(Arc::clone(wiring.metrics()), memory));
    let (clients, served) = tokio::select! {
        connected = span.child("connect").instrument(reach(&check.cluster)) => connected?,
        () = stop.cancelled() => return Ok(0),
    };
    info!(server = clients.url, "Connected");
    start_warnings(check, &wiring, (&clients, &served), &mut helpers);
    if let Some(server) = page {
        let access = access(check, &clients, &served);
        helpers.spawn(ui::serve(
            server,
            page_sources(check, &wiring, &commands, history.subscribe()),
            access,
            stop.clone(),
        ));
    }
    let metrics = wiring.metrics();
    let settings = recording::settings(check, &clients, receivers, &commands, of_memory, history, metrics);
    let instance = settings.instance_name();
    let mirror = mirror.map(|mirror| MirrorSettings { instance, ..mirror });
    let settings = recorders::RecorderSettings { mirror, ..settings };
    recording::announce(&settings, recording::report_api(check, &served));
    let mut printing = JoinSet::new();
    let terms = Terms {
        settings,
        overview: wiring.overview(),
        lines: Some(Arc::new(lines::write(streams, wiring.metrics(), &mut printing))),
        pipeline: commands.clone(),
        over: CancellationToken::new(),
    };
    let over = terms.over.clone();
    let candidate = check.recording.leader_elect.then(|| candidate(check, &clients));
    helpers.spawn(exception_files.follow(commands.clone()));
    let reloader = policies::Reloader::new(sources, check.load_options(), check.shard(), &rules.policies);
    helpers.spawn(reloader.run(commands));
    let selection = check.scope.selection(Some(&rules.policies));
    wiring.select(&selection);
    helpers
        .spawn(Informer::new(clients.clone(), selection, read_options(check, &clients, &wiring), changes).run(served));
    // In a task of its own: long work of the pipeline must not delay the renewal of the Lease.
    let settings = wiring::settings(check, &rules.policies);
    let evaluating = tokio::spawn(span.enter(|| wiring.judge(settings, false, rules)));
    drop(span);
    let stopping = async {
        evaluating.await.context("evaluation failed, which is a bug")?;
        info!("Stopping: writing pending records");
        over.cancel();
        Ok(())
    };
    tokio::try_join!(stopping, Box::pin(terms.run(candidate, &clients)))?;
    // A reader may have stopped reading, but not closed standard output.
    let _unread = timeout(PRINTING, printing.join_next()).await;
    Ok(0)
}

/// Returns what the page shows.
fn page_sources(
    check: &CheckArgs,
    wiring: &Wiring,
    commands: &mpsc::Sender<Command>,
    history: watch::Receiver<Arc<History>>,
) -> ui::Sources {
    ui::Sources {
        cluster: check.page.cluster_name.as_str().into(),
        pipeline: commands.clone(),
        progress: wiring.progress(),
        overview: wiring.overview(),
        history,
        delta_recorded: wiring.reported(),
    }
}

/// Returns how the informer reads objects.
fn read_options(check: &CheckArgs, clients: &Clients, wiring: &Wiring) -> ReadOptions {
    ReadOptions {
        secrets: check.source.manifests.secrets,
        once: false,
        // A run that writes their status needs the kind.
        expects_exceptions: check.records(RecordTarget::Status, clients.is_in_pod()),
        confirms: false,
        label_selector: None,
        packing: wiring.packing(),
        in_flight: wiring.in_flight(),
        policies: Some(wiring.policies()),
    }
}

/// Serves health, metrics and status before connecting to the cluster, so that a probe finds a process that is not
/// ready instead of none. Returns the server of the page, which is served once the cluster is connected.
async fn serve(
    check: &CheckArgs,
    wiring: &Wiring,
    commands: &mpsc::Sender<Command>,
    stop: &CancellationToken,
    helpers: &mut JoinSet<()>,
) -> anyhow::Result<Option<admin::Server>> {
    let admin = Admin {
        progress: wiring.progress(),
        metrics: Arc::clone(wiring.metrics()),
        status: Arc::new(Status::new(commands.clone())),
        overview: wiring.overview(),
    };
    let health = if check.serving.listen_status.is_some() { Pages::Health } else { Pages::All };
    let addresses = check.serving.listen.iter().map(|address| (address, health));
    for (address, pages) in addresses.chain(check.serving.listen_status.iter().map(|address| (address, Pages::Status)))
    {
        helpers.spawn(admin::bind(address).await?.serve(admin.clone(), pages, stop.clone()));
    }
    Ok(match &check.serving.listen_ui {
        Some(address) => Some(admin::bind(address).await?),
        None => None,
    })
}

/// Warns of kinds that are not served, and starts the tasks that warn of exceptions and of a scope without objects.
fn start_warnings(
    check: &CheckArgs,
    wiring: &Wiring,
    (clients, served): (&Clients, &Served),
    helpers: &mut JoinSet<()>,
) {
    // Start even if a kind is missing: it may be added later, or one discovery response may lack it.
    if let Err(why) = check.scope.selection(None).check(served) {
        warn!("{why}; the option takes effect when the kind is served");
    }
    helpers.spawn(exceptions::warn_of(wiring.overview()));
    let namespaces = check.scope.namespace.clone();
    helpers.spawn(checked::warn_of_nothing(wiring.overview(), clients.plain.clone(), namespaces));
}

/// Returns the access checks of the page; `None` if everyone may see it.
fn access(check: &CheckArgs, clients: &Clients, served: &Served) -> Option<AccessSettings> {
    let audit = check.shard().name(&check.recording.audit_name);
    let written = recording::report_api(check, served);
    (check.page.ui_auth == UiAuth::Token).then(|| AccessSettings {
        client: clients.plain.clone(),
        audit: (clients.namespace().to_owned(), audit),
        // If no reports are written, the right to read those of the preferred API decides.
        reports: written.unwrap_or(reports::Api::OpenReports),
    })
}

/// Returns this replica's candidate for leader election, which is not the leader yet.
fn candidate(check: &CheckArgs, clients: &Clients) -> Candidate<ClusterStore> {
    let store = ClusterStore {
        api: Api::namespaced(clients.plain.clone(), clients.namespace()),
        base: check.recording.lease_name().to_owned(),
        shard: check.shard(),
    };
    Candidate::new(store, lease::identity(), Times::lasting(check.writing.lease_duration))
}
