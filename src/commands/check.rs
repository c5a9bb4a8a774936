//! `kaudit check`: wires source, pipeline and recorders together, in one of three ways.
//!
//! Files, a cluster once, and the long run differ only in the source and in what records; the middle is the same.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use jiff::Timestamp;
use kube::Api;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    audit::{
        command::{Command, Term},
        ledger::Delta,
        overview::Progress,
        pipeline::{InitialObjects, Inputs, Outputs, Pipeline, PipelineSettings},
        result::{AuditResult, Entry},
    },
    cli::{self, Check, Mode, Recorder},
    cluster::{
        client::{Access, Clients},
        error::describe,
        lease::{self, Candidate, ClusterStore, Times},
    },
    judge::{files, set::PolicySet},
    metrics::Metrics,
    model::{object::ObjectRef, shard::Shard},
    output::{self, Event, Streams, progress},
    record::{
        events,
        recorders::{self, Recorders},
        reports,
        term::Terms,
    },
    rego::problem::LoadError,
    serve::admin::{self, Pages},
    source::{
        change::Change,
        discovery::{Served, discover},
        informer::Informer,
        manifest,
        received::Secrets,
        selection::Selection,
    },
};

/// How long the first answer of the API server may take; connecting alone may take ten of these seconds.
const FIRST_ANSWER: Duration = Duration::from_secs(12);
/// How often the policy directory is looked at.
const POLICIES_EVERY: Duration = Duration::from_secs(1);
/// Changes between a source and the pipeline; the source waits when they are not taken.
const CHANGES: usize = 1_024;
/// Changes between manifests and the pipeline, which are there before they are wanted.
const DOCUMENTS: usize = 128;
/// Commands that wait for the pipeline.
const COMMANDS: usize = 16;
/// Lines of the result stream that wait for whoever reads standard output.
const LINES: usize = 10_000;

/// Runs `kaudit check`; returns the exit code.
///
/// # Errors
/// When nothing could be judged, with what to do; the exit code is 2 then.
pub async fn run(check: Check) -> anyhow::Result<u8> {
    let partly = check.mode() == Mode::Watch || check.policies.allow_refused;
    let mut loaded = load(&check.policies).await?;
    if !partly {
        loaded = loaded.and_then(PolicySet::whole);
    }
    let policies = Arc::new(loaded?);
    log_problems(&policies, shard(&check));
    info!(rules = policies.rules(), policies = policies.policies.len(), "Policies loaded");
    let stop = CancellationToken::new();
    let mut helpers = JoinSet::new();
    helpers.spawn(signals(stop.clone())?);
    match check.mode() {
        Mode::Files => files(&check, policies, stop).await,
        Mode::Once => once(&check, policies, stop).await,
        Mode::Watch => watch_cluster(&check, policies, stop).await,
    }
}

/// Loads what can be loaded. The outer error is not about the policies.
async fn load(policies: &cli::Policies) -> anyhow::Result<Result<PolicySet, LoadError>> {
    let (paths, limits) = (policies.paths.clone(), policies.limits());
    spawn_blocking(move || PolicySet::load_partly(&paths, &limits)).await.context("loading the policies")
}

fn log_problems(policies: &PolicySet, shard: Shard) {
    for problem in &policies.problems {
        if problem.is_refusal() { error!("{problem}") } else { warn!("{problem}") }
    }
    if !shard.is_whole() && !policies.inventory_reads().is_empty() {
        warn!(%shard, "Policies look other objects up, and see only those of this shard (and all Namespaces)");
    }
}

async fn files(check: &Check, policies: Arc<PolicySet>, stop: CancellationToken) -> anyhow::Result<u8> {
    let files = manifest::files(&check.filename)?;
    let (sender, changes) = mpsc::channel(DOCUMENTS);
    let (selection, secrets) = (selection(&check.scope, Some(&policies)), secrets(check));
    let mut source = JoinSet::new();
    source.spawn_blocking(move || manifest::read(&files, &selection, secrets, &sender));
    let ends = Ends::new(changes, mpsc::channel(1).1, &policies, stop.clone());
    let result = pipeline(check, policies, ends.outputs).run(ends.inputs, true).await;
    interrupted(&stop)?;
    if result.coverage.iter().all(|kind| kind.objects == 0) {
        // Also when what was to fill a pipe failed: nothing judged is not clean.
        let why = result.coverage.first().map_or("there is no object in what was given", |kind| &kind.message);
        anyhow::bail!("nothing was judged: {why}");
    }
    finish(check, &result)
}

