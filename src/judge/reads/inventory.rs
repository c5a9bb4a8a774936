//! The fields of other objects that policies read, through `data.inventory` (Gatekeeper) and `data.kubernetes`
//! (kube-mgmt).

use std::{collections::BTreeSet, sync::Arc};

use super::{
    projection::Projection,
    tree::{ReadTree, Segment},
};
use crate::{judge::resource_match::ResourceMatch, model::object::Kind};

/// Placeholder for the namespace of the evaluated object. Not a valid name of a namespace.
pub(super) const OWN_NAMESPACE: &str = "<own>";

/// The namespaces in which objects of a kind are looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LookupReach {
    /// In the namespace of the evaluated object.
    Own,
    /// In the namespace with this name.
    Named(Arc<str>),
    /// In all namespaces, or the kind is cluster-scoped.
    All,
}

/// How a kind is looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KindReach {
    pub(crate) places: BTreeSet<LookupReach>,
    /// Whether rules refer to the kind by name, rather than iterating over all kinds.
    pub(crate) named: bool,
}

impl KindReach {
    fn add(&mut self, place: LookupReach, named: bool) {
        self.places.insert(place);
        self.named |= named;
    }
}

/// The read set of a rule for the objects that it relates to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ArrayReads {
    matching: Vec<ResourceMatch>,
    read: ReadTree,
    /// Whether the array contains all objects of the cluster, rather than those of one namespace and the cluster-scoped
    /// ones.
    whole_cluster: bool,
}

/// The lookups of rules: the paths below `data` in the documents with other objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InventoryReads {
    data: ReadTree,
    /// The read sets of rules in Kubescape's dialect for the objects in their arrays, with the kinds of these objects.
    arrays: Vec<ArrayReads>,
}

impl InventoryReads {
    pub(super) fn new(data: ReadTree) -> Self {
        Self { data, arrays: Vec::new() }
    }

    /// Returns the lookups of objects of a kind, given its `apiVersion` and name: one object by its name, or all; in a
    /// namespace, or that of the evaluated object (`None`); or cluster-scoped ones. `read` are the fields that are read.
    pub(crate) fn of_objects(
        [version, kind]: [&str; 2],
        namespace: Option<&str>,
        name: Option<&str>,
        read: &ReadTree,
    ) -> Self {
        let name = || name.map_or(Segment::Any, Segment::from);
        let of_kind = || [version.into(), kind.into(), name()];
        let namespaced = ["inventory".into(), "namespace".into(), namespace.unwrap_or(OWN_NAMESPACE).into()];
        let cluster = ["inventory".into(), "cluster".into()];
        let mut data = below_path(namespaced.into_iter().chain(of_kind()), read);
        if namespace.is_none() {
            data.merge(&below_path(cluster.into_iter().chain(of_kind()), read));
        }
        Self::new(data)
    }

    /// Returns the lookups of whole objects of a resource, by its plural name.
    pub(crate) fn of_resource(plural: &str, place: &LookupReach) -> Self {
        let path = ["kubernetes".into(), plural.into()].into_iter();
        let place = match place {
            LookupReach::Own => Some(OWN_NAMESPACE.into()),
            LookupReach::Named(name) => Some(Segment::Field(Arc::clone(name))),
            LookupReach::All => None,
        };
        let whole = ReadTree { whole: true, seen: true, ..ReadTree::default() };
        Self::new(below_path(path.chain(place).collect::<Vec<_>>().into_iter(), &whole))
    }

    /// Returns the lookups of a rule that relates objects to each other.
    pub(crate) fn of_array(matching: Vec<ResourceMatch>, read: ReadTree, whole_cluster: bool) -> Self {
        Self { data: ReadTree::default(), arrays: vec![ArrayReads { matching, read, whole_cluster }] }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.data.merge(&other.data);
        let new = other.arrays.iter().filter(|array| !self.arrays.contains(array)).cloned().collect::<Vec<_>>();
        self.arrays.extend(new);
    }

