//! Policies: the files of a directory become a [`PolicySet`] that can judge.
//!
//! Files are read, modules parsed and checked, and what must not run is refused with its place and how to mend it; then
//! the modules are prepared in one engine a unit, together with generated rules that ask for all results at once. A set
//! never changes; a changed directory is loaded anew, and the old set works on if that fails.

mod adapt;
pub(crate) mod builtins;
mod check;
mod data;
mod dependencies;
mod dialect;
mod entries;
pub(crate) mod files;
pub mod gatekeeper;
mod graph;
pub(crate) mod guard;
mod lint;
mod load;
mod lost;
mod metadata;
pub(crate) mod parse;
mod problem;
#[doc(hidden)]
pub mod question;
pub(crate) mod reads;
pub(crate) mod references;
mod stack;
pub(crate) mod tested;
pub(crate) mod unit;
pub(crate) mod value;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    num::NonZeroU32,
    ops::BitOr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use regorus::utils::limits::ExecutionTimerConfig;
use serde::Serialize;

pub use self::{
    dependencies::Dependencies,
    dialect::Dialect,
    files::{Fingerprint, fingerprint},
    metadata::{Metadata, RelatedResource},
    problem::{LoadError, Problem, ProblemSeverity, summed_up},
    reads::{InventoryReads, Matches, Projection},
};
use self::{gatekeeper::EnforcementPoint, unit::Unit};
use crate::{
    inventory::Inventory,
    object::{Kind, Object},
    verdict::{Digest, Outcome, Source},
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

/// A version of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say all")]
pub enum Version {
    V0,
    V1,
}

/// Shows `v0` or `v1`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V0 { "v0" } else { "v1" })
    }
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

/// What keeps one policy from doing harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for one evaluation of one object, and for each rule of it when they are evaluated one by one.
    pub evaluation: Duration,
    /// Time for one object in all; what was not evaluated by then is an error.
    pub object: Duration,
    /// Whether a builtin that fails makes the rule an error, instead of being undefined.
    pub strict: bool,
    /// Largest policy or data file.
    pub file_bytes: u64,
    /// Longest line of a module.
    pub columns: NonZeroU32,
    /// Deepest nesting of brackets.
    pub nesting: usize,
    /// How often the parser may try a bracket; doubles with each level of brackets in brackets.
    pub bracket_tries: u64,
    /// Highest tree of operators and brackets in one expression.
    pub height: usize,
    /// Bytes of stack that evaluation may need, as estimated; threads that call [`crate::evaluate::evaluate`] must have
    /// twice as much.
    pub stack: usize,
    /// How many levels of collections in collections a value may get, as estimated: it is compared and dropped by recursion.
    pub levels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            evaluation: Duration::from_secs(1),
            object: Duration::from_secs(5),
            strict: false,
            file_bytes: 1 << 20,
            columns: NonZeroU32::new(20_000).unwrap_or(NonZeroU32::MAX),
            nesting: 32,
            bracket_tries: 250_000,
            height: 250,
            stack: 1 << 20,
            levels: 20_000,
        }
    }
}

impl Limits {
    fn timer(&self) -> ExecutionTimerConfig {
        // A look at the clock every 16 steps costs nothing that can be measured.
        ExecutionTimerConfig { limit: self.evaluation, check_interval: NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN) }
    }
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
