//! Limits for the texts of one result.
//!
//! A policy prints values of the object, whose author controls their length: an image name of 1.3 MB in a message would
//! be in memory, in `/status` and in every notification once for each result. Texts are shortened before the id of a
//! result is computed from them, so that the id is the same wherever the result is read.

use std::{io, mem, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::{text::shortened, verdict::Finding};

/// The longest message, and the longest string in details that are shortened.
pub(super) const MESSAGE_BYTES: usize = 4 * 1024;
/// The largest details, as JSON.
pub(super) const DETAILS_BYTES: usize = 16 * 1024;
/// The part of that limit reserved for the entry with the count of omitted entries.
const COUNT_BYTES: usize = 128;

/// Shortens the texts of a result; returns whether they were too long. Shortening them again changes nothing.
pub(super) fn shorten(finding: &mut Finding) -> bool {
    let is_long = finding.message.len() > MESSAGE_BYTES;
    if is_long {
        finding.message = shortened(&finding.message, MESSAGE_BYTES).into();
    }
    match &mut finding.details {
        Some(details) if json_bytes(&**details) > DETAILS_BYTES => {
            shorten_details(Arc::make_mut(details));
            true
        }
        _ => is_long,
    }
}

/// Shortens each string, and omits entries if that is not enough.
fn shorten_details(details: &mut Map<String, Value>) {
    details.values_mut().for_each(shorten_strings);
    if json_bytes(details) <= DETAILS_BYTES {
        return;
    }
    let (mut room, mut left_out) = (DETAILS_BYTES - COUNT_BYTES, 0_usize);
    for (key, value) in mem::take(details) {
        // The key, the value, a colon and a comma.
        let bytes = json_bytes(&key) + json_bytes(&value) + 2;
        if bytes > room {
            left_out += 1;
            continue;
        }
        room -= bytes;
        details.insert(key, value);
    }
    details.insert("…".to_owned(), format!("{left_out} more entries are omitted").into());
}

fn shorten_strings(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MESSAGE_BYTES => *text = shortened(text, MESSAGE_BYTES).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(shorten_strings),
        Value::Object(fields) => fields.values_mut().for_each(shorten_strings),
        _ => {}
    }
}

/// Returns the length of a value as JSON, without allocating the JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    struct ByteCount(usize);
    impl io::Write for ByteCount {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCount(0);
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(message: &str, details: Value) -> Finding {
        let Value::Object(details) = details else { panic!("no object") };
        Finding { details: Some(Arc::new(details)), ..Finding::sample(message) }
    }

    #[test]
    fn texts_within_the_limits_are_unchanged() {
        let long = "x".repeat(MESSAGE_BYTES + 1);
        for whole in [
            Finding::sample(""),
            Finding::sample(&long[..MESSAGE_BYTES]),
            finding("a", json!({"a": long, "b": [1, {"c": null}]})),
            finding("a", json!({"": "x".repeat(DETAILS_BYTES - r#"{"":""}"#.len())})),
        ] {
            let mut shortened = whole.clone();
            assert!(!shorten(&mut shortened));
            assert_eq!(shortened, whole);
        }
    }

    #[test]
    fn long_texts_are_shortened_at_any_depth_and_shortening_is_idempotent() {
        let long = "ä\u{1}".repeat(400_000);
        let many: Map<String, Value> = (0..5_000).map(|number| (format!("key {number:04}"), number.into())).collect();
        let nested = (0..90).fold(json!(long), |inner, _| json!([{"a": inner}]));
        for details in [
            json!({"a": long}),
            json!({"a": {"b": [long, {"c": long}]}, "z": 1}),
            json!({ long.clone(): 1, "z": 1 }),
            json!({"a": vec![1; 100_000], "z": "last"}),
            json!({"a": nested, "z": {}}),
            Value::Object(many),
        ] {
            let has_last = details.get("z").is_some();
            let mut once = finding(&format!("image {long} is wrong"), details);
            assert!(shorten(&mut once));
            let kept = once.details.as_deref().unwrap();
            assert!(once.message.len() <= MESSAGE_BYTES && once.message.ends_with('…'));
            assert!(once.message.starts_with("image ä"));
            assert!(json_bytes(kept) <= DETAILS_BYTES, "{}", json_bytes(kept));
            assert!(!has_last || kept.contains_key("z"), "what fits is listed");
            let mut twice = once.clone();
            assert!(!shorten(&mut twice));
            assert_eq!(twice, once);
        }
    }

    #[test]
    fn entries_that_do_not_fit_are_counted() {
        let details = json!({"a": "b", "large": vec![1; 100_000], "larger": vec![1; 200_000]});
        let mut finding = finding("m", details);
        assert!(shorten(&mut finding));
        let expected = json!({"a": "b", "…": "2 more entries are omitted"});
        assert_eq!(Value::Object(finding.details.as_deref().unwrap().clone()), expected);
    }
}
