//! The last bundle in order, in a directory: what a restart judges by where a registry is down.
//!
//! It is kept as it was downloaded, so OPA's signature is verified again whenever it is read; cosign's is of the digest that the
//! file names, which is not computed again. The file is a tar archive: what is said of the
//! parts, then the parts.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, Header};

use super::{
    cosign::ArtifactSignature,
    package::{PACKAGE_BYTES, Package, Part},
};
use crate::model::digest::Digest;

/// What is said of a package.
#[derive(Serialize, Deserialize)]
struct About {
    source: String,
    digest: String,
    etag: Option<String>,
    revision: Option<String>,
    /// The names of parts that are files.
    parts: Vec<Option<String>>,
    signatures: Vec<ArtifactSignature>,
}

/// The file of one bundle in the cache.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    directory: PathBuf,
    path: PathBuf,
    source: String,
}

impl Cache {
    pub(super) fn new(directory: &Path, source: &str) -> Self {
        let name = format!("{:032x}.bundle", Digest::of(source).half());
        Self { directory: directory.to_owned(), path: directory.join(name), source: source.to_owned() }
    }

    /// Writes a package in place of the one before. Blocks.
    ///
    /// # Errors
    /// When the directory cannot be written to.
    pub(super) fn write(&self, package: &Package) -> anyhow::Result<()> {
        let Package { digest, etag, revision, parts, signatures } = package;
        let name = |part: &Part| match part {
            Part::File { name, .. } => Some(name.clone()),
            Part::Archive(_) => None,
        };
        let about = About {
            source: self.source.clone(),
            digest: digest.clone(),
            etag: etag.clone(),
            revision: revision.clone(),
            parts: parts.iter().map(name).collect(),
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
        for part in parts {
            let (Part::File { content, .. } | Part::Archive(content)) = part;
            append(content)?;
        }
        let bytes = builder.into_inner()?;
        // Whoever reads at the same time sees the old one or the new one.
        let new = self.path.with_extension(format!("new{}", std::process::id()));
        let written = fs::create_dir_all(&self.directory).and_then(|()| {
            let mut file = fs::File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        });
        written.with_context(|| format!("writing {}", self.path.display()))
    }

    /// Reads the package that was written last; `None` if there is none. Blocks.
    ///
    /// # Errors
    /// When it cannot be read.
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
            let mut contents = contents.into_iter();
            let About { source, digest, etag, revision, parts, signatures } =
                serde_json::from_slice(&contents.next().unwrap_or_default())?;
            anyhow::ensure!(source == self.source && parts.len() == contents.len(), "it is of something else");
            let part = |(name, content)| match name {
                Some(name) => Part::File { name, content },
                None => Part::Archive(content),
            };
            let parts = parts.into_iter().zip(contents).map(part).collect();
            Ok(Package { digest, etag, revision, parts, signatures })
        };
        read().map(Some).with_context(|| format!("reading {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(&directory.path().join("a/b"), "oci://example.com/a");
        assert_eq!(cache.read().unwrap(), None);
        let mut package = Package {
            digest: "sha256:00".to_owned(),
            etag: Some("\"x\"".to_owned()),
            revision: None,
            parts: vec![
                Part::File { name: "a.rego".to_owned(), content: b"package a".to_vec() },
                Part::Archive(vec![0; 2_000]),
            ],
            signatures: vec![ArtifactSignature::bundled("{}".to_owned())],
        };
        for digest in ["sha256:00", "sha256:01"] {
            digest.clone_into(&mut package.digest);
            cache.write(&package).unwrap();
            assert_eq!(cache.read().unwrap().as_ref(), Some(&package));
        }
        assert_eq!(fs::read_dir(directory.path().join("a/b")).unwrap().count(), 1);
        // Another one of the same directory.
        assert_eq!(Cache::new(&directory.path().join("a/b"), "oci://example.com/b").read().unwrap(), None);
        fs::write(&cache.path, "no cache").unwrap();
        assert!(cache.read().is_err());
    }
}
