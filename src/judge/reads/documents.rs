//! What rules read of `input` and `data`, as it is collected rule by rule.

use super::{
    inventory::{self, InventoryReads},
    tree::{Segment, Tree},
};
use crate::judge::{
    dependencies::Dependencies,
    dialect::{Dialect, InputForm},
};

/// What some rules read of the documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// From `input` and `data` on; of `data` only what holds other objects.
    documents: Tree,
    /// Of these, what is looked into. All else is only handed around, compared with its like in sets, and printed: a text
    /// that is like no other can be replaced, in the object and in results alike.
    looked_into: Tree,
    /// Places of the object's name and namespace that are printed and nothing else: not even compared.
    printed: Tree,
    /// Places below `data` whose elements are iterated over.
    loops: Tree,
    /// They call `time.now_ns` or `uuid.rfc4122`.
    pub(super) clock: bool,
}

impl Reads {
    /// Adds a place that is looked into.
    pub(super) fn insert(&mut self, place: &[Segment], whole: bool) {
        self.documents.insert(place, whole);
        self.looked_into.insert(place, whole);
    }

    /// Adds a place whose texts are not looked into.
    pub(super) fn see(&mut self, place: &[Segment], whole: bool) {
        self.documents.insert(place, whole);
    }

    /// Adds the place of a name that is printed.
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
        self.looked_into.merge(&other.looked_into);
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

    /// Returns what is read of the review that the object comes in; `None` if nothing is, or it comes without one.
    fn review(&self, dialect: Dialect) -> Option<Tree> {
        review(&self.documents, dialect)
    }

    /// Returns what is read of the object.
    pub(crate) fn object(&self, dialect: Dialect) -> Tree {
        let mut all = self.documents.clone();
        all.merge(&self.printed);
        object(&all, dialect)
    }

    /// Returns what is read of the object, other than to print its names. Where that is the same, and the names are replaced
    /// in the object and in results alike, results are the same.
    pub(crate) fn unprinted(&self, dialect: Dialect) -> Tree {
        object(&self.documents, dialect)
    }

    /// Returns what is looked into of the object.
    pub(crate) fn looked_into(&self, dialect: Dialect) -> Tree {
        object(&self.looked_into, dialect)
    }

    /// Returns what is read of the Namespace of the object.
    pub(crate) fn namespace(&self, dialect: Dialect) -> Tree {
        self.review(dialect).and_then(|review| review.field("namespaceObject")).unwrap_or_default()
    }

    /// Returns what they depend on besides the object.
    pub(crate) fn dependencies(&self, dialect: Dialect) -> Dependencies {
        let review = self.review(dialect);
        let reads = |field| review.as_ref().is_some_and(|review| review.field(field).is_some());
        // What takes the review as a whole does not ask how the object changed.
        let transition = |field| reads(field) && review.as_ref().is_some_and(|review| !review.is_whole());
        Dependencies {
            inventory: self.look_up(),
            namespace: reads("namespaceObject"),
            clock: self.clock,
            transition: transition("oldObject") || transition("operation"),
        }
    }

    /// Whether they look up other objects.
    pub(super) fn look_up(&self) -> bool {
        self.documents.field("data").is_some()
    }

    pub(crate) fn inventory(&self) -> InventoryReads {
        InventoryReads::new(self.documents.field("data").unwrap_or_default())
    }

    /// Leaves out what is looked up.
    pub(super) fn forget_lookups(&mut self) {
        self.documents.remove_field("data");
        self.looked_into.remove_field("data");
    }

    /// Whether they iterate over all objects of a kind, in all namespaces.
    pub(crate) fn scans_inventory(&self) -> bool {
        inventory::scans(&self.loops)
    }
}

/// Returns what is read of the review that an object comes in, given what is read of all documents.
fn review(documents: &Tree, dialect: Dialect) -> Option<Tree> {
    match dialect.input {
        InputForm::Review(field) => documents.field("input")?.field(field),
        InputForm::Object | InputForm::Array => None,
    }
}

/// Returns what is read of the object.
fn object(documents: &Tree, dialect: Dialect) -> Tree {
    match dialect.input {
        InputForm::Object => return documents.field("input").unwrap_or_default(),
        // The object is one of the elements.
        InputForm::Array => return documents.field("input").and_then(|input| input.parts()).unwrap_or_default(),
        InputForm::Review(_) => {}
    }
    let Some(review) = review(documents, dialect) else { return Tree::default() };
    let mut object = Tree::default();
    for part in ["object", "oldObject"] {
        object.merge(&review.field(part).unwrap_or_default());
    }
    // Copies of the object's fields in the review around it.
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
