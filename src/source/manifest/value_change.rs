//! Changes of single values of an object, with paths of the object before all of them.

use serde_json::Value;

/// A change of one value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ValueOperation {
    /// Of a field or an item, which need not exist.
    Set(Value),
    Remove,
    /// Of an item of a list, before the one at this index.
    Insert(Value),
}

/// One of the changes that a fix consists of; their order has no meaning, except that items inserted at the same place keep
/// theirs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueChange {
    /// The keys that lead to it, and indexes of lists.
    pub(super) path: Vec<String>,
    pub(super) change: ValueOperation,
}

impl ValueChange {
    /// Whether one of two changes of the same object removes or replaces a value that the other one changes, or both insert
    /// items into the same list: after the first one, the second may not be needed.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let list = |change: &Self| {
            let is_insert = matches!(change.change, ValueOperation::Insert(_));
            change.path.split_last().filter(|_| is_insert).map(|(_, list)| list.to_owned())
        };
        let insert_both = list(self).is_some_and(|own| list(other) == Some(own));
        insert_both || self.overwrites(other) || other.overwrites(self)
    }

    fn overwrites(&self, other: &Self) -> bool {
        let is_insert = |change: &Self| matches!(change.change, ValueOperation::Insert(_));
        // An item that is inserted before another one does not change it.
        let is_beside = is_insert(other) && other.path.len() == self.path.len();
        !is_insert(self) && !is_beside && other.path.starts_with(&self.path)
    }

    /// Returns its path after other changes of an object: items of lists that they insert or remove change the indexes of
    /// others.
    pub(super) fn path_after(&self, made: &[Self], object: &Value) -> Vec<String> {
        let index_after = |(depth, key): (usize, &String)| {
            let list = &self.path[..depth];
            let index: usize = key.parse().ok().filter(|_| at(object, list).is_some_and(Value::is_array))?;
            let in_list = made.iter().filter_map(|Self { path, change }| {
                let (item, above) = path.split_last()?;
                Some((item.parse::<usize>().ok().filter(|_| above == list)?, change))
            });
            let after = in_list.fold(index, |after, (item, change)| match change {
                ValueOperation::Insert(_) if item <= index => after + 1,
                ValueOperation::Remove if item < index => after - 1,
                _ => after,
            });
            Some(after.to_string())
        };
        self.path.iter().enumerate().map(|part| index_after(part).unwrap_or_else(|| part.1.clone())).collect()
    }
}

/// Returns the value at a path.
pub(super) fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => value.get(key),
    })
}

/// Returns a value after a change at a path; `None` if it has no such place.
pub(super) fn changed(value: &Value, path: &[String], change: &ValueOperation) -> Option<Value> {
    let Some((key, rest)) = path.split_first() else {
        return match change {
            ValueOperation::Set(value) => Some(value.clone()),
            ValueOperation::Remove | ValueOperation::Insert(_) => None,
        };
    };
    match value {
        Value::Array(items) => {
            let index: usize = key.parse().ok()?;
            let mut items = items.clone();
            match change {
                ValueOperation::Insert(item) if rest.is_empty() && index <= items.len() => {
                    items.insert(index, item.clone());
                }
                ValueOperation::Remove if rest.is_empty() && index < items.len() => drop(items.remove(index)),
                _ => {
                    let item = items.get_mut(index)?;
                    *item = changed(item, rest, change)?;
                }
            }
            Some(items.into())
        }
        // A missing list is not created.
        Value::Object(_) | Value::Null if value.is_object() || key.parse::<usize>().is_err() => {
            let mut members = value.as_object().cloned().unwrap_or_default();
            if *change == ValueOperation::Remove && (rest.is_empty() || !members.contains_key(key)) {
                members.remove(key);
            } else {
                let member = changed(members.get(key).unwrap_or(&Value::Null), rest, change)?;
                members.insert(key.clone(), member);
            }
            Some(members.into())
        }
        _ => None,
    }
}
