//! Elements of filtered loops.

use std::{collections::BTreeMap, rc::Rc};

use regorus::Value;

use super::slot::Slot;

/// The filter state of a loop.
#[derive(Clone, Default)]
pub(super) enum Filtered<'v> {
    /// The loop did not run yet.
    #[default]
    Open,
    /// The loop ran once; most loops never run again.
    Ran,
    /// The loop always visits all elements.
    All,
    Known(Rc<Elements<'v>>),
}

/// The elements that pass the first steps, with their keys.
#[derive(Default)]
pub(super) struct Elements<'v> {
    pub(super) all: Vec<(Slot<'v>, Slot<'v>)>,
    /// The indices of the elements, by the value that is compared.
    pub(super) by_key: Option<BTreeMap<Value, Vec<usize>>>,
}

/// The elements that a loop visits.
pub(super) struct SelectedElements<'v> {
    pub(super) elements: Rc<Elements<'v>>,
    /// The value that is compared with the key of the element.
    pub(super) wanted: Option<Value>,
}

impl<'v> SelectedElements<'v> {
    /// Returns each element with its key.
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
