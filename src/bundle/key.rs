//! Keys for the signatures of bundles.

use std::{fmt, fs, path::Path};

use anyhow::{Context as _, bail};
use data_encoding::BASE64;
use ring::{
    hmac,
    signature::{self, UnparsedPublicKey, VerificationAlgorithm},
};

/// A key that verifies signatures.
#[derive(Clone)]
pub struct VerificationKey(KeyMaterial);

#[derive(Clone)]
enum KeyMaterial {
    /// A secret shared by publisher and reader.
    Secret(Vec<u8>),
    /// `RSAPublicKey` of PKCS #1.
    Rsa(Vec<u8>),
    /// A point of P-256.
    P256(Vec<u8>),
    /// A point of P-384.
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Shows the kind of the key.
impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl VerificationKey {
    /// Reads a public key in PEM, or else a shared secret, which is the whole content, as in OPA.
    ///
    /// # Errors
    /// If the file cannot be read, is empty, or contains another kind of key.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let content = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        Self::parse(&content).with_context(|| format!("{shown} is not a key that can verify bundles"))
    }

    fn parse(content: &[u8]) -> anyhow::Result<Self> {
        let Some(text) = std::str::from_utf8(content).ok().filter(|text| text.contains("-----BEGIN ")) else {
            anyhow::ensure!(!content.is_empty(), "it is empty");
            return Ok(Self(KeyMaterial::Secret(content.to_vec())));
        };
        let (_, rest) = text.split_once("-----BEGIN ").context("it has no PEM")?;
        let (label, rest) = rest.split_once("-----").context("its PEM has no label")?;
        let (body, _) = rest.split_once("-----END ").context("its PEM has no end")?;
        let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        let der = BASE64.decode(body.as_bytes()).context("its PEM is not base64")?;
        match label {
            "PUBLIC KEY" => public(&der),
            "RSA PUBLIC KEY" => Ok(Self(KeyMaterial::Rsa(der))),
            other => bail!("it is a {other}; give the PUBLIC KEY"),
        }
    }

    fn kind(&self) -> &'static str {
        match self.0 {
            KeyMaterial::Secret(_) => "a shared secret",
            KeyMaterial::Rsa(_) => "an RSA key",
            KeyMaterial::P256(_) => "a P-256 key",
            KeyMaterial::P384(_) => "a P-384 key",
            KeyMaterial::Ed25519(_) => "an Ed25519 key",
        }
    }

    /// Verifies the signature `signed` of a JWT with the algorithm that the JWT names, if the kind of key permits it.
    ///
    /// # Errors
    /// If it is not signed by this key.
    pub(super) fn verify_jwt(&self, algorithm: &str, message: &[u8], signed: &[u8]) -> Result<(), String> {
        let by = |with: &'static dyn VerificationAlgorithm, key: &[u8]| verify(with, key, message, signed);
        let verified = match (&self.0, algorithm) {
            (KeyMaterial::Secret(secret), "HS256" | "HS384" | "HS512") => {
                let with = match algorithm {
                    "HS256" => hmac::HMAC_SHA256,
                    "HS384" => hmac::HMAC_SHA384,
                    _ => hmac::HMAC_SHA512,
                };
                hmac::verify(&hmac::Key::new(with, secret), message, signed).is_ok()
            }
            (KeyMaterial::Rsa(key), "RS256") => by(&signature::RSA_PKCS1_2048_8192_SHA256, key),
            (KeyMaterial::Rsa(key), "RS384") => by(&signature::RSA_PKCS1_2048_8192_SHA384, key),
            (KeyMaterial::Rsa(key), "RS512") => by(&signature::RSA_PKCS1_2048_8192_SHA512, key),
            (KeyMaterial::Rsa(key), "PS256") => by(&signature::RSA_PSS_2048_8192_SHA256, key),
            (KeyMaterial::Rsa(key), "PS384") => by(&signature::RSA_PSS_2048_8192_SHA384, key),
            (KeyMaterial::Rsa(key), "PS512") => by(&signature::RSA_PSS_2048_8192_SHA512, key),
            (KeyMaterial::P256(key), "ES256") => by(&signature::ECDSA_P256_SHA256_FIXED, key),
            (KeyMaterial::P384(key), "ES384") => by(&signature::ECDSA_P384_SHA384_FIXED, key),
            (KeyMaterial::Ed25519(key), "EdDSA") => by(&signature::ED25519, key),
            _ => {
                let algorithm = crate::model::text::shortened(algorithm, 20);
                return Err(format!("is signed with {algorithm:?}, but the given key is {}", self.kind()));
            }
        };
        if verified { Ok(()) } else { Err("is not signed by the given key".to_owned()) }
    }

    /// Whether `signed` is a signature of a message by this key in the format of cosign.
    pub(super) fn has_signed(&self, message: &[u8], signed: &[u8]) -> bool {
        let by = |with: &'static dyn VerificationAlgorithm, key: &[u8]| verify(with, key, message, signed);
        match &self.0 {
            KeyMaterial::Secret(_) => false,
            KeyMaterial::Rsa(key) => by(&signature::RSA_PKCS1_2048_8192_SHA256, key),
            KeyMaterial::P256(key) => by(&signature::ECDSA_P256_SHA256_ASN1, key),
            KeyMaterial::P384(key) => {
                by(&signature::ECDSA_P384_SHA384_ASN1, key) || by(&signature::ECDSA_P384_SHA256_ASN1, key)
            }
            KeyMaterial::Ed25519(key) => by(&signature::ED25519, key),
        }
    }
}

