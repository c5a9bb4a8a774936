//! Finds keys that occur twice in an object of a JSON text. The last one wins, as in kubectl; an API server that
//! validates strictly refuses them.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use crate::{rego::analysis::yaml::MOST_DUPLICATES, source::json::JsonKey};

/// Returns the first [`MOST_DUPLICATES`] keys that occur again in their object, each as a slice of the text. Keys with an escape
/// are not found.
pub(super) fn duplicates(json: &str) -> Vec<&str> {
    let mut keys = Keys::default();
    // Invalid JSON is reported by the code that reads it, and too deep JSON by the evaluation.
    let _broken = KeySearch(&mut keys).deserialize(&mut serde_json::Deserializer::from_str(json));
    keys.duplicates
}

/// The most keys of an object that are compared one by one, which is faster than to hash them.
const FEW: usize = 24;

#[derive(Default)]
struct Keys<'t> {
    /// Keys of the objects around a value, the outermost first: the first [`FEW`] of each.
    open: Vec<&'t str>,
    duplicates: Vec<&'t str>,
}

/// Collects the keys of a value that occur again.
struct KeySearch<'f, 't>(&'f mut Keys<'t>);

impl<'de> DeserializeSeed<'de> for KeySearch<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeySearch<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(keys) = self;
        let begin = keys.open.len();
        let mut others = HashSet::new();
        while let Some(JsonKey(key)) = map.next_key::<JsonKey<'de>>()? {
            if let Cow::Borrowed(key) = key {
                if keys.open[begin..].contains(&key) {
                    keys.duplicates.push(key);
                } else if keys.open.len() - begin < FEW {
                    keys.open.push(key);
                } else if !others.insert(key) {
                    keys.duplicates.push(key);
                }
            }
            if keys.duplicates.len() == MOST_DUPLICATES {
                return Err(A::Error::custom("enough"));
            }
            map.next_value_seed(KeySearch(keys))?;
        }
        keys.open.truncate(begin);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(KeySearch(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