async fn once(check: &Check, policies: Arc<PolicySet>, stop: CancellationToken) -> anyhow::Result<u8> {
    let (clients, served) = connect(&check.cluster, &check.scope).await?;
    let (sender, changes) = mpsc::channel(CHANGES);
    let metrics = Arc::new(Metrics::default());
    let (commands, command_receiver) = mpsc::channel(1);
    let mut ends = Ends::new(changes, command_receiver, &policies, stop.clone());
    let settings = recorded(check, &clients, &metrics);
    let (recorders, recorded, record) = Recorders::start(&settings, ends.outputs.overview.subscribe()).await;
    // The pipeline cannot have ended: it has not begun.
    let _sent = commands.send(Command::Record(Term::Begin(recorded, record))).await;
    ends.outputs.metrics = metrics;
    let mut source = JoinSet::new();
    let progress = progress::show(ends.outputs.progress.subscribe());
    let selection = selection(&check.scope, Some(&policies));
    source.spawn(Informer::new(clients, selection, secrets(check), true, sender).run(served));
    source.spawn(progress);
    let result = pipeline(check, policies, ends.outputs).run(ends.inputs, true).await;
    interrupted(&stop)?;
    recorders.flush(None).await;
    if !check.scope.namespace.is_empty() && result.coverage.iter().all(|kind| kind.objects == 0) {
        warn!(namespaces = check.scope.namespace.join(", "), "Nothing at all was found there; are the names right?");
    }
    finish(check, &result)
}

async fn watch_cluster(check: &Check, policies: Arc<PolicySet>, stop: CancellationToken) -> anyhow::Result<u8> {
    let streams = Streams::open(&check.output, check.log.color)?;
    let metrics = Arc::new(Metrics::default());
    let (progress_sender, progress) = watch::channel(Progress::default());
    let (commands, command_receiver) = mpsc::channel(COMMANDS);
    let overview = watch::channel(None).0;
    let mut helpers = JoinSet::new();
    let told = admin::Admin {
        progress: progress.clone(),
        metrics: metrics.clone(),
        pipeline: commands.clone(),
        overview: overview.subscribe(),
    };
    for (address, pages) in pages(check) {
        let serving = admin::bind(address).await?.serve(told.clone(), pages, stop.clone());
        helpers.spawn(async move {
            if let Err(error) = serving.await {
                warn!("{error:#}");
            }
        });
    }
    let (clients, served) = tokio::select! {
        connected = connect(&check.cluster, &check.scope) => connected?,
        () = stop.cancelled() => return Ok(0),
    };
    info!(server = clients.url, "Connected");
    let recording = Terms {
        settings: recorded(check, &clients, &metrics),
        overview: overview.subscribe(),
        lines: Arc::new(stream_lines(streams, &mut helpers)),
        pipeline: commands.clone(),
        over: CancellationToken::new(),
    };
    let over = recording.over.clone();
    let candidate = check.recording.leader_elect.then(|| candidate(check, &clients));
    let (sender, changes) = mpsc::channel(CHANGES);
    let mut ends = Ends::new(changes, command_receiver, &policies, stop.clone());
    (ends.outputs.metrics, ends.outputs.progress, ends.outputs.overview) = (metrics, progress_sender, overview);
    helpers.spawn(reloads(check.policies.clone(), shard(check), policies.clone(), commands));
    let selection = selection(&check.scope, Some(&policies));
    let informer = Informer::new(clients.clone(), selection, secrets(check), false, sender);
    helpers.spawn(informer.following(ends.outputs.policies.subscribe()).run(served));
    let judging = async {
        pipeline(check, policies, ends.outputs).run(ends.inputs, false).await;
        info!("Stopping: writing what is pending");
        over.cancel();
        Ok(())
    };
    tokio::try_join!(Box::pin(judging), Box::pin(recording.run(candidate, &clients)))?;
    Ok(0)
}

/// Returns one that would lead, as a follower.
fn candidate(check: &Check, clients: &Clients) -> Candidate<ClusterStore> {
    let store = ClusterStore {
        api: Api::namespaced(clients.plain.clone(), clients.namespace()),
        base: check.recording.lease_name().to_owned(),
        shard: shard(check),
    };
    Candidate::new(store, lease::identity(), Times::lasting(check.lease_duration))
}

