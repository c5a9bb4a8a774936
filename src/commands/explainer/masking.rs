//! Masking: which strings of an object an explanation does not show, because they may be secrets.
//!
//! Values of environment variables and HTTP headers, and of fields with the name of a secret, are hidden wherever a
//! value contains them. So are strings that a policy derives from them: an evaluation with other secrets has other
//! strings. Secrets in other places of the object, such as a password in an argument, are not recognised and are shown.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;
use regorus::{Value, value::Object};

use crate::rego::{trace::TracedBranch, value};

/// The text that is shown instead.
const MASK: &str = "***";
/// Shorter strings are hidden only if they are the whole value.
const SHORTEST: usize = 6;
/// Lists of objects with a `name` and a `value`.
const LISTS: [&str; 2] = ["env", "httpHeaders"];

/// The strings of one object that are hidden.
#[derive(Debug, Default)]
pub(crate) struct SecretMask {
    secrets: BTreeSet<String>,
    /// The other strings of the object.
    public: BTreeSet<String>,
}

impl SecretMask {
    /// Finds the secrets in the input of a rule.
    pub(crate) fn of(input: &Value) -> Self {
        let (mut secrets, mut public) = (BTreeSet::new(), BTreeSet::new());
        collect(input, false, &mut secrets, &mut public);
        secrets.retain(|secret| !secret.is_empty() && !public.contains(secret));
        Self { secrets, public }
    }

    /// Returns the input with other secrets of the same length and the same kinds of characters; `None` if there are none.
    pub(crate) fn with_other_secrets(&self, input: &Value) -> Option<Value> {
        (!self.secrets.is_empty()).then(|| self.replaced(input))
    }

    fn replaced(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if self.secrets.contains(&**text) => text.chars().map(next).collect::<String>().into(),
            Value::Array(items) => items.iter().map(|item| self.replaced(item)).collect::<Vec<_>>().into(),
            Value::Object(fields) => {
                let fields = fields.iter_sorted().map(|(key, field)| (key.clone(), self.replaced(field)));
                fields.collect::<BTreeMap<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    /// Adds the strings in the values of an evaluation that the same evaluation with other secrets does not have.
    pub(crate) fn add_derived(&mut self, traced: &[Option<TracedBranch>], other: &[Option<TracedBranch>]) {
        let strings = |branches: &[Option<TracedBranch>]| {
            let mut found = BTreeSet::new();
            for branch in branches.iter().flatten() {
                branch.each_value(&mut |value| strings_in(value, &mut found));
            }
            found
        };
        let other = strings(other);
        let derived = strings(traced).into_iter().filter(|text| !other.contains(text) && !self.public.contains(text));
        self.secrets.extend(derived.filter(|text| !text.is_empty()).collect::<Vec<_>>());
    }

    /// Hides the secrets in a string.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.secrets.contains(text) {
            return MASK.into();
        }
        let mut masked = Cow::from(text);
        for secret in self.secrets.iter().filter(|secret| secret.chars().count() >= SHORTEST) {
            if masked.contains(secret) {
                masked = masked.replace(secret, MASK).into();
            }
        }
        masked
    }
}

/// Returns another character of the same kind.
fn next(character: char) -> char {
    match character {
        'a'..='y' | 'A'..='Y' | '0'..='8' => char::from_u32(u32::from(character) + 1).unwrap_or(character),
        'z' => 'a',
        'Z' => 'A',
        '9' => '0',
        other => other,
    }
}

fn strings_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(found.insert(text.to_string())),
        Value::Array(items) => items.iter().for_each(|item| strings_in(item, found)),
        Value::Set(items) => items.iter().for_each(|item| strings_in(item, found)),
        Value::Object(fields) => fields.iter_sorted().for_each(|(key, field)| {
            strings_in(key, found);
            strings_in(field, found);
        }),
        _ => {}
    }
}

