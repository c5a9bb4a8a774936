//! Locations of values while a program runs.

use regorus::Value;

/// The content of a register.
#[derive(Debug, Clone)]
pub(super) enum Slot<'v> {
    Empty,
    /// A borrowed part of the input, the data, the program, or the value of a rule.
    Ref(&'v Value),
    /// A value created by a step.
    Own(Value),
}

impl Slot<'_> {
    pub(super) fn value(&self) -> Option<&Value> {
        match self {
            Self::Empty => None,
            Self::Ref(value) => Some(value),
            Self::Own(value) => Some(value),
        }
    }
}

/// The state of a path lookup.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lookup<'v> {
    Open,
    Missing,
    Found(&'v Value),
}

/// Returns the value at a key of a collection.
pub(super) fn at<'a>(collection: &'a Value, key: &Value) -> Option<&'a Value> {
    match collection {
        Value::Object(fields) => fields.get(key),
        Value::Array(items) => match key {
            Value::Number(index) => items.get(usize::try_from(index.as_u64()?).ok()?),
            _ => None,
        },
        Value::Set(items) => items.get(key),
        _ => None,
    }
}

/// Returns the value at a path below a value.
pub(super) fn below<'a>(value: &'a Value, path: &[Value]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| at(value, key))
}