    /// Whether rules can observe objects of a kind, or their existence, through the inventory.
    pub fn touches(&self, kind: &Kind) -> bool {
        self.of(kind).is_some()
    }

    /// Returns the fields of a kind's objects that are read through the inventory; `None` if the kind is not looked up.
    /// Changes of other fields do not change a verdict, but a new or a deleted object may.
    pub fn of(&self, kind: &Kind) -> Option<Projection> {
        let in_array = |array: &&ArrayReads| array.matching.iter().any(|one| one.matches(kind));
        let arrays = self.arrays.iter().filter(in_array).map(|array| array.read.clone());
        let read = self.documents(kind).chain(arrays).reduce(|mut all, more| {
            all.merge(&more);
            all
        });
        read.map(Projection::new)
    }

    /// Returns where objects of a kind are looked up; empty if the kind is not looked up.
    pub(crate) fn reach(&self, kind: &Kind) -> KindReach {
        let mut reach = KindReach::default();
        for array in &self.arrays {
            for matching in array.matching.iter().filter(|matching| matching.matches(kind)) {
                let all = array.whole_cluster || !kind.namespaced;
                reach.add(if all { LookupReach::All } else { LookupReach::Own }, matching.names_kinds());
            }
        }
        let version = kind.api_version();
        let levels = [Some(version.as_str()), Some(&kind.kind), None];
        let root = if kind.namespaced { "namespace" } else { "cluster" };
        if let Some(tree) = self.data.field("inventory").and_then(|tree| tree.field(root).or(seen(&tree))) {
            let of = |tree: &ReadTree| {
                below(tree, &levels)?;
                let versions = tree.fields.iter().filter(|(name, _)| ***name == *version).map(|(_, tree)| tree);
                Some(versions.chain(&tree.any).any(|tree| tree.fields.contains_key(&*kind.kind)))
            };
            reach_below(&mut reach, (&tree, false), kind.namespaced, of);
        }
        if let Some(kinds) = self.data.field("kubernetes") {
            let named = kinds.fields.contains_key(&*kind.plural);
            if let Some(tree) = kinds.field(&kind.plural).or(seen(&kinds)) {
                reach_below(&mut reach, (&tree, named), kind.namespaced, |tree| below(tree, &[None]).map(|_| named));
            }
        }
        reach
    }

    /// Returns the widest scope of lookups of a kind: the namespace of the evaluated object, or anywhere (`All`);
    /// `None` if the kind is not looked up.
    pub(crate) fn widest_reach(&self, kind: &Kind) -> Option<LookupReach> {
        let places = self.reach(kind).places;
        let is_own = !places.is_empty() && places.iter().all(|place| *place == LookupReach::Own);
        self.touches(kind).then_some(if is_own { LookupReach::Own } else { LookupReach::All })
    }

    /// Whether a kind is looked up by its name.
    pub fn names(&self, kind: &Kind) -> bool {
        self.reach(kind).named
    }

    /// Whether kinds of a group are looked up by the group's name.
    pub(crate) fn names_group(&self, group: &str) -> bool {
        let names = |tree: &ReadTree| {
            tree.fields.keys().any(|version| version.split_once('/').is_some_and(|(own, _)| own == group))
        };
        let inventory = self.data.field("inventory").unwrap_or_default();
        let namespaced = inventory.field("namespace").and_then(|tree| tree.parts()).is_some_and(|tree| names(&tree));
        let in_array = |matching: &ResourceMatch| matching.names_group(group);
        namespaced
            || inventory.field("cluster").is_some_and(|tree| names(&tree))
            || self.arrays.iter().flat_map(|array| &array.matching).any(in_array)
    }

