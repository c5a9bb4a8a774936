//! Caches the last valid bundle in a directory, so that kaudit can restart while the registry is unavailable.
//!
//! It is stored as it was downloaded, including the manifest of an artifact, so that digests and signatures are
//! verified again whenever it is read. The file is a tar archive: the metadata of the package, the manifest if there is
//! one, then the layers or the archive. Only its owner can read and write it.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, Header};

use super::{
    cosign::ArtifactSignature,
    download::{assembled, packed},
    package::{PACKAGE_BYTES, Package, PackagePart},
};
use crate::model::digest::Digest;

/// The metadata of a cached package.
#[derive(Serialize, Deserialize)]
struct PackageMetadata {
    source: String,
    digest: String,
    etag: Option<String>,
    /// Whether the first part is the manifest of an artifact.
    #[serde(default)]
    has_manifest: bool,
    parts: usize,
    signatures: Vec<ArtifactSignature>,
}

/// The file of one bundle in the cache.
#[derive(Debug, Clone)]
pub(super) struct BundleCache {
    directory: PathBuf,
    path: PathBuf,
    source: String,
}

impl BundleCache {
    pub(super) fn new(directory: &Path, source: &str) -> Self {
        let name = format!("{:032x}.bundle", Digest::of(source).half());
        Self { directory: directory.to_owned(), path: directory.join(name), source: source.to_owned() }
    }

    /// Replaces the cached package. Blocks.
    ///
    /// # Errors
    /// If the directory cannot be written to.
    pub(super) fn write(&self, package: &Package) -> anyhow::Result<()> {
        let Package { digest, etag, manifest, parts, signatures, .. } = package;
        let about = PackageMetadata {
            source: self.source.clone(),
            digest: digest.clone(),
            etag: etag.clone(),
            has_manifest: manifest.is_some(),
            parts: parts.len(),
            signatures: signatures.clone(),
        };
        let mut builder = Builder::new(Vec::new());
        let mut append = |content: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            builder.append_data(&mut header, "part", content)
        };
        append(&serde_json::to_vec(&about)?)?;
        manifest.iter().try_for_each(|manifest| append(manifest))?;
        for part in parts {
            let (PackagePart::File { content, .. } | PackagePart::Archive(content)) = part;
            append(content)?;
        }
        let bytes = builder.into_inner()?;
        // Concurrent readers see either the old file or the new one.
        let new = self.path.with_extension(format!("new{}", std::process::id()));
        let written = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory).and_then(|()| {
            // A leftover of an earlier process with this id.
            let _absent = fs::remove_file(&new);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        });
        written.with_context(|| format!("writing {}", self.path.display()))
    }

    /// Reads the cached package; `None` if there is none. Blocks.
    ///
    /// # Errors
    /// If it cannot be read, or does not match its digest.
    pub(super) fn read(&self) -> anyhow::Result<Option<Package>> {
        let file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", self.path.display())),
        };
        let read = || {
            let mut archive = Archive::new(file.take(4 * PACKAGE_BYTES));
            let mut contents = Vec::new();
            for entry in archive.entries()? {
                let mut content = Vec::new();
                entry?.read_to_end(&mut content)?;
                contents.push(content);
            }
            anyhow::ensure!(!contents.is_empty(), "it is empty");
            let PackageMetadata { source, digest, etag, has_manifest, parts, signatures } =
                serde_json::from_slice(&contents.remove(0))?;
            let is_whole = parts + usize::from(has_manifest) == contents.len();
            anyhow::ensure!(
                source == self.source && is_whole,
                "it belongs to another bundle, or to another version of kaudit"
            );
            let mut package = if has_manifest {
                let manifest = contents.remove(0);
                assembled(manifest, contents, signatures)?
            } else {
                anyhow::ensure!(contents.len() == 1, "it belongs to another bundle, or to another version of kaudit");
                packed(contents.remove(0), etag.clone())
            };
            anyhow::ensure!(
                digest == package.digest,
                "it does not match its digest: the content has {}",
                package.digest
            );
            package.etag = etag;
            Ok(package)
        };
        read().map(Some).with_context(|| format!("reading {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(text: &str) -> Package {
        let digest = crate::bundle::digest::digest_of(text.as_bytes());
        let manifest = serde_json::json!({"schemaVersion": 2,
            "annotations": {"org.opencontainers.image.revision": "7", "org.opencontainers.image.created": "2026-01-01T00:00:00Z"},
            "layers": [{"mediaType": "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego", "digest": digest,
                "size": text.len(), "annotations": {"org.opencontainers.image.title": "a.rego"}}]});
        let signatures = vec![ArtifactSignature::bundled("{}".to_owned())];
        assembled(manifest.to_string().into_bytes(), vec![text.as_bytes().to_vec()], signatures).unwrap()
    }

    #[test]
    fn a_written_package_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let cache = BundleCache::new(&directory.path().join("a/b"), "oci://example.com/a");
        assert_eq!(cache.read().unwrap(), None);
        for package in [artifact("package a"), artifact("package b"), packed(vec![0; 2_000], Some("\"x\"".to_owned()))]
        {
            cache.write(&package).unwrap();
            assert_eq!(cache.read().unwrap().as_ref(), Some(&package));
        }
        assert_eq!(fs::read_dir(directory.path().join("a/b")).unwrap().count(), 1);
        // Another bundle in the same directory.
        assert_eq!(BundleCache::new(&directory.path().join("a/b"), "oci://example.com/b").read().unwrap(), None);
        fs::write(&cache.path, "no cache").unwrap();
        assert!(cache.read().is_err());
    }

    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let cache = BundleCache::new(&directory.path().join("a/b"), "oci://example.com/a");
        cache.write(&artifact("package a")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory.path().join("a")), mode(&directory.path().join("a/b"))), (0o700, 0o700));
        assert_eq!(mode(&cache.path), 0o600);
    }

    #[test]
    fn a_changed_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let cache = BundleCache::new(directory.path(), "oci://example.com/a");
        for package in [artifact("package a\n\ndeny := 1234\n"), packed(b"package a\n\ndeny := 1234\n".to_vec(), None)]
        {
            cache.write(&package).unwrap();
            let written = fs::read(&cache.path).unwrap();
            let at = written.windows(4).position(|bytes| bytes == b"1234").unwrap();
            let mut changed = written.clone();
            changed[at..at + 4].copy_from_slice(b"4234");
            fs::write(&cache.path, &changed).unwrap();
            let why = format!("{:#}", cache.read().unwrap_err());
            assert!(why.contains("does not match its digest"), "{why}");
        }
    }
}
