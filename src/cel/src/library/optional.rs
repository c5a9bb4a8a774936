//! Optional values.

use super::{EvaluatedValue, Table, argument, list, unexpected};
use crate::{error::failed, value::CelValue};

pub(super) const TABLE: Table = &[
    ("optional_of", |values| Ok(CelValue::some(argument(values, 0)?.clone()))),
    ("optional_ofNonZeroValue", |values| {
        let value = argument(values, 0)?;
        Ok(if value.is_zero() { CelValue::Optional(None) } else { CelValue::some(value.clone()) })
    }),
    ("optional_none", |_| Ok(CelValue::Optional(None))),
    ("optional_value", value),
    ("optional_hasValue", |values| match argument(values, 0)? {
        CelValue::Optional(value) => Ok(CelValue::Bool(value.is_some())),
        _ => unexpected(),
    }),
    ("optional_unwrap", unwrap),
    ("optional_unwrapOpt", unwrap),
];

fn value<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match argument(values, 0)? {
        CelValue::Optional(Some(value)) => Ok((**value).clone()),
        CelValue::Optional(None) => failed("optional.none() dereference"),
        _ => unexpected(),
    }
}

fn unwrap<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let mut present = Vec::new();
    for element in list(values, 0)?.iter() {
        match element {
            CelValue::Optional(Some(value)) => present.push((*value).clone()),
            CelValue::Optional(None) => {}
            other => return failed(format!("value {} is not optional", other.plain())),
        }
    }
    Ok(CelValue::from(present))
}
