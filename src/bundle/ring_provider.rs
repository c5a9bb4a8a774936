//! The cryptography of the Sigstore library: `ring`, which TLS uses too.

use std::cell::RefCell;

use ring::{
    digest,
    signature::{self, UnparsedPublicKey, VerificationAlgorithm},
};
use sigstore_verify::{
    crypto::{CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider},
    types::HashAlgorithm,
};

thread_local! {
    /// The message whose signature is verified: `ring` needs the message, but the library passes only its digest.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes the library use `ring`. Without this call, the library panics.
pub(super) fn install() {
    // An earlier call has installed the same one.
    let _ = install_default_provider(&RingProvider);
}

/// Runs `verify`, which can verify signatures of this message's digest, and of no other digest.
pub(super) fn with_message<T>(message: &[u8], verify: impl FnOnce() -> T) -> T {
    MESSAGE.set(message.to_vec());
    let verified = verify();
    MESSAGE.set(Vec::new());
    verified
}

#[derive(Debug)]
struct RingProvider;

struct Hash(digest::Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

fn hash(algorithm: HashAlgorithm) -> Result<&'static digest::Algorithm> {
    Ok(match algorithm {
        HashAlgorithm::Sha2256 => &digest::SHA256,
        HashAlgorithm::Sha2384 => &digest::SHA384,
        HashAlgorithm::Sha2512 => &digest::SHA512,
        _ => return Err(Error::UnsupportedAlgorithm(format!("digests by {algorithm} are not supported"))),
    })
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        _ => return Err(Error::UnsupportedAlgorithm(format!("signatures by {} are not supported", scheme.name()))),
    })
}

impl CryptoProvider for RingProvider {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        Ok(Box::new(Hash(digest::Context::new(hash(algorithm)?))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signed: &[u8]) -> Result<()> {
        let verified = UnparsedPublicKey::new(algorithm(scheme)?, key).verify(data, signed);
        verified.map_err(|_| Error::Verification(format!("the {} signature does not match", scheme.name())))
    }

    fn verify_prehashed(&self, scheme: SigningScheme, key: &[u8], hashed: &[u8], signed: &[u8]) -> Result<()> {
        let by = scheme.hash_algorithm().ok_or_else(|| Error::UnsupportedAlgorithm(scheme.name().to_owned()))?;
        let by = hash(by)?;
        MESSAGE.with_borrow(|message| {
            if digest::digest(by, message).as_ref() != hashed {
                return Err(Error::Verification("the digest is of another message".to_owned()));
            }
            self.verify_raw(scheme, key, message, signed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _},
    };

    #[test]
    fn a_digest_is_verified_by_its_message_only() {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random).unwrap();
        let signed = key.sign(&random, b"message").unwrap();
        let hashed = |text: &[u8]| digest::digest(&digest::SHA256, text).as_ref().to_vec();
        let verify = |scheme, hashed: &[u8]| {
            let (key, signed) = (key.public_key().as_ref(), signed.as_ref());
            RingProvider.verify_prehashed(scheme, key, hashed, signed).is_ok()
        };
        let p256 = SigningScheme::EcdsaP256Sha256;
        assert!(with_message(b"message", || verify(p256, &hashed(b"message"))));
        assert!(!with_message(b"message", || verify(p256, &hashed(b"another"))));
        assert!(!with_message(b"another", || verify(p256, &hashed(b"another"))));
        assert!(!with_message(b"message", || verify(SigningScheme::EcdsaP256Sha384, &hashed(b"message"))));
        assert!(!with_message(b"message", || verify(SigningScheme::MlDsa44, &hashed(b"message"))));
        assert!(!verify(p256, &hashed(b"message")));
    }

    #[test]
    fn digests_are_those_of_fips_180() {
        for (algorithm, begin) in
            [(HashAlgorithm::Sha2256, 0xba), (HashAlgorithm::Sha2384, 0xcb), (HashAlgorithm::Sha2512, 0xdd)]
        {
            let mut hash = RingProvider.hash(algorithm).unwrap();
            hash.update(b"ab");
            hash.update(b"c");
            let digest = hash.finalize();
            assert_eq!((digest.len(), digest[0]), (algorithm.digest_size(), begin));
        }
    }
}
