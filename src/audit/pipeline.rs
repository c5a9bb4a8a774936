//! The pipeline: the one task that owns the state of an audit.
//!
//! In: the changes that sources send, and commands. Out: deltas for the recorders, an overview for the status, and at the end
//! the whole result. It waits only for its own inputs: evaluation happens on blocking threads, and recorders take what they
//! can and count the rest.
//!
//! The state has five parts. [`WatchedObjects`] are what exists, [`Schedule`] is what is evaluated when, [`Results`] are what
//! was found and is recorded, [`Agenda`] is what is left to do, and [`Publisher`] publishes the progress. No part can change
//! another: the schedule reads the objects, the results read objects and schedule, and what concerns several is here.

mod changes;
mod result;
mod turns;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::{
    command::{Command, Reload, ResultQuery, Snapshot},
    exceptions::Exceptions,
    inventory::Updated,
    judges::Evaluated,
    publisher::Publisher,
    queue::{QueuePriority, Queued},
    result::AuditResult,
    results::{ResultContext, Results},
    schedule::Schedule,
    watched::WatchedObjects,
    work::{Agenda, ObjectKeys, Purpose},
};
pub use super::{
    publisher::Outputs,
    settings::{InitialObjects, PipelineSettings},
};
use crate::{
    judge::set::PolicySet,
    model::{object::ObjectKey, verdict::Verdict},
    source::{change::Change, selection::Selection},
    telemetry::{Span, count},
};

/// What goes into a pipeline.
pub struct Inputs {
    /// From the sources.
    pub changes: mpsc::Receiver<Change>,
    /// From everybody else.
    pub commands: mpsc::Receiver<Command>,
    /// Ends the run.
    pub stop: CancellationToken,
    /// What is read of a cluster; `None` for files, of which everything is.
    pub selection: Option<Selection>,
    /// Objects of a cluster that only serve lookups, if the changes are those of files.
    pub(crate) cluster: Option<Arc<WatchedObjects>>,
}

/// How often the overview is drawn up, if anything changed.
pub(super) const OVERVIEW_EVERY: Duration = Duration::from_millis(500);
/// Objects waiting for evaluation before the source is made to wait; see [`InitialObjects::Stream`].
const STREAMED: usize = 256;
/// Changes that are taken in one go.
const CHANGES: usize = 256;

/// The state of an audit. One task owns it, so nothing in it is locked.
pub struct Pipeline {
    settings: PipelineSettings,
    objects: WatchedObjects,
    schedule: Schedule,
    results: Results,
    agenda: Agenda,
    publisher: Publisher,
}

impl Pipeline {
    /// Makes a pipeline whose gate is shut.
    pub fn new(
        policies: Arc<PolicySet>,
        exceptions: Exceptions,
        settings: PipelineSettings,
        mut outputs: Outputs,
    ) -> Self {
        let metrics = &outputs.metrics;
        metrics.limit_namespaces(settings.metrics_namespaces);
        let recording = (Arc::clone(metrics), outputs.delta_recorded.clone());
        let labels = std::mem::take(&mut outputs.labels);
        let objects = WatchedObjects::new(settings.clone(), outputs.packing.clone(), Arc::clone(metrics));
        let results = Results::new(&policies, exceptions, &settings, labels, recording);
        let publisher = Publisher::new(outputs);
        publisher.publish_policies(&policies);
        let schedule = Schedule::new(policies, &settings);
        Self { settings, objects, schedule, results, agenda: Agenda::default(), publisher }
    }

