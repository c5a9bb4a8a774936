//! Maps that comprehensions and literals build.

use std::{collections::BTreeMap, sync::Arc};

use super::{EvaluatedValue, Table, argument, limits, unexpected};
use crate::{
    error::{EvalError, failed},
    value::{CelValue, Map, MapKey},
};

pub(super) const TABLE: Table = &[("@mapInsert_map_key_value", insert_entry), ("@mapInsert_map_map", insert_map)];

/// Builds a map; of entries with the same key, the last one counts.
///
/// # Errors
/// If a key is of a type that keys cannot have.
pub(crate) fn from_entries<'v>(entries: Vec<(CelValue<'v>, CelValue<'v>)>) -> EvaluatedValue<'v> {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        map.insert(map_key(&key)?, value);
    }
    Ok(CelValue::Map(Map::Shared(Arc::new(map))))
}

/// Returns the key for a value.
///
/// # Errors
/// If it is of a type that keys cannot have, or too large.
fn map_key<'v>(key: &CelValue<'v>) -> Result<MapKey<'v>, EvalError> {
    limits::check_key(key)?;
    match MapKey::new(key) {
        Some(key) => Ok(key),
        None => failed(format!("unsupported key type: {}", key.type_name())),
    }
}

fn insert_entry<'v>(arguments: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let (key, value) = (argument(arguments, 1)?, argument(arguments, 2)?);
    inserted(argument(arguments, 0)?, vec![(key.clone(), value.clone())])
}

fn insert_map<'v>(arguments: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    match argument(arguments, 1)? {
        CelValue::Map(other) => inserted(argument(arguments, 0)?, other.entries()),
        _ => unexpected(),
    }
}

fn inserted<'v>(map: &CelValue<'v>, entries: Vec<(CelValue<'v>, CelValue<'v>)>) -> EvaluatedValue<'v> {
    let CelValue::Map(map) = map else { return unexpected() };
    let mut all = match map {
        Map::Shared(all) => Arc::clone(all),
        Map::Json(_) | Map::Typed { .. } => {
            let keyed = map.entries().into_iter().filter_map(|(key, value)| Some((MapKey::new(&key)?, value)));
            Arc::new(keyed.collect())
        }
    };
    for (key, value) in entries {
        if Map::Shared(Arc::clone(&all)).find(&key).is_some() {
            return failed(format!("insert failed: key {} already exists", key.plain()));
        }
        let key = map_key(&key)?;
        Arc::make_mut(&mut all).insert(key, value);
    }
    Ok(CelValue::Map(Map::Shared(all)))
}
