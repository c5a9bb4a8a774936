//! Optional values.

use super::{Evaluated, Table, argument, list, unexpected};
use crate::{error::failed, value::Value};

pub(super) const TABLE: Table = &[
    ("optional_of", |values| Ok(Value::some(argument(values, 0)?.clone()))),
    ("optional_ofNonZeroValue", |values| {
        let value = argument(values, 0)?;
        Ok(if value.is_zero() { Value::Optional(None) } else { Value::some(value.clone()) })
    }),
    ("optional_none", |_| Ok(Value::Optional(None))),
    ("optional_value", value),
    ("optional_hasValue", |values| match argument(values, 0)? {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => unexpected(),
    }),
    ("optional_unwrap", unwrap),
    ("optional_unwrapOpt", unwrap),
];

fn value<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    match argument(values, 0)? {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => failed("optional.none() dereference"),
        _ => unexpected(),
    }
}

fn unwrap<'v>(values: &[Value<'v>]) -> Evaluated<'v> {
    let mut present = Vec::new();
    for element in list(values, 0)?.iter() {
        match element {
            Value::Optional(Some(value)) => present.push((*value).clone()),
            Value::Optional(None) => {}
            other => return failed(format!("value {} is not optional", other.plain())),
        }
    }
    Ok(Value::from(present))
}
