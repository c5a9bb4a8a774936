//! Lists.

use std::cmp::Ordering;

use super::{EvaluatedValue, Table, argument, int, limits, list, operators};
use crate::{
    error::{EvalError, failed, no_overload},
    value::{CelList, CelValue},
};

pub(super) const TABLE: Table = &[
    ("list_slice", slice),
    ("list_flatten", |values| flattened(values, 1)),
    ("list_flatten_int", |values| flattened(values, int(values, 1)?)),
    ("lists_range", |values| Ok(CelValue::from((0..int(values, 0)?).map(CelValue::Int).collect::<Vec<_>>()))),
    ("list_reverse", reverse),
    ("list_distinct", distinct),
    ("list_first", |values| Ok(CelValue::Optional(list(values, 0)?.get(0).map(Into::into)))),
    ("list_last", last),
    ("list_a_index_of_int", |values| position(values, false)),
    ("list_a_last_index_of_int", |values| position(values, true)),
    ("list_int_is_sorted_bool", is_sorted),
    ("list_uint_is_sorted_bool", is_sorted),
    ("list_double_is_sorted_bool", is_sorted),
    ("list_bool_is_sorted_bool", is_sorted),
    ("list_duration_is_sorted_bool", is_sorted),
    ("list_timestamp_is_sorted_bool", is_sorted),
    ("list_string_is_sorted_bool", is_sorted),
    ("list_bytes_is_sorted_bool", is_sorted),
    ("list_int_sum_int", |values| sum(values, CelValue::Int(0))),
    ("list_uint_sum_uint", |values| sum(values, CelValue::Uint(0))),
    ("list_double_sum_double", |values| sum(values, CelValue::Double(0.0))),
    ("list_duration_sum_duration", |values| sum(values, CelValue::Duration(0))),
    ("list_int_max_int", max),
    ("list_uint_max_uint", max),
    ("list_double_max_double", max),
    ("list_bool_max_bool", max),
    ("list_duration_max_duration", max),
    ("list_timestamp_max_timestamp", max),
    ("list_string_max_string", max),
    ("list_bytes_max_bytes", max),
    ("list_int_min_int", min),
    ("list_uint_min_uint", min),
    ("list_double_min_double", min),
    ("list_bool_min_bool", min),
    ("list_duration_min_duration", min),
    ("list_timestamp_min_timestamp", min),
    ("list_string_min_string", min),
    ("list_bytes_min_bytes", min),
];

fn slice<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (list, from, to) = (list(values, 0)?, int(values, 1)?, int(values, 2)?);
    let (Ok(begin), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return failed(format!("cannot slice({from}, {to}), negative indexes not supported"));
    };
    if begin > end {
        return failed(format!("cannot slice({from}, {to}), start index must be less than or equal to end index"));
    }
    if list.len() < end {
        return failed(format!("cannot slice({from}, {to}), list is length {}", list.len()));
    }
    Ok(CelValue::from((begin..end).filter_map(|index| list.get(index)).collect::<Vec<_>>()))
}

fn flattened<'v>(values: &[CelValue<'v>], depth: i64) -> EvaluatedValue<'v> {
    let value = argument(values, 0)?;
    let CelValue::List(list) = value else {
        let name = if let CelValue::Map(_) = value { "map(dyn, dyn)" } else { value.type_name() };
        let rest = values.get(1).map_or("", CelValue::type_name);
        return failed(format!("no such overload: {name}.flatten({rest})"));
    };
    if depth < 0 {
        return failed("level must be non-negative");
    }
    let mut all = Vec::new();
    flatten(list, depth, &mut all)?;
    Ok(CelValue::from(all))
}

fn flatten<'v>(list: &CelList<'v>, depth: i64, all: &mut Vec<CelValue<'v>>) -> Result<(), EvalError> {
    for element in list.iter() {
        match element {
            CelValue::List(inner) if depth > 0 => flatten(&inner, depth - 1, all)?,
            other => all.push(other),
        }
        limits::check_length(all.len())?;
    }
    Ok(())
}

