//! Validation of custom resources by their schema, and pruning.

use serde_json::{Map, Value};

use super::status::Wrong;

/// Fields of an object that need not be in the schema.
const OF_EVERY_OBJECT: &[&str] = &["apiVersion", "kind", "metadata"];

/// Removes the fields that are not in the schema.
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
                    return true;
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

/// Removes null fields that are not nullable.
pub(super) fn drop_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => map.retain(|field, value| {
            let Some(inner) = schema["properties"].get(field) else { return true };
            drop_nulls(value, inner);
            !value.is_null() || inner["nullable"] == true
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, &schema["items"])),
        _ => {}
    }
}

/// Returns the validation errors of an object.
pub(super) fn check(object: &Value, schema: &Value) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = object.get(field).filter(|_| !OF_EVERY_OBJECT.contains(&field.as_str())) {
            check_value(value, inner, field, &mut wrong);
        }
    }
    wrong.extend(required(schema).filter(|field| object[*field].is_null()).map(Wrong::required));
    wrong
}

/// Returns the required fields of an object.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn check_value(value: &Value, schema: &Value, path: &str, wrong: &mut Vec<Wrong>) {
    let (found, fits) = match value {
        Value::Null => ("null", schema["nullable"] == true),
        Value::Bool(_) => ("boolean", schema["type"] == "boolean"),
        Value::Number(number) => {
            let whole = number.is_i64() || number.is_u64();
            let fits = schema["type"] == "number" || whole && schema["type"] == "integer";
            (if whole { "integer" } else { "number" }, fits)
        }
        Value::String(_) => ("string", schema["type"] == "string"),
        Value::Array(_) => ("array", schema["type"] == "array"),
        Value::Object(_) => ("object", schema["type"] == "object"),
    };
    let either = schema["x-kubernetes-int-or-string"] == true && matches!(found, "integer" | "string");
    if !(fits || either || schema["type"].is_null()) {
        let expected = schema["type"].as_str().unwrap_or_default();
        let why = format!("Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}");
        wrong.push(Wrong::new(path, "FieldValueTypeInvalid", why));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        let why = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        wrong.push(Wrong::new(path, "FieldValueNotSupported", why));
    }
    check_limits(value, schema, path, wrong);
    match value {
        Value::Object(map) => {
            let missing = required(schema).filter(|field| !map.contains_key(*field));
            wrong.extend(missing.map(|field| Wrong::required(format!("{path}.{field}"))));
            for (field, value) in map {
                let inner = schema["properties"].get(field).unwrap_or(&schema["additionalProperties"]);
                if inner.is_object() {
                    check_value(value, inner, &format!("{path}.{field}"), wrong);
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                check_value(item, &schema["items"], &format!("{path}[{place}]"), wrong);
            }
        }
        _ => {}
    }
}

fn check_limits(value: &Value, schema: &Value, path: &str, wrong: &mut Vec<Wrong>) {
    let limit = |name: &str| schema[name].as_u64().map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if let Some(text) = value.as_str() {
        let length = text.chars().count();
        if let Some(most) = limit("maxLength").filter(|most| length > *most) {
            let why = format!("Too long: may not be more than {most} bytes");
            wrong.push(Wrong::new(path, "FieldValueTooLong", why));
        }
        if let Some(least) = limit("minLength").filter(|least| length < *least) {
            let why = format!("Invalid value: {text:?}: {path} in body should be at least {least} chars long");
            wrong.push(Wrong::new(path, "FieldValueInvalid", why));
        }
    }
    if let Some(items) = value.as_array()
        && let Some(most) = limit("maxItems").filter(|most| items.len() > *most)
    {
        let why = format!("Too many: {}: must have at most {most} items", items.len());
        wrong.push(Wrong::new(path, "FieldValueTooMany", why));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        let why = format!("Invalid value: {value}: {path} in body should be greater than or equal to {least}");
        wrong.push(Wrong::new(path, "FieldValueInvalid", why));
    }
}
