//! Schemas of custom resources: the types that validation rules see, and the values of an object with these types.
//!
//! The rules are those of the API server's package `pkg/cel/common`: which parts of a schema expressions can read, how the
//! names of properties are escaped, which formats of strings are timestamps, durations and bytes, and what sets and
//! associative lists are.

mod escape;
mod formats;
mod mismatch;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value as Json;

use self::formats::StringFormat;
pub use self::{
    escape::{escape, unescape},
    mismatch::SchemaMismatch,
};
use crate::{
    environment::DeclaredFieldType,
    reads::ReadStep,
    types::CelType,
    value::{CelList, CelText, CelValue, Map},
};

/// The types of a value and its parts, read from a structural schema.
#[derive(Debug)]
pub struct CelSchema {
    form: SchemaForm,
    nullable: bool,
}

#[derive(Debug)]
enum SchemaForm {
    IntOrString,
    Object(ObjectSchema),
    /// An object with any keys, by the schema of its values.
    Map(Arc<CelSchema>),
    List(ListSchema),
    String(StringFormat),
    Boolean,
    Number,
    Integer,
    /// A value of any type. Expressions cannot read it.
    Untyped,
}

#[derive(Debug)]
struct ObjectSchema {
    /// The name of its type, which no other object in the schema has.
    name: Arc<str>,
    /// By the names of the properties.
    fields: BTreeMap<Arc<str>, Arc<CelSchema>>,
}

/// The type of a list.
#[derive(Debug)]
pub(crate) struct ListSchema {
    pub(crate) items: Arc<CelSchema>,
    pub(crate) kind: ListKind,
}

/// How lists are compared and added: `x-kubernetes-list-type`.
#[derive(Debug)]
pub(crate) enum ListKind {
    /// Element by element.
    Atomic,
    /// Without regard to the order.
    Set,
    /// As maps, by the values of these properties.
    Map(Vec<String>),
}

/// The part of a schema that one step of a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaStep<'a> {
    /// The property with this name.
    Property(&'a str),
    /// Every element of a list.
    Items,
    /// Every value of an object with any keys.
    Values,
}

impl CelSchema {
    /// Reads a structural schema (`openAPIV3Schema` of a CRD, or a part of it). `is_resource` is whether it is that of a whole
    /// object, whose `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` expressions can always read.
    pub fn new(schema: &Json, is_resource: bool) -> Arc<Self> {
        Arc::new(Self::read(schema, "self", is_resource))
    }

    fn read(schema: &Json, name: &str, is_resource: bool) -> Self {
        let is = |extension: &str| schema.get(extension).and_then(Json::as_bool) == Some(true);
        let nullable = is("nullable");
        if is("x-kubernetes-int-or-string") {
            return Self { form: SchemaForm::IntOrString, nullable };
        }
        let part = |part: &Json, name: String| Arc::new(Self::read(part, &name, is_embedded(part)));
        let form = match schema["type"].as_str() {
            Some("object") => match schema.get("additionalProperties").filter(|values| values.is_object()) {
                Some(values) if !is_resource => SchemaForm::Map(part(values, format!("{name}.@elem"))),
                _ => SchemaForm::Object(ObjectSchema::read(schema, name, is_resource)),
            },
            Some("array") => match schema.get("items").filter(|items| items.is_object()) {
                Some(items) => SchemaForm::List(ListSchema {
                    items: part(items, format!("{name}.@idx")),
                    kind: ListKind::read(schema),
                }),
                None => SchemaForm::Untyped,
            },
            Some("string") => SchemaForm::String(StringFormat::named(schema["format"].as_str().unwrap_or_default())),
            Some("boolean") => SchemaForm::Boolean,
            Some("number") => SchemaForm::Number,
            Some("integer") => SchemaForm::Integer,
            _ => SchemaForm::Untyped,
        };
        Self { form, nullable }
    }

    /// Returns the type that expressions see; `None` if they cannot read values of this schema.
    pub fn cel_type(&self) -> Option<CelType> {
        Some(match &self.form {
            SchemaForm::IntOrString => CelType::Dyn,
            SchemaForm::Object(object) => CelType::Struct(Arc::clone(&object.name)),
            SchemaForm::Map(values) => CelType::map(CelType::String, values.cel_type()?),
            SchemaForm::List(list) => CelType::list(list.items.cel_type()?),
            SchemaForm::String(format) => format.cel_type(),
            SchemaForm::Boolean => CelType::Bool,
            SchemaForm::Number => CelType::Double,
            SchemaForm::Integer => CelType::Int,
            SchemaForm::Untyped => return None,
        })
    }

    /// Returns the schema of a part; `None` if there is none.
    pub fn part(&self, step: SchemaStep<'_>) -> Option<&Arc<Self>> {
        match (&self.form, step) {
            (SchemaForm::Object(object), SchemaStep::Property(name)) => object.fields.get(name),
            (SchemaForm::List(list), SchemaStep::Items) => Some(&list.items),
            (SchemaForm::Map(values), SchemaStep::Values) => Some(values),
            _ => None,
        }
    }

    /// Whether its fields are properties, whose names expressions escape.
    pub fn has_properties(&self) -> bool {
        matches!(self.form, SchemaForm::Object(_))
    }

