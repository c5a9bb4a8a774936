//! Signatures of cosign, with a key or keyless, of the digest of an artifact's manifest.
//!
//! Two formats are read: the payload with its signature in an annotation, which cosign stores under a tag derived from
//! the digest, and a Sigstore bundle, which refers to the manifest. Both are verified offline. For a signature with a
//! key, the transparency log is not checked, as in cosign with `--insecure-ignore-tlog`.

use std::collections::BTreeMap;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{key::VerificationKey, keyless::KeylessIdentity, registry::Descriptor};

/// The type of a signature in the payload of `cosign sign`, and in a statement: with the same key, other things may be
/// attested about an artifact.
const SIGNATURE: (&str, &str) = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1");
/// The type of an in-toto statement.
const STATEMENT: &str = "application/vnd.in-toto+json";
/// The annotation with the signature of a payload.
const SIGNED: &str = "dev.cosignproject.cosign/signature";
/// The annotations of a keyless signature: the certificate and its chain (PEM), the promise of the transparency log,
/// and the token of a timestamp authority.
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";
const LOGGED: &str = "dev.sigstore.cosign/bundle";
const TIMESTAMP: &str = "dev.sigstore.cosign/rfc3161timestamp";
/// The type of Sigstore bundles that contain a promise of the log and need no proof.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle+json;version=0.1";
/// The maximum number of certificates that are read from a chain; Sigstore's have one or two.
const CERTIFICATES: usize = 8;

/// A signature of an artifact, as downloaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArtifactSignature {
    /// The signed payload, or the Sigstore bundle.
    pub(super) payload: String,
    /// The signature in base64; `None` for a bundle, which contains it.
    pub(super) signature: Option<String>,
    /// Further annotations of the signature, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

/// The artifact that a signature must refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignedArtifact<'a> {
    /// The digest of the manifest.
    pub(super) digest: &'a str,
    /// The repository that the signature must name, if any.
    pub(super) repository: Option<&'a str>,
}

impl ArtifactSignature {
    /// Returns the signature in the annotations of a layer, without its payload; `None` if there is none.
    pub(super) fn annotated(layer: &Descriptor) -> Option<Self> {
        let signature = layer.annotation(SIGNED)?.to_owned();
        let names = [CERTIFICATE, CHAIN, LOGGED, TIMESTAMP].into_iter();
        let annotations = names.filter_map(|name| Some((name.to_owned(), layer.annotation(name)?.to_owned())));
        Some(Self { payload: String::new(), signature: Some(signature), annotations: annotations.collect() })
    }

    /// Returns the signature for a Sigstore bundle.
    pub(super) fn bundled(payload: String) -> Self {
        Self { payload, ..Self::default() }
    }

    /// Whether it is a signature of this artifact with `key`.
    pub(super) fn is_of(&self, artifact: SignedArtifact<'_>, key: &VerificationKey) -> bool {
        let verified = match &self.signature {
            Some(signature) => is_signed_payload(&self.payload, signature, artifact, key),
            None => is_signed_bundle(&self.payload, artifact, key),
        };
        verified.is_some()
    }

    /// Checks that it is a signature of this artifact by an identity.
    ///
    /// # Errors
    /// With the reason, if it is not.
    pub(super) fn is_by(&self, artifact: SignedArtifact<'_>, identity: &KeylessIdentity) -> Result<(), String> {
        let other = || match artifact.repository {
            Some(repository) => format!("is for another artifact, or does not name the repository {repository}"),
            None => "is for another artifact".to_owned(),
        };
        let Some(signature) = &self.signature else {
            let (_, hash) = artifact.digest.split_once("sha256:").ok_or_else(other)?;
            let statement = identity.verify_statement(&self.payload, hash)?;
            return is_statement(&statement, artifact).ok_or_else(other);
        };
        is_payload(&self.payload, artifact).ok_or_else(other)?;
        let bundle = self
            .converted(signature)
            .ok_or("has invalid annotations, or lacks a certificate or the promise of a transparency log")?;
        identity.verify_message(&bundle.to_string(), self.payload.as_bytes())
    }

    /// Converts the annotations into a Sigstore bundle.
    fn converted(&self, signature: &str) -> Option<Value> {
        let annotation = |name: &str| self.annotations.get(name).map(String::as_str);
        let chain = annotation(CHAIN).unwrap_or_default();
        let certificates = [annotation(CERTIFICATE)?, chain].into_iter().flat_map(certificates).take(CERTIFICATES);
        let certificates: Vec<Value> = certificates.map(|der| json!({"rawBytes": der})).collect();
        let timestamps = match annotation(TIMESTAMP) {
            Some(annotation) => {
                let annotation: Value = serde_json::from_str(annotation).ok()?;
                vec![json!({"signedTimestamp": annotation.get("SignedRFC3161Timestamp")?})]
            }
            None => Vec::new(),
        };
        let signature = BASE64.decode(signature.as_bytes()).ok()?;
        let digest = BASE64.encode(&Sha256::digest(self.payload.as_bytes()));
        Some(json!({
            "mediaType": BUNDLE,
            "verificationMaterial": {
                "x509CertificateChain": {"certificates": certificates},
                "tlogEntries": [log_entry(annotation(LOGGED)?)?],
                "timestampVerificationData": {"rfc3161Timestamps": timestamps},
            },
            "messageSignature": {
                "messageDigest": {"algorithm": "SHA2_256", "digest": digest},
                "signature": BASE64.encode(&signature),
            },
        }))
    }
}

