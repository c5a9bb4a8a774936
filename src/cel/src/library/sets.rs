//! Lists as sets.

use super::{EvaluatedValue, Table, list, operators::is_member};
use crate::value::{CelList, CelValue};

pub(super) const TABLE: Table = &[
    ("list_sets_contains_list", |values| Ok(contains(list(values, 0)?, list(values, 1)?).into())),
    ("list_sets_equivalent_list", equivalent),
    ("list_sets_intersects_list", intersects),
];

fn contains<'v>(list: &CelList<'v>, other: &CelList<'v>) -> bool {
    other.iter().all(|element| is_member(list, &element))
}

fn equivalent<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (one, other) = (list(values, 0)?, list(values, 1)?);
    Ok(CelValue::Bool(contains(one, other) && contains(other, one)))
}

fn intersects<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (one, other) = (list(values, 0)?, list(values, 1)?);
    Ok(CelValue::Bool(one.iter().any(|element| is_member(other, &element))))
}
