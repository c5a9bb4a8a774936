//! The paths below `input` and `data` that rules read, collected rule by rule.

use super::{
    inventory::{self, InventoryReads},
    tree::{ReadTree, Segment},
};
use crate::judge::{
    dependencies::Dependencies,
    dialect::{Dialect, InputForm},
};

/// The read set of some rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Paths starting at `input` and `data`; below `data`, only the documents with other objects.
    documents: ReadTree,
    /// The subset of these that is inspected. All other fields are only passed on, compared as elements of sets,
    /// and printed: a string that differs from all others can be replaced in the object and in its results.
    inspected: ReadTree,
    /// Paths of the object's name and namespace that are only printed, not even compared.
    printed: ReadTree,
    /// Paths below `data` whose elements are iterated over.
    loops: ReadTree,
    /// Whether the rules call `time.now_ns` or `uuid.rfc4122`.
    pub(super) clock: bool,
}

impl Reads {
    /// Adds a path that is inspected.
    pub(super) fn insert(&mut self, place: &[Segment], whole: bool) {
        self.documents.insert(place, whole);
        self.inspected.insert(place, whole);
    }

    /// Adds a path that is read but whose strings are not inspected.
    pub(super) fn see(&mut self, place: &[Segment], whole: bool) {
        self.documents.insert(place, whole);
    }

    /// Adds the path of a name that is printed.
    pub(super) fn print(&mut self, place: &[Segment], whole: bool) {
        self.printed.insert(place, whole);
    }

    pub(super) fn loop_over(&mut self, place: &[Segment]) {
        if place.first() == Some(&Segment::from("data")) {
            self.loops.insert(place, false);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.documents.merge(&other.documents);
        self.inspected.merge(&other.inspected);
        self.printed.merge(&other.printed);
        self.loops.merge(&other.loops);
        self.clock |= other.clock;
    }

    pub(super) fn unsure(&mut self) {
        for root in ["input", "data"] {
            self.insert(&[Segment::from(root)], true);
        }
        self.clock = true;
    }

    /// Returns the read set of the review that contains the object; `None` if nothing is read or the dialect has no
    /// review.
    fn review(&self, dialect: Dialect) -> Option<ReadTree> {
        review(&self.documents, dialect)
    }

    /// Returns the read set of the object.
    pub(crate) fn object(&self, dialect: Dialect) -> ReadTree {
        let mut all = self.documents.clone();
        all.merge(&self.printed);
        object(&all, dialect)
    }

    /// Returns the read set of the object without names that are only printed. If these fields are the same in two
    /// objects, so are their results, after replacing the names in the objects and in the results.
    pub(crate) fn unprinted(&self, dialect: Dialect) -> ReadTree {
        object(&self.documents, dialect)
    }

    /// Returns the inspected fields of the object.
    pub(crate) fn inspected(&self, dialect: Dialect) -> ReadTree {
        object(&self.inspected, dialect)
    }

    /// Returns the read set of the object's Namespace.
    pub(crate) fn namespace(&self, dialect: Dialect) -> ReadTree {
        self.review(dialect).and_then(|review| review.field("namespaceObject")).unwrap_or_default()
    }

    /// Returns the dependencies besides the object.
    pub(crate) fn dependencies(&self, dialect: Dialect) -> Dependencies {
        let review = self.review(dialect);
        let reads = |field| review.as_ref().is_some_and(|review| review.field(field).is_some());
        // Code that uses the review as a whole does not depend on the transition of the object.
        let transition = |field| reads(field) && review.as_ref().is_some_and(|review| !review.is_whole());
        Dependencies {
            inventory: self.look_up(),
            namespace: reads("namespaceObject"),
            clock: self.clock,
            transition: transition("oldObject") || transition("operation"),
        }
    }

    /// Whether the rules have lookups.
    pub(super) fn look_up(&self) -> bool {
        self.documents.field("data").is_some()
    }

    pub(crate) fn inventory(&self) -> InventoryReads {
        InventoryReads::new(self.documents.field("data").unwrap_or_default())
    }

    /// Removes the lookups.
    pub(super) fn forget_lookups(&mut self) {
        self.documents.remove_field("data");
        self.inspected.remove_field("data");
    }

    /// Whether the rules iterate over all objects of a kind, in all namespaces.
    pub(crate) fn scans_inventory(&self) -> bool {
        inventory::scans(&self.loops)
    }
}

/// Returns the read set of the review, given that of all documents.
fn review(documents: &ReadTree, dialect: Dialect) -> Option<ReadTree> {
    match dialect.input {
        InputForm::Review(field) => documents.field("input")?.field(field),
        InputForm::Object | InputForm::Array => None,
    }
}

/// Returns the read set of the object, given that of all documents.
fn object(documents: &ReadTree, dialect: Dialect) -> ReadTree {
    match dialect.input {
        InputForm::Object => return documents.field("input").unwrap_or_default(),
        // The object is one of the elements.
        InputForm::Array => return documents.field("input").and_then(|input| input.parts()).unwrap_or_default(),
        InputForm::Review(_) => {}
    }
    let Some(review) = review(documents, dialect) else { return ReadTree::default() };
    let mut object = ReadTree::default();
    for part in ["object", "oldObject"] {
        object.merge(&review.field(part).unwrap_or_default());
    }
    // The review around the object contains copies of these fields.
    let beside = [
        ("uid", ["metadata", "uid"]),
        ("name", ["metadata", "name"]),
        ("name", ["metadata", "generateName"]),
        ("namespace", ["metadata", "namespace"]),
    ];
    for (field, place) in beside {
        if review.field(field).is_some() {
            object.insert(&place.map(Segment::from), true);
        }
    }
    object
}
