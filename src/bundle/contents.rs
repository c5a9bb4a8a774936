//! Converts a package into a [`Bundle`]: verifies and unpacks it, and refuses what OPA would refuse.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::{
    archive::{self, Files},
    cosign::{ArtifactSignature, SignedArtifact},
    manifest::{MANIFEST, Manifest},
    package::{Package, PackagePart},
    settings::Verification,
    signature,
};
use crate::{
    judge::{
        bundle::{Bundle, Edition},
        files::is_read,
        sources::{FileTree, TreeFile},
    },
    rego::{
        Form, Limits, Version,
        analysis::yaml::{self, YamlDialect},
    },
};

/// Data files of an OPA bundle.
const DATA: [&str; 3] = ["data.json", "data.yaml", "data.yml"];

/// Creates a bundle from a downloaded package.
///
/// # Errors
/// With the reason why it must not be used.
pub(super) fn read(
    source: &Arc<str>,
    pinned: bool,
    package: &Package,
    (verification, repository): (Option<&Verification>, Option<&str>),
) -> Result<Bundle, String> {
    let mut files = Files::new();
    for part in &package.parts {
        match part {
            PackagePart::File { name, content } => archive::add(&mut files, archive::path_of(name)?, content.clone())?,
            PackagePart::Archive(bytes) => archive::unpack(bytes, &mut files)?,
        }
    }
    let artifact = SignedArtifact { digest: &package.digest, repository };
    let verified = verify(&files, &package.signatures, artifact, verification)?;
    let manifest = files.get(&[MANIFEST.to_owned()][..]).map(|text| Manifest::read(text)).transpose()?;
    let versions = match &manifest {
        Some(manifest) => permitted(&mut files, manifest)?,
        None => BTreeMap::new(),
    };
    files.retain(|path, _| is_read(path));
    if files.is_empty() {
        return Err("has neither policies (.rego) nor Gatekeeper's templates".to_owned());
    }
    let (revision, roots) = match manifest {
        Some(manifest) => (manifest.revision.clone(), Some(manifest.roots().to_vec())),
        None => (None, None),
    };
    let revision = revision.filter(|revision| !revision.is_empty()).or_else(|| package.revision.clone());
    let (digest, stale) = (package.digest.clone(), String::new());
    let edition = Edition { source: Arc::clone(source), digest, revision, pinned, verified, stale };
    let files = files.into_iter().map(|(path, content)| TreeFile { path, content: Ok(content) }).collect();
    let tree = FileTree { name: Arc::clone(source), files };
    Ok(Bundle { tree, edition, roots, versions, problem: None })
}

/// Returns whether the publisher was verified.
///
/// # Errors
/// If it is not signed by the given key or identity; and, as in OPA, if it has OPA's signature and neither is given. A
/// signature of the artifact covers everything in it, including OPA's signature.
fn verify(
    files: &Files,
    signatures: &[ArtifactSignature],
    artifact: SignedArtifact<'_>,
    verification: Option<&Verification>,
) -> Result<bool, String> {
    match verification {
        Some(Verification::Keyless(identity)) => {
            let mut reasons = Vec::new();
            for signature in signatures {
                match signature.is_by(artifact, identity) {
                    Ok(()) => return Ok(true),
                    Err(why) => reasons.push(why),
                }
            }
            let requirement = "--certificate-identity requires a keyless signature";
            let Some(reason) = reasons.first() else { return Err(format!("is not signed, and {requirement}")) };
            let more = match reasons.len() - 1 {
                0 => String::new(),
                1 => ", and 1 other is not valid either".to_owned(),
                more => format!(", and {more} others are not valid either"),
            };
            Err(format!("is not signed by the given identity, and {requirement}: a signature {reason}{more}"))
        }
        // OPA's signature does not name a repository.
        Some(Verification::Key { key, scope }) if signature::is_signed(files) && artifact.repository.is_none() => {
            signature::verify(files, key, scope).map(|()| true)
        }
        Some(Verification::Key { key, .. }) => {
            if signatures.iter().any(|signature| signature.is_of(artifact, key)) {
                return Ok(true);
            }
            let other = match artifact.repository {
                _ if signatures.is_empty() => "is not signed".to_owned(),
                Some(repository) => format!("is signed by other keys, or for another repository than {repository}"),
                None => "is signed by other keys".to_owned(),
            };
            Err(format!("{other}, and --verification-key requires a signature"))
        }
        None if signature::is_signed(files) => {
            Err("is signed, but there is no key to verify it: pass --verification-key".to_owned())
        }
        None => Ok(false),
    }
}

