//! The exceptions that are known, of files and of the cluster.
//!
//! Invariant: what the exceptions of one namespace cost does not grow with those of others.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
    sync::Arc,
};

use super::{
    exception::{DEFAULT_NAMESPACE, Exception},
    rules::{NamedRules, RuleIndex, RulesInForce},
    status::ExceptionObject,
};
use crate::model::object::ObjectKey;

/// An exception that can be read, with the rules that it names of those in force.
#[derive(Debug, Clone)]
pub(super) struct ListedException {
    exception: Arc<Exception>,
    pub(super) named: NamedRules,
}

impl Deref for ListedException {
    type Target = Exception;

    fn deref(&self) -> &Exception {
        &self.exception
    }
}

impl ListedException {
    pub(super) fn new(exception: Arc<Exception>) -> Self {
        Self { exception, named: NamedRules::default() }
    }

    /// Finds the rules that it names.
    pub(super) fn resolve(&mut self, rules: &RulesInForce) {
        self.named = rules.named_by(&self.exception);
    }
}

/// An exception of the cluster, or of a manifest.
#[derive(Debug, Clone)]
pub(super) struct FoundException {
    /// The metadata and the status of its object.
    pub(super) object: Arc<ExceptionObject>,
    /// The exception, or why it cannot be read.
    pub(super) read: Result<ListedException, String>,
}

/// The exceptions of the cluster by namespace, in the order of their names.
#[derive(Debug, Clone, Default)]
pub(super) struct FoundExceptions(BTreeMap<Arc<str>, BTreeMap<ObjectKey, FoundException>>);

impl FoundExceptions {
    pub(super) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut FoundException> {
        self.0.get_mut(&namespace(key))?.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: &ObjectKey, found: FoundException) {
        self.0.entry(namespace(key)).or_default().insert(key.clone(), found);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        let namespace = namespace(key);
        let Some(known) = self.0.get_mut(&namespace) else { return };
        known.remove(key);
        if known.is_empty() {
            self.0.remove(&namespace);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &FoundException)> {
        self.0.values().flatten()
    }

    /// Returns those that can be read.
    pub(super) fn readable(&self) -> impl Iterator<Item = &ListedException> {
        self.iter().filter_map(|(_, found)| found.read.as_ref().ok())
    }

    pub(super) fn readable_mut(&mut self) -> impl Iterator<Item = &mut ListedException> {
        self.0.values_mut().flat_map(BTreeMap::values_mut).filter_map(|found| found.read.as_mut().ok())
    }

    /// Returns those about a rule in these namespaces, the first first.
    pub(super) fn naming(
        &self,
        rule: RuleIndex,
        namespaces: &BTreeSet<&str>,
    ) -> impl Iterator<Item = &ListedException> {
        let found = namespaces.iter().filter_map(|namespace| self.0.get(*namespace)).flat_map(BTreeMap::values);
        found.filter_map(|found| found.read.as_ref().ok()).filter(move |listed| listed.named.rules.contains(rule))
    }
}

/// Returns the namespace that an object of the cluster or of a manifest is an exception for.
fn namespace(key: &ObjectKey) -> Arc<str> {
    let namespace = key.namespace.clone().filter(|namespace| !namespace.is_empty());
    namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.into())
}
