//! The changes by which a result wants an object fixed: a field with its value, or a patch as in RFC 6902 or RFC 7386.

use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use serde_json::{Map, Value};

use super::field_lines::keys;

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

/// One of the changes that a fix consists of.
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
    /// Returns the changes of an object in order; `None` if the fix does not apply to it.
    pub(super) fn changes(&self, object: &Value) -> Option<Vec<ValueChange>> {
        match self {
            Self::Field(field, value) => {
                let path = keys(field).into_iter().map(|key| key.0.to_owned()).collect();
                let change = if value.is_null() { ValueOperation::Remove } else { ValueOperation::Set(value.clone()) };
                Some(vec![ValueChange { path, change }])
            }
            Self::Patch(ObjectPatch::Json(patch)) => operations(patch, object),
            Self::Patch(ObjectPatch::Merge(members)) => {
                let mut changes = Vec::new();
                merge(object.as_object()?, members, &mut Vec::new(), &mut changes);
                Some(changes)
            }
        }
    }
}

/// Returns the changes that the operations of a patch make in an object, each after those before it.
fn operations(operations: &Patch, object: &Value) -> Option<Vec<ValueChange>> {
    let mut object = object.clone();
    let mut changes = Vec::new();
    for operation in operations.iter() {
        let mut path: Vec<String> = operation.path().tokens().map(|token| token.decoded().into_owned()).collect();
        let change = match operation {
            PatchOperation::Test(_) => None,
            PatchOperation::Remove(_) => Some(ValueOperation::Remove),
            PatchOperation::Replace(ReplaceOperation { value, .. }) => Some(ValueOperation::Set(value.clone())),
            PatchOperation::Add(AddOperation { value, path: pointer }) => {
                let parent = pointer.parent().and_then(|parent| object.pointer(parent.as_str()));
                match (parent.and_then(Value::as_array), path.last_mut()) {
                    (Some(items), Some(index)) => {
                        if index == "-" {
                            *index = items.len().to_string();
                        }
                        Some(ValueOperation::Insert(value.clone()))
                    }
                    _ => Some(ValueOperation::Set(value.clone())),
                }
            }
            PatchOperation::Move(_) | PatchOperation::Copy(_) => return None,
        };
        json_patch::patch(&mut object, std::slice::from_ref(operation)).ok()?;
        changes.extend(change.map(|change| ValueChange { path, change }));
    }
    // A patch of the object as a whole has no place in its text.
    changes.iter().all(|change| !change.path.is_empty()).then_some(changes)
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
    /// Returns a value after the change; `None` if it has no such place.
    pub(super) fn applied_to(&self, value: &Value) -> Option<Value> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        changed(value, &path, &self.change)
    }

    /// Whether it changes the indexes of items in a list of `value`.
    pub(super) fn shifts_items(&self, value: &Value) -> bool {
        let removes_item = || {
            let above = self.path.split_last().and_then(|(_, above)| at(value, above));
            self.change == ValueOperation::Remove && above.is_some_and(Value::is_array)
        };
        matches!(self.change, ValueOperation::Insert(_)) || removes_item()
    }

    /// Whether another change is of an item that this one shifts, or of a value in it.
    pub(super) fn moves(&self, other: &Self) -> bool {
        let Some((index, list)) = self.path.split_last() else { return false };
        let number = |index: &String| index.parse::<usize>().ok();
        let own = other.path.strip_prefix(list).and_then(|rest| number(rest.first()?));
        own.zip(number(index)).is_some_and(|(own, index)| own >= index)
    }

    /// Returns the path for ordering: indexes by their numbers.
    pub(super) fn order(&self) -> Vec<(Option<usize>, String)> {
        self.path.iter().map(|key| (key.parse().ok(), key.clone())).collect()
    }
}

/// Returns the value at a path.
pub(super) fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => value.get(key),
    })
}

fn changed(value: &Value, path: &[&str], change: &ValueOperation) -> Option<Value> {
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
            if *change == ValueOperation::Remove && (rest.is_empty() || !members.contains_key(*key)) {
                members.remove(*key);
            } else {
                let member = changed(members.get(*key).unwrap_or(&Value::Null), rest, change)?;
                members.insert((*key).to_owned(), member);
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
