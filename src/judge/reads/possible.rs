//! The possible values of an expression, as far as the policy alone determines them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::tree::Segment;

/// A path in the documents: keys starting at `input` or `data`.
pub(super) type ReadPath = Vec<Segment>;

/// A scalar value, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PossibleScalar {
    /// The name of the object's kind, if no policy mentions it.
    OtherKind,
    /// A literal of the policy.
    Value(Value),
}

impl PossibleScalar {
    pub(super) fn text(text: &str) -> Self {
        Self::Value(Value::from(text))
    }

    pub(super) fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Value(Value::String(text)) => Some(text),
            _ => None,
        }
    }
}

/// The set of values that an expression may have: the union of all fields. If all are empty, it is certainly undefined.
///
/// `places` and `names` are read lazily: as long as a value is only passed on, only its existence has been read. All
/// other fields contain nothing unread, except in their parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Possible {
    /// It may be one of these scalars.
    pub(super) scalars: BTreeSet<PossibleScalar>,
    /// It may be the value at one of these paths.
    pub(super) places: BTreeSet<ReadPath>,
    /// It may be the object's name or namespace at one of these paths, or a string in which they were printed.
    pub(super) names: BTreeSet<ReadPath>,
    /// It may be an object with some of these fields, and those of `items`.
    pub(super) fields: Option<BTreeMap<Arc<str>, Self>>,
    /// It may be an array, or an object with unknown keys, with these elements.
    pub(super) items: Option<Box<Self>>,
    /// It may be a set of these elements. They contain unread paths only if there are no two elements to compare.
    pub(super) members: Option<Box<Self>>,
    /// Whether the set may have two elements.
    pub(super) several: bool,
    /// Whether it may be any other value.
    pub(super) other: bool,
    /// Whether it is certainly defined.
    pub(super) sure: bool,
}

impl Possible {
    pub(super) fn other() -> Self {
        Self { other: true, ..Self::default() }
    }

    pub(super) fn scalar(value: Value) -> Self {
        Self { scalars: BTreeSet::from([PossibleScalar::Value(value)]), sure: true, ..Self::default() }
    }

    pub(super) fn place(place: ReadPath) -> Self {
        Self { places: BTreeSet::from([place]), ..Self::default() }
    }

    /// Returns the value that is the object's name or namespace, by its path.
    pub(super) fn name(place: ReadPath) -> Self {
        Self { names: BTreeSet::from([place]), ..Self::default() }
    }

    /// Returns a string in which the values at these paths were printed.
    pub(super) fn printed(names: BTreeSet<ReadPath>) -> Self {
        Self { names, other: true, ..Self::default() }
    }

    pub(super) fn array(items: Self, sure: bool) -> Self {
        Self { items: Some(Box::new(items)), sure, ..Self::default() }
    }

    pub(super) fn set(members: Self, sure: bool) -> Self {
        Self { members: Some(Box::new(members)), several: true, sure, ..Self::default() }
    }

    /// Returns a value that is one of these truth values.
    pub(super) fn truth(may: &BTreeSet<bool>, sure: bool) -> Self {
        let scalars = may.iter().map(|truth| PossibleScalar::Value(Value::from(*truth))).collect();
        Self { scalars, sure, ..Self::default() }
    }

    /// Whether it is certainly undefined.
    pub(super) fn is_nothing(&self) -> bool {
        self.scalars.is_empty() && self.is_scalar()
    }

    /// Whether it can only be one of its scalars.
    pub(super) fn is_scalar(&self) -> bool {
        let collection = self.fields.is_some() || self.items.is_some() || self.members.is_some();
        self.places.is_empty() && self.names.is_empty() && !collection && !self.other
    }

    /// Returns the possible elements if it can only be a set.
    pub(super) fn only_members(&self) -> Option<&Self> {
        let members = self.members.as_deref()?;
        (Self { members: None, several: false, sure: false, ..self.clone() } == Self::default()).then_some(members)
    }

