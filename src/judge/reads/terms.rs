//! Terms and references: their possible values, and what they read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::{
    inventory::OWN_NAMESPACE,
    outcome::Certainty,
    possible::{Possible, PossibleScalar, ReadPath},
    reading::SetUse,
    tree::Segment,
    walk::{KindIs, Walker},
};
use crate::{
    judge::{dependencies::INVENTORIES, dialect::InputForm},
    rego::analysis::{
        resolved::{DATA, INPUT, ResolvedComprehension, ResolvedTerm, ResolvedValue, Variable},
        syntax::ComprehensionKind,
    },
};

/// The maximum number of keys in a path; longer paths count as read completely.
const LONGEST: usize = 24;

impl<'a> Walker<'a> {
    pub(super) fn term(&mut self, term: &'a ResolvedTerm) -> Possible {
        let value = if self.enter() { self.any_term(term) } else { self.unsure() };
        self.leave();
        value
    }

    fn any_term(&mut self, term: &'a ResolvedTerm) -> Possible {
        match &term.value {
            ResolvedValue::Constant(constant) => constant.value().map_or_else(Possible::other, Possible::scalar),
            ResolvedValue::Variable(variable) => self.variable(*variable),
            ResolvedValue::Ref(items) => self.reference(items),
            ResolvedValue::Array(items) => self.collection(items).map_or_else(Possible::default, |items| {
                let sure = items.sure;
                Possible::array(items, sure)
            }),
            ResolvedValue::Set(items) => self.collection(items).map_or_else(Possible::default, |members| {
                let sure = members.sure;
                self.set(members, items.len() > 1, sure)
            }),
            ResolvedValue::Object(fields) => self.object(fields),
            ResolvedValue::Comprehension(comprehension) => self.comprehension(comprehension),
            // The compiler eliminates these.
            ResolvedValue::Call(_) | ResolvedValue::Template(_) | ResolvedValue::Builtin(_) => self.unsure(),
        }
    }

    fn variable(&mut self, variable: Variable) -> Possible {
        match self.frame.value(variable) {
            Some(value) => value.clone(),
            None if variable == INPUT => self.at(vec![Segment::from("input")]),
            None if variable == DATA => self.data(&[]).0,
            // The compiler refuses unbound variables.
            None => self.unsure(),
        }
    }

    /// Returns the possible elements of a literal, `sure` if all of them exist and are scalars; `None` if one of them
    /// is certainly undefined, so that the collection is too.
    fn collection(&mut self, items: &'a [ResolvedTerm]) -> Option<Possible> {
        let mut all = Possible::default();
        let mut sure = true;
        for item in items {
            let value = self.term(item);
            if value.is_nothing() {
                return None;
            }
            sure &= value.only().is_some() && value.sure;
            all.join(value);
        }
        all.sure = sure;
        Some(all)
    }

    /// Creates a set, whose elements are compared with each other if there are `several`.
    fn set(&mut self, members: Possible, several: bool, sure: bool) -> Possible {
        let members = if several { self.member(members) } else { members };
        Possible { several, ..Possible::set(members, sure) }
    }

    fn object(&mut self, entries: &'a [(ResolvedTerm, ResolvedTerm)]) -> Possible {
        let mut fields: BTreeMap<Arc<str>, Possible> = BTreeMap::new();
        let mut items: Option<Box<Possible>> = None;
        let mut sure = true;
        for (key, value) in entries {
            let (key, value) = (self.term(key), self.term(value));
            if key.is_nothing() || value.is_nothing() {
                return Possible::default();
            }
            sure &= key.sure && value.sure;
            if let Some(name) = key.only().and_then(PossibleScalar::as_text) {
                fields.entry(Arc::clone(name)).or_default().join(value);
            } else {
                self.whole(key);
                items.get_or_insert_default().join(value);
            }
        }
        Possible { fields: Some(fields), items, sure, ..Possible::default() }
    }