fn shard(check: &Check) -> Shard {
    check.scope.shard.unwrap_or_default()
}

/// Returns what is served where.
fn pages(check: &Check) -> impl Iterator<Item = (&String, Pages)> {
    let usual = if check.listen_status.is_some() { Pages::Health } else { Pages::All };
    let listen = check.listen.iter().map(move |address| (address, usual));
    listen.chain(check.listen_status.iter().map(|address| (address, Pages::Status)))
}

fn pipeline(check: &Check, policies: Arc<PolicySet>, outputs: Outputs) -> Pipeline {
    let initial = match check.initial {
        cli::Initial::Judge if check.mode() == Mode::Files && policies.judge_objects_alone() => InitialObjects::Stream,
        cli::Initial::Judge => InitialObjects::Judge,
        cli::Initial::Skip => InitialObjects::Skip,
    };
    let settings = PipelineSettings {
        initial,
        sync_timeout: check.sync_timeout,
        rejudge_every: Some(check.rejudge_every).filter(|every| !every.is_zero() && check.mode() == Mode::Watch),
        update_filter: check.update_filter == cli::Switch::On,
        shard: shard(check),
    };
    Pipeline::new(policies, settings, outputs)
}

fn finish(check: &Check, result: &AuditResult) -> anyhow::Result<u8> {
    output::write_all(&check.output, result, check.log.color)?;
    Ok(output::exit_code(result, check.fail_on))
}

fn interrupted(stop: &CancellationToken) -> anyhow::Result<()> {
    anyhow::ensure!(!stop.is_cancelled(), "interrupted before everything was judged");
    Ok(())
}

/// Connects, and makes sure that the cluster answers and serves what the user named.
pub(crate) async fn connect(cluster: &cli::Cluster, scope: &cli::Scope) -> anyhow::Result<(Clients, Served)> {
    let access = Access {
        kubeconfig: cluster.kubeconfig.clone(),
        context: cluster.context.clone(),
        impersonate: cluster.user.clone(),
    };
    let clients = Clients::new(&access).await?;
    let served = match timeout(FIRST_ANSWER, discover(&clients.plain)).await {
        Ok(Ok(served)) => served,
        Ok(Err(error)) => anyhow::bail!(
            "the API server at {} does not answer as it should: {}\nCheck that the cluster runs, that the address and \
             the credentials in the kubeconfig are right, and that a proxy in the environment is meant for it",
            clients.url,
            describe(&error)
        ),
        Err(_) => anyhow::bail!(
            "the API server at {} did not answer within {} seconds\nCheck that the cluster runs and that its address \
             can be reached from here",
            clients.url,
            FIRST_ANSWER.as_secs()
        ),
    };
    named(scope).check(&served).map_err(anyhow::Error::msg)?;
    Ok((clients, served))
}

fn recorded(check: &Check, clients: &Clients, metrics: &Arc<Metrics>) -> recorders::RecorderSettings {
    recorders::RecorderSettings {
        client: clients.plain.clone(),
        namespace: clients.namespace().to_owned(),
        namespaces: check.scope.namespace.clone(),
        events: if check.records(Recorder::Events) { check.recording.events } else { events::EventFilter::None },
        events_per_second: f64::from(check.events_per_second),
        audit_name: shard(check).name(&check.recording.audit_name),
        instance: check.recording.audit_name.clone(),
        reports: reported(check, clients, metrics),
        status: check.records(Recorder::Status),
        shard: shard(check),
        metrics: metrics.clone(),
    }
}

fn reported(check: &Check, clients: &Clients, metrics: &Arc<Metrics>) -> Option<reports::ReportSettings> {
    check.records(Recorder::Reports).then(|| reports::ReportSettings {
        client: clients.plain.clone(),
        choice: check.recording.report_api,
        layout: check.report_layout,
        instance: reports::Instance::new(&check.recording.audit_name),
        owned: reports::Ownership { namespaces: check.scope.namespace.clone(), shard: shard(check) },
        metrics: metrics.clone(),
    })
}

