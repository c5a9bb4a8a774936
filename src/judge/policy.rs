//! One policy as it was loaded: its name, what it reads, and its rules.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    dependencies::Dependencies,
    dialect::Dialect,
    metadata::Metadata,
    reads::{Matches, Projection},
    rule::Rule,
};
use crate::rego::Version;

/// One package with rules that judge, or one Constraint.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The package without `data.`, or the kind of the Constraint.
    pub name: Arc<str>,
    /// Which input it expects, and how its value is read.
    pub dialect: Dialect,
    /// The versions of Rego that its modules are written in.
    pub versions: BTreeSet<Version>,
    /// The file that its first rule is in, or the Constraint.
    pub source: Arc<str>,
    /// The line there, from 1.
    pub line: u32,
    /// Whether it comes from the library inside the binary.
    pub is_builtin: bool,
    /// The annotations of the package.
    pub metadata: Metadata,
    /// What its results depend on besides the object.
    pub depends: Dependencies,
    /// The kinds that it can say anything about.
    pub matches: Matches,
    /// What it reads of the objects that it judges.
    pub reads: Projection,
    /// Whether it iterates over all objects of a kind for each object that it checks.
    pub scans_inventory: bool,
    /// The rules that judge, sorted by name; a Constraint is one rule.
    pub rules: Vec<Rule>,
}
