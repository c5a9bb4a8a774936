//! The pipeline: the one owner of cache, gate, queue and ledger.
//!
//! In: what the sources say, and commands. Out: deltas for the recorders, an overview for the status, and in the end the
//! whole result. It waits for nothing but its own inputs: judging happens on blocking threads, recorders take what they
//! can and count the rest.
//!
//! An object is judged when it changed ([`judging`]), or something that its verdict depends on did ([`dependents`]). What
//! concerns many of them is done in parts ([`turns`]).

mod dependents;
mod excusing;
mod judging;
mod lookups;
mod owners;
mod publishing;
mod terms;
mod turns;
mod versions;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::{
    cache::{Cache, Effect},
    clock::Clock,
    command::{Command, ResultQuery, Snapshot},
    exceptions::Exceptions,
    gate::Gate,
    inventory::InventorySync,
    judges::Judges,
    ledger::Ledger,
    memory::MemoryBounds,
    overview::{Overview, Progress},
    owned::OwnedObjects,
    phases::Phases,
    policies::Policies,
    queue::{Queue, QueuePriority},
    recording::Recording,
    result::AuditResult,
    retries::Retries,
    transitions::Transitions,
    unchanged::Unchanged,
    work::{Agenda, Objects, Purpose, TURN, Work},
};
use crate::{
    cluster::identity::is_exception,
    judge::set::PolicySet,
    metrics::Metrics,
    model::{
        body::Packing,
        object::{Object, ObjectKey},
        shard::Shard,
    },
    source::{
        change::{Change, InFlight, WatchScope},
        selection::Selection,
    },
};

/// What becomes of the objects that are there at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialObjects {
    /// They are judged when the gate opens.
    Judge,
    /// They are judged when they change.
    Skip,
    /// Each is judged as it comes and dropped afterwards: for sources that end, under policies that judge each object by
    /// itself.
    Stream,
}

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
}

