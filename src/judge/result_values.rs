//! Helpers for the values of rules, shared by all dialects.

use std::sync::Arc;

use regorus::Value;
use serde_json::Map;

use crate::rego::value;

/// Returns the fields of a result other than its message. A single field `details` that is an object is returned
/// itself, as in Gatekeeper's policies.
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

/// The maximum nesting of details: many JSON parsers support 128 levels, and results are nested in a document.
const DEEPEST: u32 = 100;

/// Converts values nested deeper than `levels` to strings.
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

/// Returns the values of a collection; empty for other values.
pub(crate) fn items(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Set(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.iter_sorted().map(|(_, value)| value)),
        _ => Box::new(std::iter::empty()),
    }
}
