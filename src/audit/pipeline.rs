//! The pipeline: the one owner of cache, gate, queue and ledger.
//!
//! In: what the sources say, new policies, questions. Out: deltas for the recorders, a summary for the status, and in
//! the end the whole result. It never waits for anything but its own inputs: judging happens on blocking threads,
//! recorders take what they can and count the rest.
//!
//! An object is judged when it changed ([`judging`]), or something that its verdict depends on ([`dependents`]).

mod dependents;
mod inventory;
mod judging;
mod overview;
mod recording;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use self::{
    dependents::{Clock, Traits},
    inventory::Stock,
};
use crate::{
    audit::{
        cache::{Cache, Effect},
        gate::Gate,
        ledger::{Delta, Ledger},
        queue::{Lane, Queue},
        recorded::Recorded,
        result::{AuditResult, Summary},
    },
    judge::set::PolicySet,
    metrics::Metrics,
    model::{
        coverage::Coverage,
        object::{Object, ObjectKey},
        shard::Shard,
        verdict::Verdict,
    },
    rego::problem::LoadError,
    source::change::{Change, WatchScope},
};

/// What becomes of the objects that are there at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// They are judged when the gate opens.
    Judge,
    /// They are the base line: only what changes later is judged.
    Skip,
    /// Each is judged when it comes, and only its verdict is kept: for sources that end, where no verdict depends on another
    /// object.
    Pass,
}

/// Where the pipeline stands, for readiness and progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The gate is open.
    pub open: bool,
    /// Watch scopes complete or given up on.
    pub scopes_done: usize,
    /// Watch scopes expected so far.
    pub scopes: usize,
    /// The first few of those that the gate still waits for.
    pub waiting_for: Vec<String>,
    /// Objects that wait to be judged.
    pub queue: usize,
}

/// Counts and coverage, for the `Audit` object; cheap compared to the whole result.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Whether the gate is open.
    pub synced: bool,
    /// Whether all that is in scope is known and every policy ran.
    pub complete: bool,
    /// Counts.
    pub summary: Summary,
    /// What is covered.
    pub coverage: Vec<Coverage>,
    /// The policies in force.
    pub policies: Arc<PolicySet>,
    /// Fail, warn and error of each policy.
    pub by_policy: BTreeMap<Arc<str>, [usize; 3]>,
    /// Why the newest policies are not in force, if they are not.
    pub policy_error: Option<LoadError>,
    /// Why policies cannot look other objects up; empty if they can.
    pub inventory_error: String,
}

/// A new state of the policy directory.
pub type Reload = Result<Arc<PolicySet>, LoadError>;

/// Takes what is to be recorded. Never blocks: says itself what it does when it cannot keep up.
pub trait Record: Send {
    /// Takes what changed of an object.
    fn record(&mut self, delta: &Delta);

    /// Takes a note that policies are refused.
    fn policies_refused(&mut self, note: &str);
}

/// A change of who records. Judging goes on in any case; deltas are told within a term only.
pub enum Term {
    /// This process records from now on: what was recorded before, and what takes the deltas.
    Begin(Recorded, Box<dyn Record>),
    /// It does so no more.
    End,
}

/// What goes into a pipeline.
pub struct Inputs {
    /// From the sources.
    pub changes: mpsc::Receiver<Change>,
    /// Whoever wants the whole result.
    pub questions: mpsc::Receiver<oneshot::Sender<AuditResult>>,
    /// From the policy directory.
    pub reloads: mpsc::Receiver<Reload>,
    /// From whoever decides who records.
    pub terms: mpsc::Receiver<Term>,
    /// Ends the run.
    pub stop: CancellationToken,
}

/// What a pipeline tells while it runs.
pub struct Outputs {
    /// What was recorded before, if a term begins with the run.
    pub recorded: Recorded,
    /// Takes each delta from the start; `None` until a term begins.
    pub record: Option<Box<dyn Record>>,
    /// How far it is.
    pub progress: watch::Sender<Progress>,
    /// The policies in force, for a source that reads only what they judge.
    pub policies: watch::Sender<Arc<PolicySet>>,
    /// The overview, at most every [`OVERVIEW_EVERY`].
    pub overview: watch::Sender<Option<Arc<Overview>>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// How often the overview is drawn up, if anything changed.
const OVERVIEW_EVERY: Duration = Duration::from_millis(500);
/// Objects that wait to be judged before the source is made to wait; see [`Initial::Pass`].
const WAITING: usize = 256;

/// How a pipeline works.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// What becomes of the objects that are there at the start.
    pub initial: Initial,
    /// How long the first list of a watch scope may take.
    pub sync_timeout: Duration,
    /// How often objects are judged again whose verdicts depend on the clock; `None` is never.
    pub rejudge_every: Option<Duration>,
    /// Whether changes that no policy can see are left unjudged. Off only to prove that it makes no difference.
    pub update_filter: bool,
    /// What of all objects is judged and told of.
    pub shard: Shard,
}

