//! Converts any YAML to JSON, as kubectl does. Takes many times as long as [`block`](super::block), which leaves to it
//! what it does not support.

use serde_json::Value;

use super::block::Converted;
use crate::rego::{
    Position,
    analysis::yaml::{self, YamlContent, YamlDialect, YamlError, YamlNode},
};

/// Converts the first document of a text that ends with a line break; `None` if there is none, or it is null.
///
/// # Errors
/// As [`yaml::first`].
pub(super) fn convert(text: &str) -> Result<Option<Converted>, YamlError> {
    let Some(document) = yaml::first(text, YamlDialect::Kubectl)?.filter(|document| !document.root.is_null()) else {
        return Ok(None);
    };
    let mut converted = Converted::default();
    write(&document.root, &mut converted);
    converted.duplicates = document.duplicates.into_iter().map(|(at, key)| (row(at), key)).collect();
    Ok(Some(converted))
}

/// Writes a value as JSON, with the offset and line of each item of a list.
fn write(node: &YamlNode, to: &mut Converted) {
    match &node.content {
        YamlContent::List(items) => {
            to.json.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    to.json.push(',');
                }
                to.items.push((to.json.len(), row(item.at)));
                write(item, to);
            }
            to.json.push(']');
        }
        YamlContent::Map(fields) => {
            to.json.push('{');
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    to.json.push(',');
                }
                // Keys and values read from text can always be written as JSON.
                to.json += &Value::from(field.key.as_str()).to_string();
                to.json.push(':');
                if field.key == ITEMS {
                    write(&field.value, to);
                } else {
                    to.json += &field.value.json().to_string();
                }
            }
            to.json.push('}');
        }
        _ => to.json += &node.json().to_string(),
    }
}

/// The field that contains the items of a list.
const ITEMS: &str = "items";

/// Returns a line from 0.
fn row(at: Position) -> usize {
    usize::try_from(at.line).unwrap_or(usize::MAX).saturating_sub(1)
}
