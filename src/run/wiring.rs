//! The channels into and out of a pipeline, and its settings.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    audit::{
        command::Command,
        exceptions::Exceptions,
        ledger::HANDOVER,
        overview::{Overview, Progress},
        pipeline::{InitialObjects, Inputs, Outputs, Pipeline, PipelineSettings},
        result::AuditResult,
        watched::WatchedObjects,
    },
    cli::{
        check::{CheckArgs, CheckMode, Initial, Switch},
        scope::{GroupBy, Inactive, SourceArgs, SyncArgs},
    },
    judge::set::PolicySet,
    metrics::Metrics,
    model::{body::Packing, shard::Shard},
    record::memory::process_limit,
    source::{
        change::{Change, InFlight},
        selection::Selection,
    },
};

/// How many changes are queued between a cluster and the pipeline; the informer waits while the queue is full.
pub(crate) const CHANGES: usize = 1_024;
/// The error of a run that was stopped before it had a result.
pub(crate) const INTERRUPTED: &str = "interrupted before everything was checked";
/// How many commands are queued while the pipeline processes a batch of changes.
const COMMANDS: usize = 16;

/// The share of the memory that changes on their way to the pipeline may use: 1 / 16.
const IN_FLIGHT: u64 = 16;

/// The policies that are evaluated, and the exceptions that excuse violations.
#[derive(Clone)]
pub(crate) struct AuditRules {
    pub(crate) policies: Arc<PolicySet>,
    pub(crate) exceptions: Exceptions,
}

/// The inputs and outputs of a pipeline that does not run yet.
pub(crate) struct Wiring {
    inputs: Inputs,
    outputs: Outputs,
}

impl Wiring {
    /// Makes the channels, with room for this many changes; also returns the senders into the pipeline.
    pub(crate) fn new(
        changes: usize,
        policies: &Arc<PolicySet>,
        stop: CancellationToken,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::Sender<Change>, mpsc::Sender<Command>) {
        let (changes, change_receiver) = mpsc::channel(changes);
        let (commands, command_receiver) = mpsc::channel(COMMANDS);
        let inputs =
            Inputs { changes: change_receiver, commands: command_receiver, stop, selection: None, cluster: None };
        let outputs = Outputs {
            progress: watch::channel(Progress::default()).0,
            overview: watch::channel(None).0,
            delta_recorded: watch::Sender::default(),
            policies: watch::channel(Arc::clone(policies)).0,
            packing: Packing::default(),
            in_flight: process_limit().map_or_else(InFlight::default, |bytes| InFlight::new(bytes / IN_FLIGHT)),
            labels: BTreeSet::new(),
            metrics,
        };
        (Self { inputs, outputs }, changes, commands)
    }

    /// Sets the selection of objects that are read.
    pub(crate) fn select(&mut self, selection: &Selection) {
        self.inputs.selection = Some(selection.clone());
    }

    /// Makes objects of a cluster available to lookups, while files are checked.
    pub(crate) fn look_up(&mut self, cluster: Arc<WatchedObjects>) {
        self.inputs.cluster = Some(cluster);
    }

    /// Makes deltas include the labels of their objects with these keys.
    pub(crate) fn include_labels(&mut self, keys: BTreeSet<String>) {
        self.outputs.labels = keys;
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.outputs.metrics
    }

    pub(crate) fn packing(&self) -> Packing {
        self.outputs.packing.clone()
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.outputs.in_flight.clone()
    }

    pub(crate) fn overview(&self) -> watch::Receiver<Option<Arc<Overview>>> {
        self.outputs.overview.subscribe()
    }

    /// Returns a receiver that is notified of each recorded delta.
    pub(crate) fn reported(&self) -> watch::Receiver<()> {
        self.outputs.delta_recorded.subscribe()
    }

    pub(crate) fn policies(&self) -> watch::Receiver<Arc<PolicySet>> {
        self.outputs.policies.subscribe()
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.outputs.progress.subscribe()
    }

    /// Evaluates until stopped, or if the run `ends` by itself, until everything is evaluated.
    pub(crate) fn judge(
        self,
        settings: PipelineSettings,
        ends: bool,
        AuditRules { policies, exceptions }: AuditRules,
    ) -> impl Future<Output = AuditResult> + Send + use<> {
        Pipeline::new(policies, exceptions, settings, self.outputs).run(self.inputs, ends)
    }

    /// Evaluates until everything is evaluated.
    ///
    /// # Errors
    /// If interrupted: a partial result would pass for the whole one.
    pub(crate) async fn judge_once(self, settings: PipelineSettings, rules: AuditRules) -> anyhow::Result<AuditResult> {
        let stop = self.inputs.stop.clone();
        let result = self.judge(settings, true, rules).await;
        anyhow::ensure!(!stop.is_cancelled(), INTERRUPTED);
        Ok(result)
    }
}

/// Returns the pipeline settings of `kaudit check`.
pub(crate) fn settings(check: &CheckArgs, policies: &PolicySet) -> PipelineSettings {
    let once = settings_once(&check.source, &check.sync, check.shard(), check.grouping.group_by, policies);
    PipelineSettings {
        initial: if check.timing.initial == Initial::Skip { InitialObjects::Skip } else { once.initial },
        rejudge_every: Some(check.timing.rejudge_every)
            .filter(|every| !every.is_zero() && check.mode() == CheckMode::Watch),
        update_filter: check.update_filter == Switch::On,
        logs_unread: !check.ends_with_text(),
        team_label: check.page.team_label.as_deref().map(Arc::from),
        metrics_namespaces: if check.mode() == CheckMode::Watch { check.serving.metrics_namespaces } else { 0 },
        ..once
    }
}

/// Returns the pipeline settings of a run that evaluates everything once.
pub(crate) fn settings_once(
    source: &SourceArgs,
    sync: &SyncArgs,
    shard: Shard,
    group_by: GroupBy,
    policies: &PolicySet,
) -> PipelineSettings {
    let streams = !source.manifests.filename.is_empty() && policies.evaluates_objects_alone();
    PipelineSettings {
        initial: if streams { InitialObjects::Stream } else { InitialObjects::Judge },
        sync_timeout: sync.sync_timeout,
        rejudge_every: None,
        update_filter: true,
        shard,
        roll_up: group_by == GroupBy::Owner,
        handover: HANDOVER,
        team_label: None,
        metrics_namespaces: 0,
        logs_unread: true,
        judge_inactive: source.inactive == Inactive::Judge,
        memory: process_limit(),
    }
}
