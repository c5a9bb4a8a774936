//! What is known while one definition of a rule is walked: its variables, what they may be, and what was read so far.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    documents::Reads,
    possible::{Place, Possible},
};
use crate::rego::references::Path;

/// What a name stands for.
pub(super) enum Name {
    /// A variable of this scope.
    Local(usize),
    /// `data` or `input` and the keys behind it.
    Document(Path),
    /// A variable that nothing declares, or the name of a builtin.
    Implicit,
}

/// A variable in its scope.
#[derive(Default)]
pub(super) struct Variable {
    pub(super) value: Option<Possible>,
    /// Its value was read, so a further one makes another pass necessary.
    pub(super) used: bool,
}

/// Where an error that is certain to be one may come from: module, line and column.
pub(super) type Site = (usize, u32, u32);

/// What is known while one definition is walked.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Frame {
    pub(super) module: usize,
    pub(super) scopes: Vec<BTreeMap<String, Variable>>,
    /// At how many places each name may be bound.
    pub(super) sites: BTreeMap<String, usize>,
    pub(super) reads: Reads,
    /// The summaries whose reads are among these, by address.
    pub(super) merged: BTreeSet<usize>,
    pub(super) risk: bool,
    pub(super) sensitive: bool,
    /// The outermost scope in which a variable got further values after it had been read.
    pub(super) stale: Option<usize>,
    /// A variable without a value was read.
    pub(super) unbound: bool,
    /// How many scopes there are where each solution adds an element to a set, and nothing ends at the first one.
    pub(super) adds: Option<usize>,
    /// What elements of sets hold that are gone through there, and were not compared with each other.
    pub(super) apart: BTreeSet<Place>,
    /// Where values may conflict, which is an error.
    pub(super) conflicts: BTreeSet<Site>,
    /// In an array comprehension, where it matters how many elements of a set there are.
    pub(super) counts: bool,
}
