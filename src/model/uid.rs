//! Uids of objects, which the cache keeps for each object.

use std::sync::Arc;

/// A `metadata.uid` in few bytes: nearly all are UUIDs, which are stored as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uid {
    /// A UUID in the notation of API servers: lower case, with hyphens.
    Uuid([u8; 16]),
    /// Any other text; empty for manifests without one.
    Text(Arc<str>),
}

/// The positions of the hyphens in a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// Returns the text.
    pub fn text(&self) -> Arc<str> {
        let bytes = match self {
            Self::Uuid(bytes) => bytes,
            Self::Text(text) => return Arc::clone(text),
        };
        let mut text = String::with_capacity(36);
        for byte in bytes {
            if HYPHENS.contains(&text.len()) {
                text.push('-');
            }
            text.extend([byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()));
        }
        text.into()
    }
}

impl From<&Arc<str>> for Uid {
    fn from(text: &Arc<str>) -> Self {
        uuid(text).map_or_else(|| Self::Text(Arc::clone(text)), Self::Uuid)
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        match self {
            Self::Uuid(bytes) => uuid(text) == Some(*bytes),
            Self::Text(known) => **known == *text,
        }
    }
}

/// Returns the bytes of a UUID in the notation of [`Uid::Uuid`].
fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = text.bytes().enumerate().filter(|(_, byte)| *byte == b'-').map(|(index, _)| index);
    if text.len() != 36 || !hyphens.eq(HYPHENS) {
        return None;
    }
    let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    });
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_uid_takes_few_bytes() {
        assert!(size_of::<Uid>() <= 24);
        let uuid: Arc<str> = "0b9f6a1c-7e1f-4a2b-9c3d-00ff10e2a9d4".into();
        assert!(matches!(Uid::from(&uuid), Uid::Uuid(_)));
    }

    proptest! {
        #[test]
        fn a_uid_preserves_its_text(
            text in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-fA-F-]{30,40}|\\PC*",
            other in "[0-9a-fA-F-]{36}",
        ) {
            let (text, other): (Arc<str>, Arc<str>) = (text.into(), other.into());
            let uid = Uid::from(&text);
            prop_assert_eq!(uid.text(), Arc::clone(&text));
            prop_assert!(uid == *text);
            prop_assert_eq!(uid == *other, text == other);
            prop_assert_eq!(uid == Uid::from(&other), text == other);
        }
    }
}