/// Returns the base64 of each certificate in PEM.
fn certificates(pem: &str) -> impl Iterator<Item = String> {
    let bodies = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    bodies.filter_map(|body| Some(body.split_once("-----END CERTIFICATE-----")?.0.split_whitespace().collect()))
}

/// Converts the promise of a log, as stored by cosign, into the log entry of a Sigstore bundle.
fn log_entry(promise: &str) -> Option<Value> {
    let promise: Value = serde_json::from_str(promise).ok()?;
    let entry = promise.get("Payload")?;
    let (body, log) = (entry.get("body")?.as_str()?, entry.get("logID")?.as_str()?);
    let body_json: Value = serde_json::from_slice(&BASE64.decode(body.as_bytes()).ok()?).ok()?;
    Some(json!({
        "logIndex": entry.get("logIndex")?.as_i64()?.to_string(),
        "logId": {"keyId": BASE64.encode(&HEXLOWER_PERMISSIVE.decode(log.as_bytes()).ok()?)},
        "kindVersion": {"kind": body_json.get("kind")?, "version": body_json.get("apiVersion")?},
        "integratedTime": entry.get("integratedTime")?.as_i64()?.to_string(),
        "inclusionPromise": {"signedEntryTimestamp": promise.get("SignedEntryTimestamp")?},
        "canonicalizedBody": body,
    }))
}

/// Returns `Some` if a payload declares a signature of an artifact.
fn is_payload(payload: &str, artifact: SignedArtifact<'_>) -> Option<()> {
    let payload: Value = serde_json::from_str(payload).ok()?;
    let signed = payload.pointer("/critical/image/docker-manifest-digest")?.as_str()?;
    let is_signature = payload.pointer("/critical/type")?.as_str()? == SIGNATURE.0;
    let named = payload.pointer("/critical/identity/docker-reference").and_then(Value::as_str);
    let is_there = artifact.repository.is_none_or(|repository| named == Some(repository));
    (is_signature && is_there && signed == artifact.digest).then_some(())
}

/// Returns `Some` if an in-toto statement declares a signature of an artifact.
fn is_statement(statement: &[u8], artifact: SignedArtifact<'_>) -> Option<()> {
    let statement: Value = serde_json::from_slice(statement).ok()?;
    let (algorithm, hash) = artifact.digest.split_once(':')?;
    let named = |subject: &Value| {
        let name = subject.get("name").and_then(Value::as_str);
        artifact.repository.is_none_or(|repository| name == Some(repository))
            && subject.pointer(&format!("/digest/{algorithm}")).and_then(Value::as_str) == Some(hash)
    };
    let is_signature = statement.get("predicateType")?.as_str()? == SIGNATURE.1;
    (is_signature && statement.get("subject")?.as_array()?.iter().any(named)).then_some(())
}

/// Returns `Some` if a payload declares a signature of an artifact, and the key has signed it.
fn is_signed_payload(
    payload: &str,
    signature: &str,
    artifact: SignedArtifact<'_>,
    key: &VerificationKey,
) -> Option<()> {
    let signature = BASE64.decode(signature.as_bytes()).ok()?;
    is_payload(payload, artifact)?;
    key.has_signed(payload.as_bytes(), &signature).then_some(())
}

/// Returns `Some` if a Sigstore bundle contains a statement that declares a signature of an artifact, and the key has
/// signed it.
fn is_signed_bundle(bundle: &str, artifact: SignedArtifact<'_>, key: &VerificationKey) -> Option<()> {
    let bundle: Value = serde_json::from_str(bundle).ok()?;
    let envelope = bundle.get("dsseEnvelope")?;
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let kind = text(envelope, "payloadType")?;
    let payload = BASE64.decode(text(envelope, "payload")?.as_bytes()).ok()?;
    if kind != STATEMENT {
        return None;
    }
    is_statement(&payload, artifact)?;
    // The pre-authentication encoding of DSSE.
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend_from_slice(&payload);
    let signatures = envelope.get("signatures")?.as_array()?.iter();
    let mut signatures = signatures.filter_map(|signature| BASE64.decode(text(signature, "sig")?.as_bytes()).ok());
    signatures.any(|signature| key.has_signed(&signed, &signature)).then_some(())
}
