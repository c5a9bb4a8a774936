//! One loaded policy: its name, its read set, and its rules.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    dependencies::Dependencies,
    dialect::Dialect,
    metadata::Metadata,
    reads::{Matches, Projection},
    rule::Rule,
};
use crate::{model::verdict::Source, rego::Version};

/// One package with entrypoint rules, or one Constraint.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The package without `data.`, or the kind of the Constraint.
    pub name: Arc<str>,
    /// The dialect, which defines its input and how its values are read.
    pub dialect: Dialect,
    /// The Rego versions of its modules.
    pub versions: BTreeSet<Version>,
    /// The file of its first rule, or of the Constraint.
    pub source: Arc<str>,
    /// The line of that rule, starting at 1.
    pub line: u32,
    /// Whether it belongs to the builtin library.
    pub is_builtin: bool,
    /// The annotations of the package.
    pub metadata: Metadata,
    /// The dependencies of its results besides the object.
    pub depends: Dependencies,
    /// The kinds that it can have results for.
    pub matches: Matches,
    /// The fields of evaluated objects that it reads.
    pub reads: Projection,
    /// Whether it iterates over all objects of a kind for each evaluated object.
    pub scans_inventory: bool,
    /// The entrypoint rules, sorted by name; a Constraint is one rule.
    pub rules: Vec<Rule>,
}

impl Policy {
    /// Returns a policy that is a Kubernetes object at this place, not yet with what it depends on, matches and reads.
    pub(crate) fn of_object(
        name: &Arc<str>,
        dialect: Dialect,
        Source { file, line }: Source,
        metadata: Metadata,
        rules: Vec<Rule>,
    ) -> Self {
        Self {
            name: Arc::clone(name),
            dialect,
            versions: BTreeSet::new(),
            source: file,
            line,
            is_builtin: false,
            metadata,
            depends: Dependencies::default(),
            matches: Matches::default(),
            reads: Projection::default(),
            scans_inventory: false,
            rules,
        }
    }
}