    /// Whether a kind that is not among these is looked up by name.
    pub(crate) fn names_others(&self, known: &[&Kind]) -> bool {
        let inventory = self.data.field("inventory").unwrap_or_default();
        let namespaced = inventory.field("namespace").and_then(|tree| tree.parts()).unwrap_or_default();
        let cluster = inventory.field("cluster").unwrap_or_default();
        let versions = |tree: &ReadTree| -> Vec<(Option<Arc<str>>, Arc<ReadTree>)> {
            let named = tree.fields.iter().map(|(version, kinds)| (Some(Arc::clone(version)), Arc::clone(kinds)));
            named.chain(tree.any.clone().map(|kinds| (None, kinds))).collect()
        };
        let is_other = |(version, kinds): (Option<Arc<str>>, Arc<ReadTree>)| {
            let is_version = |kind: &Kind| version.as_ref().is_none_or(|version| kind.api_version() == **version);
            kinds.fields.keys().any(|name| !known.iter().any(|kind| kind.kind == **name && is_version(kind)))
        };
        let mut in_arrays = self.arrays.iter().flat_map(|array| &array.matching).flat_map(ResourceMatch::single);
        versions(&namespaced).into_iter().chain(versions(&cluster)).any(is_other)
            || self.plurals().any(|plural| !known.iter().any(|kind| kind.plural == *plural))
            || in_arrays.any(|one| !known.iter().any(|kind| one.matches(kind)))
    }

    /// Returns the plurals of the kinds that are looked up by name, of any group.
    pub(crate) fn plurals(&self) -> impl Iterator<Item = &str> {
        let kinds = self.data.fields.get("kubernetes");
        kinds.into_iter().flat_map(|kinds| kinds.fields.keys().map(|plural| &**plural))
    }

    /// Whether any rule can read objects of a kind at their paths below `data`.
    pub(crate) fn reach_below_data(&self, kind: &Kind) -> bool {
        self.documents(kind).next().is_some()
    }

    /// Returns the read sets for objects of a kind below `data`, for both documents.
    fn documents(&self, kind: &Kind) -> impl Iterator<Item = ReadTree> {
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

    /// Whether there are no lookups.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the tree in which a tree is below a path.
fn below_path(path: impl DoubleEndedIterator<Item = Segment>, tree: &ReadTree) -> ReadTree {
    path.rev().fold(tree.clone(), |below, segment| {
        let below = Arc::new(below);
        match segment {
            Segment::Field(name) => ReadTree { fields: [(name, below)].into(), ..ReadTree::default() },
            Segment::Any => ReadTree { any: Some(below), ..ReadTree::default() },
        }
    })
}

/// Returns an existence-only read below a root; `None` if existence is not read.
fn seen(tree: &ReadTree) -> Option<ReadTree> {
    tree.seen.then(|| ReadTree { seen: true, ..ReadTree::default() })
}

/// Adds the namespaces directly below a tree in which the kind is read. `of` returns whether a subtree reads the kind,
/// and whether by name; `named` is whether the kind's name leads to the tree itself.
fn reach_below(
    reach: &mut KindReach,
    (tree, named): (&ReadTree, bool),
    namespaced: bool,
    of: impl Fn(&ReadTree) -> Option<bool>,
) {
    if !namespaced {
        if let Some(named) = of(tree) {
            reach.add(LookupReach::All, named);
        }
        return;
    }
    if tree.whole || tree.seen {
        reach.add(LookupReach::All, named);
    }
    for (name, tree) in &tree.fields {
        if let Some(named) = of(tree) {
            let own = **name == *OWN_NAMESPACE;
            reach.add(if own { LookupReach::Own } else { LookupReach::Named(Arc::clone(name)) }, named);
        }
    }
    if let Some(named) = tree.any.as_deref().and_then(of) {
        reach.add(LookupReach::All, named);
    }
}

/// Descends by names, or over all entries of a level (`None`); returns the read set at the end. A read on the way may
/// depend on whether anything exists below it.
fn below(tree: &ReadTree, levels: &[Option<&str>]) -> Option<ReadTree> {
    let Some((level, rest)) = levels.split_first() else { return Some(tree.clone()) };
    let next = match level {
        Some(name) => tree.field(name),
        None => tree.parts(),
    };
    let found = next.and_then(|next| below(&next, rest));
    found.or_else(|| tree.seen.then(ReadTree::default))
}

/// Whether all objects of a kind are iterated over, given the iterated paths.
pub(super) fn scans(loops: &ReadTree) -> bool {
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