/// See the module.
pub struct Pipeline {
    settings: Settings,
    cache: Cache,
    gate: Gate,
    queue: Queue,
    ledger: Ledger,
    /// The policies as they were loaded.
    policies: Arc<PolicySet>,
    policy_error: Option<LoadError>,
    /// What was found out of kinds under these policies.
    traits: Traits,
    /// Other objects that policies look up, and the policies with them.
    stock: Stock,
    clock: Clock,
    /// Watch scopes of which a list is under way: what it brings happened some time ago, so no change is made of it.
    listing: HashSet<WatchScope>,
    /// For policies that look at changes: the state before the oldest change that was not judged yet.
    before: HashMap<ObjectKey, Object>,
    /// For the same policies: the last state of objects that were deleted.
    departed: VecDeque<Object>,
    /// Objects of the base line that have not changed since; see [`Initial::Skip`].
    baseline: HashSet<ObjectKey>,
    /// Watch scopes of the first discovery; their first list is the base line.
    first_scopes: HashSet<WatchScope>,
    judges: JoinSet<Vec<(Verdict, Judged)>>,
    judges_at_most: usize,
    outputs: Outputs,
    /// What was recorded of kinds that are not known yet.
    recorded: Recorded,
    /// Something changed that the overview shows.
    dirty: bool,
}

/// What a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// The object as it is.
    Present,
    /// Its deletion.
    Deletion,
}

impl Pipeline {
    /// Makes a pipeline whose gate is shut.
    pub fn new(policies: Arc<PolicySet>, settings: Settings, mut outputs: Outputs) -> Self {
        let mut recorded = std::mem::take(&mut outputs.recorded);
        recorded.keep(|namespace| settings.shard.owns(namespace));
        outputs.policies.send_replace(Arc::clone(&policies));
        Self {
            settings,
            cache: if settings.initial == Initial::Pass { Cache::unpacked() } else { Cache::default() },
            gate: Gate::new(settings.sync_timeout),
            queue: Queue::default(),
            ledger: Ledger::default(),
            stock: Stock::new(&policies),
            policies,
            policy_error: None,
            traits: Traits::default(),
            clock: Clock::new(settings.rejudge_every),
            listing: HashSet::new(),
            before: HashMap::new(),
            departed: VecDeque::new(),
            baseline: HashSet::new(),
            first_scopes: HashSet::new(),
            judges: JoinSet::new(),
            judges_at_most: std::thread::available_parallelism().map_or(2, usize::from),
            outputs,
            recorded,
            dirty: true,
        }
    }

    /// Runs until stopped; with `once` until everything that was there has been judged. Returns the whole result.
    pub async fn run(mut self, mut inputs: Inputs, once: bool) -> AuditResult {
        let mut changes = Vec::with_capacity(256);
        let mut tick = tokio::time::interval(OVERVIEW_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut reloads_open, mut changes_open, mut terms_open) = (true, true, true);
        self.tell_refused();
        loop {
            let wake = self.look_after_dependents(Instant::now());
            self.dispatch();
            if (once || !changes_open) && self.gate.is_open() && self.is_idle() {
                break;
            }
            tokio::select! {
                Some(judged) = self.judges.join_next() => match judged {
                    Ok(verdicts) => verdicts.into_iter().for_each(|(verdict, about)| self.judged(verdict, about)),
                    // Evaluation catches panics of its own; what comes here is the runtime going down.
                    Err(failed) => error!(%failed, "A judge died"),
                },
                Some(made) = self.stock.made() => self.restocked(made, Instant::now()),
                count = inputs.changes.recv_many(&mut changes, 256), if changes_open && self.has_room() => {
                    let now = Instant::now();
                    changes.drain(..).for_each(|change| self.take_in(change, now));
                    self.try_open(now);
                    // The sources are done (files): wait for the judges only.
                    changes_open = count > 0;
                    if count == 0 && !self.gate.is_open() {
                        error!("The sources ended before everything was read");
                        break;
                    }
                }
                Some(answer) = inputs.questions.recv() => {
                    // Whoever asked may have gone away.
                    let _unheard = answer.send(self.result());
                }
                reload = inputs.reloads.recv(), if reloads_open => match reload {
                    Some(reload) => self.reload(reload),
                    None => reloads_open = false,
                },
                term = inputs.terms.recv(), if terms_open => match term {
                    Some(term) => self.turn(term),
                    None => terms_open = false,
                },
                () = until(wake), if wake.is_some() => {}
                _ = tick.tick() => self.tick(),
                () = inputs.stop.cancelled() => break,
            }
        }
        self.tick();
        self.result()
    }

    /// Whether nothing waits to be judged, or is on its way to make something wait.
    fn is_idle(&self) -> bool {
        self.queue.is_idle() && self.departed.is_empty() && self.stock.is_current()
    }

    /// Whether more may come in.
    fn has_room(&self) -> bool {
        self.settings.initial != Initial::Pass || self.queue.length() < WAITING
    }

