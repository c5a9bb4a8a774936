//! Which fields an expression can read.
//!
//! The analysis walks the expression with what each part of it can be: parts of the variables, or lists of such parts. A
//! part that is only passed on is not read; one that is compared, computed with or returned is. What the analysis does not
//! know counts as reading the whole value, so the result has rather too many fields than too few.

mod lookup;
mod walk;

use std::{collections::BTreeSet, sync::Arc};

pub(crate) use self::walk::analyse;
use crate::environment::Root;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadStep {
    /// The field with this name.
    Field(Arc<str>),
    /// Every field or element, and their number.
    Any,
}

/// A part of a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CelReadPath {
    /// The variable.
    pub root: Root,
    /// The way from the variable to the part.
    pub steps: Vec<ReadStep>,
}

/// The parts of variables that an expression can read.
///
/// A path means that the existence and the type of the part is read, and its value if it is no map or list; a path in
/// `whole` means everything below, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CelReads {
    /// Parts that are read with everything below.
    pub whole: BTreeSet<CelReadPath>,
    /// Parts of which only the existence, the type and the value of a scalar is read.
    pub seen: BTreeSet<CelReadPath>,
    /// The other objects that are looked up.
    pub lookups: BTreeSet<CelLookup>,
    /// The called functions that are declared, but cannot be evaluated.
    pub unsupported: BTreeSet<Arc<str>>,
}

/// Objects that a call looks up, as far as its arguments are constant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CelLookup {
    /// `group/version`, or the version of the core group.
    pub api_version: Arc<str>,
    /// The plural name of the kind.
    pub resource: Arc<str>,
    /// The namespace.
    pub namespace: LookupNamespace,
    /// The name; `None` if it is computed, or all objects are listed.
    pub name: Option<Arc<str>>,
}

/// The namespace in which objects are looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookupNamespace {
    /// That of the evaluated object.
    Own,
    /// The one with this name.
    Named(Arc<str>),
    /// All, or one whose name is computed, or none: the kind is cluster-scoped.
    Any,
}

impl CelReads {
    /// Adds everything that another expression reads.
    pub fn extend(&mut self, other: &Self) {
        self.whole.extend(other.whole.iter().cloned());
        self.seen.extend(other.seen.iter().cloned());
        self.lookups.extend(other.lookups.iter().cloned());
        self.unsupported.extend(other.unsupported.iter().cloned());
    }

    /// Whether anything of a variable is read.
    pub fn has_root(&self, root: Root) -> bool {
        self.whole.iter().chain(&self.seen).any(|path| path.root == root)
    }

    /// Whether a change of the value at a path, or of its existence, can change the result.
    pub fn covers(&self, root: Root, path: &[ReadStep]) -> bool {
        let matches = |read: &CelReadPath| {
            read.root == root && read.steps.iter().zip(path).all(|(one, other)| is_same(one, other))
        };
        self.whole.iter().any(matches)
            || self.seen.iter().chain(&self.whole).any(|read| read.steps.len() >= path.len() && matches(read))
    }
}

fn is_same(one: &ReadStep, other: &ReadStep) -> bool {
    one == other || *one == ReadStep::Any || *other == ReadStep::Any
}

/// What an expression can be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abstract {
    /// Parts of variables.
    paths: BTreeSet<CelReadPath>,
    /// The elements, if it is a list or map that the expression builds.
    elements: Option<Box<Self>>,
}

/// The reads of an expression.
pub(crate) struct Analysis {
    /// If its value is used completely.
    pub(crate) reads: CelReads,
    /// If its value is not used.
    pub(crate) lazy_reads: CelReads,
    pub(crate) result: Abstract,
}