    fn comprehension(&mut self, comprehension: &'a ResolvedComprehension) -> Possible {
        let ResolvedComprehension { form, key, term, body } = comprehension;
        match form {
            ComprehensionKind::Array => {
                let counts = std::mem::replace(&mut self.frame.counts, true);
                let items = self.inner(body, |walker| walker.term(term)).value;
                self.frame.counts = counts;
                Possible::array(items, true)
            }
            ComprehensionKind::Set => {
                let solutions = self.inner(body, |walker| walker.term(term));
                let several = solutions.are_several();
                self.set(solutions.value, several, true)
            }
            ComprehensionKind::Object => {
                let solutions = self.inner(body, |walker| {
                    if let Some(key) = key {
                        let key = walker.term(key);
                        walker.whole(key);
                    }
                    let value = walker.term(term);
                    walker.whole(value)
                });
                // `{key: … | some key, value in collection}` has each key once.
                let only = key.as_ref().and_then(ResolvedTerm::as_variable).map(Some);
                let is_key = only.is_some_and(|key| solutions.loops == [key]);
                let values = solutions.value;
                // Two values for one key are an error.
                let is_one = values.is_scalar() && values.scalars.len() < 2;
                if solutions.outcome != Certainty::No && !is_one && !is_key {
                    self.frame.may_fail = true;
                    self.frame.conflicts.insert(std::ptr::from_ref(comprehension).addr());
                }
                let items = (!values.is_nothing()).then(|| Box::new(values));
                Possible { fields: Some(BTreeMap::new()), items, sure: true, ..Possible::default() }
            }
        }
    }

    // References

    fn reference(&mut self, items: &'a [ResolvedTerm]) -> Possible {
        let Some((head, mut keys)) = items.split_first() else { return self.unsure() };
        let mut value = if head.as_variable() == Some(DATA) {
            let (value, used) = self.data(&ResolvedTerm::texts(keys));
            keys = &keys[used..];
            self.as_used(value, self.set_use(keys.first()))
        } else {
            self.term(head)
        };
        for key in keys {
            value = self.index(&value, key);
        }
        self.present(&value);
        value
    }

    /// Returns how the next key of a reference uses the value of a rule.
    fn set_use(&self, next: Option<&ResolvedTerm>) -> SetUse {
        let Some(next) = next else { return SetUse::AsWhole };
        match next.value {
            ResolvedValue::Object(_) if !self.frame.counts => SetUse::ByPattern,
            ResolvedValue::Variable(_) if self.frame.adds && !self.is_known(next) => SetUse::OneByOne,
            _ => SetUse::AsWhole,
        }
    }

    /// Returns the possible value below `data` at a path of fields or at its longest known prefix, and the length of
    /// that prefix.
    pub(super) fn data(&mut self, path: &[String]) -> (Possible, usize) {
        let place: ReadPath = ["data"].into_iter().chain(path.iter().map(String::as_str)).map(Segment::from).collect();
        let inventory = path.first().is_none_or(|first| INVENTORIES.contains(&first.as_str()));
        let all = self.rules;
        let is_rule = |path: &&[String]| all.at(path).iter().any(|rule| !rule.is_function());
        let mut rules: Vec<&[String]> = all.graph.covered(path).into_iter().filter(is_rule).collect();
        rules.dedup();
        if let [only] = rules.as_slice()
            && only.len() <= path.len()
        {
            return (self.call(only, None, None), only.len());
        }
        if rules.is_empty() && inventory && !path.is_empty() {
            return (self.at(place), path.len());
        }
        // Several rules below one name, or all of `data`.
        for rule in rules {
            let value = self.call(rule, None, None);
            self.whole(value);
        }
        if inventory {
            self.frame.reads.insert(&place, true);
        }
        (Possible::other(), path.len())
    }

