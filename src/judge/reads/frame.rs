//! The state of walking one definition of a rule: its variables, their possible values, and what has been read so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    documents::Reads,
    possible::{Possible, ReadPath},
};
use crate::rego::analysis::resolved::{ResolvedTerm, Variable};

/// The position of a call or a comprehension that may be certain to fail: its address.
pub(super) type Site = usize;

/// The state of walking one definition.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct WalkFrame<'a> {
    /// The variables with a value, each with the term that it was unified with, if any.
    variables: BTreeMap<Variable, (Possible, Option<&'a ResolvedTerm>)>,
    /// The variables in the order in which they were bound.
    bound: Vec<Variable>,
    /// The loops in the current body: for each, the variable bound to the keys, if any.
    pub(super) loops: Vec<Option<Variable>>,
    /// The documents that were read.
    pub(super) reads: Reads,
    /// The addresses of the summaries whose reads have been merged.
    pub(super) merged: BTreeSet<usize>,
    /// Whether evaluation may fail with an error.
    pub(super) may_fail: bool,
    /// Whether the result depends on the kind.
    pub(super) depends_on_kind: bool,
    /// Strings that the kind was compared with, if no policy mentions the kind.
    pub(super) compared: BTreeSet<Arc<str>>,
    /// Whether each solution adds an element to a set, so that evaluation does not stop at the first one.
    pub(super) adds: bool,
    /// The paths in elements of sets that are iterated over there without having been compared with each other.
    pub(super) apart: BTreeSet<ReadPath>,
    /// Positions where values may conflict, which is an error.
    pub(super) conflicts: BTreeSet<Site>,
    /// Whether this is in an array comprehension, where the number of elements of a set matters.
    pub(super) counts: bool,
}

impl<'a> WalkFrame<'a> {
    /// Returns the possible values of a variable; `None` if it is not bound yet.
    pub(super) fn value(&self, variable: Variable) -> Option<&Possible> {
        self.variables.get(&variable).map(|(value, _)| value)
    }

    /// Returns the term that a variable was unified with when it was bound.
    pub(super) fn unified(&self, variable: Variable) -> Option<&'a ResolvedTerm> {
        self.variables.get(&variable)?.1
    }

    /// Binds a variable.
    pub(super) fn set(&mut self, variable: Variable, value: Possible) {
        self.variables.insert(variable, (value, None));
        self.bound.push(variable);
    }

    /// Records the term that a variable was unified with.
    pub(super) fn set_unified(&mut self, variable: Variable, term: &'a ResolvedTerm) {
        if let Some((_, unified)) = self.variables.get_mut(&variable) {
            *unified = Some(term);
        }
    }

    /// Returns the number of bound variables.
    pub(super) fn count(&self) -> usize {
        self.bound.len()
    }

    /// Removes the variables that were bound after the first `count`.
    pub(super) fn truncate(&mut self, count: usize) {
        for variable in self.bound.drain(count..) {
            self.variables.remove(&variable);
        }
    }
}
