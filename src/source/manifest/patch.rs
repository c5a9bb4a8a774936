//! The changes by which a result wants an object fixed: a field with its value, or a patch as in RFC 6902 or RFC 7386.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::{field_lines::keys, patched_value};

/// The change that a result names.
#[derive(Debug, Clone, PartialEq)]
pub enum ResultFix {
    /// A field, written as in `spec.containers[0].image`, other keys as in `labels["example.com/a"]`, and its value; null
    /// removes it. Missing parents are created.
    Field(String, Value),
    /// A patch of the object.
    Patch(ObjectPatch),
}

/// A patch of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectPatch {
    /// RFC 6902.
    Json(Patch),
    /// RFC 7386.
    Merge(Map<String, Value>),
}

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

impl ObjectPatch {
    /// Reads a patch: an array of operations, or an object to merge.
    ///
    /// # Errors
    /// Returns why the value is not a patch that can be applied to the text of a manifest.
    pub fn new(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(_) => {
                let patch: Patch = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
                let is_unsupported = |operation: &&PatchOperation| {
                    matches!(operation, PatchOperation::Move(_) | PatchOperation::Copy(_))
                };
                match patch.iter().find(is_unsupported) {
                    Some(operation) => {
                        Err(format!("the operation at {} must be add, remove, replace or test", operation.path()))
                    }
                    None => Ok(Self::Json(patch)),
                }
            }
            Value::Object(members) => Ok(Self::Merge(members.clone())),
            _ => Err("it must be an array of operations (RFC 6902) or an object to merge (RFC 7386)".to_owned()),
        }
    }
}

impl ResultFix {
    /// Returns the changes of an object, whose paths are all those of the object before the fix; `None` if the fix does not
    /// apply to it.
    pub(super) fn changes(&self, object: &Value) -> Option<Vec<ValueChange>> {
        match self {
            Self::Field(field, value) => {
                let path = keys(field).into_iter().map(|key| key.0.to_owned()).collect();
                let change = if value.is_null() { ValueOperation::Remove } else { ValueOperation::Set(value.clone()) };
                Some(vec![ValueChange { path, change }])
            }
            Self::Patch(ObjectPatch::Json(patch)) => patched_value::changes(patch, object),
            Self::Patch(ObjectPatch::Merge(members)) => {
                let mut changes = Vec::new();
                merge(object.as_object()?, members, &mut Vec::new(), &mut changes);
                Some(changes)
            }
        }
    }
}

/// Adds the changes that a merge patch makes in the object below these keys.
fn merge(
    object: &Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &mut Vec<String>,
    changes: &mut Vec<ValueChange>,
) {
    for (key, value) in patch {
        keys.push(key.clone());
        match (object.get(key), value) {
            (Some(Value::Object(own)), Value::Object(members)) => merge(own, members, keys, changes),
            // Missing parents are created, as other fixes of values below them may do.
            (None, Value::Object(members)) if !without_nulls(value).as_object().is_none_or(Map::is_empty) => {
                merge(&Map::new(), members, keys, changes);
            }
            (None, Value::Null) => {}
            (_, value) => {
                let change =
                    if value.is_null() { ValueOperation::Remove } else { ValueOperation::Set(without_nulls(value)) };
                changes.push(ValueChange { path: keys.clone(), change });
            }
        }
        keys.pop();
    }
}

/// Returns the value that a merge patch creates where there is none.
fn without_nulls(value: &Value) -> Value {
    let mut created = Value::Null;
    json_patch::merge(&mut created, value);
    created
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_are_no_patch_are_refused() {
        for (value, why) in [
            (json!("x"), "must be an array of operations"),
            (json!(null), "must be an array of operations"),
            (json!([{"op": "move", "from": "/a", "path": "/b"}]), "at /b must be add, remove, replace or test"),
            (json!([{"op": "copy", "from": "/a", "path": "/b"}]), "at /b must be add, remove, replace or test"),
            (json!([{"op": "add", "path": "b", "value": 1}]), "pointer"),
            (json!([{"op": "add", "path": "/b"}]), "value"),
            (json!([{"op": "put", "path": "/b"}]), "put"),
        ] {
            let found = ObjectPatch::new(&value).unwrap_err();
            assert!(found.contains(why), "{value}: {found}");
        }
    }

    #[test]
    fn a_patch_that_does_not_apply_has_no_changes() {
        let object = json!({"a": {"b": [1, 2]}});
        for patch in [
            json!([{"op": "test", "path": "/a/b/0", "value": 2}, {"op": "remove", "path": "/a/b/0"}]),
            json!([{"op": "remove", "path": "/a/c"}]),
            json!([{"op": "replace", "path": "/a/b/2", "value": 3}]),
            json!([{"op": "add", "path": "/a/b/3", "value": 3}]),
            json!([{"op": "add", "path": "/x/y", "value": 3}]),
            json!([{"op": "replace", "path": "", "value": {}}]),
        ] {
            assert_eq!(ResultFix::Patch(ObjectPatch::new(&patch).unwrap()).changes(&object), None, "{patch}");
        }
    }
}
