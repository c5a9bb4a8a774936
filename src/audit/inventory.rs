//! Keeps the inventory in step with the cache: changes are collected, put into it on a blocking thread, and come back as
//! policies that can look up other objects.
//!
//! Invariants: every marked change is in the policies eventually, and then all objects whose results may depend on it are
//! evaluated again. A changed object that depends on the inventory waits until the policies have everything that happened
//! before it, so that no result is about a state that the cluster never had.

use std::{
    any::Any,
    collections::{BTreeSet, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tracing::error;

use super::{
    panics::panic_text,
    queue::{QueuePriority, Queued},
    rounds::{Rounds, Touched},
};
use crate::{
    blocking::{spawn_blocking, spawn_blocking_in},
    judge::{
        depth,
        dialects::kubescape::arrays::Identity,
        evaluate::{with_arrays, with_other_results},
        inventory::Inventory,
        reads::{Projection, lookups::LookupState},
        set::PolicySet,
    },
    model::{
        body::Body,
        object::{Kind, ObjectKey},
    },
    rego::value,
};

/// A change waits this long for others to come with it.
const REST: Duration = Duration::from_millis(100);
/// A change does not wait longer than this, however many come after it.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// An object that changed waits this long for earlier changes that arrive later: each kind has a watch of its own.
const SETTLE: Duration = Duration::from_millis(50);
/// An object that changes again and again does not wait longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long after it was lost an inventory is built again.
const REBUILD: Duration = Duration::from_secs(10);
/// Updates take at most this fraction of the time: one part in four.
const SHARE: u32 = 4;

/// The number of waiting objects for which memory is always kept.
const ROOM: usize = 1_024;

/// The inventory, and the policies with it.
#[derive(Debug)]
pub(crate) struct InventorySync {
    /// `None` while it is being updated.
    inventory: Option<Inventory>,
    /// Objects whose present state is not in it yet; sorted, so that of several manifests with one name the last counts.
    pending: BTreeSet<ObjectKey>,
    /// When the first and the last of them were marked.
    since: Option<(Instant, Instant)>,
    /// No update begins before this.
    not_before: Option<Instant>,
    /// Objects that changed, in the order in which they did.
    waiting: VecDeque<Waiting>,
    /// Objects that wait for the first list of kinds that their policies look up.
    awaiting: Vec<(ObjectKey, Queued)>,
    /// The keys of both, with the time when everything that happened before their last change has arrived: nothing else
    /// queues them meanwhile.
    waiting_keys: HashMap<ObjectKey, Instant>,
    /// Which kinds have been read; the next update puts that into the policies.
    lookups: Arc<LookupState>,
    /// Whether the policies do not have it yet.
    lookups_pending: bool,
    /// Which kinds had been read when the last update began: the policies have the objects of these.
    lookups_in_force: Arc<LookupState>,
    pub(crate) rounds: Rounds,
    /// Objects with a verdict since the running update began: it may be about the state before.
    judged: BTreeSet<ObjectKey>,
    /// The policies with the inventory; `None` before the first update.
    policies: Option<Arc<PolicySet>>,
    /// Counts resets: an update that began before the last reset is dropped.
    generation: u64,
    updating: JoinSet<Updated>,
    /// Why the last update failed; empty if it did not.
    pub(crate) problem: String,
    /// What an update does; another function in tests.
    pub(crate) run: fn(Update, Vec<ObjectState>, bool) -> Updated,
}

/// An object that changed, and waits for the inventory.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) key: ObjectKey,
    pub(crate) queued: Queued,
    /// When everything that happened before has arrived.
    settled: Instant,
}

/// A new state of the inventory.
#[derive(Debug)]
pub(crate) struct Updated {
    /// `None` if it was lost.
    inventory: Option<Inventory>,
    /// The policies with it; or, if the update was lost, the policies as they were loaded, and why.
    policies: Result<Arc<PolicySet>, (Arc<PolicySet>, String)>,
    /// The objects whose results may change.
    touched: Touched,
    generation: u64,
    /// Which kinds had been read when the update began.
    lookups: Arc<LookupState>,
    /// When the update began: it has everything that was marked before.
    began: Instant,
    /// How long it took to put the objects in.
    pub(crate) took: Duration,
    /// How long it took beyond that to evaluate the rules that relate objects.
    evaluated: Duration,
}

/// An object and its present state; `None` if it was deleted.
pub(crate) type ObjectState = (ObjectKey, Option<Body>);

impl InventorySync {
    /// Makes an empty inventory for these policies.
    pub(crate) fn new(policies: &Arc<PolicySet>) -> Self {
        let mut sync = Self {
            inventory: None,
            pending: BTreeSet::new(),
            since: None,
            not_before: None,
            waiting: VecDeque::new(),
            awaiting: Vec::new(),
            waiting_keys: HashMap::new(),
            lookups: Arc::default(),
            lookups_in_force: Arc::default(),
            lookups_pending: false,
            rounds: Rounds::default(),
            judged: BTreeSet::new(),
            policies: None,
            generation: 0,
            updating: JoinSet::new(),
            problem: String::new(),
            run: Update::run,
        };
        sync.reset(policies);
        sync
    }

    /// Empties the inventory for other policies, which may look up other kinds.
    pub(crate) fn reset(&mut self, policies: &Arc<PolicySet>) {
        self.generation += 1;
        self.inventory = Some(Inventory::default());
        self.pending.clear();
        self.since = None;
        self.not_before = None;
        self.rounds = Rounds::default();
        self.judged.clear();
        self.policies = (policies.inventory_reads().is_empty()).then(|| Arc::clone(policies));
    }

    /// Returns the policies to evaluate with, once they have the objects that they look up.
    pub(crate) fn policies(&self) -> Option<Arc<PolicySet>> {
        self.policies.clone()
    }

    /// Whether the policies have everything that was marked, and no object waits for that any longer.
    pub(crate) fn is_current(&self) -> bool {
        self.has_everything() && self.waiting_keys.is_empty() && self.rounds.wanted.is_nothing()
    }

    fn has_everything(&self) -> bool {
        self.policies.is_some() && self.pending.is_empty() && !self.lookups_pending && self.updating.is_empty()
    }

    /// Lets a changed object wait whose policies look up others. Returns it if it need not wait.
    pub(crate) fn wait(&mut self, key: ObjectKey, priority: QueuePriority, now: Instant) -> Option<ObjectKey> {
        let is_change = priority == QueuePriority::Change;
        if let Some(settled) = self.waiting_keys.get_mut(&key) {
            if is_change {
                *settled = now + SETTLE;
            }
            return None;
        }
        if !is_change && (self.has_everything() || self.policies.is_none()) {
            return Some(key);
        }
        let settled = if is_change { now + SETTLE } else { now };
        self.park(key, Queued { since: now, priority }, settled);
        None
    }

    /// Lets an object wait for the first state of the inventory, or for kinds that are being read.
    pub(crate) fn wait_for_policies(&mut self, key: ObjectKey, queued: Queued, for_kinds: bool) {
        if self.waits(&key) {
            return;
        }
        if for_kinds {
            self.waiting_keys.insert(key.clone(), queued.since);
            self.awaiting.push((key, queued));
        } else {
            self.park(key, queued, queued.since);
        }
    }

    /// Sets which kinds have been read.
    pub(crate) fn set_lookups(&mut self, lookups: LookupState) {
        if *self.lookups == lookups {
            return;
        }
        self.lookups = Arc::new(lookups);
        self.lookups_pending = true;
        for (key, queued) in std::mem::take(&mut self.awaiting) {
            let settled = self.waiting_keys.get(&key).copied().unwrap_or(queued.since);
            self.park(key, queued, settled);
        }
    }

    /// Whether policies look up kinds that are being read when they evaluate objects of a kind.
    pub(crate) fn awaits_kinds(&self, policies: &PolicySet, kind: &Kind) -> bool {
        self.lookups.awaits_any() && policies.awaits(&self.lookups, kind)
    }

    /// Whether they look up kinds that had not been read when the last update began, so that they lack objects of these.
    pub(crate) fn lacks_kinds(&self, policies: &PolicySet, kind: &Kind) -> bool {
        self.lookups_in_force.awaits_any() && policies.awaits(&self.lookups_in_force, kind)
    }

    fn park(&mut self, key: ObjectKey, queued: Queued, settled: Instant) {
        self.waiting_keys.insert(key.clone(), settled);
        self.waiting.push_back(Waiting { key, queued, settled });
    }

    /// Whether an object waits, so that it need not be queued by others.
    pub(crate) fn waits(&self, key: &ObjectKey) -> bool {
        self.waiting_keys.contains_key(key)
    }

    /// Removes and returns the objects that need not wait any longer, because everything before them is in the policies.
    pub(crate) fn settled(&mut self, now: Instant) -> Vec<Waiting> {
        if self.has_everything() { self.release(now) } else { Vec::new() }
    }

    /// Removes and returns the objects that had settled by a time. One that changed while it waited waits for what happened
    /// before its last change, but not for ever.
    fn release(&mut self, by: Instant) -> Vec<Waiting> {
        let settled = self.waiting.iter().take_while(|waiting| waiting.settled <= by).count();
        let mut released = Vec::with_capacity(settled);
        for waiting in self.waiting.drain(..settled).collect::<Vec<_>>() {
            let last = self.waiting_keys.get(&waiting.key).copied().filter(|last| *last > by);
            let last = last.filter(|last| last.duration_since(waiting.queued.since) < LONGEST_WAIT);
            if let Some(last) = last {
                self.waiting.push_back(Waiting { settled: last, ..waiting });
            } else {
                self.waiting_keys.remove(&waiting.key);
                released.push(waiting);
            }
        }
        released
    }

    /// Gives back the memory of objects that no longer wait.
    pub(crate) fn shrink(&mut self) {
        self.waiting.shrink_to(ROOM);
        self.waiting_keys.shrink_to(ROOM);
    }

    /// Marks an object that changed, was created or was deleted.
    pub(crate) fn mark(&mut self, key: &ObjectKey, now: Instant) {
        self.pending.insert(key.clone());
        let first = self.since.map_or(now, |(first, _)| first);
        self.since = Some((first, now));
    }

    /// Returns when the next update is due, if there is anything to update.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        if !self.updating.is_empty() {
            return None;
        }
        if self.policies.is_none() {
            // Nothing can be evaluated until then.
            return Some(now);
        }
        if self.lookups_pending {
            return Some(self.not_before.map_or(now, |not_before| not_before.max(now)));
        }
        let (first, last) = self.since?;
        let rested = (last + REST).min(first + LONGEST_REST);
        let due = self.waiting.front().map(|waiting| waiting.settled).map_or(rested, |settled| settled.min(rested));
        Some(self.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// Returns when to call again: an update is due, or waiting objects have settled, or a round is due.
    pub(crate) fn wake(&self, now: Instant) -> Option<Instant> {
        let settled = self.waiting.front().map(|waiting| waiting.settled).filter(|_| self.has_everything());
        self.due(now).into_iter().chain(settled).chain(self.rounds.due(now)).min()
    }

    /// Starts over with an empty inventory if an update was lost; until it is built, the policies keep what they have. Returns
    /// whether everything has to be marked.
    pub(crate) fn rebuild(&mut self, now: Instant) -> bool {
        let lost = self.inventory.is_none() && self.updating.is_empty();
        if lost {
            self.inventory = Some(Inventory::default());
            self.not_before = Some(now + REBUILD);
        }
        lost
    }

    /// Removes and returns the objects that were marked.
    pub(crate) fn take_pending(&mut self) -> BTreeSet<ObjectKey> {
        self.since = None;
        std::mem::take(&mut self.pending)
    }

    /// Begins an update with these states: with `all` of them, or only with those in which policies can see a change.
    /// Reading a state takes some 30 µs.
    pub(crate) fn update(&mut self, policies: &Arc<PolicySet>, states: Vec<ObjectState>, all: bool, now: Instant) {
        let update = Update {
            inventory: self.inventory.take().unwrap_or_default(),
            policies: Arc::clone(policies),
            present: self.policies.clone(),
            generation: self.generation,
            began: now,
            lookups: Arc::clone(&self.lookups),
        };
        self.lookups_pending = false;
        let run = self.run;
        spawn_blocking_in(&mut self.updating, move || {
            let (policies, generation, lookups) =
                (Arc::clone(&update.policies), update.generation, Arc::clone(&update.lookups));
            let updated = catch_unwind(AssertUnwindSafe(|| run(update, states, all)));
            updated.unwrap_or_else(|panic| Updated::lost(policies, generation, lookups, now, &panic))
        });
    }

    /// Waits for the running update; `None` if there is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn updated(&mut self) -> Option<Updated> {
        // Panics are caught inside; what else comes here is the runtime shutting down.
        self.updating.join_next().await?.ok()
    }

    /// Notes that there is a verdict about an object whose policies look up others.
    pub(crate) fn note_evaluated(&mut self, key: &ObjectKey) {
        if !self.updating.is_empty() {
            self.judged.insert(key.clone());
        }
    }

    /// Accepts an update, while the objects in `judging` are being evaluated with the state before; returns those that need not
    /// wait for it any longer.
    pub(crate) fn accept(&mut self, updated: Updated, judging: Vec<ObjectKey>, now: Instant) -> Vec<Waiting> {
        let judged = std::mem::take(&mut self.judged);
        if updated.generation != self.generation {
            return Vec::new();
        }
        self.not_before = Some(now + updated.took * SHARE + updated.evaluated);
        self.lookups_in_force = updated.lookups;
        self.inventory = updated.inventory;
        let policies = match updated.policies {
            Ok(policies) => {
                self.problem.clear();
                policies
            }
            Err((policies, why)) => {
                error!("Policies cannot look other objects up: {why}");
                self.problem = format!("policies cannot look other objects up: {why}");
                // Policies that look up nothing are evaluated all the same; the audit is not complete.
                self.policies.take().unwrap_or(policies)
            }
        };
        if let Some(old) = self.policies.replace(Arc::clone(&policies)) {
            if !Arc::ptr_eq(&old, &policies) {
                let objects = judged.into_iter().chain(judging).collect();
                self.rounds.wanted.add(Touched { objects, ..Touched::default() });
            }
            // Dropping it takes milliseconds.
            drop(spawn_blocking(move || drop(old)));
            self.rounds.wanted.add(updated.touched);
        }
        // Before the first state nothing was evaluated, so every verdict is based on it.
        self.release(updated.began)
    }
}

