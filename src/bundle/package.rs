//! A bundle as it was downloaded, before anything in it is trusted.

use jiff::Timestamp;

use super::cosign::ArtifactSignature;

/// The maximum number of bytes that are downloaded for a bundle.
pub(super) const PACKAGE_BYTES: u64 = 32 << 20;

/// A downloaded bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    /// The digest of an artifact's manifest, or of an archive: `sha256:…`.
    pub(super) digest: String,
    /// The `ETag` of a server, for conditional requests.
    pub(super) etag: Option<String>,
    /// The bytes of an artifact's manifest, to which the digest refers.
    pub(super) manifest: Option<Vec<u8>>,
    /// The revision in the annotations of an artifact.
    pub(super) revision: Option<String>,
    /// The creation time in the annotations of an artifact.
    pub(super) created: Option<Timestamp>,
    /// Its files and archives.
    pub(super) parts: Vec<PackagePart>,
    /// The cosign signatures of an artifact.
    pub(super) signatures: Vec<ArtifactSignature>,
}

/// A part of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PackagePart {
    /// One file.
    File {
        /// The name given by the publisher.
        name: String,
        content: Vec<u8>,
    },
    /// A compressed tar archive.
    Archive(Vec<u8>),
}
