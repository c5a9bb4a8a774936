//! Defaults of a schema. The API server fills them in when it reads an object; manifests lack them.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// The defaults of a schema and its parts.
#[derive(Debug)]
pub(super) struct SchemaDefaults {
    /// Of the value itself.
    own: Option<Json>,
    nullable: bool,
    properties: BTreeMap<String, Self>,
    /// Of every element of a list.
    items: Option<Box<Self>>,
    /// Of every value of a map.
    values: Option<Box<Self>>,
}

impl SchemaDefaults {
    /// Reads the defaults of a structural schema; `None` if it has none.
    pub(super) fn read(schema: &Json) -> Option<Self> {
        let part = |name: &str| Self::read(schema.get(name)?).map(Box::new);
        let properties = schema["properties"].as_object().into_iter().flatten();
        let properties: BTreeMap<String, Self> =
            properties.filter_map(|(name, schema)| Some((name.clone(), Self::read(schema)?))).collect();
        let defaults = Self {
            own: schema.get("default").filter(|own| !own.is_null()).cloned(),
            nullable: schema["nullable"] == true,
            properties,
            items: part("items"),
            values: part("additionalProperties"),
        };
        let has_parts = !defaults.properties.is_empty() || defaults.items.is_some() || defaults.values.is_some();
        (defaults.own.is_some() || has_parts).then_some(defaults)
    }

    /// Fills in the values of a map or list that are missing, or null although the schema does not allow it.
    pub(super) fn apply(&self, value: &mut Json) {
        match value {
            Json::Object(fields) => {
                for (name, defaults) in &self.properties {
                    if let Some(own) = &defaults.own
                        && fields.get(name).is_none_or(|value| value.is_null() && !defaults.nullable)
                    {
                        fields.insert(name.clone(), own.clone());
                    }
                }
                for (name, value) in fields {
                    match self.properties.get(name) {
                        Some(defaults) => defaults.apply(value),
                        None => self.values.iter().for_each(|defaults| defaults.apply_to_element(value)),
                    }
                }
            }
            Json::Array(elements) => {
                for element in elements {
                    self.items.iter().for_each(|defaults| defaults.apply_to_element(element));
                }
            }
            _ => {}
        }
    }

    fn apply_to_element(&self, element: &mut Json) {
        if let Some(own) = &self.own
            && element.is_null()
            && !self.nullable
        {
            element.clone_from(own);
        }
        self.apply(element);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_filled_in() {
        let entry = json!({"type": "object", "properties": {"port": {"type": "integer", "default": 80}}});
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "replicas": {"type": "integer", "default": 1},
                "mode": {"type": "string", "default": "a", "nullable": true},
                "list": {"type": "array", "items": entry},
                "map": {"type": "object", "additionalProperties": entry},
            }},
        }});
        let defaults = SchemaDefaults::read(&schema).unwrap();
        for (mut object, want) in [
            (json!({}), json!({"spec": {"replicas": 1, "mode": "a"}})),
            (json!({"spec": {"replicas": null, "mode": null}}), json!({"spec": {"replicas": 1, "mode": null}})),
            (
                json!({"spec": {"replicas": 2, "mode": "b", "list": [{}, {"port": 1}], "map": {"x": {}}}}),
                json!({"spec": {"replicas": 2, "mode": "b", "list": [{"port": 80}, {"port": 1}], "map": {"x": {"port": 80}}}}),
            ),
        ] {
            defaults.apply(&mut object);
            assert_eq!(object, want);
        }
        assert!(SchemaDefaults::read(&json!({"type": "object", "properties": {"a": {"type": "string"}}})).is_none());
    }
}
