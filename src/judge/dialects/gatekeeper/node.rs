//! Parses the documents of a YAML or JSON file. Each value has its position, so that problems can point to it.

use std::{collections::BTreeMap, fmt};

use regorus::Value;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number};
use serde_saphyr::Spanned;

use crate::rego::{
    File, Form, Problem,
    analysis::{
        data::yaml_problem,
        yaml::{self, forgiving},
    },
    problem::number,
};

/// A position in a file: line and column, starting at 1; 0 if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A value of a YAML or JSON document with its position.
#[derive(Debug, Clone)]
pub(crate) struct YamlNode {
    pub(crate) content: Content,
    pub(crate) at: At,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<YamlNode>),
    /// Fields in the order of the file.
    Map(Vec<(String, YamlNode)>),
}

/// Returned in place of a missing value.
static NULL: YamlNode = YamlNode { content: Content::Null, at: At { line: 0, column: 0 } };

impl YamlNode {
    /// Parses all documents of a file, and returns the items of `List`s separately. Empty documents are skipped.
    ///
    /// # Errors
    /// Returns the syntax error of the text.
    pub(crate) fn read(file: &File) -> Result<Vec<Self>, Problem> {
        let read = |text: &str| serde_saphyr::from_multiple_with_options::<Self>(text, yaml::as_kubectl());
        let documents = match forgiving(&file.text, read) {
            Ok(documents) => documents,
            // Not all JSON is YAML: surrogate pairs in strings are not. Such a file is parsed without positions.
            Err(why) if file.form == Form::Json => {
                vec![serde_json::from_str(&file.text).map_err(|_| yaml_problem(file, &why))?]
            }
            Err(why) => return Err(yaml_problem(file, &why)),
        };
        let mut flat = Vec::new();
        for document in documents {
            document.flatten(&mut flat);
        }
        Ok(flat)
    }

    fn flatten(mut self, into: &mut Vec<Self>) {
        let list = self.get("kind").text().is_some_and(|kind| kind.ends_with("List"));
        if list
            && let Content::Map(fields) = &mut self.content
            && let Some((_, Self { content: Content::List(items), .. })) =
                fields.iter_mut().find(|(key, _)| key == "items")
        {
            for item in std::mem::take(items) {
                item.flatten(into);
            }
        } else if !self.is_null() {
            into.push(self);
        }
    }

    /// Returns the value of a key, or null.
    pub(crate) fn get(&self, key: &str) -> &Self {
        self.fields().iter().find(|(name, _)| name == key).map_or(&NULL, |(_, value)| value)
    }

    /// Returns the value at a path of keys, or null.
    pub(crate) fn at(&self, path: &[&str]) -> &Self {
        path.iter().fold(self, |node, key| node.get(key))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    pub(crate) fn is_true(&self) -> bool {
        matches!(self.content, Content::Bool(true))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<&Number> {
        match &self.content {
            Content::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the items of a list; empty for other values.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the strings of a list.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.items().iter().filter_map(Self::text)
    }

    /// Returns the fields of a mapping; empty for other values.
    pub(crate) fn fields(&self) -> &[(String, Self)] {
        match &self.content {
            Content::Map(fields) => fields,
            _ => &[],
        }
    }

    /// Returns the type of the value, as named by JSON Schema.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.content {
            Content::Null => "null",
            Content::Bool(_) => "boolean",
            Content::Number(number) if is_whole(number) => "integer",
            Content::Number(_) => "number",
            Content::Text(_) => "string",
            Content::List(_) => "array",
            Content::Map(_) => "object",
        }
    }

    /// Returns the value as JSON, without positions.
    pub(crate) fn json(&self) -> serde_json::Value {
        match &self.content {
            Content::Null => serde_json::Value::Null,
            Content::Bool(value) => (*value).into(),
            Content::Number(number) => number.clone().into(),
            Content::Text(text) => text.as_str().into(),
            Content::List(items) => items.iter().map(Self::json).collect(),
            Content::Map(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), value.json())).collect::<Map<_, _>>().into()
            }
        }
    }

    /// Returns the value in the evaluator's type.
    pub(crate) fn value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::from(*value),
            Content::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), ..) => Value::from(number),
                (_, Some(number), _) => Value::from(number),
                (.., number) => Value::from(number.unwrap_or_default()),
            },
            Content::Text(text) => Value::from(text.as_str()),
            Content::List(items) => Value::from(items.iter().map(Self::value).collect::<Vec<_>>()),
            Content::Map(fields) => Value::from(
                fields
                    .iter()
                    .map(|(key, value)| (Value::from(key.as_str()), value.value()))
                    .collect::<BTreeMap<_, _>>(),
            ),
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

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        let place = spanned.defined;
        Ok(Self { content: spanned.value, at: At { line: number(place.line()), column: number(place.column()) } })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Content, E> {
        Number::from_f64(value).map(Content::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Content, E> {
        Ok(Content::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = items.next_element()? {
            nodes.push(node);
        }
        Ok(Content::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut fields: Vec<(String, YamlNode)> = Vec::new();
        while let Some((key, node)) = entries.next_entry::<String, YamlNode>()? {
            fields.push((key, node));
        }
        Ok(Content::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, text: &str) -> Vec<YamlNode> {
        let file = File::new("f".into(), form, text.to_owned());
        YamlNode::read(&file).unwrap()
    }

    #[test]
    fn every_value_has_its_position() {
        let text = "kind: A\nb:\n  - c: |\n      x\n      y\n---\nkind: XList\nitems:\n- {a: 1}\n- {a: \"2\"}\n";
        let nodes = read(Form::Yaml, text);
        assert_eq!(nodes.len(), 3);
        let rego = nodes[0].get("b").items()[0].get("c");
        assert_eq!((rego.text(), rego.at.line), (Some("x\ny\n"), 4));
        assert_eq!(nodes[1].get("a").at, At { line: 9, column: 7 });
        assert_eq!(nodes[2].get("a").text(), Some("2"));
    }

    #[test]
    fn json_that_is_not_yaml_is_parsed() {
        let nodes = read(Form::Json, "{\"a\": \"\\ud83d\\ude00\", \"b\": [1, 2.5]}");
        assert_eq!(nodes[0].json(), serde_json::json!({"a": "😀", "b": [1, 2.5]}));
    }
}