fn verify(with: &'static dyn VerificationAlgorithm, key: &[u8], message: &[u8], signed: &[u8]) -> bool {
    UnparsedPublicKey::new(with, key).verify(message, signed).is_ok()
}

/// Object identifiers of key types and curves, in DER.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BIT_STRING: u8 = 0x03;

/// Reads a `SubjectPublicKeyInfo` of RFC 5280.
fn public(der: &[u8]) -> anyhow::Result<VerificationKey> {
    let broken = "its PEM is not a public key";
    let (info, _) = element(der, SEQUENCE).context(broken)?;
    let (algorithm, rest) = element(info, SEQUENCE).context(broken)?;
    let (bits, _) = element(rest, BIT_STRING).context(broken)?;
    // The first byte is the number of unused bits.
    let key = bits.get(1..).context(broken)?.to_vec();
    let (identifier, parameters) = element(algorithm, OBJECT_IDENTIFIER).context(broken)?;
    let curve = element(parameters, OBJECT_IDENTIFIER).map(|(curve, _)| curve);
    let kind = match (identifier, curve) {
        (RSA, _) => KeyMaterial::Rsa(key),
        (EC, Some(P256)) => KeyMaterial::P256(key),
        (EC, Some(P384)) => KeyMaterial::P384(key),
        (ED25519, _) => KeyMaterial::Ed25519(key),
        _ => bail!("it is neither RSA, nor P-256, nor P-384, nor Ed25519"),
    };
    Ok(VerificationKey(kind))
}

/// Returns the content of a DER element with this tag, and the rest after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(*rest.first()?) << 8 | usize::from(*rest.get(1)?), rest.get(2..)?),
        _ => return None,
    };
    (*first == tag && rest.len() >= length).then(|| rest.split_at(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_content_than_a_public_key_is_reported() {
        for (text, want) in [
            ("", "empty"),
            ("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----", "give the PUBLIC KEY"),
            ("-----BEGIN PUBLIC KEY-----\nAA", "no end"),
            ("-----BEGIN PUBLIC KEY-----\n%\n-----END PUBLIC KEY-----", "not base64"),
            ("-----BEGIN PUBLIC KEY-----\nMIIA\n-----END PUBLIC KEY-----", "not a public key"),
        ] {
            let why = VerificationKey::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(why.contains(want), "{text}: {why}");
        }
        assert_eq!(format!("{:?}", VerificationKey::parse(b"shared").unwrap()), "a shared secret");
    }

    #[test]
    fn the_key_determines_the_permitted_algorithms() {
        let secret = VerificationKey::parse(b"shared").unwrap();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"shared"), b"text");
        assert!(secret.verify_jwt("HS256", b"text", tag.as_ref()).is_ok());
        assert!(
            secret.verify_jwt("HS256", b"texts", tag.as_ref()).unwrap_err().contains("not signed by the given key")
        );
        for algorithm in ["none", "RS256", "hs256", ""] {
            assert!(secret.verify_jwt(algorithm, b"text", tag.as_ref()).unwrap_err().contains("a shared secret"));
        }
    }
}