/// Removes the files that OPA does not read in a bundle, and returns the declared Rego versions of modules.
///
/// # Errors
/// If OPA would refuse the bundle, or kaudit does not support it.
fn permitted(files: &mut Files, manifest: &Manifest) -> Result<BTreeMap<Vec<String>, Version>, String> {
    if files.contains_key(&["patch.json".to_owned()][..]) {
        return Err("is a delta bundle (patch.json); publish a snapshot".to_owned());
    }
    let wasm = files
        .keys()
        .find(|path| path.last().and_then(|name| name.rsplit_once('.')).is_some_and(|(_, end)| end == "wasm"));
    if wasm.is_some() || manifest.wasm.as_ref().is_some_and(|resolvers| !resolvers.is_empty()) {
        return Err("has policies that are compiled to WebAssembly; build it with --target rego".to_owned());
    }
    let is_module = |path: &&Vec<String>| path.last().is_some_and(|name| Form::of(Path::new(name)) == Some(Form::Rego));
    manifest.permit_modules(files.keys().filter(is_module).count())?;
    let mut versions = BTreeMap::new();
    let mut refused = Ok(());
    files.retain(|path, content| {
        let name = path.join("/");
        let kept = file_use(path, &name, content, manifest).map(|usage| match usage {
            FileUse::Module(version) => {
                versions.extend(version.map(|version| (path.clone(), version)));
                true
            }
            FileUse::Data => true,
            FileUse::Ignored => false,
        });
        kept.unwrap_or_else(|why| {
            if refused.is_ok() {
                refused = Err(why);
            }
            true
        })
    });
    refused.map(|()| versions)
}

/// How OPA uses a file of a bundle.
enum FileUse {
    /// A module, with its declared Rego version.
    Module(Option<Version>),
    Data,
    Ignored,
}

fn file_use(path: &[String], name: &str, content: &[u8], manifest: &Manifest) -> Result<FileUse, String> {
    let last = path.last().map_or("", String::as_str);
    // A file that is not UTF-8 is refused later, with other problems of files.
    let text = std::str::from_utf8(content).unwrap_or_default();
    if Form::of(Path::new(last)) == Some(Form::Rego) {
        manifest.permit_module(name, text)?;
        return Ok(FileUse::Module(manifest.version(name)?));
    }
    if !DATA.contains(&last) {
        return Ok(FileUse::Ignored);
    }
    // It is refused later, with other problems of files.
    if content.len() as u64 > Limits::default().file_bytes {
        return Ok(FileUse::Data);
    }
    let value = if last == DATA[0] {
        serde_json::from_str(text).ok()
    } else {
        yaml::single(text, YamlDialect::Opa).ok().map(|node| node.json())
    };
    if let Some(value) = value {
        let above = path.split_last().map_or(String::new(), |(_, above)| above.join("/"));
        manifest.permit_data(name, &above, &value)?;
    }
    Ok(FileUse::Data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(files: &[(&str, &str)]) -> Result<Bundle, String> {
        let part = |(name, text): &(&str, &str)| PackagePart::File {
            name: (*name).to_owned(),
            content: text.as_bytes().to_vec(),
        };
        let package = Package {
            digest: "sha256:00".to_owned(),
            etag: None,
            manifest: None,
            revision: None,
            created: None,
            parts: files.iter().map(part).collect(),
            signatures: Vec::new(),
        };
        read(&"own".into(), false, &package, (None, None))
    }

    fn names(bundle: &Bundle) -> Vec<String> {
        bundle.tree.files.iter().map(|file| file.path.join("/")).collect()
    }

    #[test]
    fn only_the_files_that_opa_reads_are_read_in_its_bundles() {
        let files = [
            ("a/own.rego", "package a\n"),
            ("a/data.json", "{}"),
            ("a/other.json", "{}"),
            ("b/data.yaml", "x: 1"),
            ("notes.txt", ""),
            (".hidden/own.rego", "package hidden\n"),
        ];
        let without = bundle(&files).unwrap();
        assert_eq!(names(&without), ["a/data.json", "a/other.json", "a/own.rego", "b/data.yaml"]);
        assert_eq!((&without.roots, &without.edition.revision), (&None, &None));
        let manifest = (MANIFEST, r#"{"revision": "7", "rego_version": 0}"#);
        let with = bundle(&[&files[..], &[manifest]].concat()).unwrap();
        assert_eq!(names(&with), ["a/data.json", "a/own.rego", "b/data.yaml"]);
        assert_eq!(with.roots, Some(vec![String::new()]));
        assert_eq!(with.edition.revision.as_deref(), Some("7"));
        assert_eq!(with.versions.get(&["a".to_owned(), "own.rego".to_owned()][..]), Some(&Version::V0));
    }

    #[test]
    fn unusable_bundles_are_refused() {
        let module = ("own.rego", "package a\n");
        for (files, want) in [
            (vec![], "has neither policies"),
            (vec![("notes.txt", "")], "has neither policies"),
            (vec![(MANIFEST, "{}"), ("patch.json", "{}")], "delta bundle"),
            (vec![(MANIFEST, "{}"), ("policy.wasm", ""), module], "WebAssembly"),
            (vec![(MANIFEST, r#"{"wasm": [{}]}"#), module], "WebAssembly"),
            (vec![(MANIFEST, r#"{"rego_version": 2}"#), module], "no version 2"),
            (vec![(MANIFEST, r#"{"roots": ["b"]}"#), module], "the package a is below none of the roots"),
            (vec![(MANIFEST, "{"), module], MANIFEST),
            (vec![module, module], "own.rego twice"),
            (vec![(".signatures.json", "{}"), module], "is signed, but there is no key"),
        ] {
            let why = bundle(&files).unwrap_err();
            assert!(why.contains(want), "{files:?}: {why}");
        }
    }
}
