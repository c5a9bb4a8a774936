//! Calls: functions of the policies by how they use their arguments, builtins by a description of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    outcome::{Certainty, certain},
    possible::{Possible, PossibleScalar},
    walk::{SIZE, Walker},
};
use crate::rego::analysis::{
    builtins::{declarations::declaration, is_impure, results},
    resolved::{Function, ResolvedCall, ResolvedTerm, ResolvedValue},
};

impl<'a> Walker<'a> {
    /// Walks a call that is a statement; its arguments may be followed by the term that its result is unified with.
    pub(super) fn called(&mut self, call: &'a ResolvedCall) -> Certainty {
        if let Some((left, right)) = call.as_equality() {
            return self.unify(left, right);
        }
        let (value, result) = match &call.function {
            Function::Builtin(name) => {
                let arity = declaration(name).filter(|found| !found.is_variadic()).map(|found| found.arity);
                let (arguments, result) = split(&call.arguments, arity.unwrap_or(usize::MAX));
                if &**name == "walk" {
                    self.frame.loops.push(None);
                }
                (self.builtin(name, arguments), result)
            }
            Function::Rule(_) => {
                let path = call.function.path().unwrap_or_default();
                let arity = self.rules.at(&path).first().map_or(usize::MAX, |rule| rule.arity());
                let (arguments, result) = split(&call.arguments, arity);
                (self.function(&path, arguments, std::ptr::from_ref(call).addr()), result)
            }
            Function::Unknown(_) => (self.unsure(), call.arguments.as_slice()),
        };
        match result {
            [] => {
                self.present(&value);
                certain(&value)
            }
            [result, ..] => self.bind(result, value),
        }
    }

    fn function(&mut self, path: &[String], arguments: &'a [ResolvedTerm], site: usize) -> Possible {
        if self.rules.at(path).is_empty() {
            for argument in arguments {
                self.read_whole(argument);
            }
            return self.unsure();
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let mut value = self.term(argument);
            if value.is_nothing() {
                return value;
            }
            if value.size(SIZE) > SIZE {
                self.whole(value);
                value = Possible::other();
            }
            values.push(value);
        }
        let sure = values.iter().all(|value| value.sure);
        // A function without parameters is a rule.
        let values = (!values.is_empty()).then_some(values);
        let mut value = self.call(path, values, Some(site));
        value.sure &= sure;
        value
    }

    /// Marks all of a term as read; returns whether it is certainly undefined.
    fn read_whole(&mut self, term: &'a ResolvedTerm) -> bool {
        let value = self.term(term);
        let nothing = value.is_nothing();
        self.whole(value);
        nothing
    }

    fn builtin(&mut self, name: &str, arguments: &'a [ResolvedTerm]) -> Possible {
        match (name, arguments) {
            ("equal" | "neq", [left, right]) => {
                let (left, right) = (self.term(left), self.term(right));
                self.compare(left, right, name == "neq")
            }
            ("internal.member_2", [value, collection]) => self.membership(None, value, collection),
            ("internal.member_3", [key, value, collection]) => self.membership(Some(key), value, collection),
            ("object.get", [object, key, default]) => self.object_get(object, key, default),
            ("count", [collection]) => {
                let value = self.term(collection);
                self.frame.may_fail |= !value.is_nothing();
                // The length of a string.
                value.places.iter().for_each(|place| self.frame.reads.insert(place, false));
                self.elements(&value);
                defined(&value)
            }
            ("object.keys", [object]) => {
                let value = self.term(object);
                self.frame.may_fail |= !value.is_nothing();
                let (keys, _) = self.elements(&value);
                if value.is_nothing() { value } else { Possible::set(self.whole(keys), false) }
            }
            ("array.concat" | "array.slice" | "array.reverse", _) => self.array_builtin(name, arguments),
            (
                "is_array" | "is_boolean" | "is_null" | "is_number" | "is_object" | "is_set" | "is_string"
                | "type_name",
                [value],
            ) => {
                let value = self.term(value);
                self.present(&value);
                defined(&value)
            }
            ("json.patch", [object, patches]) => match added_fields(self.written(patches)) {
                Some(added) => self.with_fields(object, &added),
                None => self.any_builtin(name, arguments),
            },
            // Printing does not change a verdict.
            ("print", _) => {
                for argument in arguments {
                    let value = self.term(argument);
                    self.present(&value);
                }
                Possible::other()
            }
            ("result.new", [message, cause]) => self.new_result(message, cause),
            ("sprintf", _) => self.sprintf(arguments),
            ("concat", _) => self.concat(arguments),
            ("internal.template_string", _) => self.template_string(arguments),
            _ => self.any_builtin(name, arguments),
        }
    }

