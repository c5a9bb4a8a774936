//! Names that are only printed: the object's name and namespace as part of a message.
//!
//! A string in which a name was printed is tracked as this name. Operations that inspect it (compare, count, pass to a
//! builtin) read the name; using it as a result does not.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    possible::{Possible, PossibleScalar, ReadPath},
    tree::Segment,
    walk::Walker,
};
use crate::rego::analysis::resolved::{ResolvedTerm, ResolvedValue};

/// Fields that identify an object, or a value with the same fields.
const NAMES: [&[&str]; 8] = [
    &["apiVersion"],
    &["apiGroup"],
    &["kind"],
    &["name"],
    &["namespace"],
    &["metadata", "name"],
    &["metadata", "generateName"],
    &["metadata", "namespace"],
];

impl<'a> Walker<'a> {
    /// Treats the value of a rule as results: one, or the elements of a collection, or the values of an object.
    pub(super) fn results(&mut self, value: &Possible) {
        self.result(&Possible { members: None, ..value.clone() });
        let parts = value.fields.iter().flat_map(BTreeMap::values);
        for part in parts.chain(value.items.as_deref()).chain(value.members.as_deref()) {
            self.result(part);
        }
    }

    /// Treats a value as one result: a message, or an object with it. A `severity` is compared with the known ones.
    fn result(&mut self, value: &Possible) {
        self.printed(value);
        let severity = value.fields.as_ref().and_then(|fields| fields.get("severity"));
        // With unknown keys, it may be any value.
        for read in severity.into_iter().chain(value.items.as_deref()) {
            self.whole(read.clone());
        }
    }

    /// Treats a value as a result in Kubescape's dialect: of the objects that it is about or relates, only the
    /// identifying fields are read.
    pub(super) fn response(&mut self, mut response: Possible) -> Possible {
        let Some(fields) = &mut response.fields else { return response };
        let mut objects: Vec<Possible> = fields.remove("alertObject").into_iter().collect();
        let related = fields.get_mut("relatedObjects").and_then(|related| related.items.as_mut());
        objects.extend(related.and_then(|related| related.fields.as_mut()?.remove("object")));
        for place in objects.iter().flat_map(Possible::all_places) {
            for name in NAMES {
                let name = name.iter().map(|key| Segment::from(*key));
                self.frame.reads.insert(&place.iter().cloned().chain(name).collect::<Vec<_>>(), true);
            }
        }
        response
    }

    /// Marks the values that a result prints as read, in its message or in other fields: as JSON, where only sets have
    /// an order.
    fn printed(&mut self, value: &Possible) {
        value.places.iter().chain(&value.names).for_each(|place| self.see(place, true));
        if let Some(members) = &value.members {
            self.whole((**members).clone());
        }
        let fields = value.fields.iter().flat_map(BTreeMap::values);
        fields.chain(value.items.as_deref()).for_each(|part| self.printed(part));
    }

    /// Walks `sprintf` with a known format and literal arguments.
    pub(super) fn sprintf(&mut self, arguments: &'a [ResolvedTerm]) -> Possible {
        let Some(([format], items)) = self.listed_last(arguments) else {
            return self.any_builtin("sprintf", arguments);
        };
        let format = self.term(format);
        let verbs = format.only().and_then(PossibleScalar::as_text).and_then(|format| plain_verbs(format));
        let verbs = verbs.filter(|verbs| verbs.len() == items.len()).unwrap_or_else(|| vec![false; items.len()]);
        let mut nothing = format.is_nothing();
        self.whole(format);
        let mut names = BTreeSet::new();
        for (item, plain) in items.iter().zip(verbs) {
            let value = self.term(item);
            nothing |= value.is_nothing();
            self.take_in(value, plain, &mut names);
        }
        self.text(nothing, names)
    }

    /// Walks `concat` with literal lists of strings.
    pub(super) fn concat(&mut self, arguments: &'a [ResolvedTerm]) -> Possible {
        let Some(([delimiter], items)) = self.listed_last(arguments) else {
            return self.any_builtin("concat", arguments);
        };
        let delimiter = self.term(delimiter);
        let mut nothing = delimiter.is_nothing();
        self.whole(delimiter);
        let mut names = BTreeSet::new();
        for item in items {
            let value = self.term(item);
            nothing |= value.is_nothing();
            self.take_in(value, true, &mut names);
        }
        self.text(nothing, names)
    }

    /// Walks a template string: a list of strings and of sets with at most one value.
    pub(super) fn template_string(&mut self, arguments: &'a [ResolvedTerm]) -> Possible {
        let Some(([], items)) = self.listed_last(arguments) else {
            return self.any_builtin("internal.template_string", arguments);
        };
        let mut names = BTreeSet::new();
        let mut nothing = false;
        for item in items {
            let value = self.term(item);
            nothing |= value.is_nothing();
            // Two different values are an error.
            let single = value.only_members().filter(|_| !value.several).cloned();
            let plain = single.is_some();
            self.take_in(single.unwrap_or(value), plain, &mut names);
        }
        self.text(nothing, names)
    }

    /// Returns the arguments before the last one, and the items of the last one; `None` if it is not a literal array.
    fn listed_last<const N: usize>(
        &self,
        arguments: &'a [ResolvedTerm],
    ) -> Option<(&'a [ResolvedTerm; N], &'a [ResolvedTerm])> {
        let (last, first) = arguments.split_last()?;
        match &self.written(last).value {
            ResolvedValue::Array(items) => Some((first.try_into().ok()?, items)),
            _ => None,
        }
    }

    /// Reads an argument; one that is printed unchanged is not inspected yet.
    fn take_in(&mut self, value: Possible, plain: bool, names: &mut BTreeSet<ReadPath>) {
        if plain {
            self.alike(&value);
            names.extend(value.all_places().into_iter().cloned());
        } else {
            self.whole(value);
        }
    }

    fn text(&mut self, nothing: bool, names: BTreeSet<ReadPath>) -> Possible {
        if nothing {
            return Possible::default();
        }
        // May fail in strict evaluation.
        self.frame.may_fail = true;
        Possible::printed(names)
    }
}

/// Returns for each argument of a format whether it is printed unchanged: by `%s` or `%v` without flags, width and
/// precision. Returns `None` if this cannot be determined.
fn plain_verbs(format: &str) -> Option<Vec<bool>> {
    let mut verbs = Vec::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            continue;
        }
        let mut plain = true;
        let mut verb = rest.next()?;
        while matches!(verb, '#' | '0'..='9' | '+' | '-' | ' ' | '.') {
            plain = false;
            verb = rest.next()?;
        }
        match verb {
            '%' => {}
            '*' | '[' => return None,
            verb => verbs.push(plain && matches!(verb, 's' | 'v')),
        }
    }
    Some(verbs)
}

#[cfg(test)]
mod tests {
    use super::plain_verbs;

    #[test]
    fn plain_format_verbs_are_detected() {
        let (yes, no) = (true, false);
        for (format, want) in [
            ("", Some(vec![])),
            ("%s is %v: 100%%", Some(vec![yes, yes])),
            ("%d %q %x %T", Some(vec![no, no, no, no])),
            ("%5s %-5s %.3s %+v %#v % s", Some(vec![no; 6])),
            ("%5% %s", Some(vec![yes])),
            ("%[1]s", None),
            ("%*s", None),
            ("%", None),
        ] {
            assert_eq!(plain_verbs(format), want, "{format}");
        }
    }
}
