//! Variables of the definition that is walked: what they may be, and which reads their use makes.

use std::collections::BTreeSet;

use super::{
    frame::Name,
    possible::{Place, Possible},
    tree::Segment,
    walk::{SIZE, Walker},
};

/// How a rule looks at the value of another one, if that is a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    AsWhole,
    /// Its elements are matched with a pattern, one by one. Their texts may be equal to others by chance: what follows is, too.
    ByPattern,
    /// Each element adds its own elements to another set: two that differ only in what is not read add the same.
    OneByOne,
}

impl Walker<'_> {
    pub(super) fn declare(&mut self, names: BTreeSet<String>) {
        if let Some(scope) = self.frame.scopes.last_mut() {
            for name in names {
                scope.entry(name).or_default();
            }
        }
    }

    pub(super) fn name(&self, name: &str) -> Name {
        let frame = &self.frame;
        if let Some(scope) = frame.scopes.iter().rposition(|scope| scope.contains_key(name)) {
            return Name::Local(scope);
        }
        if matches!(name, "input" | "data") {
            return Name::Document(vec![name.to_owned()]);
        }
        let package = &self.rules.packages[frame.module];
        if self.rules.names[package].contains(name) {
            let package = package.iter().map(String::as_str);
            return Name::Document(["data"].into_iter().chain(package).chain([name]).map(str::to_owned).collect());
        }
        let alias = self.rules.aliases[frame.module].get(name);
        alias.map_or(Name::Implicit, |path| Name::Document(path.clone()))
    }

    /// Returns what a variable may be; `None` if it has no value yet.
    pub(super) fn variable(&mut self, scope: usize, name: &str) -> Option<Possible> {
        let variable = self.frame.scopes[scope].get_mut(name)?;
        variable.used = true;
        variable.value.clone()
    }

    /// Whether a name is a variable without a value.
    pub(super) fn is_unbound(&self, name: &str) -> bool {
        match self.name(name) {
            Name::Local(scope) => self.frame.scopes[scope].get(name).is_none_or(|variable| variable.value.is_none()),
            Name::Document(_) => false,
            Name::Implicit => true,
        }
    }

    /// Reads a variable that has no value yet: a later statement may bind it.
    pub(super) fn unbound(&mut self, name: &str) -> Possible {
        if matches!(self.name(name), Name::Implicit) {
            self.frame.scopes[0].entry(name.to_owned()).or_default().used = true;
        }
        self.frame.unbound = true;
        Possible::other()
    }

    /// Gives a variable a value and marks it as used: further values of it are compared with this one.
    pub(super) fn bind_used(&mut self, name: &str, value: Possible) {
        self.bind(name, value);
        if let Name::Local(scope) = self.name(name) {
            self.variable(scope, name);
        }
    }

    /// Adds a possible value to a variable.
    pub(super) fn bind(&mut self, name: &str, value: Possible) {
        let scope = match self.name(name) {
            Name::Local(scope) => scope,
            _ => 0,
        };
        self.bind_in(scope, name, value);
    }

    pub(super) fn bind_in(&mut self, scope: usize, name: &str, mut value: Possible) {
        // A variable that is bound twice is a comparison of both values.
        if self.frame.sites.get(name).copied().unwrap_or(0) > 1 {
            value = self.whole(value);
            value.other = true;
        } else if value.size(SIZE) > SIZE {
            self.whole(value);
            value = Possible::other();
        }
        let variable = self.frame.scopes[scope].entry(name.to_owned()).or_default();
        let before = variable.value.clone();
        let now = variable.value.get_or_insert_default();
        now.join(value);
        now.sure = false;
        if variable.used && before.as_ref() != Some(now) {
            self.frame.stale = Some(self.frame.stale.map_or(scope, |stale| stale.min(scope)));
        }
    }

    // Reads

    /// Counts as read whether a value exists, and the value if it is a scalar; of a text no more than that it is one.
    pub(super) fn present(&mut self, value: &Possible) {
        value.places.iter().chain(&value.names).for_each(|place| self.see(place, false));
    }

    /// Counts a place as read, but not looked into.
    pub(super) fn see(&mut self, place: &Place, whole: bool) {
        if self.names_object(place) {
            self.frame.reads.print(place, whole);
        } else {
            self.frame.reads.see(place, whole);
        }
    }

    /// Counts all of a value as read; returns it without unread parts.
    pub(super) fn whole(&mut self, value: Possible) -> Possible {
        value.all_places().into_iter().for_each(|place| self.frame.reads.insert(place, true));
        value.without_places()
    }

    /// Counts all of a value as compared with its like: as an element of a set, whose texts are not looked into yet.
    pub(super) fn alike(&mut self, value: &Possible) {
        value.all_places().into_iter().for_each(|place| self.see(place, true));
    }

    /// Makes a value an element of a set. Names and texts may be equal to others by chance.
    pub(super) fn member(&mut self, value: Possible) -> Possible {
        self.alike(&value);
        value.all_names().into_iter().for_each(|place| self.frame.reads.insert(place, true));
        value.without_names()
    }

    /// Makes the value of a rule one that another rule looks at: the elements of a set were compared with each other, unless
    /// there can be no two of them, or it makes no difference.
    pub(super) fn looked_at(&mut self, mut value: Possible, look: Look) -> Possible {
        let Some(members) = value.members.take_if(|_| value.several) else { return value };
        value.members = Some(match look {
            Look::AsWhole => Box::new(self.member(*members)),
            Look::ByPattern => {
                self.alike(&members);
                members
            }
            Look::OneByOne => {
                members.all_names().into_iter().for_each(|place| self.frame.reads.insert(place, true));
                let members = members.without_names();
                self.frame.apart.extend(members.all_places().into_iter().cloned());
                Box::new(members)
            }
        });
        value
    }

    /// Counts as read which elements there are; returns what their keys and values may be.
    pub(super) fn elements(&mut self, value: &Possible) -> (Possible, Possible) {
        let (keys, values) = self.iterate(value);
        self.present(&values);
        (keys, values)
    }

    /// Returns what the keys and values of elements may be, without counting them as read.
    pub(super) fn iterate(&mut self, value: &Possible) -> (Possible, Possible) {
        let (mut keys, mut values) = (Possible::default(), Possible::default());
        let unknown_keys =
            !value.places.is_empty() || value.items.is_some() || value.other || !value.scalars.is_empty();
        keys.other = unknown_keys;
        // A scalar has no elements, but evaluators differ in what follows.
        values.other = value.other || !value.scalars.is_empty() || !value.names.is_empty();
        value.names.iter().for_each(|place| self.frame.reads.insert(place, true));
        for place in &value.places {
            let element: Place = place.iter().cloned().chain([Segment::Any]).collect();
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