    /// Walks a call of an array builtin: the elements of the result are those of the arguments.
    fn array_builtin(&mut self, name: &str, arguments: &'a [ResolvedTerm]) -> Possible {
        match (name, arguments) {
            ("array.concat", [left, right]) => {
                let (left, right) = (self.term(left), self.term(right));
                let mut all = self.elements(&left).1;
                all.join(self.elements(&right).1);
                self.listed(&[&left, &right], all)
            }
            ("array.slice", [array, from, to]) => {
                let array = self.term(array);
                let nothing = self.read_whole(from) | self.read_whole(to);
                let (_, all) = self.elements(&array);
                if nothing { Possible::default() } else { self.listed(&[&array], all) }
            }
            ("array.reverse", [array]) => {
                let array = self.term(array);
                let (_, all) = self.elements(&array);
                self.listed(&[&array], all)
            }
            _ => self.any_builtin(name, arguments),
        }
    }

    /// Returns the result of `result.new`: the message and the name of the cause are only passed on.
    fn new_result(&mut self, message: &'a ResolvedTerm, cause: &'a ResolvedTerm) -> Possible {
        let (message, cause) = (self.term(message), self.term(cause));
        if message.is_nothing() || cause.is_nothing() {
            return Possible::default();
        }
        self.present(&cause);
        let sure = message.sure && cause.sure;
        let mut fields = BTreeMap::from([(Arc::from("msg"), message)]);
        let mut field = |name: &str| self.step(&cause, Possible::scalar(name.into()));
        let name = BTreeMap::from([(Arc::from(results::NAME), field(results::NAME))]);
        fields.insert(Arc::from("cause"), Possible { fields: Some(name), ..Possible::default() });
        let taken = results::COPIED.map(|(given, name)| (name, field(given)));
        let apart = field(results::METADATA);
        self.whole(apart);
        for (name, value) in taken {
            self.whole(value);
            fields.insert(Arc::from(name), Possible::other());
        }
        Possible { fields: Some(fields), sure, ..Possible::default() }
    }

    /// Returns an array with elements of other arrays.
    fn listed(&mut self, from: &[&Possible], elements: Possible) -> Possible {
        if from.iter().any(|array| array.is_nothing()) {
            return Possible::default();
        }
        // An error in strict evaluation unless all are arrays.
        let array = |value: &&Possible| {
            value.items.is_some() && value.fields.is_none() && value.places.is_empty() && value.names.is_empty()
        };
        self.frame.may_fail |= !from.iter().all(|value| array(value) && !value.other && value.members.is_none());
        Possible::array(elements, false)
    }

    /// Marks all arguments as read.
    pub(super) fn any_builtin(&mut self, name: &str, arguments: &'a [ResolvedTerm]) -> Possible {
        self.frame.reads.clock |= is_impure(name);
        let mut nothing = false;
        for argument in arguments {
            nothing |= self.read_whole(argument);
        }
        if nothing {
            return Possible::default();
        }
        // May fail in strict evaluation.
        self.frame.may_fail = true;
        Possible::other()
    }

