//! Everything that was loaded from the policy paths, ready to judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::BitOr,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    dependencies::Dependencies,
    dialect::Dialect,
    gatekeeper::{self, EnforcementPoint},
    inventory::Inventory,
    load,
    policy::Policy,
    reads::{self, InventoryReads, Projection},
    unit::Unit,
};
use crate::{
    model::{
        object::{Kind, Object},
        verdict::Digest,
    },
    rego::{
        limits::Limits,
        problem::{LoadError, Problem},
    },
};

/// Everything that was loaded from the policy paths.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// What it was loaded from.
    pub digest: Digest,
    /// All files that were read for it, also those that are refused.
    pub(crate) files: BTreeSet<Arc<str>>,
    /// The policies, sorted by name.
    pub policies: Vec<Policy>,
    /// What did not stop the load, but someone should know.
    pub problems: Vec<Problem>,
    /// What evaluation is bounded by.
    pub limits: Limits,
    /// Templates and Constraints that judge nothing.
    pub unjudged: Vec<gatekeeper::Unjudged>,
    /// What Gatekeeper's own settings among the policies say.
    pub settings: gatekeeper::Settings,
    pub(crate) units: Vec<Unit>,
    pub(crate) reads: Arc<reads::Index>,
    /// Which Constraints of the units can match which kinds.
    pub(crate) constraints: Arc<gatekeeper::Index>,
}

impl PolicySet {
    /// Loads all policies under `paths`, files or directories. Blocks.
    ///
    /// # Errors
    /// Returns every problem of every file if one of them is refused, or if there is no rule to judge by.
    pub fn load(paths: &[PathBuf]) -> Result<Self, LoadError> {
        Self::load_with(paths, &Limits::default())
    }

    /// Loads all policies under `paths` with other limits.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(paths: &[PathBuf], limits: &Limits) -> Result<Self, LoadError> {
        Self::load_partly(paths, limits)?.whole()
    }

    /// Loads the policies under `paths` that are in order; [`Self::refused`] tells the others.
    ///
    /// # Errors
    /// Returns every problem if one of the paths cannot be read, or if no rule is left to judge by.
    pub fn load_partly(paths: &[PathBuf], limits: &Limits) -> Result<Self, LoadError> {
        load::load(paths, limits, EnforcementPoint::Audit)
    }

    /// Loads one template and one Constraint as Gatekeeper's tests do, which is to judge with the enforcement point of
    /// `gator`.
    ///
    /// # Errors
    /// As [`Self::load`]; a Constraint that does not fit the schema of its template is one of the reasons.
    pub fn from_gatekeeper(template: &Path, constraint: &Path, limits: &Limits) -> Result<Self, LoadError> {
        load::load(&[template.to_owned(), constraint.to_owned()], limits, EnforcementPoint::Gator)?.whole()
    }

    /// Returns the set if nothing was refused.
    ///
    /// # Errors
    /// Returns every problem otherwise, without those that only follow from others.
    pub fn whole(self) -> Result<Self, LoadError> {
        if self.is_partial() { Err(LoadError::new(self.problems)) } else { Ok(self) }
    }

    /// Returns the set if it may take the place of `before`: that it refuses no file that is judged by there, since a
    /// policy that worked a moment ago must not be lost to a slip of the pen. A new file that is refused takes nothing
    /// away.
    ///
    /// # Errors
    /// As [`Self::whole`].
    pub fn after(self, before: &Self) -> Result<Self, LoadError> {
        let known = before.refused_files();
        let worse = self.refused_files().keys().any(|file| before.files.contains(*file) && !known.contains_key(*file));
        if worse { Err(LoadError::new(self.problems)) } else { Ok(self) }
    }

    /// Returns why files are not judged by.
    pub fn refused(&self) -> impl DoubleEndedIterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_refusal())
    }

    /// Returns the files that are not judged by, each with its first problem.
    pub fn refused_files(&self) -> BTreeMap<&Arc<str>, &Problem> {
        self.refused().map(|problem| (&problem.file, problem)).rev().collect()
    }

    /// Whether a file is not judged by.
    pub fn is_partial(&self) -> bool {
        self.refused().next().is_some()
    }

    /// Returns what the verdict on an object of this kind depends on beside the object.
    pub fn dependencies(&self, kind: &Kind) -> Dependencies {
        let plain = self.reads.of(&kind.kind).dependencies;
        let constraints = self.constraints.candidates(&self.units, kind).into_iter();
        let constraints = constraints.map(|(unit, number)| {
            let unit = &self.units[unit];
            let depends = unit.depends & unit.reads(&kind.kind).dependencies(Dialect::Gatekeeper);
            let namespace = depends.namespace || unit.constraints[number].matching.needs_namespace();
            Dependencies { namespace, ..depends }
        });
        constraints.fold(plain, BitOr::bitor)
    }

    /// Whether no verdict depends on another object.
    pub fn judge_objects_alone(&self) -> bool {
        !self.policies.iter().any(|policy| policy.depends.inventory || policy.depends.namespace)
    }

    /// Whether a policy can say anything about objects of this kind, or looks at them when it judges others.
    pub fn concern(&self, kind: &Kind) -> bool {
        // Constraints also choose by group.
        let plain = self.policies.iter().filter(|policy| policy.dialect != Dialect::Gatekeeper);
        plain.map(|policy| &policy.matches).any(|matches| matches.matches(&kind.kind))
            || !self.constraints.candidates(&self.units, kind).is_empty()
            || self.inventory_reads().touches(kind)
            || kind.is("", "Namespace") && self.policies.iter().any(|policy| policy.depends.namespace)
    }

    /// Returns what the policies read of objects of this kind.
    pub fn projection(&self, kind: &Kind) -> &Projection {
        &self.reads.of(&kind.kind).projection
    }

    /// Returns a hash of what the policies read of an object, from its JSON.
    ///
    /// Two states of one object with the same hash have the same verdict as far as it depends on the object alone. What
    /// else it depends on is not in it: [`Self::dependencies`]; a policy that looks at transitions has to see each of
    /// them, and what ended in an error, a time limit for example, may end otherwise the next time.
    ///
    /// `None` if only judging can tell. The hash differs from process to process.
    pub fn projection_hash(&self, object: &Object) -> Option<u64> {
        self.projection(&object.key.kind).hash(&object.body.json().ok()?)
    }

    /// Returns what the policies read of other objects: which kinds the inventory has to hold, and which changes of its
    /// objects can matter to others.
    pub fn inventory_reads(&self) -> &InventoryReads {
        &self.reads.inventory
    }

    /// Returns the same policies with these objects to look up; to be asked of a set as it was loaded. Takes about as
    /// long as the load of those that do look something up.
    ///
    /// # Errors
    /// When the evaluator cannot take the objects.
    pub fn with_inventory(&self, inventory: &Inventory) -> anyhow::Result<Self> {
        let units = self.units.iter().map(|unit| unit.with_inventory(inventory)).collect::<anyhow::Result<_>>()?;
        Ok(Self { units, ..self.clone() })
    }

    /// Returns how many rules judge each object.
    pub fn rules(&self) -> usize {
        self.policies.iter().map(|policy| policy.rules.len()).sum()
    }
}
