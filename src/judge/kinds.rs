//! The dependencies of verdicts by kind, over all units of a policy set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    dependencies::Dependencies,
    dialects::{
        cel::set::AdmissionPolicies,
        crd::{load::CustomKind, set::CustomKinds},
        gatekeeper::{constraint::BoundTemplate, matching::ConstraintMatch},
        kubescape::rule::KubescapeRule,
    },
    expansions::Expansions,
    reads::{InventoryReads, Projection, ReadTree, Segment},
    unit::Unit,
};
use crate::model::{object::Kind, plural::plural};

/// The dependencies of verdicts on objects of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct KindDependencies {
    /// The fields of the objects that are read.
    pub(crate) projection: Projection,
    /// The dependencies of the rules that are evaluated on every object, without those of Constraints, which also
    /// select by group.
    pub(crate) dependencies: Dependencies,
    /// The lookups of rules and Constraints.
    pub(crate) lookups: InventoryReads,
}

/// The dependencies of verdicts, by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct KindIndex {
    /// The kinds of resources that no admission policy names.
    kinds: NamedKinds,
    /// The kinds whose objects are expanded, with what is read of the objects that these would create.
    expanded: BTreeMap<Arc<str>, KindDependencies>,
    /// The kinds of resources that admission policies name, by their plural names.
    resources: BTreeMap<Arc<str>, ResourceKinds>,
    /// The kinds with rules of their CRDs, by group and name.
    custom: BTreeMap<Arc<str>, BTreeMap<Arc<str>, KindDependencies>>,
    pub(crate) inventory: InventoryReads,
    /// The fields of the objects' Namespaces that are read.
    pub(crate) namespace: Projection,
}

/// The dependencies of verdicts by name of the kind.
#[derive(Debug, Clone, Default)]
struct NamedKinds {
    named: BTreeMap<Arc<str>, KindDependencies>,
    other: KindDependencies,
}

/// The dependencies of verdicts on objects of a resource.
#[derive(Debug, Clone, Default)]
struct ResourceKinds {
    /// The kinds whose regular plural it is, and those that no policy names.
    kinds: NamedKinds,
    /// Kinds that a policy names and whose plural is irregular: the dependencies of all kinds together.
    irregular: KindDependencies,
}

/// The dependencies of verdicts on objects of a kind, while they are collected.
#[derive(Clone, Default)]
struct CollectedReads {
    object: ReadTree,
    dependencies: Dependencies,
    lookups: InventoryReads,
}

impl From<CollectedReads> for KindDependencies {
    fn from(CollectedReads { object, dependencies, lookups }: CollectedReads) -> Self {
        Self { projection: Projection::new(object), dependencies, lookups }
    }
}

impl CollectedReads {
    /// Adds what admission policies read of objects of a resource; `None` is one that no policy names.
    fn with(mut self, admission: &AdmissionPolicies, resource: Option<&str>) -> Self {
        admission.add_reads(resource, &mut self.object, &mut self.lookups);
        self
    }
}

impl KindIndex {
    pub(crate) fn new(
        units: &[Unit],
        admission: &AdmissionPolicies,
        expansions: &Expansions,
        custom: &CustomKinds,
    ) -> Self {
        let mut kinds: BTreeSet<&str> = BTreeSet::new();
        let kubescape_kinds: Vec<_> =
            units.iter().map(|unit| unit.kubescape().and_then(KubescapeRule::kind_names)).collect();
        for (index, unit) in units.iter().enumerate() {
            kinds.extend(unit.groups.iter().flat_map(|group| group.queries.kinds()).map(|kind| &**kind));
            kinds.extend(kubescape_kinds[index].iter().flatten().map(|kind| &**kind));
            kinds.extend(unit.constraints().iter().filter_map(|constraint| constraint.matching.kind_names()).flatten());
        }
        // No kind has an empty name.
        let other = collect(units, "");
        let named: BTreeMap<&str, CollectedReads> =
            kinds.into_iter().map(|kind| (kind, collect(units, kind))).collect();
        let (mut inventory, mut namespace) = (InventoryReads::default(), namespace(units));
        named.values().chain([&other]).for_each(|reads| inventory.merge(&reads.lookups));
        admission.add_others(&mut inventory, &mut namespace);
        let of_resource = |resource: &str| (resource.into(), resource_kinds((&named, &other), admission, resource));
        let resources = admission.resources().into_iter().map(of_resource).collect();
        let index = |(kind, reads): (&str, CollectedReads)| (kind.into(), reads.with(admission, None).into());
        let other = other.with(admission, None).into();
        let kinds = NamedKinds { named: named.into_iter().map(index).collect(), other };
        let of_expanded = |kind: &str| (kind.into(), expanded(units, admission, expansions, kind).into());
        let expanded = expansions.kind_names().into_iter().map(of_expanded).collect();
        let namespace = Projection::new(namespace);
        Self { kinds, expanded, resources, custom: BTreeMap::new(), inventory, namespace }.with_custom(custom)
    }