    /// Returns the schema of the value of a key; `None` if expressions do not see it.
    pub(crate) fn of_key(&self, key: &str) -> Option<&Self> {
        match &self.form {
            SchemaForm::Object(object) => object.fields.get(key).map(AsRef::as_ref),
            SchemaForm::Map(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the type of a field of an object, by its escaped name.
    pub(crate) fn field_type(&self, field: &str) -> DeclaredFieldType {
        let SchemaForm::Object(object) = &self.form else { return DeclaredFieldType::NoFields };
        let is_named =
            |name: &str| escape(name).as_deref() == Some(field) || name == field && escape::is_reserved(name);
        let found = object.fields.iter().find(|(name, _)| is_named(name));
        match found.and_then(|(_, schema)| schema.cel_type()) {
            Some(found) => DeclaredFieldType::Known(found),
            None => DeclaredFieldType::Undefined,
        }
    }

    /// Returns the schemas of the objects in a schema, by the names of their types.
    pub(crate) fn objects(schema: &Arc<Self>) -> HashMap<Arc<str>, Arc<Self>> {
        let (mut found, mut rest) = (HashMap::new(), vec![schema]);
        while let Some(schema) = rest.pop() {
            match &schema.form {
                SchemaForm::Object(object) => {
                    found.insert(Arc::clone(&object.name), Arc::clone(schema));
                    rest.extend(object.fields.values());
                }
                SchemaForm::Map(values) => rest.push(values),
                SchemaForm::List(list) => rest.push(&list.items),
                _ => {}
            }
        }
        found
    }

    /// Returns a value as expressions see it. One that does not fit the schema has the type of its JSON; see
    /// [`Self::check`].
    pub(crate) fn value<'v>(&'v self, json: &'v Json) -> CelValue<'v> {
        match (&self.form, json) {
            (SchemaForm::Object(_) | SchemaForm::Map(_), Json::Object(entries)) => {
                CelValue::Map(Map::Typed { entries, schema: self })
            }
            (SchemaForm::List(schema), Json::Array(elements)) => CelValue::List(CelList::Typed { elements, schema }),
            (SchemaForm::String(format), Json::String(text)) => {
                format.parse(text).unwrap_or(CelValue::String(CelText::Borrowed(text)))
            }
            (SchemaForm::Number, Json::Number(number)) => CelValue::Double(number.as_f64().unwrap_or(f64::NAN)),
            _ => CelValue::from(json),
        }
    }

    /// Returns the part of a value that the steps of an expression lead to; `None` if it is missing, or there are several.
    pub fn at<'v>(&'v self, json: &'v Json, steps: &[ReadStep]) -> Option<CelValue<'v>> {
        steps.iter().try_fold(self.value(json), |value, step| match (value, step) {
            (CelValue::Map(map), ReadStep::Field(name)) => map.field(name),
            _ => None,
        })
    }

    /// Whether a value may be read only when it is compared as a whole: its type is not known.
    pub(crate) fn is_untyped(&self) -> bool {
        matches!(self.form, SchemaForm::Untyped)
    }
}

fn is_embedded(schema: &Json) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

impl ObjectSchema {
    fn read(schema: &Json, name: &str, is_resource: bool) -> Self {
        let properties = schema["properties"].as_object();
        let read = |(property, part): (&String, &Json)| {
            let name = format!("{name}.{}", escape(property).unwrap_or_else(|| property.clone()));
            (property.as_str().into(), Arc::new(CelSchema::read(part, &name, is_embedded(part))))
        };
        let mut fields: BTreeMap<Arc<str>, Arc<CelSchema>> = properties.into_iter().flatten().map(read).collect();
        if is_resource && !has_type_and_meta(schema) {
            let text = || Arc::new(CelSchema { form: SchemaForm::String(StringFormat::Plain), nullable: false });
            let metadata = Self {
                name: format!("{name}.metadata").into(),
                fields: ["name", "generateName"].map(|field| (field.into(), text())).into(),
            };
            let metadata = CelSchema { form: SchemaForm::Object(metadata), nullable: false };
            fields.extend([
                ("apiVersion".into(), text()),
                ("kind".into(), text()),
                ("metadata".into(), Arc::new(metadata)),
            ]);
        }
        Self { name: name.into(), fields }
    }
}

/// Whether a schema has the properties that every object has.
fn has_type_and_meta(schema: &Json) -> bool {
    let properties = &schema["properties"];
    let metadata = &properties["metadata"];
    let is_text = |parent: &Json, field: &str| parent[field]["type"] == "string";
    ["kind", "apiVersion"].into_iter().all(|field| is_text(properties, field))
        && metadata["type"] == "object"
        && ["name", "generateName"].into_iter().all(|field| is_text(&metadata["properties"], field))
}

impl ListKind {
    fn read(schema: &Json) -> Self {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Self::Set,
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array();
                let keys = keys.into_iter().flatten().filter_map(Json::as_str);
                Self::Map(keys.map(|key| escape(key).unwrap_or_else(|| key.to_owned())).collect())
            }
            _ => Self::Atomic,
        }
    }
}

#[cfg(test)]
mod tests;
