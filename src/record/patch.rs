//! Server-side apply patches. The server parses them as YAML, in which some characters have to be escaped that JSON
//! allows.

use kube::api::Patch;
use serde_json::{Value, value::RawValue};

/// Returns a server-side apply patch that every YAML 1.2 parser reads as this JSON.
///
/// # Errors
/// None in practice: the text is JSON.
pub(super) fn apply_patch(content: &Value) -> kube::Result<Patch<Box<RawValue>>> {
    // Outside of strings JSON is ASCII without control characters.
    let json = content.to_string();
    let escaped = |c: char| if is_escaped(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    let text = if json.contains(is_escaped) { json.chars().map(escaped).collect() } else { json };
    RawValue::from_string(text).map(Patch::Apply).map_err(kube::Error::SerdeError)
}

/// Whether YAML excludes a character, or takes it for a line break; all below U+0020 are escaped in JSON, too.
fn is_escaped(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_character_is_lost_and_all_are_printable_in_yaml() {
        let all: String = (char::MIN..=char::MAX).collect();
        let value = json!({"results": [{"message": all}]});
        let Patch::Apply(raw) = apply_patch(&value).unwrap() else { panic!("no apply patch") };
        assert_eq!(serde_json::from_str::<Value>(raw.get()).unwrap(), value);
        // `c-printable` of YAML 1.2 without its line breaks, and without the byte order mark.
        let is_printable = |c| {
            matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
                && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
        };
        assert_eq!(raw.get().chars().find(|c| !is_printable(*c)), None);
    }
}
