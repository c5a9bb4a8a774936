//! One policy as it was loaded: what it is called, what it reads, and its rules.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    dependencies::Dependencies,
    dialect::Dialect,
    metadata::Metadata,
    reads::{Matches, Projection},
};
use crate::{
    model::verdict::{Outcome, Source},
    rego::limits::Version,
};

/// One package with rules that judge.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The package without `data.`.
    pub name: Arc<str>,
    /// How it is fed and read.
    pub dialect: Dialect,
    /// The versions of Rego that its modules are written in.
    pub versions: BTreeSet<Version>,
    /// The file that its first rule is in, or the Constraint.
    pub source: Arc<str>,
    /// Where it stands there, from 1.
    pub line: u32,
    /// What the package says of itself.
    pub metadata: Metadata,
    /// What its results depend on beside the object.
    pub depends: Dependencies,
    /// The kinds that it can say anything about.
    pub matches: Matches,
    /// What it reads of the object.
    pub reads: Projection,
    /// Whether it goes through all objects of a kind for each object that it judges.
    pub scans_inventory: bool,
    /// The rules that judge, sorted by name.
    pub rules: Vec<Rule>,
}

/// One rule that judges.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its name, e.g. `deny_latest`.
    pub name: Arc<str>,
    /// What its results count as.
    pub outcome: Outcome,
    /// What its first definition says of it, filled up from document and package.
    pub metadata: Arc<Metadata>,
    /// Where its first definition stands.
    pub source: Source,
}
