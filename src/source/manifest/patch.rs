//! The changes by which a result wants an object fixed: a field with its value, or a patch as in RFC 6902 or RFC 7386.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::{
    field_lines::keys,
    patched_value,
    value_change::{ValueChange, ValueOperation},
};

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