    /// Runs until stopped; with `once` until everything that existed at the start has been evaluated. Returns the whole result.
    pub async fn run(mut self, mut inputs: Inputs, once: bool) -> AuditResult {
        self.objects.selection = inputs.selection.take().or(self.objects.selection.take());
        self.objects.cluster = inputs.cluster.take();
        let mut changes = Vec::with_capacity(CHANGES);
        let mut tick = tokio::time::interval(OVERVIEW_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut changes_open, mut commands_open) = (true, true);
        self.results.recording.note_refused(&self.schedule.policies);
        // A run that ends by itself must not end before it has received what was sent to it before.
        while let Ok(command) = inputs.commands.try_recv() {
            self.execute(command);
        }
        loop {
            let now = Instant::now();
            self.proceed(now);
            let wake = self.dispatch(now);
            let busy = self.is_busy();
            if (once || !changes_open || !self.publisher.evaluated) && self.objects.gate.is_open() && self.is_idle() {
                self.publisher.note_evaluated();
                let has_all = self.objects.gate.waiting_for().next().is_none();
                if !changes_open || (once && has_all && !self.results.await_former_kinds(&self.objects)) {
                    break;
                }
            }
            let has_room = !self.objects.are_streamed() || self.schedule.queue.waiting() < STREAMED;
            tokio::select! {
                Some(batch) = self.schedule.judges.next(), if !busy => match batch {
                    Ok(batch) => batch.into_iter().for_each(|evaluated| self.evaluated(evaluated)),
                    // Panics are caught for each object; what comes here is the runtime shutting down.
                    Err(failed) => error!(%failed, "An evaluation thread died"),
                },
                Some(updated) = self.schedule.inventory.updated(), if !busy => self.inventory_updated(updated),
                Some(key) = self.schedule.retries.next(), if !busy => {
                    self.schedule.evaluate_soon(&self.objects, key, QueuePriority::Bulk, Instant::now());
                }
                count = inputs.changes.recv_many(&mut changes, CHANGES), if changes_open && !busy && has_room => {
                    self.agenda.received.extend(changes.drain(..));
                    // The sources are done (files): only running evaluations are waited for.
                    changes_open = count > 0;
                    if !changes_open && !self.end_sources() {
                        error!("The sources ended before everything was read");
                        break;
                    }
                }
                command = inputs.commands.recv(), if commands_open && self.agenda.held.is_none() => match command {
                    Some(command @ (Command::Result(_) | Command::Standing(_))) => self.execute(command),
                    Some(command) => self.agenda.held = Some(command),
                    None => commands_open = false,
                },
                () = until(wake), if wake.is_some() => {}
                () = tokio::task::yield_now(), if busy => {}
                _ = tick.tick() => self.tick(),
                () = inputs.stop.cancelled() => break,
            }
        }
        self.finish(Instant::now());
        self.tick();
        let mut result = self.result();
        result.sort();
        result
    }

    /// Notes that the sources have ended; returns whether the gate is open, so that everything was read.
    fn end_sources(&mut self) -> bool {
        self.objects.sources_ended = true;
        self.schedule.note_lookups_changed();
        self.objects.gate.is_open() || self.try_open(Instant::now())
    }

    /// Continues with a new state of the inventory.
    fn inventory_updated(&mut self, updated: Updated) {
        self.publisher.outputs.metrics.inventory_updated(updated.took);
        self.publisher.note_changed();
        self.schedule.inventory_updated(updated, &mut self.agenda, Instant::now());
    }

