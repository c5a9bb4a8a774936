//! Lookups of other objects.

use serde_json::Value as Json;

use super::{EvaluatedValue, maps, text};
use crate::{
    bindings::ObjectLookup,
    error::{failed, no_overload},
    value::CelValue,
};

/// Calls a lookup: of an object by its kind, namespace and name, or of the objects of a kind and namespace, with labels if
/// there is another argument.
pub(crate) fn call<'v>(
    lookup: Option<&'v dyn ObjectLookup>,
    function: &str,
    arguments: &[CelValue<'v>],
) -> EvaluatedValue<'v> {
    let Some(lookup) = lookup else { return failed("other objects are not known") };
    let kind = [text(arguments, 1)?, text(arguments, 2)?];
    let namespace = text(arguments, 3)?;
    if function.eq_ignore_ascii_case("get") {
        return match lookup.get(kind, namespace, text(arguments, 4)?) {
            Ok(Some(object)) => owned(object),
            Ok(None) => Ok(CelValue::Null),
            Err(why) => failed(format!("failed to get resource: {why}")),
        };
    }
    let labels = match arguments.get(4) {
        None => Vec::new(),
        Some(CelValue::Map(labels)) => labels.entries(),
        Some(_) => return no_overload(),
    };
    let objects = match lookup.list(kind, namespace) {
        Ok(objects) => objects,
        Err(why) => return failed(format!("failed to list resource: {why}")),
    };
    let is_selected = |object: &Json| {
        labels.iter().all(|(key, value)| {
            let own = key.as_str().and_then(|key| object["metadata"]["labels"].get(key)).and_then(Json::as_str);
            own.is_some() && own == value.as_str()
        })
    };
    let items = objects.into_iter().filter(is_selected).map(owned).collect::<Result<Vec<_>, _>>()?;
    maps::from_entries(vec![(CelValue::from("items"), CelValue::from(items))])
}

/// Returns a value that borrows nothing.
pub(super) fn owned<'v>(json: Json) -> EvaluatedValue<'v> {
    Ok(match json {
        Json::String(text) => CelValue::from(text),
        Json::Array(items) => CelValue::from(items.into_iter().map(owned).collect::<Result<Vec<_>, _>>()?),
        Json::Object(fields) => {
            let entry = |(key, value): (String, Json)| Ok((CelValue::from(key), owned(value)?));
            return maps::from_entries(fields.into_iter().map(entry).collect::<Result<Vec<_>, _>>()?);
        }
        Json::Null => CelValue::Null,
        Json::Bool(value) => CelValue::Bool(value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => CelValue::Int(value),
            (None, Some(value)) => CelValue::Double(value),
            (None, None) => CelValue::Null,
        },
    })
}
