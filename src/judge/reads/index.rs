//! All units of a policy set together, by kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    InventoryReads, Projection,
    tree::{Key, Tree},
};
use crate::judge::{dependencies::Dependencies, gatekeeper::Match, unit::Unit};

/// What a verdict on objects of one kind depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfKind {
    pub(crate) projection: Projection,
    /// Of the rules that are asked about every object, Constraints left out.
    pub(crate) dependencies: Dependencies,
}

/// What verdicts depend on, by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    named: BTreeMap<Arc<str>, OfKind>,
    other: OfKind,
    pub(crate) inventory: InventoryReads,
}

impl Index {
    pub(crate) fn new(units: &[Unit]) -> Self {
        let mut kinds: BTreeSet<&str> = BTreeSet::new();
        for unit in units {
            kinds.extend(unit.groups.iter().flat_map(|group| group.scopes.kinds()).map(|kind| &**kind));
            kinds.extend(unit.constraints.iter().filter_map(|constraint| constraint.matching.kind_names()).flatten());
        }
        let mut index = Self::default();
        for kind in kinds {
            let of_kind = index.add(units, kind);
            index.named.insert(kind.into(), of_kind);
        }
        // No kind has this name.
        index.other = index.add(units, "");
        index
    }

    /// Takes together what is read of objects of a kind, of any group.
    fn add(&mut self, units: &[Unit], kind: &str) -> OfKind {
        let mut object = Tree::default();
        let mut dependencies = Dependencies::default();
        for unit in units {
            let matching = unit.constraints.iter().map(|constraint| &constraint.matching);
            let mut matching =
                matching.filter(|one| one.kind_names().is_none_or(|names| names.contains(&kind))).peekable();
            if !unit.asks_everything() && matching.peek().is_none() {
                continue;
            }
            for path in matching.flat_map(Match::reads) {
                object.insert(&path.map(Key::from), true);
            }
            for group in &unit.groups {
                for reads in group.scopes.of(kind).into_iter().flat_map(|scope| &scope.reads) {
                    object.merge(&reads.object(group.dialect));
                    self.inventory.merge(&reads.inventory());
                    // Of Constraints it also depends on the group.
                    if unit.asks_everything() {
                        dependencies = dependencies | reads.dependencies(group.dialect);
                    }
                }
            }
        }
        OfKind { projection: Projection::new(object), dependencies }
    }

    pub(crate) fn of(&self, kind: &str) -> &OfKind {
        self.named.get(kind).unwrap_or(&self.other)
    }
}
