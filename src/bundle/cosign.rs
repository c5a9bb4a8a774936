//! Signatures of cosign by a key: of the digest of an artifact's manifest.
//!
//! Two forms are read: the payload with its signature in an annotation, which cosign keeps under a tag that is made of the
//! digest, and a bundle of Sigstore, which refers to the manifest. Both are verified offline; whether a transparency log has
//! them is not asked, as cosign does not with `--insecure-ignore-tlog`.

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::VerificationKey;

/// What `cosign sign` says that its payload is, and its statement; a key may also attest other things of an artifact.
const SIGNATURE: (&str, &str) = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1");
/// The type of a statement of in-toto.
const STATEMENT: &str = "application/vnd.in-toto+json";

/// A signature that lies beside an artifact, as it was downloaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArtifactSignature {
    /// What is signed, or the bundle of Sigstore.
    pub(super) payload: String,
    /// The signature in base64; none of a bundle, which has it inside.
    pub(super) signature: Option<String>,
}

impl ArtifactSignature {
    /// Whether it is one by `key` of this digest.
    pub(super) fn is_of(&self, digest: &str, key: &VerificationKey) -> bool {
        let verified = match &self.signature {
            Some(signature) => simple(&self.payload, signature, digest, key),
            None => bundled(&self.payload, digest, key),
        };
        verified.is_some()
    }
}

fn simple(payload: &str, signature: &str, digest: &str, key: &VerificationKey) -> Option<()> {
    let signature = BASE64.decode(signature.as_bytes()).ok()?;
    let said: Value = serde_json::from_str(payload).ok()?;
    let signed = said.pointer("/critical/image/docker-manifest-digest")?.as_str()?;
    let is_signature = said.pointer("/critical/type")?.as_str()? == SIGNATURE.0;
    (is_signature && signed == digest && key.has_signed(payload.as_bytes(), &signature)).then_some(())
}

fn bundled(bundle: &str, digest: &str, key: &VerificationKey) -> Option<()> {
    let bundle: Value = serde_json::from_str(bundle).ok()?;
    let envelope = bundle.get("dsseEnvelope")?;
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let kind = text(envelope, "payloadType")?;
    let payload = BASE64.decode(text(envelope, "payload")?.as_bytes()).ok()?;
    let statement: Value = serde_json::from_slice(&payload).ok()?;
    let (algorithm, hash) = digest.split_once(':')?;
    let named =
        |subject: &Value| subject.pointer(&format!("/digest/{algorithm}")).and_then(Value::as_str) == Some(hash);
    let is_signature = kind == STATEMENT && text(&statement, "predicateType")? == SIGNATURE.1;
    if !is_signature || !statement.get("subject")?.as_array()?.iter().any(named) {
        return None;
    }
    // The pre-authentication encoding of DSSE.
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend_from_slice(&payload);
    let signatures = envelope.get("signatures")?.as_array()?.iter();
    let mut signatures = signatures.filter_map(|signature| BASE64.decode(text(signature, "sig")?.as_bytes()).ok());
    signatures.any(|signature| key.has_signed(&signed, &signature)).then_some(())
}
