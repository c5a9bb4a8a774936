//! What the policies can read of an object, and which kinds they can say anything about.
//!
//! A verdict is a function of the parts of the object that the rules can read. They are found at load by going through the
//! rules as the evaluator would, with what each expression may be instead of values: where a place of the input is only
//! handed around it is not read, where it is compared, printed or given to a builtin it is, and what is not understood
//! counts as reading everything. The walk is done once for every kind that the policies compare the object's kind with,
//! and once for all other kinds; a rule that fails for sure on a kind is not asked about it.
//!
//! In: the syntax trees of a unit. Out: per group the [`Scopes`], per policy set the [`Index`].

mod bindings;
mod calls;
mod exprs;
mod index;
mod inventory;
mod possible;
mod projection;
mod tree;
mod walk;

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(crate) use self::{index::Index, walk::Rules};
pub use self::{inventory::InventoryReads, projection::Projection};
use self::{
    tree::{Key, Tree},
    walk::{KindIs, Walker},
};
use super::{
    dependencies::Dependencies,
    dialect::Dialect,
    policy::Policy,
    unit::{Entry, Group, Shape},
};
use crate::rego::references::Path;

/// Kinds that a unit's rules may name before all count as one.
const KINDS: usize = 64;

/// What some rules read of the documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// From `input` and `data` on; of `data` only what holds other objects.
    documents: Tree,
    /// Places below `data` whose elements are gone through one by one.
    loops: Tree,
    /// They ask what time it is.
    clock: bool,
}

impl Reads {
    fn insert(&mut self, place: &[Key], whole: bool) {
        self.documents.insert(place, whole);
    }

    fn loop_over(&mut self, place: &[Key]) {
        if place.first() == Some(&Key::from("data")) {
            self.loops.insert(place, false);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.documents.merge(&other.documents);
        self.loops.merge(&other.loops);
        self.clock |= other.clock;
    }

    fn unsure(&mut self) {
        for root in ["input", "data"] {
            self.insert(&[Key::from(root)], true);
        }
        self.clock = true;
    }

    /// Returns what is read of the object.
    pub(crate) fn object(&self, dialect: Dialect) -> Tree {
        let Some(input) = self.documents.field("input") else { return Tree::default() };
        let review = match dialect {
            Dialect::Conftest => return input,
            Dialect::Admission => input.field("request"),
            Dialect::Gatekeeper => input.field("review"),
        };
        let Some(review) = review else { return Tree::default() };
        let mut object = Tree::default();
        for part in ["object", "oldObject"] {
            object.merge(&review.field(part).unwrap_or_default());
        }
        // What the review says of the object beside it.
        let beside = [
            ("uid", ["metadata", "uid"]),
            ("name", ["metadata", "name"]),
            ("name", ["metadata", "generateName"]),
            ("namespace", ["metadata", "namespace"]),
        ];
        for (field, place) in beside {
            if review.field(field).is_some() {
                object.insert(&place.map(Key::from), true);
            }
        }
        object
    }

    /// Returns what they depend on beside the object.
    pub(crate) fn dependencies(&self, dialect: Dialect) -> Dependencies {
        let input = self.documents.field("input").unwrap_or_default();
        let review = match dialect {
            Dialect::Conftest => None,
            Dialect::Admission => input.field("request"),
            Dialect::Gatekeeper => input.field("review"),
        };
        let reads = |field| review.as_ref().is_some_and(|review| review.field(field).is_some());
        // Who takes the review as it is does not ask how the object came to be.
        let moments = |field| reads(field) && review.as_ref().is_some_and(|review| !review.is_whole());
        Dependencies {
            inventory: self.documents.field("data").is_some(),
            namespace: reads("namespaceObject"),
            clock: self.clock,
            transition: moments("oldObject") || moments("operation"),
        }
    }

    pub(crate) fn inventory(&self) -> InventoryReads {
        InventoryReads::new(self.documents.field("data").unwrap_or_default())
    }

    /// Whether they go through all objects of a kind, in all namespaces.
    pub(crate) fn scans_inventory(&self) -> bool {
        inventory::scans(&self.loops)
    }
}

/// Finds what to ask about which kind, and what each policy reads.
pub(crate) fn find(rules: &Rules<'_>, policies: &mut [Policy], groups: &mut [Group]) {
    for group in groups.iter_mut() {
        let exceptions: Vec<&Path> = group.exceptions.iter().map(|exception| &exception.path).collect();
        group.scopes = Scopes::find(rules, group.dialect, &group.entries, &exceptions);
    }
    for policy in policies {
        let Some(group) = groups.iter().find(|group| group.dialect == policy.dialect) else { continue };
        let mut reads = Reads::default();
        let mut matches = Matches::Kinds(BTreeSet::new());
        for (index, entry) in group.entries.iter().enumerate().filter(|(_, entry)| entry.policy == policy.name) {
            reads.merge(&group.scopes.reads(index));
            matches = matches.or(&group.scopes.matches(index));
            if let Some((exception, _)) = entry.exception {
                reads.merge(&group.scopes.reads(group.entries.len() + exception));
            }
        }
        policy.matches = matches;
        policy.scans_inventory = reads.scans_inventory();
        policy.depends = policy.depends & reads.dependencies(policy.dialect);
        policy.reads = Projection::new(reads.object(policy.dialect));
    }
}

/// What is asked about one kind.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// The rules that can say something, and the exceptions that can matter, by their index in the group.
    pub(crate) asked: Vec<usize>,
    /// Which of the group's questions asks for them.
    pub(crate) question: usize,
    /// What each of them reads.
    pub(crate) reads: Vec<Reads>,
}

