//! Keeps the inventory in step with the cache: changes are collected, put in on a blocking thread, and come back as
//! policies that can look other objects up.
//!
//! Invariant: every change that was marked is in the policies sooner or later, and then all objects whose verdicts may
//! depend on it are judged again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::{JoinSet, spawn_blocking};
use tracing::error;

use crate::{
    judge::{inventory::Inventory, reads::Projection, set::PolicySet},
    model::{
        body::Body,
        object::{Kind, ObjectKey},
    },
    rego::value,
};

/// A change waits this long for others to come with it.
const REST: Duration = Duration::from_millis(100);
/// Objects that look something up are not judged again more often than this.
const EVERY: Duration = Duration::from_secs(1);

/// The inventory, and the policies with it.
#[derive(Debug)]
pub(crate) struct InventorySync {
    /// `None` while it is being updated.
    inventory: Option<Inventory>,
    /// Objects whose present state is not in it yet; sorted, so that of several manifests with one name the last counts.
    pending: BTreeSet<ObjectKey>,
    /// When the first and the last of them were marked.
    since: Option<(Instant, Instant)>,
    updated_at: Option<Instant>,
    /// The policies with the inventory; `None` before the first update.
    policies: Option<Arc<PolicySet>>,
    /// Counts resets: an update that began before the last one is of no use.
    generation: u64,
    updating: JoinSet<Updated>,
    /// Why the policies could not take the last state; empty if they could.
    pub(crate) problem: String,
}

/// A new state of the inventory.
#[derive(Debug)]
pub(crate) struct Updated {
    inventory: Inventory,
    /// The policies with it; or, if they cannot take it, as they were loaded, and why.
    policies: Result<Arc<PolicySet>, (Arc<PolicySet>, String)>,
    /// Policies can see a difference.
    changed: bool,
    generation: u64,
    /// How long the update took.
    pub(crate) took: Duration,
}

/// An object and its present state; `None` if it is gone.
pub(crate) type ObjectState = (ObjectKey, Option<Body>);

impl InventorySync {
    /// Makes an empty inventory for these policies.
    pub(crate) fn new(policies: &Arc<PolicySet>) -> Self {
        let mut sync = Self {
            inventory: None,
            pending: BTreeSet::new(),
            since: None,
            updated_at: None,
            policies: None,
            generation: 0,
            updating: JoinSet::new(),
            problem: String::new(),
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
        self.policies = (policies.inventory_reads().is_empty()).then(|| Arc::clone(policies));
    }

    /// Returns the policies to judge by, once they have what they look up.
    pub(crate) fn policies(&self) -> Option<Arc<PolicySet>> {
        self.policies.clone()
    }

    /// Whether the policies have everything that was marked.
    pub(crate) fn is_current(&self) -> bool {
        self.policies.is_some() && self.pending.is_empty() && self.updating.is_empty()
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
            // Nothing can be judged until then.
            return Some(now);
        }
        let (first, last) = self.since?;
        let rested = (last + REST).min(first + EVERY);
        Some(self.updated_at.map_or(rested, |updated_at| rested.max(updated_at + EVERY)))
    }

    /// Takes out the objects that were marked.
    pub(crate) fn take_pending(&mut self) -> BTreeSet<ObjectKey> {
        self.since = None;
        std::mem::take(&mut self.pending)
    }

    /// Begins an update with these states: with `all` of them, or only with those in which policies can see a change.
    /// Reading a state takes some 30 µs, preparing the policies as long as loading them.
    pub(crate) fn update(&mut self, policies: &Arc<PolicySet>, states: Vec<ObjectState>, all: bool, now: Instant) {
        self.updated_at = Some(now);
        let update = Update {
            inventory: self.inventory.take().unwrap_or_default(),
            policies: Arc::clone(policies),
            present: self.policies.clone(),
            generation: self.generation,
        };
        self.updating.spawn_blocking(move || update.run(states, all));
    }

    /// Waits for the update that is under way; `None` if none is.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn updated(&mut self) -> Option<Updated> {
        // The evaluator's panics are caught inside.
        self.updating.join_next().await?.ok()
    }

    /// Accepts an update. Returns whether objects whose verdicts depend on the inventory are to be judged again.
    pub(crate) fn accept(&mut self, updated: Updated) -> bool {
        if updated.generation != self.generation {
            return false;
        }
        self.inventory = Some(updated.inventory);
        let policies = match updated.policies {
            Ok(policies) => {
                self.problem.clear();
                policies
            }
            Err((policies, why)) => {
                error!("Policies cannot look other objects up: {why}");
                self.problem = format!("policies cannot look other objects up: {why}");
                // The others judge all the same; the audit is not complete.
                self.policies.take().unwrap_or(policies)
            }
        };
        let Some(old) = self.policies.replace(policies) else {
            // Judging waited for the first state, so every verdict has it.
            return false;
        };
        // Dropping it takes milliseconds.
        drop(spawn_blocking(move || drop(old)));
        updated.changed
    }
}

/// The work of one update.
struct Update {
    inventory: Inventory,
    /// The policies as they were loaded.
    policies: Arc<PolicySet>,
    /// The policies with the last state.
    present: Option<Arc<PolicySet>>,
    generation: u64,
}

impl Update {
    fn run(mut self, states: Vec<ObjectState>, all: bool) -> Updated {
        let began = Instant::now();
        let mut changed = false;
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
            // An object that cannot be read has a verdict that says so; it cannot be looked up.
            let object = json.and_then(|json| value::from_json(&json).ok());
            changed |= self.inventory.put(&key, object.as_ref());
        }
        let policies = match self.present {
            Some(present) if !changed => Ok(present),
            _ => match self.policies.with_inventory(&self.inventory) {
                Ok(with) => Ok(Arc::new(with)),
                Err(why) => Err((self.policies, format!("{why:#}"))),
            },
        };
        let (inventory, generation) = (self.inventory, self.generation);
        Updated { inventory, policies, changed, generation, took: began.elapsed() }
    }
}
