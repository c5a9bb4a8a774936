//! What is known of the elements of a loop.

use std::{collections::BTreeMap, rc::Rc};

use regorus::Value;

use super::slot::Slot;

/// What is known of the elements of a loop.
#[derive(Clone, Default)]
pub(super) enum Filtered<'v> {
    /// It did not run yet.
    #[default]
    Open,
    /// It ran once, which few loops do twice.
    Ran,
    /// It always looks at all.
    All,
    Known(Rc<Elements<'v>>),
}

/// The elements that pass the first steps, with their keys.
#[derive(Default)]
pub(super) struct Elements<'v> {
    pub(super) all: Vec<(Slot<'v>, Slot<'v>)>,
    /// The places of the elements by what has to equal something else.
    pub(super) by_key: Option<BTreeMap<Value, Vec<usize>>>,
}

/// Some elements of a loop.
pub(super) struct Selection<'v> {
    pub(super) elements: Rc<Elements<'v>>,
    /// Which value their key has to have.
    pub(super) wanted: Option<Value>,
}

impl<'v> Selection<'v> {
    /// Returns each, with its key.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Slot<'v>, Slot<'v>)> {
        let Elements { all, by_key } = &*self.elements;
        let places = by_key.as_ref().zip(self.wanted.as_ref()).map(|(by_key, wanted)| by_key.get(wanted));
        let (every, some) = match places {
            None => (all.as_slice(), &[][..]),
            Some(places) => (&[][..], places.map_or(&[][..], Vec::as_slice)),
        };
        every.iter().chain(some.iter().map(|place| &all[*place]))
    }
}