/// Whether a string in a field is hidden, by the name of the field or, for a field `value`, by the `name` beside it.
pub(crate) fn is_secret(fields: &Object, key: &Value) -> bool {
    let Some(key) = value::text(key) else { return false };
    let is_variable = |name: &str| {
        is_secret_name(name)
            || name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    is_secret_name(key)
        || &**key == "value"
            && fields.get(&Value::from("name")).and_then(value::text).is_some_and(|name| is_variable(name))
}

/// Whether the name of a variable or field is that of a secret: the names that the rule `secrets/deny_literal_secret` of the
/// library recognises.
fn is_secret_name(name: &str) -> bool {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)(password|passwd|passphrase|secret|token|credentials?|(api|access|private|secret|signing|encryption)[_.-]?key|secret_key_base|(^|[_.-])(pass|pwd))$",
        )
        .ok()
    });
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

/// Sorts the strings in a value into secrets and others; `in_list` is true for an element of one of [`LISTS`].
fn collect(value: &Value, in_list: bool, secrets: &mut BTreeSet<String>, public: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(public.insert(text.to_string())),
        Value::Array(items) => items.iter().for_each(|item| collect(item, in_list, secrets, public)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_sorted() {
                let name = value::text(key).map_or("", |name| &**name);
                match field {
                    Value::String(text) if in_list && name == "value" || is_secret(fields, key) => {
                        secrets.insert(text.to_string());
                    }
                    field => collect(field, LISTS.contains(&name), secrets, public),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::explainer::show;

    #[test]
    fn secrets_are_hidden_wherever_they_are() {
        let input = Value::from_json_str(
            r#"{"metadata": {"namespace": "production", "annotations": {"applied": "{\"value\":\"hunter2!\"}"}},
            "spec": {"env": [{"name": "a", "value": "hunter2!"}, {"name": "B", "value": "7"}, {"name": "C", "value": "production"}],
            "httpHeaders": [{"name": "Authorization", "value": "Bearer abc"}], "sysctls": [{"name": "kernel.shm", "value": "9"}]},
            "data": {"API_KEY": "s3cret", "host": "h"}}"#,
        )
        .unwrap();
        let mask = SecretMask::of(&input);
        for (part, want) in [
            (&input["metadata"], r#"{"annotations": {"applied": "{\"value\":\"***\"}"}, "namespace": "production"}"#),
            (
                &input["spec"]["env"],
                r#"[{"name": "a", "value": "***"}, {"name": "B", "value": "***"}, {"name": "C", "value": "***"}]"#,
            ),
            (&input["spec"]["env"][0_u64]["value"], r#""***""#),
            (&input["spec"]["httpHeaders"], r#"[{"name": "Authorization", "value": "***"}]"#),
            (&input["spec"]["sysctls"], r#"[{"name": "kernel.shm", "value": "9"}]"#),
            (&input["data"], r#"{"API_KEY": "***", "host": "h"}"#),
            // Made by a policy, or read from another object.
            (&Value::from_json_str(r#"{"x hunter2! y": 1}"#).unwrap(), r#"{"x *** y": 1}"#),
            (
                &Value::from_json_str(r#"{"name": "OTHER", "value": "x"}"#).unwrap(),
                r#"{"name": "OTHER", "value": "***"}"#,
            ),
            (
                &Value::from_json_str(r#"{"DB_PASSWORD": "x", "token": 1}"#).unwrap(),
                r#"{"DB_PASSWORD": "***", "token": 1}"#,
            ),
        ] {
            assert_eq!(show::value(part, Some(&mask)), want);
        }
        assert_eq!(show::value(&input["data"], None), r#"{"API_KEY": "s3cret", "host": "h"}"#);
    }

    #[test]
    fn a_long_value_is_masked_before_it_is_cut() {
        let secret = "x".repeat(300);
        let input = Value::from_json_str(&format!(r#"{{"env": [{{"name": "a", "value": "{secret}"}}]}}"#)).unwrap();
        assert_eq!(show::value(&Value::from(secret), Some(&SecretMask::of(&input))), r#""***""#);
    }
}