/// Returns what the user named of a cluster.
fn named(scope: &cli::Scope) -> Selection {
    Selection {
        namespaces: scope.namespace.iter().cloned().collect(),
        include: scope.include.clone(),
        exclude: scope.exclude.clone(),
        shard: scope.shard.unwrap_or_default(),
        judged_by: None,
    }
}

/// Returns what is read of a cluster.
pub(crate) fn selection(scope: &cli::Scope, policies: Option<&Arc<PolicySet>>) -> Selection {
    Selection { judged_by: policies.filter(|_| scope.kinds == cli::Kinds::Judged).cloned(), ..named(scope) }
}

fn secrets(check: &Check) -> Secrets {
    match check.secrets {
        cli::Secrets::Redact => Secrets::Redact,
        cli::Secrets::Full => Secrets::Full,
    }
}

/// Both ends of a pipeline, with channels of which nobody listens where nothing else is put.
struct Ends {
    inputs: Inputs,
    outputs: Outputs,
}

impl Ends {
    fn new(
        changes: mpsc::Receiver<Change>,
        commands: mpsc::Receiver<Command>,
        policies: &Arc<PolicySet>,
        stop: CancellationToken,
    ) -> Self {
        let inputs = Inputs { changes, commands, stop };
        let outputs = Outputs {
            progress: watch::channel(Progress::default()).0,
            policies: watch::channel(Arc::clone(policies)).0,
            overview: watch::channel(None).0,
            metrics: Arc::default(),
        };
        Self { inputs, outputs }
    }
}

/// Writes what appears and is resolved to the outputs; returns what takes the deltas, and never blocks.
fn stream_lines(mut streams: Streams, helpers: &mut JoinSet<()>) -> impl Fn(&Delta) + Send + Sync + use<> {
    let (sender, mut lines) = mpsc::channel::<(Event, Entry, Timestamp)>(LINES);
    helpers.spawn_blocking(move || {
        while let Some((event, entry, time)) = lines.blocking_recv() {
            match streams.line(event, &entry, time) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => warn!("Results cannot be written: {error:#}"),
            }
        }
    });
    move |delta| {
        let (resource, now) = (Arc::new(ObjectRef::new(&delta.object, &delta.uid)), Timestamp::now());
        let appeared = delta.appeared.iter().map(|violation| (Event::Appeared, violation));
        let resolved = delta.resolved.iter().map(|violation| (Event::Resolved, violation));
        let transitions = delta.transitions.iter().map(|violation| (Event::Happened, violation));
        for (event, violation) in appeared.chain(resolved).chain(transitions) {
            // Nobody reads, or not fast enough: the verdicts stand in /status all the same.
            let _dropped = sender.try_send((event, Entry::new(&violation.finding, &resource, None), now));
        }
    }
}

/// Looks at the policy directory and loads it anew when it changed and has come to rest.
async fn reloads(settings: cli::Policies, shard: Shard, mut in_force: Arc<PolicySet>, pipeline: mpsc::Sender<Command>) {
    let look = || {
        let paths = settings.paths.clone();
        async move { spawn_blocking(move || files::fingerprint(&paths)).await.ok() }
    };
    let mut failed = false;
    let mut loaded = look().await;
    let mut before = loaded;
    while !pipeline.is_closed() {
        sleep(POLICIES_EVERY).await;
        let now = look().await;
        // Whoever writes files is given the time to finish.
        let at_rest = std::mem::replace(&mut before, now) == now;
        if now == loaded || !at_rest {
            continue;
        }
        loaded = now;
        let reload = match load(&settings).await {
            Ok(reload) => reload.and_then(|policies| policies.after(&in_force)).map(Arc::new),
            Err(error) => {
                error!("{error:#}");
                continue;
            }
        };
        // Policies that did not change are only of interest after a load that failed.
        let was_failing = std::mem::replace(&mut failed, reload.is_err());
        if let Ok(policies) = &reload {
            let before = std::mem::replace(&mut in_force, policies.clone());
            if before.digest == policies.digest && !was_failing {
                continue;
            }
            log_problems(policies, shard);
        }
        // An error says that the pipeline has ended.
        let _ended = pipeline.send(Command::Reload(reload)).await;
    }
}

/// Turns SIGTERM and SIGINT into a request to stop.
fn signals(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM received"),
            _ = interrupt.recv() => info!("SIGINT received"),
        }
        stop.cancel();
    })
}
