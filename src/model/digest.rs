//! SHA-256 digests: of policy sets, and as names and ids that are the same in every process.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of parts, each prefixed with its length, so that different parts cannot yield the same bytes.
    ///
    /// `length` encodes a length as bytes. Digests of both byte orders are already in clusters (as ids, names and
    /// labels), so each caller must keep using its own.
    pub fn of_parts<'a>(length: impl Fn(u64) -> [u8; 8], parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(length(part.len() as u64));
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Returns the first half as a number, which is unique within a cluster. `{:032x}` writes it in hex.
    pub fn half(self) -> u128 {
        self.0[..16].iter().fold(0, |half, byte| half << 8 | u128::from(*byte))
    }
}

/// Shows all bytes in hex.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_half_equals_the_first_hex_digits() {
        let digest = Digest::of("abc");
        assert!(digest.to_string().starts_with("ba7816bf8f01cfea414140de5dae2223b00361a3"));
        assert_eq!(format!("{:032x}", digest.half()), digest.to_string()[..32]);
    }

    #[test]
    fn neighbouring_parts_are_kept_apart() {
        let digest = |parts: [&'static str; 2]| Digest::of_parts(u64::to_be_bytes, parts);
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
        assert_eq!(digest(["a", ""]), Digest::of(b"\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0"));
        assert_ne!(digest(["a", ""]), Digest::of_parts(u64::to_le_bytes, ["a", ""]));
    }
}
