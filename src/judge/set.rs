//! The set of all policies that objects are evaluated with.

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
    dialects::{
        cel::set::AdmissionPolicies,
        crd::set::CustomKinds,
        gatekeeper::{Config, constraint::Constraint},
    },
    expansions::Expansions,
    frameworks::FrameworkTable,
    inventory::Inventory,
    kinds::KindIndex,
    ownership::PackageOwners,
    policy::Policy,
    profile::Profile,
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

/// All loaded policies, ready for evaluation. They do not change, except that results of arrays are cached.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// The digest of its sources.
    pub digest: Digest,
    /// The profile of the builtin library; `None` if it is not one of the sources.
    pub(crate) profile: Option<Profile>,
    /// All files that were read, including refused ones, each with the index of its source.
    pub(crate) files: BTreeMap<Arc<str>, usize>,
    /// The sources that own the packages.
    pub(super) package_owners: PackageOwners,
    /// The policies, sorted by name.
    pub policies: Vec<Policy>,
    /// The user's rule settings.
    pub rule_changes: RuleChanges,
    /// Warnings, and reasons why files were refused.
    pub problems: Vec<Problem>,
    /// The limits of evaluation.
    pub limits: Limits,
    /// Policies that cannot be evaluated because kaudit does not provide what they need; sorted by name.
    pub unjudged: Vec<Unjudged>,
    /// Policies that do not apply here; sorted by name.
    pub left_out: Vec<Unjudged>,
    /// The frameworks of libraries among the sources, with their controls.
    pub frameworks: Arc<[FrameworkTable]>,
    /// The bundles among the sources.
    pub bundles: Vec<Edition>,
    /// Gatekeeper's `Config`s among the policies.
    pub(crate) config: Config,
    pub(crate) units: Vec<Unit>,
    /// The `ValidatingAdmissionPolicies`, each with one of its bindings.
    pub(crate) admission: AdmissionPolicies,
    /// The objects that are evaluated in place of those that would create them.
    pub(crate) expansions: Expansions,
    /// The kinds with validation rules of their CRDs.
    pub(crate) custom: CustomKinds,
    pub(crate) kinds: Arc<KindIndex>,
    pub(crate) constraints: Arc<ConstraintIndex>,
    /// Which rules have the same results for objects with equal sharing keys.
    pub(crate) sharing: Arc<Sharing>,
}

impl PolicySet {
    /// Returns the profile of the builtin library if it is used, and the profile is not the default.
    pub(crate) fn shown_profile(&self) -> Option<Profile> {
        self.profile.filter(|profile| *profile != Profile::default())
    }

    /// Returns the set if nothing was refused.
    ///
    /// # Errors
    /// Returns every problem otherwise, without those that only result from others.
    pub fn whole(self) -> Result<Self, LoadError> {
        if self.is_partial() { Err(LoadError::new(self.problems)) } else { Ok(self) }
    }

    /// Returns the set if it may replace `before`: if it refuses no file that is in force in `before`, since a typing
    /// error must not disable a working policy. A refused new file does not matter.
    ///
    /// # Errors
    /// See [`Self::whole`].
    pub fn after(self, before: &Self) -> Result<Self, LoadError> {
        let known = before.refused_files();
        let worse =
            self.refused_files().keys().any(|file| before.files.contains_key(*file) && !known.contains_key(*file));
        if worse { Err(LoadError::new(self.problems)) } else { Ok(self) }
    }