/// What a pipeline publishes while it runs.
pub struct Outputs {
    /// How far it is.
    pub progress: watch::Sender<Progress>,
    /// The overview, at most every [`OVERVIEW_EVERY`].
    pub overview: watch::Sender<Option<Arc<Overview>>>,
    /// Sent to whenever what is told has changed, at once and each time.
    pub told: watch::Sender<()>,
    /// The policies in force, as they were loaded.
    pub policies: watch::Sender<Arc<PolicySet>>,
    /// Compresses objects for the pipeline's cache, which trains the dictionary.
    pub packing: Packing,
    /// Bounds the bytes of the changes that are not applied yet.
    pub in_flight: InFlight,
    /// The keys of the labels that deltas tell of their objects.
    pub labels: BTreeSet<String>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// How often the overview is drawn up, if anything changed.
const OVERVIEW_EVERY: Duration = Duration::from_millis(500);
/// Objects that wait to be evaluated before the source is made to wait; see [`InitialObjects::Stream`].
const STREAMED: usize = 256;
/// Changes that are taken in one go.
const CHANGES: usize = 256;

/// How a pipeline works.
#[derive(Debug, Clone, Copy)]
pub struct PipelineSettings {
    /// What becomes of the objects that are there at the start.
    pub initial: InitialObjects,
    /// How long the first list of a scope may make no progress.
    pub sync_timeout: Duration,
    /// How often objects are judged again whose verdicts depend on the clock; `None` is never.
    pub rejudge_every: Option<Duration>,
    /// Whether changes that no policy can see are left unjudged. Off only to prove that it makes no difference.
    pub update_filter: bool,
    /// Which objects are judged and recorded.
    pub shard: Shard,
    /// Whether a violation that an owner shares is listed and reported at the owner only.
    pub roll_up: bool,
    /// How long it takes until a violation that an owner covered is reported.
    pub handover: Duration,
    /// How many namespaces metrics show by themselves.
    pub metrics_namespaces: usize,
    /// Whether objects are judged that are over: see [`source::inactive`](crate::source::inactive).
    pub judge_inactive: bool,
    /// The memory that the process may have, in bytes; `None` bounds nothing.
    pub memory: Option<u64>,
}

/// The state of an audit. One task owns it, so nothing in it is locked.
pub struct Pipeline {
    settings: PipelineSettings,
    cache: Cache,
    /// Scopes that are to take the place of others, by the new one.
    successors: HashMap<WatchScope, WatchScope>,
    gate: Gate,
    queue: Queue,
    ledger: Ledger,
    owned: OwnedObjects,
    policies: Policies,
    exceptions: Exceptions,
    /// When the next exception ends, or is pointed at.
    exception_turns: Option<Timestamp>,
    /// The namespaces in which exceptions changed that are not applied to all results yet.
    exceptions_changed: BTreeSet<Option<Arc<str>>>,
    inventory: InventorySync,
    /// What is read of a cluster; `None` for files.
    selection: Option<Selection>,
    /// Whether it may be that other kinds have been read than the inventory knows.
    lookups_changed: bool,
    /// Whether nothing more will be read.
    sources_ended: bool,
    transitions: Transitions,
    unchanged: Unchanged,
    clock: Clock,
    judges: Judges,
    retries: Retries,
    recording: Recording,
    phases: Phases,
    /// Everything that was there at the start has been evaluated.
    evaluated: bool,
    /// Changes that are not applied yet.
    received: VecDeque<Change>,
    /// A command that waits until everything is done that came before.
    held: Option<Command>,
    /// What is left to do.
    work: Agenda,
    /// How many objects are dealt with in one go; fewer in tests.
    turn: usize,
    outputs: Outputs,
    /// When an object was last seen to change.
    changed: Option<Timestamp>,
    /// Grows with each change that the overview or the result shows.
    revision: u64,
    /// The revision that the overview shows.
    published: Option<u64>,
    /// When the metric of watch activity was set last.
    activity_set: Option<Instant>,
}

impl Pipeline {
    /// Makes a pipeline whose gate is shut.
    pub fn new(
        policies: Arc<PolicySet>,
        mut exceptions: Exceptions,
        settings: PipelineSettings,
        outputs: Outputs,
    ) -> Self {
        exceptions.judged_by(&policies);
        outputs.metrics.limit_namespaces(settings.metrics_namespaces);
        let streams = settings.initial == InitialObjects::Stream;
        let mut ledger = Ledger::new(settings.roll_up, settings.metrics_namespaces, settings.handover);
        ledger.judged_by(&policies);
        let mut pipeline = Self {
            settings,
            cache: if streams { Cache::unpacked() } else { Cache::new(outputs.packing.clone()) },
            successors: HashMap::new(),
            gate: Gate::new(settings.sync_timeout),
            queue: Queue::default(),
            ledger,
            owned: OwnedObjects::default(),
            inventory: InventorySync::new(&policies),
            selection: None,
            lookups_changed: true,
            sources_ended: false,
            policies: Policies::new(policies),
            exception_turns: exceptions.next_turn(Timestamp::now()),
            exceptions,
            exceptions_changed: BTreeSet::new(),
            transitions: Transitions::default(),
            unchanged: Unchanged::default(),
            clock: Clock::new(settings.rejudge_every),
            judges: Judges::default(),
            retries: Retries::default(),
            recording: Recording::new(Arc::clone(&outputs.metrics), outputs.told.clone()),
            phases: Phases::begin(),
            evaluated: false,
            received: VecDeque::new(),
            held: None,
            work: Agenda::new(),
            turn: TURN,
            outputs,
            changed: None,
            revision: 0,
            published: None,
            activity_set: None,
        };
        pipeline.publish_policies(&Arc::clone(&pipeline.policies.set));
        pipeline
    }

