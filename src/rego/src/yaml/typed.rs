//! Deserializes values into types; errors have the position of the value or of the key.

use std::slice;

use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor,
        value::{BorrowedStrDeserializer, MapAccessDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{
    error::YamlError,
    node::{NULL, YamlContent, YamlField, YamlNode},
};

impl YamlNode {
    /// Deserializes the value. Numbers and booleans can be strings, as they are written.
    ///
    /// # Errors
    /// If the value does not fit the type.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        T::deserialize(self).map_err(|error| error.or_at(self.at))
    }

    /// Returns a string, or a number or a boolean as it is written.
    fn unquoted(&self) -> Option<&str> {
        self.text().or(self.written.as_deref())
    }
}

impl<'de> Deserializer<'de> for &'de YamlNode {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match &self.content {
            YamlContent::Null => visitor.visit_unit(),
            YamlContent::Bool(value) => visitor.visit_bool(*value),
            YamlContent::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (.., number) => visitor.visit_f64(number.unwrap_or_default()),
            },
            YamlContent::Text(text) => visitor.visit_borrowed_str(text),
            YamlContent::List(items) => visitor.visit_seq(ItemAccess(items.iter())),
            YamlContent::Map(_) => visitor.visit_map(FieldAccess::of(self)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        match self.unquoted() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        // A list could be the fields of a struct.
        match self.content {
            YamlContent::Map(_) => self.deserialize_any(visitor),
            // A key without a value, below which everything is a comment.
            YamlContent::Null => visitor.visit_map(FieldAccess::of(self)),
            _ => Err(self.error("expected a mapping")),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        if self.is_null() { visitor.visit_seq(ItemAccess([].iter())) } else { self.deserialize_any(visitor) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, YamlError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        match self.unquoted() {
            Some(variant) => visitor.visit_enum(BorrowedStrDeserializer::new(variant)),
            None => visitor.visit_enum(MapAccessDeserializer::new(FieldAccess::of(self))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

struct ItemAccess<'de>(slice::Iter<'de, YamlNode>);

impl<'de> SeqAccess<'de> for ItemAccess<'de> {
    type Error = YamlError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, YamlError> {
        self.0.next().map(|item| seed.deserialize(item).map_err(|error| error.or_at(item.at))).transpose()
    }
}

struct FieldAccess<'de> {
    rest: slice::Iter<'de, YamlField>,
    /// The field whose value is next.
    field: Option<&'de YamlField>,
}

impl<'de> FieldAccess<'de> {
    fn of(node: &'de YamlNode) -> Self {
        Self { rest: node.fields().iter(), field: None }
    }
}

impl<'de> MapAccess<'de> for FieldAccess<'de> {
    type Error = YamlError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, YamlError> {
        self.field = self.rest.next();
        let Some(field) = self.field else { return Ok(None) };
        let key = seed.deserialize(BorrowedStrDeserializer::new(&field.key));
        key.map(Some).map_err(|error: YamlError| error.or_at(field.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, YamlError> {
        let value = self.field.map_or(&NULL, |field| &field.value);
        seed.deserialize(value).map_err(|error| error.or_at(value.at))
    }
}
