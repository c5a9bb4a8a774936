//! Sinks: where the results of a block go.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use regorus::{Rc, Value, value::Object};

use super::limit::{Halt, RuntimeError};
use crate::program::{PlannedDefinition, SourceLocation};

/// Where a block puts its results.
pub(super) enum ResultSink<'s> {
    /// Only records whether there is a result.
    Found(&'s mut bool),
    /// A single value, on which all results must agree; `once` if the first one is enough.
    One {
        value: &'s mut Option<Value>,
        once: bool,
        is_function: bool,
    },
    Array(&'s mut Vec<Value>),
    Set(&'s mut BTreeSet<Value>),
    /// Keys with different values are an error, or are added to `conflicts`.
    Object {
        fields: &'s mut BTreeMap<Value, Value>,
        conflicts: Option<ConflictSink<'s>>,
    },
    /// Values, or elements of sets, at paths; the first key of a path with two values is added to `conflicts`.
    Document {
        fields: &'s mut Object,
        /// The paths of the values.
        values: &'s mut BTreeSet<Vec<Value>>,
        elements: bool,
        conflicts: ConflictSink<'s>,
        /// Whether there was a result.
        given: &'s mut bool,
    },
}

/// Keys with different values, and the definition that caused the conflict.
pub(super) type Conflicts = BTreeMap<Value, Option<SourceLocation>>;

/// Collects the conflicting keys of a definition.
pub(super) struct ConflictSink<'s> {
    pub(super) keys: &'s mut Conflicts,
    pub(super) at: Option<SourceLocation>,
}

impl ConflictSink<'_> {
    pub(super) fn add(&mut self, key: Value) {
        self.keys.entry(key).or_insert(self.at);
    }
}

impl ResultSink<'_> {
    /// Returns the number of values.
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

/// Inserts a value; two different values at one key are a conflict.
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

/// Returns OPA's message for several different values.
fn several_values(is_function: bool) -> &'static str {
    if is_function {
        "functions must not produce multiple outputs for same inputs"
    } else {
        "complete rules must not produce multiple outputs"
    }
}

/// Sets a value, on which all results of one definition must agree.
pub(super) fn agree(value: &mut Option<Value>, own: Value, is_function: bool) -> Result<(), Halt> {
    match value {
        Some(value) if *value != own => Err(Halt::failed(several_values(is_function))),
        _ => {
            *value = Some(own);
            Ok(())
        }
    }
}

/// Sets a value, on which all definitions of a rule must agree.
pub(super) fn agree_with<'d>(
    value: &mut Option<(Value, &'d PlannedDefinition)>,
    own: Value,
    (definition, is_function): (&'d PlannedDefinition, bool),
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

/// Inserts a value, or an element of a set, at a path; returns false on a conflict.
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

/// Merges data into a document of rules; where both have a value, data takes precedence, as in OPA.
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
