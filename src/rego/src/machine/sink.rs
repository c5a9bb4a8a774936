//! What becomes of what a block yields.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use regorus::{Rc, Value, value::Object};

use super::limit::{Halt, RuntimeError};
use crate::program::{Definition, SourceLocation};

/// Where a block puts what it yields.
pub(super) enum Sink<'s> {
    /// Only whether there is something counts.
    Found(&'s mut bool),
    /// All must be the same; `once` if the first is enough.
    One {
        value: &'s mut Option<Value>,
        once: bool,
        is_function: bool,
    },
    Array(&'s mut Vec<Value>),
    Set(&'s mut BTreeSet<Value>),
    /// Keys with different values are an error, or added to `conflicts`.
    Object {
        fields: &'s mut BTreeMap<Value, Value>,
        conflicts: Option<ConflictSink<'s>>,
    },
    /// Values, or elements of sets, at paths; where there are two values, the first key is added to `conflicts`.
    Document {
        fields: &'s mut Object,
        /// The paths of the values.
        values: &'s mut BTreeSet<Vec<Value>>,
        elements: bool,
        conflicts: ConflictSink<'s>,
        /// Whether there was something.
        given: &'s mut bool,
    },
}

/// Keys that have different values, with the definitions that give another one.
pub(super) type Conflicts = BTreeMap<Value, Option<SourceLocation>>;

/// Where the keys go for which a definition gives another value.
pub(super) struct ConflictSink<'s> {
    pub(super) keys: &'s mut Conflicts,
    pub(super) at: Option<SourceLocation>,
}

impl ConflictSink<'_> {
    pub(super) fn add(&mut self, key: Value) {
        self.keys.entry(key).or_insert(self.at);
    }
}

impl Sink<'_> {
    /// Returns how many values it has.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Found(found) => usize::from(**found),
            Self::One { value, .. } => usize::from(value.is_some()),
            Self::Array(items) => items.len(),
            Self::Set(items) => items.len(),
            Self::Object { fields, .. } => fields.len(),
            Self::Document { fields, .. } => fields.len(),
        }
    }
}

pub(super) fn conflict() -> Halt {
    Halt::failed("object keys must be unique")
}

/// Two values at one key are a conflict.
pub(super) fn insert(fields: &mut BTreeMap<Value, Value>, key: Value, value: Value) -> Result<(), Halt> {
    match fields.entry(key) {
        Entry::Occupied(before) if *before.get() != value => Err(conflict()),
        Entry::Occupied(_) => Ok(()),
        Entry::Vacant(free) => {
            free.insert(value);
            Ok(())
        }
    }
}

/// In OPA's words.
fn several_values(is_function: bool) -> &'static str {
    if is_function {
        "functions must not produce multiple outputs for same inputs"
    } else {
        "complete rules must not produce multiple outputs"
    }
}

/// All values of one definition must be the same.
pub(super) fn agree(value: &mut Option<Value>, own: Value, is_function: bool) -> Result<(), Halt> {
    match value {
        Some(value) if *value != own => Err(Halt::failed(several_values(is_function))),
        _ => {
            *value = Some(own);
            Ok(())
        }
    }
}

/// All definitions of a rule must have the same value.
pub(super) fn agree_with<'d>(
    value: &mut Option<(Value, &'d Definition)>,
    own: Value,
    (definition, is_function): (&'d Definition, bool),
) -> Result<(), Halt> {
    match value {
        Some((value, other)) if *value != own => {
            let reason = several_values(is_function).to_owned();
            Err(Halt::Failed(RuntimeError { at: definition.at, reason, other: other.at }))
        }
        Some(_) => Ok(()),
        None => {
            *value = Some((own, definition));
            Ok(())
        }
    }
}

/// Puts a value, or an element of a set, at a path; returns false if there is another value.
pub(super) fn insert_at(fields: &mut Object, keys: &[Value], value: Value, is_element: bool) -> bool {
    let Some((key, rest)) = keys.split_first() else { return true };
    let Some(before) = fields.get_mut(key) else {
        let mut made = if is_element { Value::from(BTreeSet::from([value])) } else { value };
        for key in rest.iter().rev() {
            made = Value::from(BTreeMap::from([(key.clone(), made)]));
        }
        fields.insert(key.clone(), made);
        return true;
    };
    match before {
        Value::Object(fields) if !rest.is_empty() => insert_at(Rc::make_mut(fields), rest, value, is_element),
        Value::Set(items) if rest.is_empty() && is_element => {
            Rc::make_mut(items).insert(value);
            true
        }
        before => rest.is_empty() && !is_element && *before == value,
    }
}

/// Adds what is given as data below rules; where both have a value it takes precedence, as in OPA.
pub(super) fn add_given(fields: &mut Object, given: &Value) {
    let Value::Object(given) = given else { return };
    for (key, given) in given.iter() {
        match fields.get_mut(key) {
            Some(Value::Object(own)) if matches!(given, Value::Object(_)) => add_given(Rc::make_mut(own), given),
            Some(own) => *own = given.clone(),
            None => drop(fields.insert(key.clone(), given.clone())),
        }
    }
}
