//! The schema of a custom resource: what is left out of its objects, and what is refused.

use serde_json::{Map, Value};

use super::{
    kinds::ResourceType,
    status::{Answer, Status},
};

/// Fields of an object that no schema has to describe.
const OF_EVERY_OBJECT: &[&str] = &["apiVersion", "kind", "metadata"];

/// Leaves out the fields that the schema does not describe.
pub(super) fn prune(object: &mut Value, schema: &Value) {
    let Some(map) = object.as_object_mut() else { return };
    let kept: Map<String, Value> = OF_EVERY_OBJECT.iter().filter_map(|field| map.remove_entry(*field)).collect();
    prune_value(object, schema);
    if let Some(map) = object.as_object_mut() {
        map.extend(kept);
    }
}

fn prune_value(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true || schema.is_null();
            let others = &schema["additionalProperties"];
            map.retain(|field, value| {
                if let Some(inner) = schema["properties"].get(field) {
                    prune_value(value, inner);
                    return !value.is_null() || inner["nullable"] == true;
                }
                if others.is_object() {
                    prune_value(value, others);
                }
                preserves || others.is_object() || *others == true
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_value(item, &schema["items"])),
        _ => {}
    }
}

/// Checks an object; returns the first thing that is wrong with it.
pub(super) fn check(kind: &ResourceType, name: &str, object: &Value, schema: &Value) -> Answer<()> {
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = object.get(field).filter(|_| !OF_EVERY_OBJECT.contains(&field.as_str())) {
            check_value(value, inner, field)
                .map_err(|(path, reason, why)| Status::invalid(kind, name, &path, reason, &why))?;
        }
    }
    match required(schema).find(|field| object[*field].is_null()) {
        Some(field) => Err(Status::invalid(kind, name, field, "FieldValueRequired", "Required value")),
        None => Ok(()),
    }
}

/// Returns the fields that an object must have.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// What is wrong with a value: where, the reason, and why.
type Wrong = (String, &'static str, String);

fn check_value(value: &Value, schema: &Value, path: &str) -> Result<(), Wrong> {
    let wrong = |reason, why: String| Err((path.to_owned(), reason, why));
    let (found, fits) = match value {
        Value::Null => {
            return if schema["nullable"] == true {
                Ok(())
            } else {
                wrong("FieldValueInvalid", "Invalid value: \"null\"".to_owned())
            };
        }
        Value::Bool(_) => ("boolean", schema["type"] == "boolean"),
        Value::Number(number) => {
            let whole = number.is_i64() || number.is_u64();
            (
                if whole { "integer" } else { "number" },
                schema["type"] == "number" || whole && schema["type"] == "integer",
            )
        }
        Value::String(_) => ("string", schema["type"] == "string"),
        Value::Array(_) => ("array", schema["type"] == "array"),
        Value::Object(_) => ("object", schema["type"] == "object"),
    };
    let either = schema["x-kubernetes-int-or-string"] == true && matches!(found, "integer" | "string");
    if !(fits || either || schema["type"].is_null()) {
        let expected = schema["type"].as_str().unwrap_or_default();
        return wrong(
            "FieldValueTypeInvalid",
            format!("Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}"),
        );
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return wrong(
            "FieldValueNotSupported",
            format!("Unsupported value: {value}: supported values: {}", allowed.join(", ")),
        );
    }
    check_limits(value, schema, path)?;
    match value {
        Value::Object(map) => check_fields(map, schema, path),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(place, item)| check_value(item, &schema["items"], &format!("{path}[{place}]")))
        }
        _ => Ok(()),
    }
}

fn check_limits(value: &Value, schema: &Value, path: &str) -> Result<(), Wrong> {
    let too_long = |limit: &str, length: usize| schema[limit].as_u64().filter(|most| length as u64 > *most);
    if let Some(text) = value.as_str() {
        let length = text.chars().count();
        if let Some(most) = too_long("maxLength", length) {
            return Err((path.to_owned(), "FieldValueTooLong", format!("Too long: may not be more than {most} bytes")));
        }
        if let Some(least) = schema["minLength"].as_u64().filter(|least| (length as u64) < *least) {
            let why = format!("Invalid value: {text:?}: {path} in body should be at least {least} chars long");
            return Err((path.to_owned(), "FieldValueInvalid", why));
        }
    }
    if let Some(items) = value.as_array()
        && let Some(most) = too_long("maxItems", items.len())
    {
        let why = format!("Too many: {}: must have at most {most} items", items.len());
        return Err((path.to_owned(), "FieldValueTooMany", why));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        let why = format!("Invalid value: {value}: {path} in body should be greater than or equal to {least}");
        return Err((path.to_owned(), "FieldValueInvalid", why));
    }
    Ok(())
}

fn check_fields(map: &Map<String, Value>, schema: &Value, path: &str) -> Result<(), Wrong> {
    if let Some(field) = required(schema).find(|field| !map.contains_key(*field)) {
        return Err((format!("{path}.{field}"), "FieldValueRequired", "Required value".to_owned()));
    }
    map.iter().try_for_each(|(field, value)| {
        let inner = schema["properties"].get(field).unwrap_or(&schema["additionalProperties"]);
        if inner.is_object() { check_value(value, inner, &format!("{path}.{field}")) } else { Ok(()) }
    })
}
