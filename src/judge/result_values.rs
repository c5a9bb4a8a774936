//! Parts of the values of rules, as all dialects read them.

use std::sync::Arc;

use regorus::Value;
use serde_json::Map;

use crate::rego::value;

/// Returns what a result holds besides its message. A single key `details` that holds an object is that object, as
/// Gatekeeper's policies write it.
pub(crate) fn details<'a>(
    fields: impl Iterator<Item = (&'a Value, &'a Value)>,
) -> Option<Arc<Map<String, serde_json::Value>>> {
    let name = |key: &Value| value::text(key).map_or_else(|| json(key).to_string(), ToString::to_string);
    let mut details: Map<_, _> = fields.map(|(key, value)| (name(key), json(value))).collect();
    if details.len() == 1
        && let Some(serde_json::Value::Object(inner)) = details.get_mut("details")
    {
        details = std::mem::take(inner);
    }
    details.values_mut().for_each(|value| cut(value, DEEPEST));
    (!details.is_empty()).then(|| Arc::new(details))
}

/// Levels of details that are kept: many JSON parsers read 128 levels, and results are nested in a document.
const DEEPEST: u32 = 100;

/// Turns what is nested deeper than `levels` into text.
fn cut(value: &mut serde_json::Value, levels: u32) {
    match value {
        serde_json::Value::Array(_) | serde_json::Value::Object(_) if levels == 0 => *value = value.to_string().into(),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| cut(item, levels - 1)),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, levels - 1)),
        _ => {}
    }
}

/// Returns a value as JSON; sets become arrays.
pub(crate) fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Returns the values of a collection; of anything else none.
pub(crate) fn items(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Set(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.iter_sorted().map(|(_, value)| value)),
        _ => Box::new(std::iter::empty()),
    }
}