    /// Runs until stopped; with `once` until everything that was there has been judged. Returns the whole result.
    pub async fn run(mut self, mut inputs: Inputs, once: bool) -> AuditResult {
        self.selection = inputs.selection.take().or(self.selection.take());
        let mut changes = Vec::with_capacity(CHANGES);
        let mut tick = tokio::time::interval(OVERVIEW_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut changes_open, mut commands_open) = (true, true);
        self.publish_refused();
        // A run that ends by itself must not end before it has received what was sent to it before.
        while let Ok(command) = inputs.commands.try_recv() {
            self.execute(command);
        }
        loop {
            let now = Instant::now();
            self.proceed(now);
            let wake = self.look_after_dependents(now);
            self.dispatch();
            let busy = self.is_busy();
            if (once || !changes_open || !self.evaluated) && self.gate.is_open() && self.is_idle() {
                self.phases.judged();
                let was_evaluated = std::mem::replace(&mut self.evaluated, true);
                self.revision += u64::from(!was_evaluated);
                if !changes_open || (once && self.gate.waiting_for().next().is_none() && !self.awaits_former_kinds()) {
                    break;
                }
            }
            tokio::select! {
                Some(judged) = self.judges.next(), if !busy => match judged {
                    Ok(batch) => batch.into_iter().for_each(|judged| self.judged(judged)),
                    // Panics are caught for each object; what comes here is the runtime shutting down.
                    Err(failed) => error!(%failed, "An evaluation thread died"),
                },
                Some(updated) = self.inventory.updated(), if !busy => self.inventory_updated(updated, Instant::now()),
                Some(key) = self.retries.next(), if !busy => self.judge_soon(key, QueuePriority::Bulk, Instant::now()),
                count = inputs.changes.recv_many(&mut changes, CHANGES), if changes_open && !busy && self.has_room() => {
                    self.received.extend(changes.drain(..));
                    // The sources are done (files): only the judges are waited for.
                    changes_open = count > 0;
                    if !changes_open {
                        (self.sources_ended, self.lookups_changed) = (true, true);
                    }
                    if count == 0 && !self.gate.is_open() && !self.try_open(Instant::now()) {
                        error!("The sources ended before everything was read");
                        break;
                    }
                }
                command = inputs.commands.recv(), if commands_open && self.held.is_none() => match command {
                    Some(command @ (Command::Result(_) | Command::Standing(_))) => self.execute(command),
                    Some(command) => self.held = Some(command),
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

    /// Opens the gate if it is time, and publishes in any case.
    fn tick(&mut self) {
        let progress = self.gate.progress();
        self.try_open(Instant::now());
        // Kinds may have been given up on.
        self.lookups_changed |= self.gate.progress() != progress;
        if self.exception_turns.is_some_and(|turn| turn <= Timestamp::now()) {
            self.excuse_again(|_| true);
        }
        for key in self.ledger.end_handovers(Instant::now()) {
            self.revision += 1;
            let delta = self.reconsidered(&key, None);
            self.recording.record(delta);
        }
        for delta in self.ledger.recounted() {
            self.recording.record(Some(delta));
        }
        if self.is_idle() {
            self.shrink();
        }
        self.publish();
    }

    /// Gives back what only many objects at a time need.
    fn shrink(&mut self) {
        self.queue.shrink();
        self.inventory.shrink();
        self.ledger.shrink();
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Result(ResultQuery { known, answer }) => {
                let revision = self.revision;
                let is_newer = known != Some(revision);
                let snapshot = is_newer.then(|| Snapshot { revision, changed: self.changed, result: self.result() });
                // The receiver may have been dropped.
                let _unheard = answer.send(snapshot);
            }
            Command::Standing(answer) => {
                let _unheard = answer.send(self.gate.is_open().then(|| self.ledger.standing()));
            }
            Command::Reload(reload) => self.reload(reload),
            Command::Except(loaded) => self.reload_exceptions(loaded),
            Command::Record(term) => self.turn(term),
        }
    }

    /// Whether nothing waits to be judged, or is on its way to make something wait.
    fn is_idle(&self) -> bool {
        !self.is_busy() && self.queue.is_idle() && self.transitions.deletions() == 0 && self.inventory.is_current()
    }

    /// Whether another change may come in.
    fn has_room(&self) -> bool {
        self.settings.initial != InitialObjects::Stream || self.queue.waiting() < STREAMED
    }

    fn apply(&mut self, change: Change, now: Instant) {
        // Nothing comes of a watch that is quiet.
        self.revision += u64::from(!matches!(change, Change::Quiet(_)));
        self.lookups_changed |= !matches!(change, Change::Quiet(_) | Change::Seen(..) | Change::Gone(..));
        match change {
            Change::Appeared(scope) => {
                if !self.gate.is_open() {
                    self.unchanged.expect(scope.clone());
                }
                self.cache.add(scope.clone());
                self.gate.appeared(scope, now);
            }
            Change::Succeeds(new, old) => {
                self.successors.insert(new, old);
            }
            Change::Vanished(scope) => {
                self.successors.remove(&scope);
                self.vanish(&scope, HashSet::new());
                if !self.cache.has_version_of(&scope) {
                    self.outputs.metrics.remove_kind(&scope.kind.group, &scope.kind.plural);
                }
                self.recall_former_kinds();
            }
            Change::Discovered(discovered) => {
                self.gate.discovered(discovered);
                self.recall_former_kinds();
            }
            Change::Listing(scope) => {
                self.cache.listing(&scope);
                self.gate.listing(&scope, now);
                self.transitions.begin_list(scope);
            }
            Change::Seen(scope, object) => self.seen(&scope, object, now),
            Change::Gone(scope, object) => {
                self.happened(&scope);
                if self.cache.remove(&scope, &object.key, &object.uid) {
                    self.forget(&object.key, &object.uid, now);
                    self.deleted(&scope, object);
                }
            }
            Change::GoneUnread(scope, key) => {
                self.happened(&scope);
                self.gate.readable(&scope, &key);
                if let Some(uid) = self.cache.uid(&key)
                    && self.cache.remove(&scope, &key, &uid)
                {
                    self.forget(&key, &uid, now);
                }
            }
            Change::Skipped(scope, name, why) => self.skipped(&scope, &name, &why),
            Change::Quiet(scope) => self.gate.heard(&scope, Timestamp::now()),
            Change::Synced(scope) => self.synced(&scope),
            Change::Unreadable(scope, why) => {
                // A source says so at each attempt; it is logged when it is new.
                if self.gate.unreadable(&scope, why.clone()) && !why.message.is_empty() {
                    let (feed, state, why) = (scope, why.state.as_str(), why.message);
                    warn!(%feed, state, why, "Cannot be read, and is not checked until it can");
                }
            }
            Change::Restarted(scope, reason) => {
                self.outputs.metrics.watch_restarted(&scope.kind.group, &scope.kind.plural, reason);
            }
        }
    }

    /// Notes that an object is not evaluated, and why. What was found of an earlier state of it stays.
    fn skipped(&mut self, scope: &WatchScope, name: &str, why: &str) {
        self.outputs.metrics.object_unreadable(&scope.kind.group, &scope.kind.plural);
        self.happened(scope);
        if !self.gate.skipped(scope, name, why) {
            return;
        }
        match &*scope.kind.plural {
            "*" => warn!("{name} cannot be read and is not checked: {why}"),
            kind => warn!(kind, name, why, "An object cannot be read and is not checked"),
        }
    }

    /// Whether what is kept of an object may grow from so many bytes to so many.
    ///
    /// # Errors
    /// Why not.
    fn room(&self, key: &ObjectKey, growth: (usize, usize)) -> Result<(), String> {
        let bounds = MemoryBounds::of_process(self.settings.memory);
        bounds.check([self.cache.usage(), self.ledger.usage()], key.namespace.as_ref(), growth)
    }

    fn seen(&mut self, scope: &WatchScope, object: Object, now: Instant) {
        let (key, uid, body, state) =
            (object.key.clone(), Arc::clone(&object.uid), object.body.clone(), object.state());
        let projected = object.projected;
        if let Err(why) = self.room(&key, self.cache.growth(scope, &object)) {
            self.cache.keep(scope, &object);
            return self.skipped(scope, &key.path(), &why);
        }
        let effect = self.cache.apply(scope, object);
        match &effect {
            Effect::Same => return self.gate.heard(scope, Timestamp::now()),
            Effect::Replaced(former) => self.forget(&key, former, now),
            Effect::New => self.gate.progressed(scope, now),
            Effect::Changed(_) => {}
        }
        self.happened(scope);
        self.gate.readable(scope, &key);
        if is_exception(&key.kind) {
            return self.exception_seen(&key);
        }
        if !matches!(effect, Effect::Changed(_)) {
            self.owner_arrived(&uid);
        }
        if self.settings.initial == InitialObjects::Stream {
            return self.queue.push(key, QueuePriority::Bulk, now);
        }
        if !self.gate.lets_through(scope) {
            return;
        }
        let states = if let Effect::Changed(previous) = &effect { Some((previous.body(), &body)) } else { None };
        self.rejudge_dependents(&key, states, now);
        if let Effect::Changed(previous) = effect {
            if previous.controller() != self.cache.controller(&key) {
                self.controller_changed(&key, &uid);
            }
            let select = self.exceptions.select_by_labels() || !self.outputs.labels.is_empty();
            let relabelled = select && previous.body().labels() != body.labels();
            if relabelled {
                self.owner_arrived(&uid);
            }
            let same = !relabelled && previous.inactive() == self.cache.is_inactive(&key);
            if same && self.is_invisible(&key, &previous, &body, projected) {
                self.ledger.holds_for(&key, state);
                return self.outputs.metrics.change_skipped();
            }
            self.changed(scope, previous.into_object(key.clone()));
        }
        self.unchanged.remove(&key);
        self.judge_soon(key, QueuePriority::Change, now);
    }

    /// Notes that something changed.
    fn happened(&mut self, scope: &WatchScope) {
        let now = Timestamp::now();
        self.changed = Some(now);
        self.gate.heard(scope, now);
        self.outputs.metrics.changed(now);
    }

    fn synced(&mut self, scope: &WatchScope) {
        self.gate.heard(scope, Timestamp::now());
        self.transitions.end_list(scope);
        let gone = self.cache.listed(scope);
        self.work.push_back(Work::Forget(Box::new(gone.into_iter())));
        let first = self.gate.synced(scope);
        if let Some(old) = self.successors.remove(scope) {
            self.take_over(scope, &old);
        }
        debug!(feed = %scope, objects = self.cache.len(scope), "Synced");
        if first && self.gate.is_open() {
            self.admit(scope);
            if is_exception(&scope.kind) {
                self.decide_withheld(scope);
            }
        }
    }

    /// Opens the gate if it is time; returns whether it opened just now.
    fn try_open(&mut self, now: Instant) -> bool {
        if !self.gate.try_open(now) {
            return false;
        }
        let scopes: Vec<_> = self.gate.joined().cloned().collect();
        let objects: usize = scopes.iter().map(|scope| self.cache.len(scope)).sum();
        info!(feeds = scopes.len(), objects, "Everything is synced; evaluation begins");
        for scope in &scopes {
            self.admit(scope);
        }
        self.recall_former_kinds();
        self.phases.synced();
        self.outputs.metrics.set_gate_open(true);
        self.revision += 1;
        true
    }

    /// Lets the objects of a scope be judged, which until now were only kept.
    fn admit(&mut self, scope: &WatchScope) {
        if self.settings.initial == InitialObjects::Stream || is_exception(&scope.kind) {
            return;
        }
        if !self.evaluates(&scope.kind) {
            return self.look(Purpose::Mark, Objects::of(&self.cache, [scope.clone()]));
        }
        self.recall(scope);
        // A scope that took the place of another knows already which of its objects have not changed.
        let skipped = self.settings.initial == InitialObjects::Skip && self.unchanged.covers(scope);
        let purpose = if skipped { Purpose::Skip } else { Purpose::Admit };
        self.look(purpose, Objects::of(&self.cache, [scope.clone()]));
        if scope.kind.is("", "Namespace") {
            self.judge_again(None, |depends| depends.namespace, Purpose::Judge);
        }
    }

    /// Forgets what is on its way for a key that no longer stands for an object.
    fn leave(&mut self, key: &ObjectKey, now: Instant) {
        self.queue.forget(key);
        self.unchanged.remove(key);
        self.transitions.take_previous(key);
        self.retries.note(key, false);
        self.rejudge_dependents(key, None, now);
    }

    /// Forgets everything about an object that is gone.
    fn forget(&mut self, key: &ObjectKey, uid: &str, now: Instant) {
        self.leave(key, now);
        self.owned.unlink(key);
        let delta = self.ledger.forget(key);
        self.recording.record(delta);
        self.reconsider_dependents(key, uid);
        self.exception_gone(key);
    }
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
