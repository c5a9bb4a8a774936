//! Names and identifiers that the server validates and generates.

use super::{kinds::ResourceType, status::Wrong};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                     with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Returns the validation error of a new object's name.
pub(super) fn wrong(resource: &ResourceType, name: &str) -> Option<Wrong> {
    let invalid = |reason, why: &str| Some(Wrong::new("metadata.name", reason, why));
    if name.is_empty() {
        return invalid("FieldValueRequired", "Required value: name or generateName is required");
    }
    if resource.group == "rbac.authorization.k8s.io" {
        // Any path segment is valid.
        return None;
    }
    let is_label = |part: &str| {
        let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().all(|byte| alphanumeric(&byte) || byte == b'-')
            && part.as_bytes().first().is_some_and(alphanumeric)
            && part.as_bytes().last().is_some_and(alphanumeric)
    };
    let (valid, longest, rule) = if matches!(resource.kind.as_str(), "Namespace" | "Service") && !resource.custom() {
        (is_label(name), 63, LABEL)
    } else {
        (name.split('.').all(is_label), 253, SUBDOMAIN)
    };
    if name.len() > longest {
        let why = format!("Invalid value: {name:?}: must be no more than {longest} bytes");
        return invalid("FieldValueInvalid", &why);
    }
    if valid { None } else { invalid("FieldValueInvalid", &format!("Invalid value: {name:?}: {rule}")) }
}

/// Returns a uid that differs for each number.
pub(super) fn uid(number: u64) -> String {
    let mixed = mix(number);
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{number:012x}",
        mixed >> 32,
        mixed >> 16 & 0xffff,
        mixed & 0xfff,
        mixed >> 52
    )
}

/// Returns the suffix for `generateName`, which differs for each number.
pub(super) fn suffix(number: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut mixed = mix(number);
    let letters = (0..5).map(|_| {
        let letter = LETTERS[usize::try_from(mixed % 27).unwrap_or_default()];
        mixed /= 27;
        char::from(letter)
    });
    letters.collect()
}

/// Scatters a number over all 64 bits, as splitmix64 does.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
