//! What the policies read of other objects, through `data.inventory` (Gatekeeper) and `data.kubernetes` (kube-mgmt).

use super::{projection::Projection, tree::Tree};
use crate::{judge::kubescape::matching::ResourceMatch, model::object::Kind};

/// What is read below `data` of the documents that hold other objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InventoryReads {
    data: Tree,
    /// What rules in Kubescape's dialect read of objects that they are given together, and of which kinds.
    arrays: Vec<(Vec<ResourceMatch>, Tree)>,
}

impl InventoryReads {
    pub(super) fn new(data: Tree) -> Self {
        Self { data, arrays: Vec::new() }
    }

    /// What a rule reads of the objects that it relates to each other.
    pub(crate) fn of_array(matching: Vec<ResourceMatch>, read: Tree) -> Self {
        Self { data: Tree::default(), arrays: vec![(matching, read)] }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.data.merge(&other.data);
        let new = other.arrays.iter().filter(|array| !self.arrays.contains(array)).cloned().collect::<Vec<_>>();
        self.arrays.extend(new);
    }

    /// Whether objects of a kind, or only that there are some, can be seen through the inventory.
    pub fn touches(&self, kind: &Kind) -> bool {
        self.of(kind).is_some()
    }

    /// Returns what is read of each object of a kind in the inventory; `None` if the kind is not read. A change of anything
    /// else changes no verdict by way of the inventory, but a new or a deleted object may.
    pub fn of(&self, kind: &Kind) -> Option<Projection> {
        let in_array = |(matching, _): &&(Vec<ResourceMatch>, Tree)| matching.iter().any(|one| one.matches(kind));
        let arrays = self.arrays.iter().filter(in_array).map(|(_, read)| read.clone());
        let read = self.documents(kind).chain(arrays).reduce(|mut all, more| {
            all.merge(&more);
            all
        });
        read.map(Projection::new)
    }

    /// Whether objects of a kind can be seen at their paths below `data`, by policies about any other object.
    pub(crate) fn reach_below_data(&self, kind: &Kind) -> bool {
        self.documents(kind).next().is_some()
    }

    /// Returns what is read of each object of a kind below `data`, in both documents.
    fn documents(&self, kind: &Kind) -> impl Iterator<Item = Tree> {
        let data = &self.data;
        let version = kind.api_version();
        let gatekeeper = data.field("inventory").and_then(|tree| {
            let below_names = [Some(version.as_str()), Some(&kind.kind), None];
            if kind.namespaced {
                below(&tree, &[&[Some("namespace"), None], below_names.as_slice()].concat())
            } else {
                below(&tree, &[&[Some("cluster")], below_names.as_slice()].concat())
            }
        });
        let names: &[Option<&str>] = if kind.namespaced { &[None, None] } else { &[None] };
        let kube_mgmt =
            data.field("kubernetes").and_then(|tree| below(&tree, &[&[Some(kind.plural.as_str())], names].concat()));
        [gatekeeper, kube_mgmt].into_iter().flatten()
    }

    /// Whether nothing of the inventory is read.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Descends by names, or over all entries of a level (`None`); returns what is read at the end. What is read on the way may
/// depend on whether there is anything below it.
fn below(tree: &Tree, levels: &[Option<&str>]) -> Option<Tree> {
    let Some((level, rest)) = levels.split_first() else { return Some(tree.clone()) };
    let next = match level {
        Some(name) => tree.field(name),
        None => tree.parts(),
    };
    let found = next.and_then(|next| below(&next, rest));
    found.or_else(|| tree.seen.then(Tree::default))
}

/// Whether all objects of a kind are iterated over, given the places that are.
pub(super) fn scans(loops: &Tree) -> bool {
    let data = loops.field("data").unwrap_or_default();
    let inventory = data.field("inventory").unwrap_or_default();
    // namespace → (over namespaces) → version → kind → (over names)
    let namespaced = inventory.field("namespace").is_some_and(|tree| {
        let kind = [0; 3].iter().try_fold(tree.clone(), |tree, _| tree.parts());
        tree.seen && kind.is_some_and(|kind| kind.seen)
    });
    let cluster = inventory.field("cluster").is_some_and(|tree| {
        let kind = [0; 2].iter().try_fold(tree, |tree, _| tree.parts());
        kind.is_some_and(|kind| kind.seen)
    });
    let kubernetes = data
        .field("kubernetes")
        .and_then(|tree| tree.parts())
        .is_some_and(|kind| kind.seen && kind.parts().is_none_or(|namespace| namespace.seen));
    namespaced || cluster || kubernetes
}
