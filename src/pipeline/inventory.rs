//! The inventory on its way to the judges: what changed is collected, put in off the pipeline's task, and comes back as
//! policies that can look it up.
//!
//! Invariant: what was noted is in the policies at some time, and then everybody who can look it up is judged again.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tracing::error;

use crate::{
    body::Body,
    inventory::Inventory,
    object::ObjectKey,
    policy::{Layouts, PolicySet, value},
};

/// A change waits this long for others to come with it.
const REST: Duration = Duration::from_millis(100);
/// Who looks something up is not judged again more often than this.
const EVERY: Duration = Duration::from_secs(1);

/// The inventory, and the policies with it.
pub(super) struct Stock {
    /// `None` while it is being worked on.
    inventory: Option<Inventory>,
    /// Objects whose present state is not in it yet; sorted, so that of several manifests with one name the last counts.
    noted: BTreeSet<ObjectKey>,
    /// When the first and the last of them were noted.
    since: Option<(Instant, Instant)>,
    made_at: Option<Instant>,
    /// The policies with the inventory; `None` before it is there for the first time.
    policies: Option<Arc<PolicySet>>,
    /// Counts resets; what was begun before the last one is of no use.
    generation: u64,
    making: JoinSet<Restocked>,
    /// Why the policies could not take the last state; empty if they could.
    pub(super) problem: String,
}

/// A new state of the inventory.
pub(super) struct Restocked {
    inventory: Inventory,
    /// The policies with it, or as they were loaded and why.
    policies: Result<Arc<PolicySet>, (Arc<PolicySet>, String)>,
    changed: bool,
    generation: u64,
    pub(super) took: Duration,
}

/// An object, where it can be looked up, and its present state; `None` if it is gone.
type State = (ObjectKey, Layouts, Option<Body>);

impl Stock {
    /// Makes an empty one.
    pub(super) fn new(policies: &Arc<PolicySet>) -> Self {
        let mut stock = Self {
            inventory: None,
            noted: BTreeSet::new(),
            since: None,
            made_at: None,
            policies: None,
            generation: 0,
            making: JoinSet::new(),
            problem: String::new(),
        };
        stock.reset(policies);
        stock
    }

    /// Begins anew for other policies: they may look up other kinds.
    pub(super) fn reset(&mut self, policies: &Arc<PolicySet>) {
        self.generation += 1;
        self.inventory = Some(Inventory::default());
        self.noted.clear();
        self.since = None;
        self.policies = (!policies.needs_inventory()).then(|| Arc::clone(policies));
    }

    /// Returns the policies to judge by, once they have what they look up.
    pub(super) fn policies(&self) -> Option<Arc<PolicySet>> {
        self.policies.clone()
    }

    /// Whether the policies have all that was noted.
    pub(super) fn is_current(&self) -> bool {
        self.policies.is_some() && self.noted.is_empty() && self.making.is_empty()
    }

    /// Notes that an object changed, came or went.
    pub(super) fn note(&mut self, key: &ObjectKey, now: Instant) {
        self.noted.insert(key.clone());
        let first = self.since.map_or(now, |(first, _)| first);
        self.since = Some((first, now));
    }

    /// Returns when to bring the inventory up to date, if it is not.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if !self.making.is_empty() {
            return None;
        }
        if self.policies.is_none() {
            // Nobody is judged until then.
            return Some(now);
        }
        let (first, last) = self.since?;
        let rested = (last + REST).min(first + EVERY);
        Some(self.made_at.map_or(rested, |made_at| rested.max(made_at + EVERY)))
    }

    pub(super) fn take_noted(&mut self) -> BTreeSet<ObjectKey> {
        self.since = None;
        std::mem::take(&mut self.noted)
    }

    /// Begins to put states in. Reading them takes some 30 µs each, preparing the policies as long as loading them.
    pub(super) fn make(&mut self, policies: Arc<PolicySet>, states: Vec<State>, now: Instant) {
        self.made_at = Some(now);
        let (inventory, generation) = (self.inventory.take().unwrap_or_default(), self.generation);
        self.making.spawn_blocking(move || make(inventory, policies, states, generation));
    }

    /// Waits for a new state that is being made; `None` if none is.
    pub(super) async fn made(&mut self) -> Option<Restocked> {
        // The evaluator's panics are caught inside.
        self.making.join_next().await?.ok()
    }

    /// Takes a new state over. Returns whether those who look something up are to be judged again.
    pub(super) fn accept(&mut self, made: Restocked) -> bool {
        if made.generation != self.generation {
            return false;
        }
        self.inventory = Some(made.inventory);
        let policies = match made.policies {
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
        // The first state was waited for: everybody is judged by it.
        self.policies.replace(policies).is_some() && made.changed
    }
}

fn make(mut inventory: Inventory, policies: Arc<PolicySet>, states: Vec<State>, generation: u64) -> Restocked {
    let began = Instant::now();
    let mut changed = false;
    for (key, layouts, body) in states {
        // What cannot be read has a verdict that says so; nobody can look it up.
        let object = body.and_then(|body| value::from_json(&body.json().ok()?).ok());
        changed |= inventory.put(&key, layouts, object.as_ref());
    }
    let policies = match policies.with_inventory(&inventory) {
        Ok(with) => Ok(Arc::new(with)),
        Err(why) => Err((policies, format!("{why:#}"))),
    };
    Restocked { inventory, policies, changed, generation, took: began.elapsed() }
}
