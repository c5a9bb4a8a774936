//! The operations of a JSON patch as changes of the original value. An operation's path is that after all operations before
//! it; here each path becomes the original one, so that several patches of one object can be compared and combined.

use std::collections::BTreeSet;

use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use serde_json::Value;

use super::value_change::{ValueChange, ValueOperation, changed};

/// A value while operations are applied to it.
enum PatchedValue {
    /// The original value.
    Kept,
    /// A value of an operation.
    New(Value),
    /// The changed members of a mapping; `None` if removed.
    Mapping(Vec<(String, Option<Self>)>),
    /// All items of a list.
    List(Vec<PatchedItem>),
}

/// An item of a list while operations are applied to it.
struct PatchedItem {
    /// Its index in the original list; `None` if it is inserted.
    index: Option<usize>,
    value: PatchedValue,
}

/// Returns the changes that a patch makes in an object; `None` if it does not apply.
pub(super) fn changes(operations: &Patch, object: &Value) -> Option<Vec<ValueChange>> {
    let (mut after, mut edits) = (object.clone(), PatchedValue::Kept);
    for operation in operations.iter() {
        let mut path: Vec<String> = operation.path().tokens().map(|token| token.decoded().into_owned()).collect();
        let change = match operation {
            PatchOperation::Test(_) => None,
            PatchOperation::Remove(_) => Some(ValueOperation::Remove),
            PatchOperation::Replace(ReplaceOperation { value, .. }) => Some(ValueOperation::Set(value.clone())),
            PatchOperation::Add(AddOperation { value: new, path: pointer }) => {
                let parent = pointer.parent().and_then(|parent| after.pointer(parent.as_str()));
                match (parent.and_then(Value::as_array), path.last_mut()) {
                    (Some(items), Some(index)) => {
                        if index == "-" {
                            *index = items.len().to_string();
                        }
                        Some(ValueOperation::Insert(new.clone()))
                    }
                    _ => Some(ValueOperation::Set(new.clone())),
                }
            }
            PatchOperation::Move(_) | PatchOperation::Copy(_) => return None,
        };
        json_patch::patch(&mut after, std::slice::from_ref(operation)).ok()?;
        if let Some(change) = change {
            edits.apply(object, &path, &change)?;
        }
    }
    let mut changes = Vec::new();
    edits.changes(object, &[], &mut changes);
    Some(changes)
}

impl PatchedValue {
    /// Applies a change at a path; `None` if there is no such place. The object as a whole has no place in its text.
    fn apply(&mut self, original: &Value, path: &[String], change: &ValueOperation) -> Option<()> {
        let (key, rest) = path.split_first()?;
        if let Self::Kept = self {
            let item = |index| PatchedItem { index: Some(index), value: Self::Kept };
            *self = match original {
                Value::Array(items) => Self::List((0..items.len()).map(item).collect()),
                _ => Self::Mapping(Vec::new()),
            };
        }
        match self {
            Self::Kept => None,
            Self::New(value) => {
                *value = changed(value, path, change)?;
                Some(())
            }
            Self::Mapping(members) => {
                let known = members.iter().position(|(own, _)| own == key).unwrap_or(members.len());
                if known == members.len() {
                    members.push((key.clone(), Some(Self::Kept)));
                }
                let member = &mut members[known].1;
                if rest.is_empty() {
                    *member = match change {
                        ValueOperation::Set(value) | ValueOperation::Insert(value) => Some(Self::New(value.clone())),
                        ValueOperation::Remove => None,
                    };
                    return Some(());
                }
                member.as_mut()?.apply(original.get(key).unwrap_or(&Value::Null), rest, change)
            }
            Self::List(items) => {
                let at: usize = key.parse().ok()?;
                match (change, rest) {
                    (ValueOperation::Insert(value), []) => {
                        items.insert(at, PatchedItem { index: None, value: Self::New(value.clone()) });
                    }
                    (ValueOperation::Remove, []) => drop(items.remove(at)),
                    (ValueOperation::Set(value), []) => items.get_mut(at)?.value = Self::New(value.clone()),
                    _ => {
                        let PatchedItem { index, value } = items.get_mut(at)?;
                        // A new value has no original, and needs none.
                        let original = index.and_then(|index| original.get(index)).unwrap_or(&Value::Null);
                        value.apply(original, rest, change)?;
                    }
                }
                Some(())
            }
        }
    }

    /// Adds the changes of the original value at a path.
    fn changes(self, original: &Value, path: &[String], all: &mut Vec<ValueChange>) {
        let below = |key: &str| -> Vec<String> { path.iter().cloned().chain([key.to_owned()]).collect() };
        match self {
            Self::Kept => {}
            Self::New(value) => all.push(ValueChange { path: path.to_owned(), change: ValueOperation::Set(value) }),
            Self::Mapping(members) => {
                for (key, member) in members {
                    match (member, original.get(&key)) {
                        (Some(member), own) => member.changes(own.unwrap_or(&Value::Null), &below(&key), all),
                        (None, Some(_)) => all.push(ValueChange { path: below(&key), change: ValueOperation::Remove }),
                        (None, None) => {}
                    }
                }
            }
            Self::List(items) => {
                let own = original.as_array().map_or(&[][..], Vec::as_slice);
                let kept: BTreeSet<usize> = items.iter().filter_map(|item| item.index).collect();
                let removed = (0..own.len()).filter(|index| !kept.contains(index));
                all.extend(
                    removed
                        .map(|index| ValueChange { path: below(&index.to_string()), change: ValueOperation::Remove }),
                );
                let mut next = 0;
                for PatchedItem { index, value } in items {
                    match (index, value) {
                        (Some(index), value) => {
                            next = index + 1;
                            value.changes(own.get(index).unwrap_or(&Value::Null), &below(&index.to_string()), all);
                        }
                        (None, Self::New(value)) => {
                            let change = ValueOperation::Insert(value);
                            all.push(ValueChange { path: below(&next.to_string()), change });
                        }
                        (None, _) => {}
                    }
                }
            }
        }
    }
}