fn reverse<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let list = list(values, 0)?;
    Ok(CelValue::from((0..list.len()).rev().filter_map(|index| list.get(index)).collect::<Vec<_>>()))
}

fn distinct<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let mut unique: Vec<CelValue<'v>> = Vec::new();
    for element in list(values, 0)?.iter() {
        if !unique.iter().any(|known| element.is_equal(known)) {
            unique.push(element);
        }
    }
    Ok(CelValue::from(unique))
}

fn last<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let list = list(values, 0)?;
    let element = list.len().checked_sub(1).and_then(|index| list.get(index));
    Ok(CelValue::Optional(element.map(Into::into)))
}

fn position<'v>(values: &[CelValue<'v>], from_end: bool) -> EvaluatedValue<'v> {
    let (list, element) = (list(values, 0)?, argument(values, 1)?);
    let is_it = |index: &usize| list.get(*index).is_some_and(|other| other.is_equal(element));
    let found = if from_end { (0..list.len()).rev().find(is_it) } else { (0..list.len()).find(is_it) };
    Ok(found.map_or(CelValue::Int(-1), CelValue::length))
}

fn is_sorted<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let mut before: Option<CelValue<'v>> = None;
    for element in list(values, 0)?.iter() {
        if !element.is_comparable() {
            return no_overload();
        }
        // Elements that cannot be compared count as sorted.
        if before.is_some_and(|before| before.order(&element).is_ok_and(Ordering::is_gt)) {
            return Ok(CelValue::Bool(false));
        }
        before = Some(element);
    }
    Ok(CelValue::Bool(true))
}

fn sum<'v>(values: &[CelValue<'v>], zero: CelValue<'v>) -> EvaluatedValue<'v> {
    let mut sum = zero;
    for element in list(values, 0)?.iter() {
        sum = operators::add(&[sum, element])?;
    }
    Ok(sum)
}

fn max<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    extreme(values, "max", Ordering::Less)
}

fn min<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    extreme(values, "min", Ordering::Greater)
}

/// Returns the element that no other replaces; one replaces another if their order is the given one.
fn extreme<'v>(values: &[CelValue<'v>], function: &str, replaced: Ordering) -> EvaluatedValue<'v> {
    let mut result: Option<CelValue<'v>> = None;
    for element in list(values, 0)?.iter() {
        if !element.is_comparable() {
            return no_overload();
        }
        let keeps = |result: &CelValue<'v>| result.order(&element) != Ok(replaced);
        if !result.as_ref().is_some_and(keeps) {
            result = Some(element);
        }
    }
    result.map_or_else(|| failed(format!("{function} called on empty list")), Ok)
}

pub(super) fn sort<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match argument(values, 0)? {
        CelValue::List(list) => sorted(list, list),
        CelValue::String(_) | CelValue::Duration(_) | CelValue::Timestamp(_) => no_overload(),
        _ => failed("no such overload: sort"),
    }
}

pub(super) fn sort_by<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match (argument(values, 0)?, argument(values, 1)?) {
        (CelValue::List(list), CelValue::List(keys)) => sorted(list, keys),
        (CelValue::List(_) | CelValue::String(_) | CelValue::Duration(_) | CelValue::Timestamp(_), _) => no_overload(),
        _ => failed("no such overload: @sortByAssociatedKeys"),
    }
}

fn sorted<'v>(list: &CelList<'v>, keys: &CelList<'v>) -> EvaluatedValue<'v> {
    let Some(first) = keys.get(0) else { return Ok(CelValue::List(list.clone())) };
    if !first.is_comparable() {
        return failed("list elements must be comparable");
    }
    let mut pairs: Vec<_> = keys.iter().zip(list.iter()).collect();
    if pairs.len() > 1 && pairs.iter().any(|(key, _)| key.type_name() != first.type_name()) {
        return failed("list elements must have the same type");
    }
    // Go's sort is not stable for more than twelve elements; equal keys keep their order here.
    pairs.sort_by(|(one, _), (other, _)| one.order(other).unwrap_or(Ordering::Equal));
    Ok(CelValue::from(pairs.into_iter().map(|(_, element)| element).collect::<Vec<_>>()))
}