    /// Returns the possible value at a path of a document.
    fn at(&mut self, place: ReadPath) -> Possible {
        if self.kind != KindIs::Unknown
            && let Some(sure) = self.names_kind(&place)
        {
            self.frame.reads.insert(&place, true);
            self.frame.depends_on_kind = true;
            let kind = match &self.kind {
                KindIs::Named(kind) => PossibleScalar::text(kind),
                KindIs::Other | KindIs::Unknown => PossibleScalar::OtherKind,
            };
            return Possible { scalars: BTreeSet::from([kind]), sure, ..Possible::default() };
        }
        if place.len() > LONGEST {
            self.frame.reads.insert(&place, true);
            return Possible::other();
        }
        if self.names_object(&place) {
            return Possible::name(place);
        }
        Possible::place(place)
    }

    /// Whether a value can only be the object's namespace.
    fn is_own_namespace(&self, value: &Possible) -> bool {
        let nothing_else = Possible { names: BTreeSet::new(), sure: value.sure, ..value.clone() }.is_nothing();
        let is_namespace =
            |place: &ReadPath| place.last() == Some(&Segment::from("namespace")) && self.names_object(place);
        nothing_else && !value.names.is_empty() && value.names.iter().all(is_namespace)
    }

    /// Whether the value at a path is the object's name or namespace.
    pub(super) fn names_object(&self, place: &[Segment]) -> bool {
        let [Segment::Field(input), above @ .., Segment::Field(last)] = place else { return false };
        let is = |names: &[&str]| is(above, names);
        &**input == "input"
            && matches!(&**last, "name" | "namespace")
            && match self.dialect.input {
                InputForm::Object => is(&["metadata"]),
                InputForm::Review(review) => is(&[review]) || is(&[review, "object", "metadata"]),
                // Verdicts on arrays are not shared.
                InputForm::Array => false,
            }
    }

    /// Whether the value at a path is the name of the kind; `true` if it always is.
    fn names_kind(&self, place: &[Segment]) -> Option<bool> {
        let is = |names: &[&str]| is(place, names);
        let review = match self.dialect.input {
            InputForm::Object => return is(&["input", "kind"]).then_some(true),
            InputForm::Array => {
                let [input, Segment::Any, kind] = place else { return None };
                return (*input == Segment::from("input") && *kind == Segment::from("kind")).then_some(true);
            }
            InputForm::Review(review) => review,
        };
        if is(&["input", review, "kind", "kind"]) {
            Some(true)
        } else {
            // A deletion is reviewed without an object.
            is(&["input", review, "object", "kind"]).then_some(false)
        }
    }

    /// Returns the possible values at a key; an unbound key iterates.
    fn index(&mut self, value: &Possible, key: &'a ResolvedTerm) -> Possible {
        // An object is matched field by field with the elements of a set, even if all of its variables are bound.
        let pattern = match &key.value {
            ResolvedValue::Object(fields) if value.only_members().is_some() => Some(fields),
            _ => None,
        };
        let is_known = self.is_known(key);
        if is_known && pattern.is_none() {
            let key = self.term(key);
            return self.step(value, key);
        }
        if !is_known {
            self.frame.loops.push(key.as_variable());
        }
        let (keys, values) = self.iterate(value);
        let outcome = match pattern {
            Some(pattern) => {
                self.elements(&keys);
                self.fields(pattern, &keys)
            }
            None => self.bind(key, keys),
        };
        if outcome == Certainty::No { Possible::default() } else { values }
    }

