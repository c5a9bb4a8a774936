//! The policies that objects are judged by, all together.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    ops::BitOr,
    sync::Arc,
};

use super::{
    bundle::Edition,
    constraint_index::ConstraintIndex,
    dependencies::Dependencies,
    dialects::gatekeeper::Config,
    inventory::Inventory,
    kinds::KindIndex,
    ownership::PackageOwners,
    policy::Policy,
    reads::{InventoryReads, LookupReach, Projection, lookups::LookupState},
    rule_settings::RuleChanges,
    sharing::Sharing,
    unit::Unit,
    unjudged::Unjudged,
};
use crate::{
    model::{
        digest::Digest,
        object::{Kind, Object, Projected},
        verdict::Class,
    },
    rego::{Limits, LoadError, Problem},
};

/// Everything that was loaded from the policy paths, ready to evaluate. Only results of arrays are filled in later, once each.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// What it was loaded from.
    pub digest: Digest,
    /// All files that were read for it, refused ones included, each with the position of its source.
    pub(crate) files: BTreeMap<Arc<str>, usize>,
    /// The sources that own the packages.
    pub(super) package_owners: PackageOwners,
    /// The policies, sorted by name.
    pub policies: Vec<Policy>,
    /// What the user decides about rules.
    pub rule_changes: RuleChanges,
    /// Warnings, and why files were refused.
    pub problems: Vec<Problem>,
    /// The bounds of evaluation.
    pub limits: Limits,
    /// Policies that would judge if kaudit had what they need; sorted by name.
    pub unjudged: Vec<Unjudged>,
    /// Policies that are not meant to judge here; sorted by name.
    pub left_out: Vec<Unjudged>,
    /// The bundles among the sources.
    pub bundles: Vec<Edition>,
    /// Gatekeeper's `Config`s among the policies.
    pub(crate) config: Config,
    pub(crate) units: Vec<Unit>,
    pub(crate) kinds: Arc<KindIndex>,
    pub(crate) constraints: Arc<ConstraintIndex>,
    /// Which rules have the same results for objects that look alike.
    pub(crate) sharing: Arc<Sharing>,
}

impl PolicySet {
    /// Returns the set if nothing was refused.
    ///
    /// # Errors
    /// Returns every problem otherwise, without those that only follow from others.
    pub fn whole(self) -> Result<Self, LoadError> {
        if self.is_partial() { Err(LoadError::new(self.problems)) } else { Ok(self) }
    }

    /// Returns the set if it may replace `before`: if it refuses no file that `before` judges by, since a policy that works
    /// must not be lost to a typing error. A new file that is refused takes nothing away.
    ///
    /// # Errors
    /// As [`Self::whole`].
    pub fn after(self, before: &Self) -> Result<Self, LoadError> {
        let known = before.refused_files();
        let worse =
            self.refused_files().keys().any(|file| before.files.contains_key(*file) && !known.contains_key(*file));
        if worse { Err(LoadError::new(self.problems)) } else { Ok(self) }
    }