impl Updated {
    /// Returns the outcome of an update that panicked.
    fn lost(
        policies: Arc<PolicySet>,
        generation: u64,
        lookups: Arc<LookupState>,
        began: Instant,
        panic: &(dyn Any + Send),
    ) -> Self {
        let why = format!("kaudit failed on the objects, which is a bug: {}", panic_text(panic));
        Self {
            inventory: None,
            policies: Err((policies, why)),
            touched: Touched::default(),
            generation,
            lookups,
            began,
            took: began.elapsed(),
            evaluated: Duration::ZERO,
        }
    }
}

/// The work of one update.
pub(crate) struct Update {
    inventory: Inventory,
    /// The policies as they were loaded.
    policies: Arc<PolicySet>,
    /// The policies with the last state.
    present: Option<Arc<PolicySet>>,
    generation: u64,
    began: Instant,
    /// Which kinds have been read.
    lookups: Arc<LookupState>,
}

impl Update {
    pub(crate) fn run(mut self, states: Vec<ObjectState>, all: bool) -> Updated {
        let mut changed = self.inventory.set_lookups(Arc::clone(&self.lookups));
        let mut touched = Touched { all: all || changed, ..Touched::default() };
        let mut projections: HashMap<(Arc<Kind>, bool), Option<Projection>> = HashMap::new();
        for (key, body) in states {
            let json = body.as_ref().and_then(|body| body.json().ok());
            let known = (Arc::clone(&key.kind), key.namespace.is_some());
            let projection =
                projections.entry(known).or_insert_with(|| self.policies.inventory_reads().of(&key.as_placed()));
            let hash = projection.as_ref().zip(json.as_ref()).and_then(|(projection, json)| projection.hash(json));
            if !all && hash.is_some_and(|hash| self.inventory.is_seen_as(&key, hash)) {
                continue;
            }
            self.inventory.note_seen(&key, hash);
            // An object that cannot be parsed has an error as its result; it cannot be looked up.
            let object = json.and_then(|json| {
                let read = |json: &[u8]| match &*projection {
                    Some(projection) if !all => projection.read(json),
                    _ => value::from_json(json),
                };
                depth::shallow(&json, read).ok()
            });
            let object = object.map(|(object, _)| object);
            if self.inventory.put(&key, object.as_ref()) {
                changed = true;
                if self.policies.inventory_reads().reach_below_data(&key.as_placed()) {
                    touched.places.insert((key.kind, key.namespace));
                }
            }
        }
        touched.all |= self.inventory.take_replaced_plural();
        if !changed {
            touched = Touched::default();
        }
        let policies = match &self.present {
            Some(present) if !changed => Arc::clone(present),
            present => {
                let policies = self.policies.with_objects(&self.inventory);
                Arc::new(with_arrays(policies, &self.inventory, present.as_deref()))
            }
        };
        let took = self.began.elapsed();
        if touched.all {
            touched = Touched::all();
        } else if changed {
            touched.objects = in_arrays(&policies, &self.inventory);
        }
        let Self { inventory, generation, began, lookups, .. } = self;
        let evaluated = began.elapsed().saturating_sub(took);
        Updated {
            inventory: Some(inventory),
            policies: Ok(policies),
            touched,
            generation,
            lookups,
            began,
            took,
            evaluated,
        }
    }
}

/// Returns the objects for which rules that relate objects have different results now.
fn in_arrays(policies: &PolicySet, inventory: &Inventory) -> BTreeSet<ObjectKey> {
    let key = |identity: Identity| {
        let Identity { api_version, kind, namespace, name } = identity;
        let kind = Arc::clone(inventory.kinds().get(&(api_version.to_string(), kind.to_string()))?);
        Some(ObjectKey { kind, namespace, name, copy: 0 })
    };
    with_other_results(policies).into_iter().filter_map(key).collect()
}

#[cfg(test)]
mod tests;
