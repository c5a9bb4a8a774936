//! The channels into and out of a pipeline, and what becomes of its result.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    audit::{
        command::Command,
        exceptions::Exceptions,
        overview::{Overview, Progress},
        pipeline::{InitialObjects, Inputs, Outputs, Pipeline, PipelineSettings},
        result::AuditResult,
    },
    cli::check::{CheckArgs, GroupBy, Inactive, Initial, Mode, Switch},
    judge::set::PolicySet,
    metrics::Metrics,
    source::change::Change,
};

/// Changes between a cluster and the pipeline; the informer waits when they are not taken.
pub(super) const CHANGES: usize = 1_024;
/// Why a run that ends by itself has no result.
pub(super) const INTERRUPTED: &str = "interrupted before everything was judged";
/// Commands that wait until the pipeline has dealt with a batch of changes.
const COMMANDS: usize = 16;

/// What objects are judged by, and what is excused.
pub(super) struct Rules {
    pub(super) policies: Arc<PolicySet>,
    pub(super) exceptions: Exceptions,
}

/// A pipeline that does not run yet: what will go in and come out.
pub(super) struct Wiring {
    inputs: Inputs,
    outputs: Outputs,
}

impl Wiring {
    /// Makes the channels, with room for so many changes; returns also the senders into the pipeline.
    pub(super) fn new(
        changes: usize,
        policies: &Arc<PolicySet>,
        stop: CancellationToken,
    ) -> (Self, mpsc::Sender<Change>, mpsc::Sender<Command>) {
        let (changes, change_receiver) = mpsc::channel(changes);
        let (commands, command_receiver) = mpsc::channel(COMMANDS);
        let inputs = Inputs { changes: change_receiver, commands: command_receiver, stop };
        let outputs = Outputs {
            progress: watch::channel(Progress::default()).0,
            overview: watch::channel(None).0,
            policies: watch::channel(Arc::clone(policies)).0,
            metrics: Arc::default(),
        };
        (Self { inputs, outputs }, changes, commands)
    }

    pub(super) fn metrics(&self) -> &Arc<Metrics> {
        &self.outputs.metrics
    }

    pub(super) fn overview(&self) -> watch::Receiver<Option<Arc<Overview>>> {
        self.outputs.overview.subscribe()
    }

    pub(super) fn policies(&self) -> watch::Receiver<Arc<PolicySet>> {
        self.outputs.policies.subscribe()
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.outputs.progress.subscribe()
    }

    /// Judges until stopped, or in the modes that end until everything is judged.
    pub(super) fn judge(
        self,
        check: &CheckArgs,
        Rules { policies, exceptions }: Rules,
    ) -> impl Future<Output = AuditResult> + Send + use<> {
        let (settings, ends) = (settings(check, &policies), check.mode() != Mode::Watch);
        Pipeline::new(policies, exceptions, settings, self.outputs).run(self.inputs, ends)
    }

    /// Judges until everything is judged.
    ///
    /// # Errors
    /// When that was interrupted: a part of a result would pass for the whole.
    pub(super) async fn judge_once(self, check: &CheckArgs, rules: Rules) -> anyhow::Result<AuditResult> {
        let stop = self.inputs.stop.clone();
        let result = self.judge(check, rules).await;
        anyhow::ensure!(!stop.is_cancelled(), INTERRUPTED);
        Ok(result)
    }
}

fn settings(check: &CheckArgs, policies: &PolicySet) -> PipelineSettings {
    let initial = match check.timing.initial {
        Initial::Judge if check.mode() == Mode::Files && policies.judge_objects_alone() => InitialObjects::Stream,
        Initial::Judge => InitialObjects::Judge,
        Initial::Skip => InitialObjects::Skip,
    };
    PipelineSettings {
        initial,
        sync_timeout: check.timing.sync_timeout,
        rejudge_every: Some(check.timing.rejudge_every).filter(|every| !every.is_zero() && check.mode() == Mode::Watch),
        update_filter: check.update_filter == Switch::On,
        shard: check.shard(),
        roll_up: check.group_by == GroupBy::Owner,
        judge_inactive: check.inactive == Inactive::Judge,
    }
}
