//! Lists and maps of an object whose schema is known: sets and associative lists are compared without regard to the order,
//! and added without duplicates.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{CelList, CelValue, Map};
use crate::schema::{CelSchema, ListKind, ListSchema};

/// A scalar as the API server finds elements by it: the number 1 of an integer and of a floating point number differ.
#[derive(Debug, Clone, PartialEq)]
enum ElementKey {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    /// Several properties.
    Several(Vec<Self>),
}

impl ElementKey {
    fn of_json(json: &Json) -> Option<Self> {
        Some(match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64()?),
            },
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(_) | Json::Object(_) => return None,
        })
    }

    fn of_value(value: &CelValue<'_>) -> Option<Self> {
        Some(match value {
            CelValue::Bool(value) => Self::Bool(*value),
            CelValue::Int(value) => Self::Int(*value),
            CelValue::Double(value) => Self::Double(*value),
            CelValue::String(text) => Self::Text(text.to_string()),
            _ => return None,
        })
    }

    /// Returns the key of an element of an associative list.
    fn of_entry(value: &CelValue<'_>, properties: &[String]) -> Option<Self> {
        let CelValue::Map(Map::Typed { entries, .. } | Map::Json(entries)) = value else { return None };
        let key = |property: &String| Self::of_json(entries.get(property).unwrap_or(&Json::Null));
        properties.iter().map(key).collect::<Option<_>>().map(Self::Several)
    }
}

impl ListSchema {
    /// Returns the keys of the elements of a list; `None` for an element without one.
    fn keys(&self, list: &CelList<'_>) -> Vec<Option<ElementKey>> {
        match (&self.kind, list) {
            (ListKind::Map(properties), list) => {
                list.iter().map(|element| ElementKey::of_entry(&element, properties)).collect()
            }
            (_, CelList::Typed { elements, .. }) => elements.iter().map(ElementKey::of_json).collect(),
            (_, list) => list.iter().map(|element| ElementKey::of_value(&element)).collect(),
        }
    }

    /// Returns the key of an element of another list.
    fn key(&self, element: &CelValue<'_>) -> Option<ElementKey> {
        match &self.kind {
            ListKind::Map(properties) => ElementKey::of_entry(element, properties),
            _ => ElementKey::of_value(element),
        }
    }

    /// Whether a list of this schema is equal to another list.
    pub(super) fn equals<'v>(&self, one: &CelList<'v>, other: &CelList<'v>) -> bool {
        if one.len() != other.len() {
            return false;
        }
        if matches!(self.kind, ListKind::Atomic) {
            return one.iter().zip(other.iter()).all(|(one, other)| one.is_equal(&other));
        }
        let keys = self.keys(one);
        other.iter().all(|element| {
            let key = self.key(&element);
            // Of elements with the same key, the last one counts.
            let Some(index) = key.and_then(|key| keys.iter().rposition(|known| known.as_ref() == Some(&key))) else {
                return false;
            };
            match self.kind {
                ListKind::Map(_) => one.get(index).is_some_and(|own| own.is_equal(&element)),
                _ => true,
            }
        })
    }
}

/// Adds a list to one with a schema: elements that a set has are not added again, those of an associative list replace the
/// elements with the same keys.
pub(crate) fn added<'v>(one: &CelList<'v>, schema: &'v ListSchema, other: &CelList<'v>) -> CelList<'v> {
    let mut keys = schema.keys(one);
    let mut elements: Vec<CelValue<'v>> = one.iter().collect();
    for element in other.iter() {
        let key = schema.key(&element);
        let known = keys.iter().rposition(|known| known.is_some() && *known == key);
        match (&schema.kind, known) {
            (ListKind::Set, Some(_)) => continue,
            (ListKind::Map(_), Some(index)) => {
                elements[index] = element;
                continue;
            }
            _ => {}
        }
        elements.push(element);
        keys.push(key);
    }
    CelList::Merged { elements: Arc::new(elements), schema }
}

/// Whether an object with a schema is equal to another map. Fields that the schema does not have are compared as they are.
pub(super) fn maps<'v>(
    entries: &'v serde_json::Map<String, Json>,
    schema: &'v CelSchema,
    one: &Map<'v>,
    other: &Map<'v>,
) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let raw = |name: &str| match other {
        Map::Json(entries) | Map::Typed { entries, .. } => entries.get(name),
        Map::Shared(_) => None,
    };
    entries.iter().all(|(name, value)| match schema.of_key(name) {
        // Both sides look up the name as an identifier.
        Some(part) => match (one.field(name), other.field(name)) {
            (Some(_), Some(_)) if part.is_untyped() => raw(name) == Some(value),
            (Some(one), Some(other)) => one.is_equal(&other),
            (one, other) => one.is_none() && other.is_none(),
        },
        None => raw(name).is_none_or(|other| other == value),
    })
}
