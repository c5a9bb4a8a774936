//! The object's JSON as the evaluator's value, and the documents that policies expect around it.

use std::{collections::BTreeMap, fmt};

use regorus::Value;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use crate::object::Object;

/// Reads an object's JSON.
///
/// # Errors
/// Returns why it cannot be read, e.g. because it is nested deeper than 127 levels.
pub(super) fn read(object: &Object) -> Result<Value, String> {
    let json = object.body.json().map_err(|why| why.to_string())?;
    serde_json::from_slice::<Plain>(&json).map(|plain| plain.0).map_err(|why| why.to_string())
}

/// Puts an object into the admission review that the API server would send at its creation.
pub(super) fn review(object: &Object, value: Value) -> Value {
    let kind = &object.key.kind;
    let triple = |last: &str, name: &str| {
        fields([("group", kind.group.as_str().into()), ("version", kind.version.as_str().into()), (last, name.into())])
    };
    let text = |text: &str| Value::from(text);
    let mut request = vec![
        ("uid", text(&object.uid)),
        ("kind", triple("kind", &kind.kind)),
        ("resource", triple("resource", &kind.plural)),
        ("requestKind", triple("kind", &kind.kind)),
        ("requestResource", triple("resource", &kind.plural)),
        ("name", text(&object.key.name)),
        ("operation", text("CREATE")),
        ("userInfo", Value::new_object()),
        ("object", value),
        ("oldObject", Value::Null),
        ("dryRun", Value::from(false)),
        ("options", Value::Null),
    ];
    if let Some(namespace) = &object.key.namespace {
        request.push(("namespace", text(namespace)));
    }
    fields([
        ("apiVersion", text("admission.k8s.io/v1")),
        ("kind", text("AdmissionReview")),
        ("request", fields(request)),
    ])
}

fn fields<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::from(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect::<BTreeMap<_, _>>())
}

/// A value as JSON says it. regorus' own reader gives a meaning to a certain key (it stands for a number of any size) and
/// would compute for hours on an object that uses it.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::with_capacity(items.size_hint().unwrap_or(0));
        while let Some(Plain(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::from(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = BTreeMap::new();
        while let Some((key, Plain(value))) = entries.next_entry::<std::borrow::Cow<'de, str>, Plain>()? {
            values.insert(Value::from(&*key), value);
        }
        Ok(Value::from(values))
    }
}
