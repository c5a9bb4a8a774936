//! Trivy's additions to OPA's builtins: `result.new` and `isManaged`.
//!
//! Trivy reads the location in a file from the cause. Objects here carry no locations, so most of these fields stay
//! empty; the name of the cause is added as `cause`.

use std::collections::BTreeMap;

use regorus::Value;

use super::call::{Builtin, BuiltinResult};

pub(super) const TABLE: &[Builtin] = &[("isManaged", 1, is_managed), ("result.new", 2, new)];

/// Fields that a result copies from its cause, each with its name in the result; later ones take precedence.
pub const COPIED: [(&str, &str); 12] = [
    ("startline", "startline"),
    ("StartLine", "startline"),
    ("endline", "endline"),
    ("EndLine", "endline"),
    ("filepath", "filepath"),
    ("sourceprefix", "sourceprefix"),
    ("Path", "filepath"),
    ("explicit", "explicit"),
    ("managed", "managed"),
    ("fskey", "fskey"),
    ("resource", "resource"),
    ("parent", "parent"),
];

/// The field in which a cause keeps these fields, if it has it.
pub const METADATA: &str = "__defsec_metadata";

/// The field with the name of a cause.
pub const NAME: &str = "name";

/// The most parents that are followed.
const DEEPEST: u32 = 32;

fn new(arguments: &[Value]) -> BuiltinResult {
    let mut fields = location(&arguments[1], DEEPEST);
    fields.insert("msg".into(), arguments[0].clone());
    if let name @ Value::String(_) = &arguments[1][NAME] {
        fields.insert("cause".into(), Value::from(BTreeMap::from([(NAME.into(), name.clone())])));
    }
    Ok(Value::from(fields))
}

fn is_managed(arguments: &[Value]) -> BuiltinResult {
    Ok(location(&arguments[0], DEEPEST).remove(&"managed".into()).unwrap_or(Value::Undefined))
}

/// Returns the location of a cause, with defaults for the fields that it does not have.
fn location(cause: &Value, deepest: u32) -> BTreeMap<Value, Value> {
    let (none, zero) = (|| Value::from(""), || Value::from(0));
    let mut fields: BTreeMap<Value, Value> = [
        ("startline", zero()),
        ("endline", zero()),
        ("sourceprefix", none()),
        ("filepath", none()),
        ("explicit", Value::from(false)),
        ("managed", Value::from(true)),
        ("fskey", none()),
        ("resource", none()),
        ("parent", Value::Null),
    ]
    .into_iter()
    .map(|(name, value)| (name.into(), value))
    .collect();
    let given = if cause[METADATA] == Value::Undefined { cause } else { &cause[METADATA] };
    for (field, name) in COPIED {
        let value = match &given[field] {
            Value::Undefined => continue,
            parent if field == "parent" && deepest > 0 => Value::from(location(parent, deepest - 1)),
            value => value.clone(),
        };
        fields.insert(name.into(), value);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn made(cause: &str) -> String {
        let made = new(&[Value::from("no"), Value::from_json_str(cause).unwrap()]).unwrap();
        let usual = location(&Value::Null, 0);
        let fields = value::object(&made).unwrap().iter_sorted().filter(|(key, value)| usual.get(key) != Some(value));
        fields.map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn results_copy_the_location_and_name_of_their_cause() {
        assert_eq!(made("\"Pod\""), r#""msg": "no""#);
        assert_eq!(made(r#"{"name": "app", "image": "x"}"#), r#""cause": {"name":"app"}, "msg": "no""#);
        assert_eq!(made(r#"{"StartLine": 3, "managed": false}"#), r#""managed": false, "msg": "no", "startline": 3"#);
        let inner = r#"{"startline": 1, "__defsec_metadata": {"startline": 2, "filepath": "a.yaml"}}"#;
        assert_eq!(made(inner), r#""filepath": "a.yaml", "msg": "no", "startline": 2"#);
        assert_eq!(is_managed(&[Value::from_json_str(r#"{"managed": false}"#).unwrap()]), Ok(Value::from(false)));
    }
}
