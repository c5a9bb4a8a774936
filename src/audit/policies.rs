//! The policies in force, and what they depend on, kind by kind.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    judge::{dependencies::Dependencies, set::PolicySet},
    model::object::{Kind, ObjectKey},
    rego::{LoadError, problem::summary},
};

/// The policies in force. What they depend on is computed once for each kind.
#[derive(Debug)]
pub(crate) struct PoliciesInForce {
    /// The policies as they were loaded, without an inventory.
    pub(crate) set: Arc<PolicySet>,
    /// Why the newest policies are not in force.
    pub(crate) error: Option<LoadError>,
    /// When they replaced others; `None` for those of the start.
    pub(crate) since: Option<Timestamp>,
    dependencies: HashMap<Arc<Kind>, Dependencies>,
    /// By kind, and whether its objects are in a namespace.
    looked_up: HashMap<(Arc<Kind>, bool), bool>,
}

impl PoliciesInForce {
    pub(crate) fn new(set: Arc<PolicySet>) -> Self {
        Self { set, error: None, since: None, dependencies: HashMap::new(), looked_up: HashMap::new() }
    }

    /// Puts newly loaded policies in force.
    pub(crate) fn replace(&mut self, set: Arc<PolicySet>) {
        let since = if set.digest == self.set.digest { self.since } else { Some(Timestamp::now()) };
        *self = Self { since, ..Self::new(set) };
    }

    /// Returns what results for objects of a kind depend on in addition to the object.
    pub(crate) fn dependencies(&mut self, kind: &Arc<Kind>) -> Dependencies {
        let set = &self.set;
        *self.dependencies.entry(Arc::clone(kind)).or_insert_with(|| set.dependencies(kind))
    }

    /// Whether policies can look up an object when they evaluate another.
    pub(crate) fn look_up(&mut self, key: &ObjectKey) -> bool {
        let reads = self.set.inventory_reads();
        let place = (Arc::clone(&key.kind), key.namespace.is_some());
        *self.looked_up.entry(place).or_insert_with(|| reads.touches(&key.as_placed()))
    }

    /// Returns how many files of the newest policies are refused, and a note with their names and what is in force instead.
    pub(crate) fn refused(&self) -> (usize, String) {
        let (problems, instead) = match &self.error {
            Some(error) => (&error.problems, "the policies loaded before stay in force"),
            None => (&self.set.problems, "the others are in force"),
        };
        let refused = problems.iter().filter(|problem| problem.is_refusal());
        let files: BTreeSet<_> = refused.map(|problem| &problem.file).collect();
        (files.len(), format!("Policies are refused, {instead}: {}", summary(problems)))
    }
}
