//! Folds JSON in one pass, from the innermost values to the outermost: each value of the selected parts becomes a value
//! of any type.

use std::{fmt, iter};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

/// Selects the parts of a text to parse. It is copied for each part.
pub trait PartSelection: Copy {
    /// Returns the selection for each element of an array; `None` to parse the array as an empty one.
    fn of_elements(self) -> Option<Self>;
    /// Returns the selection for a field; `None` to leave it out.
    fn of_field(self, key: &str) -> Option<Self>;
}

/// Selects everything.
#[derive(Clone, Copy)]
pub(super) struct All;

impl PartSelection for All {
    fn of_elements(self) -> Option<Self> {
        Some(self)
    }

    fn of_field(self, _: &str) -> Option<Self> {
        Some(self)
    }
}

/// Turns JSON into something else, from the innermost values outwards.
pub trait JsonFold: Copy {
    /// The result for a value, and for a key.
    type FoldedValue;

    /// Folds a value without parts.
    fn scalar(self, scalar: JsonScalar<'_>) -> Self::FoldedValue;
    /// Folds a key.
    fn key(self, key: &str) -> Self::FoldedValue;
    /// Folds an array.
    fn array<E: Error>(
        self,
        elements: impl Iterator<Item = Result<Self::FoldedValue, E>>,
    ) -> Result<Self::FoldedValue, E>;
    /// Folds an object, whose fields are in the order of the text.
    fn object<E: Error>(
        self,
        fields: impl Iterator<Item = Result<(Self::FoldedValue, Self::FoldedValue), E>>,
    ) -> Result<Self::FoldedValue, E>;
}

/// A JSON value without parts.
#[derive(Debug, Clone, Copy)]
pub enum JsonScalar<'t> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number of at least 0.
    Unsigned(u64),
    /// A whole number below 0.
    Signed(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(&'t str),
}

/// Folds the selected parts of JSON.
///
/// # Errors
/// Those of the fold, and if the text is invalid, nested deeper than 127 levels, or has numbers beyond 64-bit floats,
/// even in parts that are not selected.
pub fn fold<S: PartSelection, F: JsonFold>(
    json: &[u8],
    selection: S,
    fold: F,
) -> Result<F::FoldedValue, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let folded = Folded(selection, fold).deserialize(&mut reader)?;
    reader.end()?;
    Ok(folded)
}

/// Deserializes the selected parts of a value, and folds them.
pub(super) struct Folded<S, F>(pub(super) S, pub(super) F);

impl<'de, S: PartSelection, F: JsonFold> DeserializeSeed<'de> for Folded<S, F> {
    type Value = F::FoldedValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<F::FoldedValue, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: PartSelection, F: JsonFold> Visitor<'de> for Folded<S, F> {
    type Value = F::FoldedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<F::FoldedValue, E> {
        Ok(self.1.scalar(JsonScalar::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<F::FoldedValue, E> {
        Ok(self.1.scalar(JsonScalar::Bool(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<F::FoldedValue, E> {
        Ok(self.1.scalar(JsonScalar::Unsigned(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<F::FoldedValue, E> {
        Ok(self.1.scalar(JsonScalar::Signed(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<F::FoldedValue, E> {
        Ok(self.1.scalar(JsonScalar::Float(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<F::FoldedValue, E> {
        Ok(self.1.scalar(JsonScalar::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<F::FoldedValue, A::Error> {
        let Self(selection, fold) = self;
        if let Some(element) = selection.of_elements() {
            return fold.array(iter::from_fn(|| items.next_element_seed(Self(element, fold)).transpose()));
        }
        // The elements are skipped without even counting them.
        while items.next_element_seed(Folded(All, SkipFold))?.is_some() {}
        fold.array(iter::empty())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<F::FoldedValue, A::Error> {
        let Self(selection, fold) = self;
        let mut field = || loop {
            match entries.next_key_seed(FoldedKey(selection, fold))? {
                Some(Some((key, part))) => {
                    return entries.next_value_seed(Self(part, fold)).map(|value| Some((key, value)));
                }
                Some(None) => entries.next_value_seed(Folded(All, SkipFold))?,
                None => return Ok(None),
            }
        };
        fold.object(iter::from_fn(|| field().transpose()))
    }
}

/// Deserializes the key of a field, and folds it if the field is selected; returns it with the selection for the value.
struct FoldedKey<S, F>(S, F);

impl<'de, S: PartSelection, F: JsonFold> DeserializeSeed<'de> for FoldedKey<S, F> {
    type Value = Option<(F::FoldedValue, S)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<S: PartSelection, F: JsonFold> Visitor<'_> for FoldedKey<S, F> {
    type Value = Option<(F::FoldedValue, S)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.of_field(key).map(|part| (self.1.key(key), part)))
    }
}

/// Skips a value, but refuses what cannot be parsed: whether a text is valid must not depend on the selection.
#[derive(Clone, Copy)]
struct SkipFold;

impl JsonFold for SkipFold {
    type FoldedValue = ();

    fn scalar(self, _: JsonScalar<'_>) {}

    fn key(self, _: &str) {}

    fn array<E: Error>(self, mut elements: impl Iterator<Item = Result<(), E>>) -> Result<(), E> {
        elements.try_for_each(|element| element)
    }

    fn object<E: Error>(self, mut fields: impl Iterator<Item = Result<((), ()), E>>) -> Result<(), E> {
        fields.try_for_each(|field| field.map(drop))
    }
}