    /// Returns why files were not loaded.
    pub fn refused(&self) -> impl DoubleEndedIterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_refusal())
    }

    /// Returns the files that were not loaded, each with its first problem.
    pub fn refused_files(&self) -> BTreeMap<&Arc<str>, &Problem> {
        self.refused().map(|problem| (&problem.file, problem)).rev().collect()
    }

    /// Returns the position of a file's source among the sources; files that are not known come first.
    pub(crate) fn source_of(&self, file: &str) -> usize {
        self.files.get(file).copied().unwrap_or_default()
    }

    /// Whether a file was not loaded.
    pub fn is_partial(&self) -> bool {
        self.refused().next().is_some()
    }

    /// Returns what the verdict on an object of this kind depends on besides the object.
    pub fn dependencies(&self, kind: &Kind) -> Dependencies {
        let plain = self.kinds.of(&kind.kind).dependencies;
        let constraints = self.constraints.candidates(&self.units, kind).into_iter();
        let constraints = constraints.filter_map(|(unit, number)| {
            let unit = &self.units[unit];
            let template = unit.template()?;
            let depends = template.depends & unit.dependencies(&kind.kind);
            let namespace = depends.namespace || template.constraints[number].matching.needs_namespace();
            Some(Dependencies { namespace, ..depends })
        });
        constraints.fold(plain, BitOr::bitor)
    }

    /// Whether no verdict depends on another object.
    pub fn judge_objects_alone(&self) -> bool {
        !self.policies.iter().any(|policy| policy.depends.inventory || policy.depends.namespace)
    }

    /// Whether a policy can give results for objects of this kind, or reads them when it judges others.
    pub fn concern(&self, kind: &Kind) -> bool {
        // Constraints also choose by group.
        let plain = self.policies.iter().filter(|policy| !policy.dialect.has_constraints);
        plain.map(|policy| &policy.matches).any(|matches| matches.matches(&kind.kind))
            || !self.constraints.candidates(&self.units, kind).is_empty()
            || self.inventory_reads().touches(kind)
            || kind.is("", "Namespace") && self.policies.iter().any(|policy| policy.depends.namespace)
    }

    /// Returns what the policies read of objects of this kind.
    ///
    /// Two states of one object in which that is the same have the same verdict as far as it depends on the object alone;
    /// what else it depends on is in [`Self::dependencies`]. A policy that reads transitions has to see each of them,
    /// and what ended in an error, a time limit for example, may end otherwise the next time.
    pub fn projection(&self, kind: &Kind) -> &Projection {
        &self.kinds.of(&kind.kind).projection
    }

    /// Hashes what the policies can read of an object; `None` where only judging can decide, as for [`Projection::hash`].
    pub fn projected(&self, object: &Object) -> Option<Projected> {
        let hash = self.projection(&object.key.kind).hash(&object.body.json().ok()?)?;
        Some(Projected { policies: self.digest, hash: NonZeroU64::new(hash)? })
    }

    /// Returns what verdicts on the objects of a Namespace depend on of it, besides its name.
    pub fn namespace_projection(&self) -> &Projection {
        &self.kinds.namespace
    }

    /// Returns what the policies read of other objects: which kinds the inventory has to hold, and which changes of its
    /// objects can matter to others.
    pub fn inventory_reads(&self) -> &InventoryReads {
        &self.kinds.inventory
    }

    /// Returns how far the policies look for objects of a kind when they judge objects of another; `None` if they do not.
    pub(crate) fn widest_reach(&self, judged: &Kind, kind: &Kind) -> Option<LookupReach> {
        self.kinds.of(&judged.kind).lookups.widest_reach(kind)
    }

    /// Whether the policies look up kinds that are still being read when they judge objects of a kind.
    pub(crate) fn awaits(&self, lookups: &LookupState, kind: &Kind) -> bool {
        lookups.awaits(&self.kinds.of(&kind.kind).lookups)
    }

    /// Returns the same policies with these objects to look up, without arrays of them.
    #[must_use]
    pub(crate) fn with_objects(&self, inventory: &Inventory) -> Self {
        let units = self.units.iter().map(|unit| unit.with_inventory(inventory)).collect();
        Self { units, ..self.clone() }
    }

    /// Returns how many rules judge each object.
    pub fn rules(&self) -> usize {
        self.policies.iter().map(|policy| policy.rules.len()).sum()
    }

    /// Returns what results are counted by, as far as rules say it and not a result itself.
    pub fn classes(&self) -> BTreeSet<Class> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.iter().map(|rule| (&policy.name, rule)));
        rules
            .map(|(policy, rule)| Class {
                policy: Arc::clone(policy),
                severity: rule.metadata.severity,
                outcome: rule.outcome,
            })
            .collect()
    }
}
