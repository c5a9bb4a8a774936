//! Finds values that do not fit their schema among those that an expression reads.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{CelSchema, SchemaForm, unescape};
use crate::{
    environment::Root,
    reads::{CelReads, ReadStep},
};

/// A value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaMismatch {
    /// The place of the value below the one that was checked, such as `.spec.items[0]`; empty for that one.
    pub place: String,
    /// The type that the schema has.
    pub expected: &'static str,
    /// The type of the value.
    pub found: &'static str,
}

impl CelSchema {
    /// Checks the parts of a value that an expression reads as `self`. The API server does not evaluate rules on an object that
    /// does not fit its schema.
    ///
    /// # Errors
    /// Returns the first part that does not fit.
    pub fn check(&self, json: &Json, reads: &CelReads) -> Result<(), SchemaMismatch> {
        for (paths, is_whole) in [(&reads.seen, false), (&reads.whole, true)] {
            for path in paths.iter().filter(|path| path.root == Root::Itself) {
                let mut place = String::new();
                self.check_path(json, &path.steps, is_whole, &mut place)?;
            }
        }
        Ok(())
    }

    fn check_path(
        &self,
        json: &Json,
        steps: &[ReadStep],
        is_whole: bool,
        place: &mut String,
    ) -> Result<(), SchemaMismatch> {
        self.check_alone(json, place)?;
        match steps.split_first() {
            None if is_whole => self.check_parts(json, &[], true, place),
            None => Ok(()),
            Some((ReadStep::Any, rest)) => self.check_parts(json, rest, is_whole, place),
            Some((ReadStep::Field(name), rest)) => {
                let name = if self.has_properties() { unescape(name) } else { Some((&**name).into()) };
                let Some(name) = name else { return Ok(()) };
                match json.get(&*name) {
                    Some(part) => self.check_field(&name, part, (rest, is_whole), place),
                    None => Ok(()),
                }
            }
        }
    }

    /// Checks all parts of a value.
    fn check_parts(
        &self,
        json: &Json,
        rest: &[ReadStep],
        is_whole: bool,
        place: &mut String,
    ) -> Result<(), SchemaMismatch> {
        match (&self.form, json) {
            (SchemaForm::List(list), Json::Array(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    let length = place.len();
                    let _ = write!(place, "[{index}]");
                    list.items.check_path(element, rest, is_whole, place)?;
                    place.truncate(length);
                }
                Ok(())
            }
            (_, Json::Object(entries)) => {
                entries.iter().try_for_each(|(name, part)| self.check_field(name, part, (rest, is_whole), place))
            }
            _ => Ok(()),
        }
    }

    fn check_field(
        &self,
        name: &str,
        part: &Json,
        (rest, is_whole): (&[ReadStep], bool),
        place: &mut String,
    ) -> Result<(), SchemaMismatch> {
        // Null counts as missing.
        if part.is_null() && self.has_properties() {
            return Ok(());
        }
        let Some(schema) = self.of_key(name) else { return Ok(()) };
        let length = place.len();
        let _ = if self.has_properties() { write!(place, ".{name}") } else { write!(place, "[{name}]") };
        schema.check_path(part, rest, is_whole, place)?;
        place.truncate(length);
        Ok(())
    }

    /// Checks a value without its parts.
    fn check_alone(&self, json: &Json, place: &str) -> Result<(), SchemaMismatch> {
        let fits = match (&self.form, json) {
            (_, Json::Null) => self.nullable,
            (SchemaForm::Untyped, _)
            | (SchemaForm::Object(_) | SchemaForm::Map(_), Json::Object(_))
            | (SchemaForm::List(_), Json::Array(_))
            | (SchemaForm::Boolean, Json::Bool(_))
            | (SchemaForm::Number, Json::Number(_))
            | (SchemaForm::IntOrString, Json::String(_)) => true,
            (SchemaForm::Integer | SchemaForm::IntOrString, Json::Number(number)) => number.is_i64(),
            (SchemaForm::String(format), Json::String(text)) => format.parse(text).is_some(),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(SchemaMismatch { place: place.to_owned(), expected: self.type_name(), found: json_type(json) })
    }

    /// Returns the name of the type, or of the format, in schemas.
    fn type_name(&self) -> &'static str {
        match &self.form {
            SchemaForm::IntOrString => "integer or string",
            SchemaForm::Object(_) | SchemaForm::Map(_) => "object",
            SchemaForm::List(_) => "array",
            SchemaForm::String(format) => format.name(),
            SchemaForm::Boolean => "boolean",
            SchemaForm::Number => "number",
            SchemaForm::Integer => "integer",
            SchemaForm::Untyped => "any value but null",
        }
    }
}

fn json_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
