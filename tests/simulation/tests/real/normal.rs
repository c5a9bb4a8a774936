//! Normalizes responses for comparison: removes what differs between any two servers, for example uids, versions and
//! times.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Map, Value};

use crate::sides::TestRequest;

/// A response of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TestAnswer {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<String>,
    /// The body, or the lines of a watch.
    pub(crate) values: Vec<Value>,
}

impl TestAnswer {
    /// Returns the differences from another response, by path.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.code != other.code {
            found.push(format!("{} ≠ {}", self.code, other.code));
        }
        if self.retry_after != other.retry_after {
            found.push(format!("{:?} ≠ {:?}", self.retry_after, other.retry_after));
        }
        differ("", &self.values.clone().into(), &other.values.clone().into(), &mut found);
        found
    }
}

fn differ(path: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        _ if left == right => {}
        (Value::Object(left), Value::Object(right)) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            let none = Value::Null;
            for name in names {
                let of = |map: &Map<String, Value>| map.get(name).unwrap_or(&none).clone();
                differ(&format!("{path}.{name}"), &of(left), &of(right), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (place, (left, right)) in left.iter().zip(right).enumerate() {
                differ(&format!("{path}[{place}]"), left, right, found);
            }
        }
        _ => found.push(format!("{path}: {left} ≠ {right}")),
    }
}

/// Corresponding values in the responses of both servers so far.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    /// `resourceVersion`s of objects.
    pub(crate) versions: Vec<[String; 2]>,
    /// `resourceVersion`s of lists. They are not versions of objects: other writers of the real server increase them.
    pub(crate) lists: Vec<[String; 2]>,
    pub(crate) uids: Vec<[String; 2]>,
    pub(crate) tokens: Vec<[String; 2]>,
    /// The indices of versions and uids, in the order in which each side returned them.
    known: [BTreeMap<String, usize>; 2],
}

impl Captures {
    /// Replaces `{v0}`, `{l0}`, `{u0}` and `{c0}` by the values of a side.
    pub(crate) fn fill(&self, text: &str, side: usize) -> String {
        let mut text = text.to_owned();
        for (letter, captured) in [('v', &self.versions), ('l', &self.lists), ('u', &self.uids), ('c', &self.tokens)] {
            if text.contains(&format!("{{{letter}")) {
                for (number, pair) in captured.iter().enumerate() {
                    text = text.replace(&format!("{{{letter}{number}}}"), &pair[side]);
                }
            }
        }
        text
    }

    /// Captures values for later requests.
    pub(crate) fn take(&mut self, request: &TestRequest, real: &TestAnswer, simulated: &TestAnswer) {
        // Responses from the real server's cache may have any version.
        let cached = ["resourceVersion=", "metadata.name", "watch="].iter().any(|part| request.path.contains(part));
        let is_exact = request.method == Method::GET && !cached;
        for (field, of_object, captured) in [
            ("resourceVersion", true, &mut self.versions),
            ("resourceVersion", false, &mut self.lists),
            ("uid", true, &mut self.uids),
            ("continue", false, &mut self.tokens),
        ] {
            let of = |answer: &TestAnswer| -> Vec<String> {
                let values = answer.values.iter().flat_map(|value| collect(value, field, of_object));
                values.filter(|value| !value.is_empty()).collect()
            };
            let (left, right) = (of(real), of(simulated));
            if (is_exact || field != "resourceVersion" || of_object) && left.len() == right.len() {
                for pair in left.into_iter().zip(right).map(|(left, right)| [left, right]) {
                    if !captured.contains(&pair) {
                        captured.push(pair);
                    }
                }
            }
        }
    }

    /// Returns a normalized response.
    pub(crate) fn normal(&mut self, side: usize, answer: &TestAnswer) -> TestAnswer {
        // The rate of bookmarks is undefined.
        let is_progress =
            |value: &Value| value["type"] == "BOOKMARK" && value["object"]["metadata"]["annotations"].is_null();
        let values = answer.values.iter().filter(|value| !is_progress(value) && **value != "");
        let values = values.map(|value| self.value(side, value, "")).collect();
        TestAnswer { values, ..answer.clone() }
    }

