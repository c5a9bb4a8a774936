//! Maps.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde_json::Value as Json;

use super::{CelText, CelValue};
use crate::schema::{CelSchema, escape, unescape};

/// The key of a computed map.
#[derive(Clone, Debug)]
pub enum MapKey<'v> {
    /// `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// 64 bits with a sign.
    Int(i64),
    /// 64 bits without a sign.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(CelText<'v>),
    /// A value of another type, with its text, by which it is sorted.
    Other(Box<(String, CelValue<'v>)>),
}

impl<'v> MapKey<'v> {
    /// Returns the key for a value; `None` for values that cannot be keys.
    pub fn new(value: &CelValue<'v>) -> Option<Self> {
        Some(match value {
            CelValue::Null => Self::Null,
            CelValue::Bool(value) => Self::Bool(*value),
            CelValue::Int(value) => Self::Int(*value),
            CelValue::Uint(value) => Self::Uint(*value),
            CelValue::Double(value) => Self::Double(*value),
            CelValue::String(text) => Self::String(text.clone()),
            CelValue::Bytes(_) | CelValue::Semver(_) | CelValue::Image(_) | CelValue::Variables => return None,
            other => Self::Other(Box::new((other.to_string(), other.clone()))),
        })
    }

    /// Returns the key as a value.
    pub fn value(&self) -> CelValue<'v> {
        match self {
            Self::Null => CelValue::Null,
            Self::Bool(value) => CelValue::Bool(*value),
            Self::Int(value) => CelValue::Int(*value),
            Self::Uint(value) => CelValue::Uint(*value),
            Self::Double(value) => CelValue::Double(*value),
            Self::String(text) => CelValue::String(text.clone()),
            Self::Other(other) => other.1.clone(),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int(_) => 2,
            Self::Uint(_) => 3,
            Self::Double(_) => 4,
            Self::String(_) => 5,
            Self::Other(_) => 6,
        }
    }
}

impl Ord for MapKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Int(one), Self::Int(other)) => one.cmp(other),
            (Self::Uint(one), Self::Uint(other)) => one.cmp(other),
            (Self::Double(one), Self::Double(other)) => one.total_cmp(other),
            (Self::String(one), Self::String(other)) => (**one).cmp(&**other),
            (Self::Other(one), Self::Other(other)) => one.0.cmp(&other.0),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for MapKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MapKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for MapKey<'_> {}

impl Hash for MapKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Int(value) => value.hash(state),
            Self::Uint(value) => value.hash(state),
            Self::Double(value) => value.to_bits().hash(state),
            Self::String(text) => text.hash(state),
            Self::Other(other) => other.0.hash(state),
        }
    }
}

/// A map, borrowed where possible.
#[derive(Clone, Debug)]
pub enum Map<'v> {
    /// Of an object.
    Json(&'v serde_json::Map<String, Json>),
    /// Of an object with a schema: its fields are those of the schema, by their escaped names.
    Typed {
        /// As they are in the object.
        entries: &'v serde_json::Map<String, Json>,
        /// The schema of the object.
        schema: &'v CelSchema,
    },
    /// Computed.
    Shared(Arc<BTreeMap<MapKey<'v>, CelValue<'v>>>),
}

impl<'v> Map<'v> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(entries) | Self::Typed { entries, .. } => entries.len(),
            Self::Shared(entries) => entries.len(),
        }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<CelValue<'v>> {
        match self {
            Self::Json(entries) => entries.get(name).map(CelValue::from),
            Self::Typed { entries, schema } if schema.has_properties() => {
                let name = unescape(name)?;
                let value = entries.get(&*name).filter(|value| !value.is_null())?;
                Some(schema.of_key(&name)?.value(value))
            }
            Self::Typed { entries, schema } => Some(schema.of_key(name)?.value(entries.get(name)?)),
            Self::Shared(_) => self.find(&CelValue::String(CelText::Shared(name.into()))),
        }
    }

    /// Returns the value of a key; numbers of different types may be equal.
    pub fn find(&self, key: &CelValue<'v>) -> Option<CelValue<'v>> {
        match self {
            Self::Json(_) | Self::Typed { .. } => self.field(key.as_str()?),
            Self::Shared(_) if matches!(key, CelValue::Double(value) if value.is_nan()) => None,
            // The API server compares these by identity.
            Self::Shared(_)
                if matches!(key, CelValue::List(_) | CelValue::Map(_) | CelValue::Quantity(_) | CelValue::Url(_)) =>
            {
                None
            }
            Self::Shared(entries) => {
                let key = MapKey::new(key)?;
                entries.get(&key).or_else(|| other_keys(&key).into_iter().find_map(|key| entries.get(&key?))).cloned()
            }
        }
    }

    /// Returns the keys.
    pub fn keys(&self) -> Vec<CelValue<'v>> {
        match self {
            Self::Json(entries) => entries.keys().map(|key| CelValue::String(CelText::Borrowed(key))).collect(),
            Self::Typed { entries, schema } => {
                let known = entries.keys().filter(|name| schema.of_key(name).is_some());
                let escaped = |name: &String| escape(name).filter(|escaped| schema.has_properties() && escaped != name);
                known
                    .map(|name| match escaped(name) {
                        Some(escaped) => CelValue::from(escaped),
                        None => CelValue::String(CelText::Borrowed(name)),
                    })
                    .collect()
            }
            Self::Shared(entries) => entries.keys().map(MapKey::value).collect(),
        }
    }

    /// Returns the entries.
    pub fn entries(&self) -> Vec<(CelValue<'v>, CelValue<'v>)> {
        match self {
            Self::Json(entries) => entries
                .iter()
                .map(|(key, value)| (CelValue::String(CelText::Borrowed(key)), CelValue::from(value)))
                .collect(),
            Self::Typed { .. } => {
                self.keys().into_iter().filter_map(|key| Some((key.clone(), self.find(&key)?))).collect()
            }
            Self::Shared(entries) => entries.iter().map(|(key, value)| (key.value(), value.clone())).collect(),
        }
    }
}

/// Returns the keys of other types that are equal to a number.
fn other_keys<'v>(key: &MapKey<'v>) -> [Option<MapKey<'v>>; 2] {
    match key {
        MapKey::Int(value) => [u64::try_from(*value).ok().map(MapKey::Uint), None],
        MapKey::Uint(value) => [i64::try_from(*value).ok().map(MapKey::Int), None],
        MapKey::Double(value) => [exact_int(*value).map(MapKey::Int), exact_uint(*value).map(MapKey::Uint)],
        _ => [None, None],
    }
}

/// Returns the integer that a floating point number is equal to.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "compared afterwards, exactly"
)]
pub(crate) fn exact_int(value: f64) -> Option<i64> {
    let in_range = value > -9_223_372_036_854_775_808.0 && value < 9_223_372_036_854_775_808.0;
    let int = value as i64;
    (in_range && int as f64 == value).then_some(int)
}

/// Returns the integer without sign that a floating point number is equal to.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "compared afterwards, exactly"
)]
pub(crate) fn exact_uint(value: f64) -> Option<u64> {
    let in_range = (0.0..18_446_744_073_709_551_616.0).contains(&value);
    let int = value as u64;
    (in_range && int as f64 == value).then_some(int)
}