    fn take_in(&mut self, change: Change, now: Instant) {
        self.dirty = true;
        match change {
            Change::Appeared(scope) => {
                if !self.gate.is_open() {
                    self.first_scopes.insert(scope.clone());
                }
                self.cache.add(scope.clone());
                self.gate.appeared(scope, now);
            }
            Change::Vanished(scope) => {
                self.gate.vanished(&scope);
                self.listing.remove(&scope);
                for key in self.cache.drop_scope(&scope) {
                    self.forget(&key, now);
                }
                self.outputs.metrics.remove_kind(&scope.kind.group, &scope.kind.plural);
                self.recall_former_kinds();
            }
            Change::Discovered(discovered) => {
                self.gate.discovered(discovered);
                self.recall_former_kinds();
            }
            Change::Listing(scope) => {
                self.cache.listing(&scope);
                self.gate.listing(&scope);
                self.listing.insert(scope);
            }
            Change::Seen(scope, object) => self.seen(&scope, object, now),
            Change::Gone(scope, object) => {
                if self.cache.gone(&scope, &object.key, &object.uid) {
                    self.forget(&object.key, now);
                    self.departs(&scope, object);
                }
            }
            Change::Skipped(scope, name, why) => {
                match &*scope.kind.plural {
                    "*" => warn!("{name} cannot be read and is not judged: {why}"),
                    kind => warn!(kind, name, why, "An object cannot be read and is not judged"),
                }
                self.outputs.metrics.object_unreadable(&scope.kind.group, &scope.kind.plural);
                self.gate.skipped(&scope, name, why);
            }
            Change::Synced(scope) => self.synced(&scope, now),
            Change::Unreadable(scope, why) => {
                // Said at each attempt, but told when it is new.
                if self.gate.unreadable(&scope, why.clone()) && !why.message.is_empty() {
                    warn!(feed = %scope, state = why.state.as_str(), why = why.message, "Cannot be read, and is not judged until it can");
                }
            }
            Change::Restarted(scope, reason) => {
                self.outputs.metrics.watch_restarted(&scope.kind.group, &scope.kind.plural, reason);
            }
        }
    }

    fn seen(&mut self, scope: &WatchScope, object: Object, now: Instant) {
        let (key, body) = (object.key.clone(), object.body.clone());
        let live = self.gate.lets_through(scope);
        let before = if live { self.cache.object(&key) } else { None };
        let projection = self.cache.projection(&key);
        let effect = self.cache.seen(scope, object);
        if effect == Effect::Same {
            return;
        }
        self.gate.read(scope, &key);
        if effect == Effect::Replaced {
            self.forget(&key, now);
        }
        if self.settings.initial == Initial::Pass {
            return self.queue.push(key, Lane::Snapshot, now);
        }
        if !live {
            return;
        }
        self.others_follow(&key, now);
        if let Some(before) = before.filter(|_| effect == Effect::Changed) {
            if self.is_out_of_sight(&before, projection, &body) {
                return self.outputs.metrics.change_skipped();
            }
            self.changes(scope, before);
        }
        self.baseline.remove(&key);
        self.queue.push(key, Lane::Change, now);
    }

    fn synced(&mut self, scope: &WatchScope, now: Instant) {
        self.listing.remove(scope);
        for key in self.cache.listed(scope) {
            self.forget(&key, now);
        }
        let first = self.gate.synced(scope);
        debug!(feed = %scope, objects = self.cache.len(scope), "Synced");
        if first && self.gate.is_open() {
            self.admit(scope, now);
        }
    }

    fn try_open(&mut self, now: Instant) {
        if !self.gate.try_open(now) {
            return;
        }
        let scopes: Vec<_> = self.gate.joined().cloned().collect();
        let objects: usize = scopes.iter().map(|scope| self.cache.len(scope)).sum();
        info!(feeds = scopes.len(), objects, "Everything is synced; judging begins");
        for scope in &scopes {
            self.admit(scope, now);
        }
        self.recall_former_kinds();
        self.outputs.metrics.set_gate_open(true);
        self.dirty = true;
        self.tick();
    }

    /// Lets the objects of a watch scope be judged, which so far were only kept.
    fn admit(&mut self, scope: &WatchScope, now: Instant) {
        if self.settings.initial == Initial::Pass {
            return;
        }
        self.recall(scope);
        let keys: Vec<_> = self.cache.keys(scope).cloned().collect();
        self.others_follow_all(scope, &keys, now);
        if self.settings.initial == Initial::Skip && self.first_scopes.contains(scope) {
            self.baseline.extend(keys);
        } else {
            self.queue.extend(keys, Lane::Snapshot, now);
        }
    }

    /// Forgets what is known of an object that is gone.
    fn forget(&mut self, key: &ObjectKey, now: Instant) {
        self.queue.forget(key);
        self.baseline.remove(key);
        self.before.remove(key);
        self.others_follow(key, now);
        let delta = self.ledger.forget(key);
        self.tell(delta, Lane::Change);
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
mod model;
#[cfg(test)]
mod tests;
