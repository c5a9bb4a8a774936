//! What becomes of what a block yields.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use regorus::Value;

use super::limit::Halt;

/// Where a block puts what it yields.
pub(super) enum Sink<'s> {
    /// Only whether there is something counts.
    Found(&'s mut bool),
    /// All must be the same; `once` if the first is enough.
    One {
        value: &'s mut Option<Value>,
        once: bool,
    },
    Array(&'s mut Vec<Value>),
    Set(&'s mut BTreeSet<Value>),
    /// Keys with different values are an error, or added to `conflicts`.
    Object {
        fields: &'s mut BTreeMap<Value, Value>,
        conflicts: Option<&'s mut BTreeSet<Value>>,
    },
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
        }
    }
}

pub(super) fn conflict() -> Halt {
    Halt::Failed("object keys must be unique".to_owned())
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

/// All values of a complete rule must be the same.
pub(super) fn agree(value: &mut Option<Value>, own: Value) -> Result<(), Halt> {
    match value {
        Some(value) if *value != own => {
            Err(Halt::Failed("complete rules must not produce multiple outputs".to_owned()))
        }
        _ => {
            *value = Some(own);
            Ok(())
        }
    }
}