    /// Returns the possible values at a key.
    pub(super) fn step(&mut self, value: &Possible, key: Possible) -> Possible {
        let mut found = Possible::default();
        if key.is_nothing() {
            return found;
        }
        let known = key.is_scalar();
        let own_namespace = self.is_own_namespace(&key);
        let key = self.whole(key);
        let names: Vec<&Arc<str>> = key.scalars.iter().filter_map(PossibleScalar::as_text).collect();
        let all_names = known && names.len() == key.scalars.len();
        // Only the kind is known to exist.
        let mut sure = value.places.len() == 1 && names.len() == 1 && all_names;
        for place in &value.places {
            let keys: Vec<Segment> = if own_namespace && holds_namespaces(place) {
                vec![Segment::from(OWN_NAMESPACE)]
            } else if all_names {
                names.iter().map(|name| Segment::Field(Arc::clone(name))).collect()
            } else {
                vec![Segment::Any]
            };
            for key in keys {
                let part = self.at(place.iter().cloned().chain([key]).collect());
                sure &= part.sure;
                found.join(part);
            }
        }
        if let Some(fields) = &value.fields {
            let listed: BTreeSet<PossibleScalar> = fields.keys().map(|name| PossibleScalar::text(name)).collect();
            let hit = if known { self.common(&key.scalars, &listed) } else { listed };
            for name in hit.iter().filter_map(PossibleScalar::as_text) {
                found.join(fields[name].clone());
            }
        }
        if let Some(items) = &value.items {
            found.join((**items).clone());
        }
        if let Some(members) = &value.members {
            if known && members.is_scalar() {
                let scalars = self.common(&key.scalars, &members.scalars);
                found.join(Possible { scalars, ..Possible::default() });
            } else {
                // The set is looked up by the value of the element.
                found.join(self.whole((**members).clone()));
            }
        }
        // A string has no fields, but evaluators differ in the result.
        value.names.iter().for_each(|place| self.frame.reads.insert(place, true));
        found.other |= value.other || !value.names.is_empty();
        found.sure = sure && value.fields.is_none() && value.items.is_none() && value.members.is_none() && !value.other;
        found
    }

    /// Returns the scalars in both sets, and records the strings that the kind is compared with.
    pub(super) fn common(
        &mut self,
        left: &BTreeSet<PossibleScalar>,
        right: &BTreeSet<PossibleScalar>,
    ) -> BTreeSet<PossibleScalar> {
        for (one, other) in [(left, right), (right, left)] {
            if one.contains(&PossibleScalar::OtherKind) {
                self.frame.compared.extend(other.iter().filter_map(PossibleScalar::as_text).cloned());
            }
        }
        left.intersection(right).cloned().collect()
    }

    /// Walks `==` or `!=`. In comparisons with a scalar, only scalars matter; a comparison with null only reads
    /// existence.
    pub(super) fn compare(&mut self, left: Possible, right: Possible, negated: bool) -> Possible {
        if left.is_nothing() || right.is_nothing() {
            return Possible::default();
        }
        let sure = left.sure && right.sure;
        if !(left.is_scalar() && right.is_scalar()) {
            let null = |value: &Possible| value.only() == Some(&PossibleScalar::Value(Value::Null));
            if null(&left) || null(&right) {
                self.present(&left);
                self.present(&right);
            } else {
                self.whole(left);
                self.whole(right);
            }
            return Possible::truth(&BTreeSet::from([true, false]), sure);
        }
        let equal = !self.common(&left.scalars, &right.scalars).is_empty();
        let different = !(equal && left.scalars.len() == 1 && right.scalars.len() == 1);
        let truths = [(equal, true), (different, false)].into_iter().filter(|(may, _)| *may);
        Possible::truth(&truths.map(|(_, truth)| truth != negated).collect(), sure)
    }
}

/// Whether a path consists of these keys.
fn is(place: &[Segment], keys: &[&str]) -> bool {
    place.len() == keys.len() && place.iter().zip(keys).all(|(key, name)| *key == Segment::from(*name))
}

/// Whether the value at a path contains the looked-up objects by namespace.
fn holds_namespaces(place: &[Segment]) -> bool {
    let [Segment::Field(data), Segment::Field(document), below] = place else { return false };
    &**data == "data"
        && (&**document == "kubernetes" || &**document == "inventory" && *below == Segment::from("namespace"))
}
