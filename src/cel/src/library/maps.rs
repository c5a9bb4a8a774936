//! Maps that comprehensions and literals build.

use std::{collections::BTreeMap, sync::Arc};

use super::{Evaluated, Table, argument, unexpected};
use crate::{
    error::failed,
    value::{Key, Map, Value},
};

pub(super) const TABLE: Table = &[("@mapInsert_map_key_value", insert_entry), ("@mapInsert_map_map", insert_map)];

/// Builds a map; of entries with the same key, the last one counts.
///
/// # Errors
/// If a key is of a type that keys cannot have.
pub(crate) fn from_entries<'v>(entries: Vec<(Value<'v>, Value<'v>)>) -> Evaluated<'v> {
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        match Key::new(&key) {
            Some(key) => map.insert(key, value),
            None => return failed(format!("unsupported key type: {}", key.type_name())),
        };
    }
    Ok(Value::Map(Map::Shared(Arc::new(map))))
}

fn insert_entry<'v>(arguments: &[Value<'v>]) -> Evaluated<'v> {
    let (key, value) = (argument(arguments, 1)?, argument(arguments, 2)?);
    inserted(argument(arguments, 0)?, vec![(key.clone(), value.clone())])
}

fn insert_map<'v>(arguments: &[Value<'v>]) -> Evaluated<'v> {
    match argument(arguments, 1)? {
        Value::Map(other) => inserted(argument(arguments, 0)?, other.entries()),
        _ => unexpected(),
    }
}

fn inserted<'v>(map: &Value<'v>, entries: Vec<(Value<'v>, Value<'v>)>) -> Evaluated<'v> {
    let Value::Map(map) = map else { return unexpected() };
    let mut all = match map {
        Map::Shared(all) => Arc::clone(all),
        Map::Json(_) => {
            let keyed = map.entries().into_iter().filter_map(|(key, value)| Some((Key::new(&key)?, value)));
            Arc::new(keyed.collect())
        }
    };
    for (key, value) in entries {
        if Map::Shared(Arc::clone(&all)).find(&key).is_some() {
            return failed(format!("insert failed: key {} already exists", key.plain()));
        }
        match Key::new(&key) {
            Some(key) => Arc::make_mut(&mut all).insert(key, value),
            None => return failed(format!("unsupported key type: {}", key.type_name())),
        };
    }
    Ok(Value::Map(Map::Shared(all)))
}