    /// Adds what rules of CRDs read.
    fn with_custom(mut self, custom: &CustomKinds) -> Self {
        for (group, kinds) in custom.by_group() {
            let index = |custom: &&CustomKind| {
                let others = self.of_all(&custom.plural, &custom.kind);
                let projection = others.projection.and(&custom.reads);
                (Arc::clone(&custom.kind), KindDependencies { projection, ..others.clone() })
            };
            let kinds = kinds.iter().map(index).collect();
            self.custom.insert(group.into(), kinds);
        }
        self
    }

    /// Returns the names of the kinds that the policies distinguish.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.kinds.named.keys()
    }

    /// Returns the dependencies of verdicts on objects of a kind, including kinds that no policy mentions.
    pub(crate) fn of(&self, kind: &Kind) -> &KindDependencies {
        let custom = self.custom.get(&*kind.group).and_then(|kinds| kinds.get(&*kind.kind));
        custom.unwrap_or_else(|| self.of_all(&kind.plural, &kind.kind))
    }

    /// Returns the dependencies of verdicts on objects of a kind, without those of the rules of its CRD.
    fn of_all(&self, plural: &str, name: &str) -> &KindDependencies {
        if let Some(expanded) = self.expanded.get(name) {
            return expanded;
        }
        let Some(resource) = self.resources.get(plural) else {
            return self.kinds.named.get(name).unwrap_or(&self.kinds.other);
        };
        let irregular = || self.kinds.named.contains_key(name).then_some(&resource.irregular);
        resource.kinds.named.get(name).or_else(irregular).unwrap_or(&resource.kinds.other)
    }
}

/// Merges the dependencies of kinds with those of admission policies on objects of a resource.
fn resource_kinds(
    (named, other): (&BTreeMap<&str, CollectedReads>, &CollectedReads),
    admission: &AdmissionPolicies,
    resource: &str,
) -> ResourceKinds {
    let index = |reads: &CollectedReads| KindDependencies::from(reads.clone().with(admission, Some(resource)));
    let regular = named.iter().filter(|(kind, _)| plural(kind) == resource);
    let all = named.values().fold(other.clone(), |mut all, reads| {
        all.object.merge(&reads.object);
        all.lookups.merge(&reads.lookups);
        all.dependencies = all.dependencies | reads.dependencies;
        all
    });
    ResourceKinds {
        kinds: NamedKinds {
            named: regular.map(|(kind, reads)| ((*kind).into(), index(reads))).collect(),
            other: index(other),
        },
        irregular: index(&all),
    }
}

/// Merges the read sets for objects of a kind with those for the objects that they would create. What admission policies
/// read of other resources is included, since the plural names of kinds are not known.
fn expanded(units: &[Unit], admission: &AdmissionPolicies, expansions: &Expansions, kind: &str) -> CollectedReads {
    let mut all = collect(units, kind);
    admission.add_all_reads(&mut all.object, &mut all.lookups);
    for expansion in expansions.of_name(kind) {
        let generated = expanded(units, admission, expansions, &expansion.kind);
        let object = expansion.path.iter().rev().fold(generated.object, |below, field| below.below(field));
        all.object.merge(&object);
        all.lookups.merge(&generated.lookups);
        all.dependencies = all.dependencies | generated.dependencies;
    }
    all
}

/// Merges the read sets of all units for objects of a kind, of any group.
fn collect(units: &[Unit], kind: &str) -> CollectedReads {
    let CollectedReads { mut object, mut dependencies, mut lookups } = CollectedReads::default();
    for unit in units {
        let matching = unit.constraints().iter().map(|constraint| &constraint.matching);
        let mut matching = matching.filter(|one| one.kind_names().is_none_or(|names| names.contains(&kind))).peekable();
        if !unit.evaluates_every_object() && matching.peek().is_none() || !unit.is_about(kind) {
            continue;
        }
        for path in matching.flat_map(ConstraintMatch::reads) {
            object.insert(&path.map(Segment::from), true);
        }
        if let Some(bound) = unit.template().and_then(BoundTemplate::expressions) {
            object.merge(&bound.object_reads);
        }
        for group in &unit.groups {
            for reads in group.queries.of(kind).into_iter().flat_map(|query| &query.reads) {
                object.merge(&reads.object(group.dialect));
                lookups.merge(&reads.inventory());
                if let Some(array) = unit.array_reads(group.dialect, reads) {
                    lookups.merge(&array);
                    dependencies.inventory = true;
                }
                if unit.evaluates_every_object() {
                    dependencies = dependencies | reads.dependencies(group.dialect);
                }
            }
        }
    }
    CollectedReads { object, dependencies, lookups }
}

/// Merges the read sets for the objects' Namespaces.
fn namespace(units: &[Unit]) -> ReadTree {
    let mut tree = ReadTree::default();
    for group in units.iter().flat_map(|unit| &unit.groups) {
        tree.merge(&group.queries.namespace(group.dialect));
    }
    for bound in units.iter().filter_map(Unit::template).filter_map(BoundTemplate::expressions) {
        tree.merge(&bound.namespace_reads);
    }
    if units.iter().flat_map(Unit::constraints).any(|constraint| constraint.matching.needs_namespace()) {
        tree.insert(&["metadata", "labels"].map(Segment::from), true);
    }
    tree
}