    fn value(&mut self, side: usize, value: &Value, field: &str) -> Value {
        match value {
            Value::Object(map) => {
                let mut map = map.clone();
                // Some managers of configurations without changes have no time.
                for field in ["serverAddressByClientCIDRs", "storageVersionHash", "time"] {
                    map.remove(field);
                }
                let is_list = map
                    .get("kind")
                    .and_then(Value::as_str)
                    .is_some_and(|kind| kind.ends_with("List") || kind == "Status");
                let is_review = map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("Review"));
                if is_review {
                    return map.get("status").cloned().unwrap_or_default();
                }
                let is_bookmark = map.get("type").is_some_and(|what| what == "BOOKMARK");
                if is_bookmark && let Some(object) = map.get_mut("object").and_then(Value::as_object_mut) {
                    // For kinds with mandatory fields, the real server includes these.
                    object.retain(|field, _| matches!(field.as_str(), "kind" | "apiVersion" | "metadata"));
                }
                let masked = match map.get_mut("object") {
                    Some(object) if is_bookmark => object.get_mut("metadata"),
                    _ => map.get_mut("metadata").filter(|_| is_list),
                };
                if let Some(metadata) = masked {
                    mask(metadata);
                }
                // The order of several errors varies.
                if map
                    .get("details")
                    .and_then(|details| details["causes"].as_array())
                    .is_some_and(|causes| causes.iter().any(|cause| *cause != causes[0]))
                {
                    map.remove("message");
                }
                map.iter().map(|(name, value)| (name.clone(), self.value(side, value, name))).collect()
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.value(side, item, field)).collect();
                if matches!(field, "managedFields" | "causes" | "resources") {
                    items.sort_by_key(Value::to_string);
                    items.dedup();
                }
                Value::Array(items)
            }
            Value::String(text) => match field {
                "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime" => "TIME".into(),
                "resourceVersion" | "uid" if text != "*" => {
                    let next = self.known[side].len();
                    let number = *self.known[side].entry(text.clone()).or_insert(next);
                    format!("#{number}").into()
                }
                "message" => message(text).into(),
                "name" if text.starts_with("gen") => text[..text.len().saturating_sub(5)].into(),
                _ => value.clone(),
            },
            _ => value.clone(),
        }
    }
}

/// Masks the metadata of a list.
fn mask(metadata: &mut Value) {
    for field in ["resourceVersion", "continue"] {
        if let Some(value) = metadata.get_mut(field).filter(|value| **value != "") {
            *value = "*".into();
        }
    }
}

/// Removes numbers, uids, file names and parser errors from a message.
fn message(text: &str) -> String {
    let text = match text.split_once(": ") {
        Some((start, _)) if start.contains("unrecognized") => start,
        // The real server reports one error or all.
        Some((start, _)) if start.contains("failed to create typed patch object") => start,
        Some((start, _)) if text.contains("cannot be handled as") => start,
        _ => text,
    };
    let words = text.split_inclusive([' ', ',', ':', '(', ')', '"', '/']).map(|word| {
        let plain = word.trim_end_matches([' ', ',', ':', '(', ')', '"', '/', '.']);
        let end = &word[plain.len()..];
        let is_uid = plain.len() == 36 && plain.bytes().filter(|byte| *byte == b'-').count() == 4;
        let is_number = plain.len() > 1 && plain.bytes().all(|byte| byte.is_ascii_digit());
        let is_prefix = plain.starts_with("kaudit-controlplane") || plain == "registry";
        let is_generated = plain.starts_with("gen") && plain.len() > 8 && plain.contains('-');
        if is_generated {
            return format!("{}{end}", &plain[..plain.len() - 5]);
        }
        if is_uid || is_number {
            format!("*{end}")
        } else if is_prefix {
            format!("PREFIX{end}")
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

/// Returns a field of the metadata of all objects, or of all lists.
fn collect(value: &Value, field: &str, of_object: bool) -> Vec<String> {
    let mut found = Vec::new();
    let metadata = &value["metadata"];
    if let Some(text) = metadata[field].as_str().filter(|_| metadata["uid"].is_string() == of_object) {
        found.push(text.to_owned());
    }
    let inner = value["items"].as_array().into_iter().flatten().chain(value.get("object"));
    found.extend(inner.flat_map(|value| collect(value, field, of_object)));
    found
}
