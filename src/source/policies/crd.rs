//! The parts of CRDs that their validation rules need.

use serde_json::{Map, Value};

/// The field of a schema with its rules.
const RULES: &[u8] = b"x-kubernetes-validations";

/// Whether the JSON of a CRD can have rules.
pub(super) fn has_rules(json: &[u8]) -> bool {
    json.windows(RULES.len()).any(|part| part == RULES)
}

/// Returns a CRD without the descriptions in its schemas, which are most of it.
///
/// # Errors
/// If it is not JSON.
pub(super) fn schemas(json: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut crd: Value = serde_json::from_slice(json)?;
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        version.pointer_mut("/schema/openAPIV3Schema").into_iter().for_each(remove_descriptions);
    }
    Ok(serde_json::to_vec(&crd)?)
}

/// Removes the descriptions of a schema and its parts, but no property or value with that name.
fn remove_descriptions(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    schema.remove("description");
    for (name, part) in schema {
        match (name.as_str(), part) {
            ("properties", Value::Object(properties)) => {
                Map::values_mut(properties).for_each(remove_descriptions);
            }
            ("items" | "additionalProperties" | "not", part) => remove_descriptions(part),
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter_mut().for_each(remove_descriptions),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_descriptions_of_schemas_are_removed() {
        let rules = json!([{"rule": "self.description != ''"}]);
        let schema = |text: &Value| {
            let mut property = json!({"type": "string", "default": {"description": "kept"}});
            let mut schema = json!({"x-kubernetes-validations": rules, "items": {}});
            if let Some(text) = text.as_str() {
                (property["description"], schema["description"]) = (text.into(), text.into());
                schema["items"]["description"] = text.into();
            }
            schema["properties"] = json!({"description": property});
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
        };
        let crd = schema(&json!("long")).to_string();
        assert!(has_rules(crd.as_bytes()) && !has_rules(b"{}"));
        let left: Value = serde_json::from_slice(&schemas(crd.as_bytes()).unwrap()).unwrap();
        assert_eq!(left, schema(&Value::Null));
    }
}
