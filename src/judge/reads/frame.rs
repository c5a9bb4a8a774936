//! What is known while one definition of a rule is walked: its variables, what they may be, and what was read so far.

use std::collections::BTreeMap;

use super::{documents::Reads, possible::Possible};
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

/// What is known while one definition is walked.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Frame {
    pub(super) module: usize,
    pub(super) scopes: Vec<BTreeMap<String, Variable>>,
    /// At how many places each name may be bound.
    pub(super) sites: BTreeMap<String, usize>,
    pub(super) reads: Reads,
    pub(super) risk: bool,
    pub(super) sensitive: bool,
    /// The outermost scope in which a variable got further values after it had been read.
    pub(super) stale: Option<usize>,
    /// A variable without a value was read.
    pub(super) unbound: bool,
    /// In an array comprehension, where it matters how many elements of a set there are.
    pub(super) counts: bool,
}