    /// Opens the gate if it is time, and publishes in any case.
    fn tick(&mut self) {
        let progress = self.objects.gate.progress();
        self.try_open(Instant::now());
        // Kinds may have been given up on.
        if self.objects.gate.progress() != progress {
            self.schedule.note_lookups_changed();
        }
        if let Some(work) = self.results.excuse_after_expiry() {
            self.publisher.note_changed();
            self.agenda.add(work);
        }
        if self.results.tick(ResultContext { objects: &self.objects, schedule: &self.schedule }) {
            self.publisher.note_changed();
        }
        if self.is_idle() {
            self.schedule.shrink();
            self.results.ledger.shrink();
        }
        self.publisher.publish(&self.objects, &self.schedule, &mut self.results);
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Result(ResultQuery { known, answer }) => {
                let (revision, changed) = (self.publisher.revision, self.objects.last_change);
                let is_newer = known != Some(revision);
                let snapshot = is_newer.then(|| Snapshot { revision, changed, result: self.result() });
                // The receiver may have been dropped.
                let _unheard = answer.send(snapshot);
            }
            Command::Standing(answer) => {
                let _unheard = answer.send(self.objects.gate.is_open().then(|| self.results.ledger.open_violations()));
            }
            Command::Reload(reload) => self.reload(reload),
            Command::Except(loaded) => {
                self.publisher.note_changed();
                self.results.reload_exceptions(loaded);
                self.agenda.add(self.results.excuse_again(|_| true));
            }
            Command::Record(term) => {
                self.publisher.note_changed();
                let context = ResultContext { objects: &self.objects, schedule: &self.schedule };
                if self.results.turn(context, term, self.settings.shard) {
                    self.publisher.outputs.metrics.recording_began();
                }
            }
        }
    }

    /// Puts new policies in force, or notes why those before stay in force.
    fn reload(&mut self, reload: Reload) {
        self.publisher.note_changed();
        self.publisher.outputs.metrics.policies_reloaded(reload.is_ok());
        match reload {
            Err(why) => {
                error!("The policies could not be loaded; those loaded before stay in force:\n{why}");
                self.schedule.policies.error = Some(why);
            }
            Ok(set) => {
                info!(rules = set.rules(), digest = %set.digest, "Policies loaded");
                let same = set.digest == self.schedule.policies.set.digest;
                self.publisher.publish_policies(&set);
                self.results.replace_policies(&set, same);
                if same {
                    self.schedule.policies.replace(set);
                } else {
                    self.schedule.replace_policies(set);
                    let objects = ObjectKeys::of(&self.objects.cache, self.objects.evaluated_scopes());
                    self.agenda.look(Purpose::Renew, objects);
                }
            }
        }
        self.results.recording.note_refused(&self.schedule.policies);
    }

    /// Whether something came in that is not processed yet.
    fn is_busy(&self) -> bool {
        !self.agenda.is_empty() || self.results.have_changed_exceptions()
    }

    /// Whether nothing waits to be evaluated, or is on its way to make something wait.
    fn is_idle(&self) -> bool {
        !self.is_busy() && self.schedule.is_idle()
    }

    /// Starts the evaluation of waiting objects, unless something came in that is not processed yet; returns when to call again.
    fn dispatch(&mut self, now: Instant) -> Option<Instant> {
        let wake = if self.objects.gate.is_open() && !self.is_busy() {
            self.schedule.look_after_dependents(&self.objects, &mut self.agenda, now)
        } else {
            None
        };
        if !self.is_busy() {
            for key in self.schedule.dispatch(&self.objects) {
                let context = ResultContext { objects: &self.objects, schedule: &self.schedule };
                self.results.resolve_unevaluated(context, &key);
            }
        }
        wake
    }

    /// Enters a verdict into the ledger and records what it changed.
    fn evaluated(&mut self, Evaluated { mut verdict, state, deleted }: Evaluated) {
        let (queued, is_present) = self.schedule.take_evaluated(&self.objects, &verdict, deleted);
        self.publisher.note_changed();
        self.publisher.count(&verdict, queued.filter(|_| is_present));
        let span = if self.objects.are_streamed() { Span::default() } else { trace(&verdict, queued) };
        self.results.excuse(&self.objects, &mut verdict);
        self.results.withhold(&self.objects, &mut verdict);
        self.schedule.leave_undecided(&self.objects, &mut verdict);
        if is_present {
            self.results.check_room(&self.objects, &mut verdict);
            self.schedule.retries.note(&verdict.key, verdict.unfinished);
        }
        if self.objects.are_streamed() {
            // Manifests have no uid, and no owners.
            if is_present && verdict.results.is_empty() && verdict.uid.is_empty() {
                self.objects.cache.drop_object(&verdict.key);
                return self.results.ledger.record_clean(&verdict.passed);
            }
            self.objects.cache.drop_body(&verdict.key);
        }
        self.schedule.note_evaluated(&verdict.key);
        if !is_present {
            return self.results.enter_transitions(verdict, queued);
        }
        // Changes since the object was taken that did not queue it again concern nothing that a policy reads.
        let is_queued = self.schedule.queue.has(&verdict.key);
        let state = if is_queued { state } else { self.objects.cache.state(&verdict.key) };
        let context = ResultContext { objects: &self.objects, schedule: &self.schedule };
        self.results.enter(context, verdict, state, (queued, span));
    }
}

/// Traces a change from the watch to its verdict; returns the span that the writes which follow belong to.
fn trace(verdict: &Verdict, queued: Option<Queued>) -> Span {
    let Some(queued) = queued.filter(|queued| queued.priority == QueuePriority::Change) else { return Span::default() };
    let span = Span::since("change", queued.since);
    span.set(|| {
        let ObjectKey { kind, namespace, name, .. } = &verdict.key;
        [
            ("kaudit.object.kind", kind.kind.clone().into()),
            ("k8s.namespace.name", namespace.as_deref().unwrap_or_default().to_owned().into()),
            ("kaudit.object.name", name.to_string().into()),
            ("kaudit.results", count(verdict.results.len())),
        ]
    });
    span.add_child("judge", verdict.took);
    span.end();
    span
}

/// Sleeps until an instant, if there is one.
async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
