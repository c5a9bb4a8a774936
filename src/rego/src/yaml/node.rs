//! The values of a document with their positions.

use std::collections::BTreeMap;

use regorus::Value;
use serde_json::Number;

use super::error::YamlError;
use crate::position::Position;

/// A value of a YAML or JSON document with its position.
#[derive(Debug, Clone)]
pub struct YamlNode {
    /// The value.
    pub content: YamlContent,
    /// The position of its first character: of the indicator of a block scalar, and of an alias.
    pub at: Position,
    /// The text of a number or a boolean, if it is known: a field of strings may have it without quotes.
    pub written: Option<Box<str>>,
}

/// A value without its position.
#[derive(Debug, Clone)]
pub enum YamlContent {
    /// Null, or no value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number; whole if it has no fraction.
    Number(Number),
    /// A string.
    Text(String),
    /// A sequence.
    List(Vec<YamlNode>),
    /// Fields with different keys, in the order of the document.
    Map(Vec<YamlField>),
}

/// A field of a mapping.
#[derive(Debug, Clone)]
pub struct YamlField {
    /// The key as JSON has it: a string.
    pub key: String,
    /// The position of the key.
    pub at: Position,
    /// The value.
    pub value: YamlNode,
}

/// Returned in place of a missing value.
pub(super) static NULL: YamlNode = YamlNode::new(YamlContent::Null, Position { line: 0, column: 0 });

impl YamlNode {
    /// Returns a value at a position.
    pub const fn new(content: YamlContent, at: Position) -> Self {
        Self { content, at, written: None }
    }

    /// Returns the value of a key, or null.
    pub fn get(&self, key: &str) -> &Self {
        self.fields().iter().find(|field| field.key == key).map_or(&NULL, |field| &field.value)
    }

    /// Returns the value at a path of keys, or null.
    pub fn at(&self, path: &[&str]) -> &Self {
        path.iter().fold(self, |node, key| node.get(key))
    }

    /// Whether the value is null or missing.
    pub fn is_null(&self) -> bool {
        matches!(self.content, YamlContent::Null)
    }

    /// Whether the value is the boolean true.
    pub fn is_true(&self) -> bool {
        matches!(self.content, YamlContent::Bool(true))
    }

    /// Returns a string; `None` for any other value.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a number; `None` for any other value.
    pub fn number(&self) -> Option<&Number> {
        match &self.content {
            YamlContent::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the items of a list; empty for other values.
    pub fn items(&self) -> &[Self] {
        match &self.content {
            YamlContent::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the strings of a list.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.items().iter().filter_map(Self::text)
    }

    /// Returns the fields of a mapping; empty for other values.
    pub fn fields(&self) -> &[YamlField] {
        match &self.content {
            YamlContent::Map(fields) => fields,
            _ => &[],
        }
    }

    /// Returns the type of the value, as named by JSON Schema.
    pub fn kind(&self) -> &'static str {
        match &self.content {
            YamlContent::Null => "null",
            YamlContent::Bool(_) => "boolean",
            YamlContent::Number(number) if is_whole(number) => "integer",
            YamlContent::Number(_) => "number",
            YamlContent::Text(_) => "string",
            YamlContent::List(_) => "array",
            YamlContent::Map(_) => "object",
        }
    }

    /// Returns an error about the value.
    pub fn error(&self, why: impl Into<String>) -> YamlError {
        YamlError::new(self.at, why)
    }

    /// Returns the type of the value with an article, for messages.
    pub fn found(&self) -> &'static str {
        match &self.content {
            YamlContent::Null => "nothing",
            YamlContent::Bool(_) => "a boolean",
            YamlContent::Number(_) => "a number",
            YamlContent::Text(_) => "a string",
            YamlContent::List(_) => "a list",
            YamlContent::Map(_) => "a mapping",
        }
    }

    /// Returns the value as JSON, without positions.
    pub fn json(&self) -> serde_json::Value {
        match &self.content {
            YamlContent::Null => serde_json::Value::Null,
            YamlContent::Bool(value) => (*value).into(),
            YamlContent::Number(number) => number.clone().into(),
            YamlContent::Text(text) => text.as_str().into(),
            YamlContent::List(items) => items.iter().map(Self::json).collect(),
            YamlContent::Map(fields) => fields.iter().map(|field| (field.key.clone(), field.value.json())).collect(),
        }
    }

    /// Returns the value in the evaluator's type.
    pub fn value(&self) -> Value {
        match &self.content {
            YamlContent::Null => Value::Null,
            YamlContent::Bool(value) => Value::from(*value),
            YamlContent::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), ..) => Value::from(number),
                (_, Some(number), _) => Value::from(number),
                (.., number) => Value::from(number.unwrap_or_default()),
            },
            YamlContent::Text(text) => Value::from(text.as_str()),
            YamlContent::List(items) => Value::from(items.iter().map(Self::value).collect::<Vec<_>>()),
            YamlContent::Map(fields) => {
                let fields = fields.iter().map(|field| (Value::from(field.key.as_str()), field.value.value()));
                Value::from(fields.collect::<BTreeMap<_, _>>())
            }
        }
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Positions and the order of keys are ignored.
impl PartialEq for YamlNode {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

/// A value without positions.
impl From<serde_json::Value> for YamlNode {
    fn from(value: serde_json::Value) -> Self {
        let content = match value {
            serde_json::Value::Null => YamlContent::Null,
            serde_json::Value::Bool(value) => YamlContent::Bool(value),
            serde_json::Value::Number(number) => YamlContent::Number(number),
            serde_json::Value::String(text) => YamlContent::Text(text),
            serde_json::Value::Array(items) => YamlContent::List(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(fields) => {
                let field = |(key, value)| YamlField { key, at: Position::default(), value: Self::from(value) };
                YamlContent::Map(fields.into_iter().map(field).collect())
            }
        };
        Self::new(content, Position::default())
    }
}