    /// Returns the reasons why files were not loaded.
    pub fn refused(&self) -> impl DoubleEndedIterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_refusal())
    }

    /// Returns the files that were not loaded, each with its first problem.
    pub fn refused_files(&self) -> BTreeMap<&Arc<str>, &Problem> {
        self.refused().map(|problem| (&problem.file, problem)).rev().collect()
    }

    /// Returns the index of a file's source; 0 for unknown files.
    pub(crate) fn source_of(&self, file: &str) -> usize {
        self.files.get(file).copied().unwrap_or_default()
    }

    /// Whether a file was not loaded.
    pub fn is_partial(&self) -> bool {
        self.refused().next().is_some()
    }

    /// Returns the dependencies of verdicts on objects of this kind, besides the object.
    pub fn dependencies(&self, kind: &Kind) -> Dependencies {
        let plain = self.kinds.of(kind).dependencies | self.admission.dependencies(kind);
        let constraints = self.constraints.candidates(&self.units, kind).into_iter();
        let constraints = constraints.filter_map(|(unit, index)| {
            let unit = &self.units[unit];
            let template = unit.template()?;
            let depends = template.depends & unit.dependencies(&kind.kind);
            let namespace = depends.namespace || template.constraints[index].matching.needs_namespace();
            Some(Dependencies { namespace, ..depends })
        });
        let own = constraints.fold(plain, BitOr::bitor);
        let generated = self.expansions.of(kind).map(|expansion| expansion.generated(kind.namespaced));
        generated.map(|generated| self.dependencies(&generated)).fold(own, BitOr::bitor)
    }

    /// Whether no verdict depends on another object.
    pub fn evaluates_objects_alone(&self) -> bool {
        !self.policies.iter().any(|policy| policy.depends.inventory || policy.depends.namespace)
    }

    /// Whether a policy can have results for objects of this kind, or reads them when other objects are evaluated.
    pub fn concern(&self, kind: &Kind) -> bool {
        // Constraints also select by group.
        let plain = self.policies.iter().filter(|policy| !policy.dialect.has_constraints);
        plain.map(|policy| &policy.matches).any(|matches| matches.matches(&kind.kind))
            || !self.constraints.candidates(&self.units, kind).is_empty()
            || self.admission.of(kind).next().is_some()
            || self.custom.of(kind).is_some()
            || self.look_up(kind)
            || self.expansions.of(kind).any(|expansion| self.concern(&expansion.generated(kind.namespaced)))
    }

    /// Whether a policy reads objects of this kind when other objects are evaluated.
    pub fn look_up(&self, kind: &Kind) -> bool {
        self.inventory_reads().touches(kind)
            || kind.is("", "Namespace") && self.policies.iter().any(|policy| policy.depends.namespace)
    }

    /// Returns the fields of objects of this kind that the policies read.
    ///
    /// Two states of an object that are equal in these fields have the same verdict, as far as it depends on the object
    /// alone; other dependencies are in [`Self::dependencies`]. A policy that reads transitions has to be evaluated for
    /// each of them, and an evaluation that failed, for example because of a time limit, may have another result the
    /// next time.
    pub fn projection(&self, kind: &Kind) -> &Projection {
        &self.kinds.of(kind).projection
    }

    /// Returns a hash of the fields of an object that policies read; `None` if only evaluation can decide, as for
    /// [`Projection::hash`].
    pub fn projected(&self, object: &Object) -> Option<Projected> {
        let hash = self.projection(&object.key.kind).hash(&object.body.json().ok()?)?;
        Some(Projected { policies: self.digest, hash: NonZeroU64::new(hash)? })
    }

    /// Returns the fields of a Namespace that verdicts on its objects depend on, besides its name.
    pub fn namespace_projection(&self) -> &Projection {
        &self.kinds.namespace
    }

    /// Returns the lookups of the policies: the kinds that the inventory must contain, and the changes of their objects
    /// that can affect verdicts on others.
    pub fn inventory_reads(&self) -> &InventoryReads {
        &self.kinds.inventory
    }

    /// Returns the widest scope in which policies look up objects of `kind` when evaluating objects of `evaluated`;
    /// `None` if they do not.
    pub(crate) fn widest_reach(&self, evaluated: &Kind, kind: &Kind) -> Option<LookupReach> {
        self.kinds.of(evaluated).lookups.widest_reach(kind)
    }

    /// Whether policies look up kinds that are still being read when evaluating objects of a kind.
    pub(crate) fn awaits(&self, lookups: &LookupState, kind: &Kind) -> bool {
        lookups.awaits(&self.kinds.of(kind).lookups)
    }

    /// Returns the policies with the objects of an inventory for lookups, without arrays.
    #[must_use]
    pub(crate) fn with_objects(&self, inventory: &Inventory) -> Self {
        let units = self.units.iter().map(|unit| unit.with_inventory(inventory)).collect();
        Self { units, admission: self.admission.with_inventory(inventory), ..self.clone() }
    }

    /// Returns the Constraint with this name and kind, if its template is in CEL.
    pub(crate) fn constraint_in_cel(&self, kind: &str, name: &str) -> Option<&Constraint> {
        let mut constraints = self.units.iter().flat_map(Unit::constraints);
        constraints.find(|one| one.expressions.is_some() && *one.policy == *kind && *one.rule.name == *name)
    }

    /// Returns the number of rules.
    pub fn rules(&self) -> usize {
        self.policies.iter().map(|policy| policy.rules.len()).sum()
    }

    /// Returns the classes by which results are counted, as far as they are determined by rules and not by single
    /// results.
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
