//! The dependencies of verdicts by kind, over all units of a policy set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    dependencies::Dependencies,
    dialects::{gatekeeper::matching::ConstraintMatch, kubescape::rule::KubescapeRule},
    reads::{InventoryReads, Projection, ReadTree, Segment},
    unit::Unit,
};

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
    named: BTreeMap<Arc<str>, KindDependencies>,
    other: KindDependencies,
    pub(crate) inventory: InventoryReads,
    /// The fields of the objects' Namespaces that are read.
    pub(crate) namespace: Projection,
}

impl KindIndex {
    pub(crate) fn new(units: &[Unit]) -> Self {
        let mut kinds: BTreeSet<&str> = BTreeSet::new();
        let kubescape_kinds: Vec<_> =
            units.iter().map(|unit| unit.kubescape().and_then(KubescapeRule::kind_names)).collect();
        for (index, unit) in units.iter().enumerate() {
            kinds.extend(unit.groups.iter().flat_map(|group| group.queries.kinds()).map(|kind| &**kind));
            kinds.extend(kubescape_kinds[index].iter().flatten().map(|kind| &**kind));
            kinds.extend(unit.constraints().iter().filter_map(|constraint| constraint.matching.kind_names()).flatten());
        }
        let mut index = Self::default();
        for kind in kinds {
            let dependencies = index.add(units, kind);
            index.named.insert(kind.into(), dependencies);
        }
        // No kind has an empty name.
        index.other = index.add(units, "");
        index.namespace = Projection::new(namespace(units));
        index
    }

    /// Merges the read sets of all units for objects of a kind, of any group.
    fn add(&mut self, units: &[Unit], kind: &str) -> KindDependencies {
        let mut object = ReadTree::default();
        let mut dependencies = Dependencies::default();
        let mut lookups = InventoryReads::default();
        for unit in units {
            let matching = unit.constraints().iter().map(|constraint| &constraint.matching);
            let mut matching =
                matching.filter(|one| one.kind_names().is_none_or(|names| names.contains(&kind))).peekable();
            if !unit.evaluates_every_object() && matching.peek().is_none() || !unit.is_about(kind) {
                continue;
            }
            for path in matching.flat_map(ConstraintMatch::reads) {
                object.insert(&path.map(Segment::from), true);
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
        self.inventory.merge(&lookups);
        KindDependencies { projection: Projection::new(object), dependencies, lookups }
    }

    /// Returns the names of the kinds that the policies distinguish.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.named.keys()
    }

    /// Returns the dependencies of verdicts on objects of a kind, including kinds that no policy mentions.
    pub(crate) fn of(&self, kind: &str) -> &KindDependencies {
        self.named.get(kind).unwrap_or(&self.other)
    }
}

/// Merges the read sets for the objects' Namespaces.
fn namespace(units: &[Unit]) -> ReadTree {
    let mut tree = ReadTree::default();
    for group in units.iter().flat_map(|unit| &unit.groups) {
        tree.merge(&group.queries.namespace(group.dialect));
    }
    if units.iter().flat_map(Unit::constraints).any(|constraint| constraint.matching.needs_namespace()) {
        tree.insert(&["metadata", "labels"].map(Segment::from), true);
    }
    tree
}
