//! Keyless signatures: with a Sigstore certificate that is valid for minutes and names the signer.
//!
//! In: a signature of an artifact, and the trusted root and the identity given by the user. Out: whether that identity
//! has signed the artifact. Everything is verified offline: the certificate's chain to a trusted authority, at the time
//! of signing; that the certificate was logged (its SCT); that the signature was logged (by the proof or the promise of
//! the transparency log, or both); the time, by the log or a timestamp authority; and that log entry, certificate and
//! signature belong together.

use std::{fmt, fs, path::Path};

use anyhow::Context as _;
use regex::Regex;
use sigstore_verify::{
    SubjectAltName, VerificationPolicy, Verifier,
    trust_root::TrustedRoot,
    types::{Artifact, Bundle, Sha256Hash, SignatureContent},
};

use super::ring_provider;
use crate::model::text::shortened;

/// The maximum length of untrusted text in an error message, in bytes.
const REASON_BYTES: usize = 300;
/// The maximum number of log entries of a signature, as in sigstore-go, and of timestamps; each takes a few
/// verifications.
const ENTRIES: usize = 32;

/// The expected name in a certificate.
#[derive(Debug, Clone)]
pub enum NameMatcher {
    /// Exactly this name.
    Exact(String),
    /// Any name that contains a match.
    Matching(Regex),
}

impl NameMatcher {
    fn accepts(&self, name: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted == name,
            Self::Matching(pattern) => pattern.is_match(name),
        }
    }
}

/// The required signer, and the verifier of its certificates.
pub struct KeylessIdentity {
    subject: NameMatcher,
    issuer: NameMatcher,
    verifier: Verifier,
}

/// Shows the identity, but not the keys of the trusted root.
impl fmt::Debug for KeylessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("KeylessIdentity");
        shown.field("subject", &self.subject).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl KeylessIdentity {
    /// Reads the trusted authorities from a `trusted_root.json` of Sigstore.
    ///
    /// # Errors
    /// If the file cannot be read or used.
    pub fn read(subject: NameMatcher, issuer: NameMatcher, trusted_root: &Path) -> anyhow::Result<Self> {
        let shown = trusted_root.display();
        let text = fs::read_to_string(trusted_root).with_context(|| format!("cannot read {shown}"))?;
        let verifier = verifier(&text).with_context(|| format!("{shown} is not a trusted root of Sigstore"))?;
        Ok(Self { subject, issuer, verifier })
    }

    /// Checks that a Sigstore bundle is a signature of a message by this identity.
    ///
    /// # Errors
    /// Says why it is not.
    pub(super) fn verify_message(&self, bundle: &str, message: &[u8]) -> Result<(), String> {
        let bundle = parse(bundle)?;
        if !matches!(bundle.content, SignatureContent::MessageSignature(_)) {
            return Err("is not the signature of a message".to_owned());
        }
        ring_provider::with_message(message, || self.verify(&bundle, Artifact::Blob(message)))
    }

    /// Checks that a Sigstore bundle is a statement by this identity about the content with a digest, in hex digits;
    /// returns the statement.
    ///
    /// # Errors
    /// Says why it is not.
    pub(super) fn verify_statement(&self, bundle: &str, sha256: &str) -> Result<Vec<u8>, String> {
        let bundle = parse(bundle)?;
        let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
            return Err("is not a statement".to_owned());
        };
        let digest = Sha256Hash::from_hex(sha256).map_err(reason)?;
        self.verify(&bundle, Artifact::from_digest(digest))?;
        Ok(envelope.payload.as_bytes().to_vec())
    }

    fn verify(&self, bundle: &Bundle, artifact: Artifact<'_>) -> Result<(), String> {
        // The signer is compared below, since a name may be a pattern; everything else is verified by default.
        let policy = VerificationPolicy::any_identity();
        let verified = self.verifier.verify(artifact, bundle, &policy).map_err(reason)?;
        if !verified.certificate_verified() || !verified.sct_verified() || !verified.tlog_verified() {
            return Err("could not be verified completely".to_owned());
        }
        let subject = verified.identity().map(SubjectAltName::as_str).filter(|subject| !subject.is_empty());
        let issuer = verified.issuer().filter(|issuer| !issuer.is_empty());
        // A pattern may match the empty string, which is not an identity.
        let (Some(subject), Some(issuer)) = (subject, issuer) else {
            return Err("has a certificate without an identity or without its issuer".to_owned());
        };
        if self.subject.accepts(subject) && self.issuer.accepts(issuer) {
            return Ok(());
        }
        let (subject, issuer) = (shortened(subject, REASON_BYTES), shortened(issuer, REASON_BYTES));
        Err(format!("is by {subject:?}, according to {issuer:?}"))
    }
}

fn verifier(text: &str) -> anyhow::Result<Verifier> {
    ring_provider::install();
    let root = TrustedRoot::from_json(text)?;
    anyhow::ensure!(!root.certificate_authorities.is_empty(), "it has no certificateAuthorities");
    anyhow::ensure!(!root.tlogs.is_empty(), "it has no tlogs");
    anyhow::ensure!(!root.ctlogs.is_empty(), "it has no ctlogs");
    Ok(Verifier::new(&root)?)
}

fn parse(bundle: &str) -> Result<Bundle, String> {
    let bundle = Bundle::from_json(bundle).map_err(reason)?;
    let material = &bundle.verification_material;
    let timestamps = material.timestamp_verification_data.rfc3161_timestamps.len();
    if material.tlog_entries.len() > ENTRIES || timestamps > ENTRIES {
        return Err(format!("has more than {ENTRIES} log entries or timestamps"));
    }
    Ok(bundle)
}

/// Shows an error of the library in one line.
fn reason(error: impl fmt::Display) -> String {
    let text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("cannot be verified: {}", shortened(&text, REASON_BYTES))
}
