//! What the value of an expression may be, as far as the policy alone shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::tree::Segment;

/// A place in the documents: keys from `input` or `data` on.
pub(super) type Place = Vec<Segment>;

/// A scalar as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scalar {
    /// The name of the object's kind if no policy names it.
    OtherKind,
    /// A literal of the policy.
    Value(Value),
}

impl Scalar {
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

/// Every value that an expression may have: one of any of the fields. If all are empty, it is undefined for sure.
///
/// `places` and `names` are read lazily: as long as a value is only passed on, only its existence was read. All other fields
/// hold nothing unread, except in their parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Possible {
    /// One of these.
    pub(super) scalars: BTreeSet<Scalar>,
    /// The value at one of these places.
    pub(super) places: BTreeSet<Place>,
    /// A text that is what one of these places holds, the object's name or namespace, or in which places were printed.
    pub(super) names: BTreeSet<Place>,
    /// An object with some of these fields, and those of `items`.
    pub(super) fields: Option<BTreeMap<Arc<str>, Self>>,
    /// An array, or an object whose keys are not known, with such elements.
    pub(super) items: Option<Box<Self>>,
    /// A set of such elements. Unread places are left in them only if there are no two to compare.
    pub(super) members: Option<Box<Self>>,
    /// Whether there may be two elements in the set that it may be.
    pub(super) several: bool,
    /// Whether it may be any other value.
    pub(super) other: bool,
    /// Whether it is defined for sure.
    pub(super) sure: bool,
}

impl Possible {
    pub(super) fn other() -> Self {
        Self { other: true, ..Self::default() }
    }

    pub(super) fn scalar(value: Value) -> Self {
        Self { scalars: BTreeSet::from([Scalar::Value(value)]), sure: true, ..Self::default() }
    }

    pub(super) fn place(place: Place) -> Self {
        Self { places: BTreeSet::from([place]), ..Self::default() }
    }

    /// The object's name or namespace, by where it is.
    pub(super) fn name(place: Place) -> Self {
        Self { names: BTreeSet::from([place]), ..Self::default() }
    }

    /// A text in which these places were printed.
    pub(super) fn printed(names: BTreeSet<Place>) -> Self {
        Self { names, other: true, ..Self::default() }
    }

    pub(super) fn array(items: Self, sure: bool) -> Self {
        Self { items: Some(Box::new(items)), sure, ..Self::default() }
    }

    pub(super) fn set(members: Self, sure: bool) -> Self {
        Self { members: Some(Box::new(members)), several: true, sure, ..Self::default() }
    }

    /// One of two truth values, or either.
    pub(super) fn truth(may: &BTreeSet<bool>, sure: bool) -> Self {
        let scalars = may.iter().map(|truth| Scalar::Value(Value::from(*truth))).collect();
        Self { scalars, sure, ..Self::default() }
    }

    /// Whether it is undefined for sure.
    pub(super) fn is_nothing(&self) -> bool {
        self.scalars.is_empty() && self.is_scalar()
    }

    /// Whether it can be nothing but one of its scalars.
    pub(super) fn is_scalar(&self) -> bool {
        let collection = self.fields.is_some() || self.items.is_some() || self.members.is_some();
        self.places.is_empty() && self.names.is_empty() && !collection && !self.other
    }

    /// Returns what the elements may be of what can only be a set.
    pub(super) fn only_members(&self) -> Option<&Self> {
        let members = self.members.as_deref()?;
        (Self { members: None, several: false, sure: false, ..self.clone() } == Self::default()).then_some(members)
    }

    /// Returns its only value, if there is one.
    pub(super) fn only(&self) -> Option<&Scalar> {
        (self.is_scalar() && self.scalars.len() == 1).then(|| self.scalars.first()).flatten()
    }

    fn may_be_false(&self) -> bool {
        self.other || !self.places.is_empty() || self.scalars.contains(&Scalar::Value(Value::from(false)))
    }

    /// Whether a statement of it fails for sure.
    pub(super) fn is_false(&self) -> bool {
        let no = Scalar::Value(Value::from(false));
        self.is_scalar() && self.scalars.iter().all(|scalar| *scalar == no)
    }

    /// Whether a statement of it succeeds for sure.
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

    /// Returns how many values it is made of, itself included; stops counting at `limit`.
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

    /// Returns every place in it, parts included.
    pub(super) fn all_places(&self) -> Vec<&Place> {
        let mut places = self.all_names();
        self.collect(&|part| &part.places, &mut places);
        places
    }

    fn collect<'a>(&'a self, of: &impl Fn(&'a Self) -> &'a BTreeSet<Place>, out: &mut Vec<&'a Place>) {
        out.extend(of(self));
        let fields = self.fields.iter().flat_map(BTreeMap::values);
        for part in fields.chain(self.items.as_deref()).chain(self.members.as_deref()) {
            part.collect(of, out);
        }
    }

    /// Returns every place whose text may be in one of its texts, parts included.
    pub(super) fn all_names(&self) -> Vec<&Place> {
        let mut places = Vec::new();
        self.collect(&|part| &part.names, &mut places);
        places
    }

    /// Returns it after all its places were read.
    pub(super) fn without_places(mut self) -> Self {
        self.forget(true);
        self
    }

    /// Returns it after all its names were read, but not its other places.
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
