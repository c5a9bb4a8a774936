//! The inventory on its way to the judges: what changed is collected, put in off the pipeline's task, and comes back as
//! policies that can look it up.
//!
//! Invariant: what was noted is in the policies at some time, and then everybody who can look it up is judged again.

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
    /// Somebody may see a difference.
    changed: bool,
    generation: u64,
    pub(super) took: Duration,
}

/// An object and its present state; `None` if it is gone.
type State = (ObjectKey, Option<Body>);

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
        self.policies = (policies.inventory_reads().is_empty()).then(|| Arc::clone(policies));
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

    /// Begins to put states in, all of them or only those of which somebody can see what changed. Reading takes some
    /// 30 µs each, preparing the policies as long as loading them.
    pub(super) fn make(&mut self, policies: &Arc<PolicySet>, states: Vec<State>, all: bool, now: Instant) {
        self.made_at = Some(now);
        let making = Making {
            inventory: self.inventory.take().unwrap_or_default(),
            policies: Arc::clone(policies),
            present: self.policies.clone(),
            generation: self.generation,
        };
        self.making.spawn_blocking(move || making.run(states, all));
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
        let Some(old) = self.policies.replace(policies) else {
            // The first state was waited for: everybody is judged by it.
            return false;
        };
        // Taking it apart takes milliseconds.
        drop(spawn_blocking(move || drop(old)));
        made.changed
    }
}

/// The work on a new state.
struct Making {
    inventory: Inventory,
    /// The policies as they were loaded.
    policies: Arc<PolicySet>,
    /// Those with the last state.
    present: Option<Arc<PolicySet>>,
    generation: u64,
}

impl Making {
    fn run(mut self, states: Vec<State>, all: bool) -> Restocked {
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
            // What cannot be read has a verdict that says so; nobody can look it up.
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
        Restocked { inventory, policies, changed, generation, took: began.elapsed() }
    }
}