    /// Returns its only possible value, if there is one.
    pub(super) fn only(&self) -> Option<&PossibleScalar> {
        (self.is_scalar() && self.scalars.len() == 1).then(|| self.scalars.first()).flatten()
    }

    fn may_be_false(&self) -> bool {
        self.other || !self.places.is_empty() || self.scalars.contains(&PossibleScalar::Value(Value::from(false)))
    }

    /// Whether a statement with this value certainly fails.
    pub(super) fn is_false(&self) -> bool {
        let no = PossibleScalar::Value(Value::from(false));
        self.is_scalar() && self.scalars.iter().all(|scalar| *scalar == no)
    }

    /// Whether a statement with this value certainly succeeds.
    pub(super) fn is_true(&self) -> bool {
        self.sure && !self.is_nothing() && !self.may_be_false()
    }

    /// Adds the values of an alternative.
    pub(super) fn join(&mut self, other: Self) {
        if other.is_nothing() {
            self.sure &= self.is_nothing();
            return;
        }
        if self.is_nothing() {
            *self = Self { sure: false, ..other };
            return;
        }
        self.scalars.extend(other.scalars);
        self.places.extend(other.places);
        self.names.extend(other.names);
        if let Some(fields) = other.fields {
            let own = self.fields.get_or_insert_default();
            for (name, field) in fields {
                own.entry(name).or_default().join(field);
            }
        }
        for (own, more) in [(&mut self.items, other.items), (&mut self.members, other.members)] {
            match (own.as_mut(), more) {
                (Some(own), Some(more)) => own.join(*more),
                (None, Some(more)) => *own = Some(more),
                (_, None) => {}
            }
            // An element of one alternative need not exist in the other.
            if let Some(own) = own {
                own.sure = false;
            }
        }
        self.other |= other.other;
        self.several |= other.several;
        self.sure = false;
    }

    /// Returns the number of values in it, including itself; stops counting at `limit`.
    pub(super) fn size(&self, limit: usize) -> usize {
        let places = self.places.iter().chain(&self.names);
        let mut size = 1 + self.scalars.len() + places.map(|place| 1 + place.len() / 4).sum::<usize>();
        let fields = self.fields.iter().flat_map(BTreeMap::values);
        for part in fields.chain(self.items.as_deref()).chain(self.members.as_deref()) {
            if size > limit {
                break;
            }
            size += part.size(limit);
        }
        size
    }

    /// Returns all paths in it and its parts.
    pub(super) fn all_places(&self) -> Vec<&ReadPath> {
        let mut places = self.all_names();
        self.collect(&|part| &part.places, &mut places);
        places
    }

    fn collect<'a>(&'a self, of: &impl Fn(&'a Self) -> &'a BTreeSet<ReadPath>, out: &mut Vec<&'a ReadPath>) {
        out.extend(of(self));
        let fields = self.fields.iter().flat_map(BTreeMap::values);
        for part in fields.chain(self.items.as_deref()).chain(self.members.as_deref()) {
            part.collect(of, out);
        }
    }

    /// Returns all paths whose string may be in one of its strings, including those of its parts.
    pub(super) fn all_names(&self) -> Vec<&ReadPath> {
        let mut places = Vec::new();
        self.collect(&|part| &part.names, &mut places);
        places
    }

    /// Returns the value after all its paths have been read.
    pub(super) fn without_places(mut self) -> Self {
        self.forget(true);
        self
    }

    /// Returns the value after all its names have been read, but not its other paths.
    pub(super) fn without_names(mut self) -> Self {
        self.forget(false);
        self
    }

    fn forget(&mut self, places: bool) {
        self.other |= !self.names.is_empty() || places && !self.places.is_empty();
        self.names.clear();
        if places {
            self.places.clear();
        }
        let fields = self.fields.iter_mut().flat_map(BTreeMap::values_mut);
        for part in fields.chain(self.items.as_deref_mut()).chain(self.members.as_deref_mut()) {
            part.forget(places);
        }
    }
}
