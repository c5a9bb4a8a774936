//! A bundle as it was downloaded, before anything in it is trusted.

use jiff::Timestamp;

use super::cosign::ArtifactSignature;

/// Most bytes that are downloaded for a bundle.
pub(super) const PACKAGE_BYTES: u64 = 32 << 20;

/// What was downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    /// Of an artifact's manifest, or of an archive: `sha256:…`.
    pub(super) digest: String,
    /// What a server calls it, to ask whether there is another.
    pub(super) etag: Option<String>,
    /// Of an artifact, the bytes of its manifest, which the digest is of.
    pub(super) manifest: Option<Vec<u8>>,
    /// What its annotations call it.
    pub(super) revision: Option<String>,
    /// When it was created, as its annotations have it.
    pub(super) created: Option<Timestamp>,
    /// What it consists of.
    pub(super) parts: Vec<Part>,
    /// Signatures of cosign that lie beside an artifact.
    pub(super) signatures: Vec<ArtifactSignature>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// One file.
    File {
        /// Its name, as the publisher says.
        name: String,
        content: Vec<u8>,
    },
    /// A compressed tar archive.
    Archive(Vec<u8>),
}
