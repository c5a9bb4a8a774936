//! Digests by which registries identify content: `sha256:` and hex digits.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256, Sha512};

/// Returns the SHA-256 digest of content.
pub(super) fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(content)))
}

/// Whether a text is a supported digest.
pub(super) fn is_digest(text: &str) -> bool {
    let digits = |text: &str, length| text.len() == length && text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    match text.split_once(':') {
        Some(("sha256", digest)) => digits(digest, 64),
        Some(("sha512", digest)) => digits(digest, 128),
        _ => false,
    }
}

/// Compares content with its expected digest.
///
/// # Errors
/// If the content has another digest.
pub(super) fn check(digest: &str, content: &[u8]) -> Result<(), String> {
    let actual = match digest.split_once(':') {
        Some(("sha512", _)) => format!("sha512:{}", HEXLOWER.encode(&Sha512::digest(content))),
        _ => digest_of(content),
    };
    if actual == digest { Ok(()) } else { Err(format!("does not match its digest: the content has {actual}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_compared() {
        assert!(is_digest(&digest_of(b"")) && check(&digest_of(b"a"), b"a").is_ok());
        assert!(check(&digest_of(b"a"), b"b").unwrap_err().contains("does not match its digest"));
        for odd in ["sha256:", "sha256:../../x", "md5:00", "", &digest_of(b"").to_uppercase()] {
            assert!(!is_digest(odd), "{odd}");
        }
    }
}