/// What is asked about each kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scopes {
    /// For kinds that none of the rules name it is the first.
    all: Vec<Scope>,
    /// Kinds by name.
    named: BTreeMap<Arc<str>, usize>,
    /// The distinct lists of what is asked.
    pub(crate) questions: Vec<Vec<usize>>,
}

impl Scopes {
    /// Finds what can be asked: the rules that judge, and behind them the exceptions by their paths.
    pub(crate) fn find(rules: &Rules<'_>, dialect: Dialect, entries: &[Entry], exceptions: &[&Path]) -> Self {
        let mut walker = Walker::new(rules, dialect);
        let mut found = Self::default();
        let mut add = |walker: &mut Walker<'_>| {
            let scope = scope(walker, entries, exceptions, &mut found.questions);
            found.all.push(scope);
            found.all.len() - 1
        };
        add(&mut walker);
        let named = std::mem::take(&mut walker.named);
        if named.len() > KINDS {
            walker.set_kind(KindIs::Unknown);
            add(&mut walker);
            found.all.swap_remove(0);
            return found;
        }
        for kind in named {
            walker.set_kind(KindIs::Named(Arc::clone(&kind)));
            let index = add(&mut walker);
            found.named.insert(kind, index);
        }
        found
    }

    /// Returns what is asked about a kind.
    pub(crate) fn of(&self, kind: &str) -> Option<&Scope> {
        self.all.get(self.named.get(kind).copied().unwrap_or(0))
    }

    /// Returns what is read of other objects, whatever the kind.
    pub(crate) fn inventory(&self) -> InventoryReads {
        let mut all = InventoryReads::default();
        for reads in self.all.iter().flat_map(|scope| &scope.reads) {
            all.merge(&reads.inventory());
        }
        all
    }

    /// Returns the names of kinds that the rules treat in their own way.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<str>> {
        self.named.keys()
    }

    /// Returns which kinds one of the rules can say anything about.
    pub(crate) fn matches(&self, index: usize) -> Matches {
        let asks = |scope: &Scope| scope.asked.contains(&index);
        if self.all.first().is_none_or(asks) {
            return Matches::All;
        }
        let named = self.named.iter().filter(|(_, scope)| asks(&self.all[**scope]));
        Matches::Kinds(named.map(|(kind, _)| Arc::clone(kind)).collect())
    }

    /// Returns what one of the rules reads of objects of any kind.
    pub(crate) fn reads(&self, index: usize) -> Reads {
        let mut all = Reads::default();
        for scope in &self.all {
            let mine = scope.asked.iter().zip(&scope.reads).filter(|(asked, _)| **asked == index);
            mine.for_each(|(_, reads)| all.merge(reads));
        }
        all
    }
}

/// Looks at everything for one kind.
fn scope(walker: &mut Walker<'_>, entries: &[Entry], exceptions: &[&Path], questions: &mut Vec<Vec<usize>>) -> Scope {
    let shapes = entries.iter().map(|entry| (&entry.path, Some(entry.shape)));
    let shapes = shapes.chain(exceptions.iter().map(|path| (*path, None)));
    let mut asked = Vec::new();
    let mut reads = Vec::new();
    for (index, (path, shape)) in shapes.enumerate() {
        let summary = walker.entry(path);
        let value = &summary.value;
        let empty = |part: &Option<Box<possible::Possible>>| part.as_ref().is_none_or(|part| part.is_nothing());
        let no_fields = value.fields.as_ref().is_none_or(|fields| fields.is_empty() && shape != Some(Shape::Complete));
        // As `findings` reads results; exceptions have none if they have no value.
        let silent = value.is_false() || (!value.other && value.scalars.is_empty() && empty(&value.items) && no_fields);
        if summary.risk || !(silent && empty(&value.members) && value.places.is_empty()) {
            asked.push(index);
            reads.push(summary.reads);
        }
    }
    let question = questions.iter().position(|question| *question == asked).unwrap_or_else(|| {
        questions.push(asked.clone());
        questions.len() - 1
    });
    Scope { asked, question, reads }
}

/// Which kinds a rule can say anything about, as far as its code shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Matches {
    /// Any.
    #[default]
    All,
    /// Those of these names, of any group and version.
    Kinds(BTreeSet<Arc<str>>),
}

impl Matches {
    /// Whether a kind is among them.
    pub fn matches(&self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Kinds(kinds) => kinds.contains(kind),
        }
    }

    /// Leaves only those that are also among some names; `None` limits nothing.
    pub(crate) fn and(self, names: Option<Vec<&str>>) -> Self {
        let Some(names) = names else { return self };
        Self::Kinds(names.into_iter().filter(|name| self.matches(name)).map(Arc::from).collect())
    }

    /// Adds the kinds of another.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Kinds(mut kinds), Self::Kinds(more)) => {
                kinds.extend(more.iter().cloned());
                Self::Kinds(kinds)
            }
            _ => Self::All,
        }
    }
}

/// Shows the names, or `*` for all.
impl std::fmt::Display for Matches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Kinds(kinds) => f.write_str(&kinds.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")),
        }
    }
}
