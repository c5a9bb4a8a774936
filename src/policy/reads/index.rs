//! All units of a policy set together, by kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    InventoryReads, Projection,
    tree::{Key, Tree},
};
use crate::policy::{Dependencies, Dialect, unit::Unit};

/// The metadata by which Constraints are matched and Gatekeeper's settings exempt.
const MATCHED: [&str; 4] = ["name", "generateName", "namespace", "labels"];

/// What a verdict on objects of one kind depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfKind {
    pub(crate) projection: Projection,
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
        let groups = || units.iter().flat_map(|unit| &unit.groups);
        let kinds: BTreeSet<&Arc<str>> = groups().flat_map(|group| group.scopes.kinds()).collect();
        let mut inventory = InventoryReads::default();
        let mut of = |kind: &str| {
            let mut object = Tree::default();
            let mut dependencies = Dependencies::default();
            for group in groups() {
                if group.dialect == Dialect::Gatekeeper {
                    MATCHED.iter().for_each(|field| object.insert(&["metadata", field].map(Key::from), true));
                }
                for reads in group.scopes.of(kind).into_iter().flat_map(|scope| &scope.reads) {
                    object.merge(&reads.object(group.dialect));
                    dependencies = dependencies | reads.dependencies(group.dialect);
                    inventory.merge(&reads.inventory());
                }
            }
            OfKind { projection: Projection::new(object), dependencies }
        };
        // No kind has this name.
        let other = of("");
        let named = kinds.into_iter().map(|kind| (Arc::clone(kind), of(kind))).collect();
        Self { named, other, inventory }
    }

    pub(crate) fn of(&self, kind: &str) -> &OfKind {
        self.named.get(kind).unwrap_or(&self.other)
    }
}
