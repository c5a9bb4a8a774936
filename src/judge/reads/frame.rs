//! What is known while one definition of a rule is walked: its variables, what they may be, and what was read so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    documents::Reads,
    possible::{Place, Possible},
};
use crate::rego::analysis::resolved::{ResolvedTerm, Variable};

/// Where an error that is certain to be one may come from: the address of a call or a comprehension.
pub(super) type Site = usize;

/// What is known while one definition is walked.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Frame<'a> {
    /// The variables that have a value, each with the term that it was unified with, if there is one.
    variables: BTreeMap<Variable, (Possible, Option<&'a ResolvedTerm>)>,
    /// The variables in the order in which they got their values.
    bound: Vec<Variable>,
    /// What is iterated over in the current body: for each loop the variable that gets the keys, if one does.
    pub(super) loops: Vec<Option<Variable>>,
    pub(super) reads: Reads,
    /// The summaries whose reads are among these, by address.
    pub(super) merged: BTreeSet<usize>,
    pub(super) risk: bool,
    pub(super) sensitive: bool,
    /// Texts that the kind was compared with, where no policy names it.
    pub(super) compared: BTreeSet<Arc<str>>,
    /// Each solution adds an element to a set, and nothing ends at the first one.
    pub(super) adds: bool,
    /// What elements of sets hold that are gone through there, and were not compared with each other.
    pub(super) apart: BTreeSet<Place>,
    /// Where values may conflict, which is an error.
    pub(super) conflicts: BTreeSet<Site>,
    /// In an array comprehension, where it matters how many elements of a set there are.
    pub(super) counts: bool,
}

impl<'a> Frame<'a> {
    /// Returns what a variable may be; `None` if it has no value yet.
    pub(super) fn value(&self, variable: Variable) -> Option<&Possible> {
        self.variables.get(&variable).map(|(value, _)| value)
    }

    /// Returns the term that a variable was unified with when it got its value.
    pub(super) fn unified(&self, variable: Variable) -> Option<&'a ResolvedTerm> {
        self.variables.get(&variable)?.1
    }

    /// Gives a variable its value.
    pub(super) fn set(&mut self, variable: Variable, value: Possible) {
        self.variables.insert(variable, (value, None));
        self.bound.push(variable);
    }

    /// Notes the term that a variable was unified with.
    pub(super) fn set_unified(&mut self, variable: Variable, term: &'a ResolvedTerm) {
        if let Some((_, unified)) = self.variables.get_mut(&variable) {
            *unified = Some(term);
        }
    }

    /// Returns how many variables have a value.
    pub(super) fn count(&self) -> usize {
        self.bound.len()
    }

    /// Forgets the variables that got their values after the first `count`.
    pub(super) fn truncate(&mut self, count: usize) {
        for variable in self.bound.drain(count..) {
            self.variables.remove(&variable);
        }
    }
}