    /// Walks `value in collection` or `key, value in collection`.
    fn membership(
        &mut self,
        key: Option<&'a ResolvedTerm>,
        value: &'a ResolvedTerm,
        collection: &'a ResolvedTerm,
    ) -> Possible {
        let nothing = key.is_some_and(|key| self.read_whole(key));
        let (value, collection) = (self.term(value), self.term(collection));
        let (_, elements) = self.elements(&collection);
        if nothing || value.is_nothing() || collection.is_nothing() {
            return Possible::default();
        }
        let sure = value.sure && collection.sure;
        let either = BTreeSet::from([true, false]);
        let listed = collection.scalars.is_empty() && elements.is_scalar();
        if !(listed && value.is_scalar() && key.is_none()) {
            self.whole(value);
            self.whole(elements);
            return Possible::truth(&either, sure);
        }
        let common = self.common(&value.scalars, &elements.scalars);
        // All elements of a literal exist, those of other collections may.
        let part = |part: &Option<Box<Possible>>| part.as_ref().is_some_and(|part| part.sure);
        let all_there = part(&collection.members) || part(&collection.items);
        if common.is_empty() {
            Possible::truth(&BTreeSet::from([false]), sure)
        } else if value.scalars.len() == 1 && all_there {
            Possible::truth(&BTreeSet::from([true]), sure)
        } else {
            Possible::truth(&either, sure)
        }
    }

    /// Walks a `json.patch` that adds fields: the object is only passed on, possibly with some fields replaced.
    fn with_fields(&mut self, object: &'a ResolvedTerm, added: &[(&'a str, &'a ResolvedTerm)]) -> Possible {
        let mut patched = self.term(object);
        // The patch of anything but an object is undefined.
        self.present(&patched);
        let mut nothing = patched.is_nothing();
        for (name, value) in added {
            let value = self.term(value);
            self.present(&value);
            nothing |= value.is_nothing();
            let fields = Some(BTreeMap::from([(Arc::from(*name), value)]));
            patched.join(Possible { fields, ..Possible::default() });
        }
        // May fail in strict evaluation.
        self.frame.may_fail = true;
        if nothing { Possible::default() } else { patched }
    }

    /// Walks `object.get` with a key or an array of keys, which reads only the value that it finds.
    fn object_get(&mut self, object: &'a ResolvedTerm, key: &'a ResolvedTerm, default: &'a ResolvedTerm) -> Possible {
        let (object, default) = (self.term(object), self.term(default));
        if object.is_nothing() || default.is_nothing() {
            return Possible::default();
        }
        self.present(&object);
        let keys: Vec<Possible> = match &self.written(key).value {
            ResolvedValue::Array(items) => items.iter().map(|item| self.term(item)).collect(),
            _ => vec![self.term(key)],
        };
        // An error in strict evaluation unless it is an object.
        self.frame.may_fail = true;
        let one = |key: &Possible| {
            key.is_scalar()
                && key.scalars.iter().all(|key| matches!(key, PossibleScalar::Value(_) | PossibleScalar::OtherKind))
        };
        if !keys.iter().all(one) {
            // The key may be a path of any length.
            for key in keys {
                self.whole(key);
            }
            self.whole(object);
            self.whole(default);
            return Possible::other();
        }
        let mut found = object;
        for key in keys {
            found = self.step(&found, key);
            self.present(&found);
        }
        found.join(default);
        found
    }
}

/// Separates the arguments of a function from the term that its result is unified with.
fn split(arguments: &[ResolvedTerm], arity: usize) -> (&[ResolvedTerm], &[ResolvedTerm]) {
    arguments.split_at(arity.min(arguments.len()))
}

/// Returns the fields that literal patches add to an object; `None` if the patches do anything else.
fn added_fields(patches: &ResolvedTerm) -> Option<Vec<(&str, &ResolvedTerm)>> {
    let ResolvedValue::Array(items) = &patches.value else { return None };
    items.iter().map(added_field).collect()
}

/// Returns the name and the value of the field that a patch adds.
fn added_field(patch: &ResolvedTerm) -> Option<(&str, &ResolvedTerm)> {
    let ResolvedValue::Object(fields) = &patch.value else { return None };
    let (mut name, mut value, mut adds) = (None, None, false);
    for (key, part) in fields {
        match &**key.as_text()? {
            "op" => adds = &**part.as_text()? == "add",
            "path" => name = part.as_text().map(|path| path.strip_prefix('/').unwrap_or(path)),
            "value" => value = Some(part),
            _ => return None,
        }
    }
    let name = name.filter(|name| adds && !name.is_empty() && !name.contains(['/', '~']))?;
    Some((name, value?))
}

fn defined(argument: &Possible) -> Possible {
    if argument.is_nothing() { Possible::default() } else { Possible::other() }
}
