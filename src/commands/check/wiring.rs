//! The channels into and out of a pipeline, and what becomes of its result.

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
    },
    cli::{
        check::{CheckArgs, Initial, CheckMode, Switch},
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

/// Changes between a cluster and the pipeline; the informer waits when they are not taken.
pub(in crate::commands) const CHANGES: usize = 1_024;
/// Why a run that ends by itself has no result.
pub(in crate::commands) const INTERRUPTED: &str = "interrupted before everything was checked";
/// Commands that wait until the pipeline has dealt with a batch of changes.
const COMMANDS: usize = 16;

/// The part of the memory that changes on their way to the pipeline may take: 1 / 16.
const IN_FLIGHT: u64 = 16;

/// What objects are judged by, and what is excused.
#[derive(Clone)]
pub(in crate::commands) struct Rules {
    pub(in crate::commands) policies: Arc<PolicySet>,
    pub(in crate::commands) exceptions: Exceptions,
}

/// A pipeline that does not run yet: what will go in and come out.
pub(in crate::commands) struct Wiring {
    inputs: Inputs,
    outputs: Outputs,
}

impl Wiring {
    /// Makes the channels, with room for so many changes; returns also the senders into the pipeline.
    pub(in crate::commands) fn new(
        changes: usize,
        policies: &Arc<PolicySet>,
        stop: CancellationToken,
        metrics: Arc<Metrics>,
    ) -> (Self, mpsc::Sender<Change>, mpsc::Sender<Command>) {
        let (changes, change_receiver) = mpsc::channel(changes);
        let (commands, command_receiver) = mpsc::channel(COMMANDS);
        let inputs = Inputs { changes: change_receiver, commands: command_receiver, stop, selection: None };
        let outputs = Outputs {
            progress: watch::channel(Progress::default()).0,
            overview: watch::channel(None).0,
            told: watch::Sender::default(),
            policies: watch::channel(Arc::clone(policies)).0,
            packing: Packing::default(),
            in_flight: process_limit().map_or_else(InFlight::default, |bytes| InFlight::new(bytes / IN_FLIGHT)),
            labels: BTreeSet::new(),
            metrics,
        };
        (Self { inputs, outputs }, changes, commands)
    }

    /// Notes what is read.
    pub(in crate::commands) fn select(&mut self, selection: &Selection) {
        self.inputs.selection = Some(selection.clone());
    }

    /// Has deltas tell these labels of their objects.
    pub(super) fn tell_labels(&mut self, keys: BTreeSet<String>) {
        self.outputs.labels = keys;
    }

    pub(super) fn metrics(&self) -> &Arc<Metrics> {
        &self.outputs.metrics
    }

    pub(in crate::commands) fn packing(&self) -> Packing {
        self.outputs.packing.clone()
    }

    pub(super) fn in_flight(&self) -> InFlight {
        self.outputs.in_flight.clone()
    }

    pub(super) fn overview(&self) -> watch::Receiver<Option<Arc<Overview>>> {
        self.outputs.overview.subscribe()
    }

    pub(super) fn told(&self) -> watch::Receiver<()> {
        self.outputs.told.subscribe()
    }

    pub(super) fn policies(&self) -> watch::Receiver<Arc<PolicySet>> {
        self.outputs.policies.subscribe()
    }

    pub(in crate::commands) fn progress(&self) -> watch::Receiver<Progress> {
        self.outputs.progress.subscribe()
    }

    /// Judges until stopped, or where the run ends by itself until everything is judged.
    pub(super) fn judge(
        self,
        settings: PipelineSettings,
        ends: bool,
        Rules { policies, exceptions }: Rules,
    ) -> impl Future<Output = AuditResult> + Send + use<> {
        Pipeline::new(policies, exceptions, settings, self.outputs).run(self.inputs, ends)
    }

    /// Judges until everything is judged.
    ///
    /// # Errors
    /// When that was interrupted: a part of a result would pass for the whole.
    pub(in crate::commands) async fn judge_once(
        self,
        settings: PipelineSettings,
        rules: Rules,
    ) -> anyhow::Result<AuditResult> {
        let stop = self.inputs.stop.clone();
        let result = self.judge(settings, true, rules).await;
        anyhow::ensure!(!stop.is_cancelled(), INTERRUPTED);
        Ok(result)
    }
}

/// Returns how a run judges.
pub(super) fn settings(check: &CheckArgs, policies: &PolicySet) -> PipelineSettings {
    let once = settings_once(&check.source, &check.sync, check.shard(), check.grouping.group_by, policies);
    PipelineSettings {
        initial: if check.timing.initial == Initial::Skip { InitialObjects::Skip } else { once.initial },
        rejudge_every: Some(check.timing.rejudge_every).filter(|every| !every.is_zero() && check.mode() == CheckMode::Watch),
        update_filter: check.update_filter == Switch::On,
        metrics_namespaces: if check.mode() == CheckMode::Watch { check.serving.metrics_namespaces } else { 0 },
        ..once
    }
}

/// Returns how a run judges that looks at everything once.
pub(in crate::commands) fn settings_once(
    source: &SourceArgs,
    sync: &SyncArgs,
    shard: Shard,
    group_by: GroupBy,
    policies: &PolicySet,
) -> PipelineSettings {
    let streams = !source.manifests.filename.is_empty() && policies.judge_objects_alone();
    PipelineSettings {
        initial: if streams { InitialObjects::Stream } else { InitialObjects::Judge },
        sync_timeout: sync.sync_timeout,
        rejudge_every: None,
        update_filter: true,
        shard,
        roll_up: group_by == GroupBy::Owner,
        handover: HANDOVER,
        metrics_namespaces: 0,
        judge_inactive: source.inactive == Inactive::Judge,
        memory: process_limit(),
    }
}
