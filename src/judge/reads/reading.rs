//! Marks as read what the use of a value reads.

use super::{
    possible::{Possible, ReadPath},
    tree::Segment,
    walk::Walker,
};

/// How a rule uses the value of another one, if that is a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetUse {
    AsWhole,
    /// Its elements are matched with a pattern, one by one. If their strings are equal by coincidence, so are the
    /// bindings.
    ByPattern,
    /// Each element adds its own elements to another set: two elements that differ only in unread fields add the same.
    OneByOne,
}

impl Walker<'_> {
    /// Marks the existence of a value as read, and its value if it is a scalar; of a string only the fact that it is
    /// one.
    pub(super) fn present(&mut self, value: &Possible) {
        value.places.iter().chain(&value.names).for_each(|place| self.see(place, false));
    }

    /// Marks a path as read, but not inspected.
    pub(super) fn see(&mut self, place: &ReadPath, whole: bool) {
        if self.names_object(place) {
            self.frame.reads.print(place, whole);
        } else {
            self.frame.reads.see(place, whole);
        }
    }

    /// Marks all of a value as read; returns it without unread parts.
    pub(super) fn whole(&mut self, value: Possible) -> Possible {
        value.all_places().into_iter().for_each(|place| self.frame.reads.insert(place, true));
        value.without_places()
    }

    /// Marks all of a value as compared with the other elements of a set; its strings are not inspected yet.
    pub(super) fn alike(&mut self, value: &Possible) {
        value.all_places().into_iter().for_each(|place| self.see(place, true));
    }

    /// Makes a value an element of a set. Names and strings may be equal to others by coincidence.
    pub(super) fn member(&mut self, value: Possible) -> Possible {
        self.alike(&value);
        value.all_names().into_iter().for_each(|place| self.frame.reads.insert(place, true));
        value.without_names()
    }

    /// Converts the value of a rule to one that another rule uses: the elements of a set were compared with each other,
    /// unless it cannot have two of them, or it makes no difference.
    pub(super) fn as_used(&mut self, mut value: Possible, set_use: SetUse) -> Possible {
        let Some(members) = value.members.take_if(|_| value.several) else { return value };
        value.members = Some(match set_use {
            SetUse::AsWhole => Box::new(self.member(*members)),
            SetUse::ByPattern => {
                self.alike(&members);
                members
            }
            SetUse::OneByOne => {
                members.all_names().into_iter().for_each(|place| self.frame.reads.insert(place, true));
                let members = members.without_names();
                self.frame.apart.extend(members.all_places().into_iter().cloned());
                Box::new(members)
            }
        });
        value
    }

    /// Marks the existence of elements as read; returns their possible keys and values.
    pub(super) fn elements(&mut self, value: &Possible) -> (Possible, Possible) {
        let (keys, values) = self.iterate(value);
        self.present(&values);
        (keys, values)
    }

    /// Returns the possible keys and values of elements, without marking them as read.
    pub(super) fn iterate(&mut self, value: &Possible) -> (Possible, Possible) {
        let (mut keys, mut values) = (Possible::default(), Possible::default());
        // A scalar has no elements, but a name may be another value in an invalid object.
        values.other = value.other || !value.scalars.is_empty() || !value.names.is_empty();
        keys.other = values.other || !value.places.is_empty() || value.items.is_some();
        value.names.iter().for_each(|place| self.frame.reads.insert(place, true));
        for place in &value.places {
            let element: ReadPath = place.iter().cloned().chain([Segment::Any]).collect();
            self.frame.reads.loop_over(place);
            values.join(Possible::place(element));
        }
        for (name, field) in value.fields.iter().flatten() {
            keys.join(Possible::scalar(regorus::Value::from(&**name)));
            values.join(field.clone());
        }
        if let Some(items) = &value.items {
            values.join((**items).clone());
        }
        if let Some(members) = &value.members {
            keys.join((**members).clone());
            values.join((**members).clone());
        }
        values.sure = false;
        (keys, values)
    }
}
