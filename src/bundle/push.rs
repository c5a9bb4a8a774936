//! Pushes policies to a registry as an artifact in the layout of `conftest push`: a layer for each file, named by its
//! title.
//!
//! `conftest pull`, and every other tool that reads titled layers, restores the files of the directory. One more layer,
//! without a title, contains the same files as a bundle for OPA, which reads nothing else. The same files always result
//! in the same artifact.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use serde_json::{Map, json};
use tar::{Builder, Header};

use super::{
    archive::path_of,
    digest::digest_of,
    download::{OPA_BUNDLE, POLICY, TITLE},
    http::Http,
    name::ArtifactName,
    registry::{Descriptor, MANIFEST_TYPE, Registry},
    settings::BundleSettings,
};
use crate::{
    judge::{bundle::OCI, files},
    rego::{File, Form},
};

/// The media type of conftest's layers that are not policies.
const DATA: &str = "application/vnd.cncf.openpolicyagent.data.layer.v1+json";
/// The media type of conftest's configuration, which is empty.
const CONFIG: &str = "application/vnd.unknown.config.v1+json";

/// A pushed artifact.
#[derive(Debug)]
pub struct Pushed {
    /// Its reference, by digest.
    pub reference: String,
    /// The number of its files.
    pub files: usize,
}

/// Pushes the policies and data below `paths` as an artifact.
///
/// # Errors
/// If a path cannot be read, two files have the same name, or the registry refuses; then nothing is tagged.
pub async fn push(reference: &str, paths: &[PathBuf], settings: &BundleSettings) -> anyhow::Result<Pushed> {
    let name = reference.strip_prefix(OCI).unwrap_or(reference);
    let name = ArtifactName::parse(name).map_err(|why| anyhow::anyhow!("{reference}: {why}"))?;
    anyhow::ensure!(name.digest.is_none(), "{reference}: the digest results from the content; give a tag");
    let files = read(paths)?;
    let http = Http::new(settings.timeout, settings.ca.as_ref())?;
    let mut registry = Registry::new(http, name.clone(), "pull,push");
    let digest = write(&mut registry, &name, &files).await.with_context(|| format!("pushing to {reference}"))?;
    let reference = format!("{OCI}{}/{}@{digest}", name.registry, name.repository);
    Ok(Pushed { reference, files: files.len() })
}

/// Reads the files that `kaudit check` would read below the paths, including tests, by their names in the artifact.
fn read(paths: &[PathBuf]) -> anyhow::Result<BTreeMap<String, File>> {
    let mut named = BTreeMap::new();
    for file in files::below(paths)? {
        let name = file.relative();
        path_of(&name).map_err(|why| anyhow::anyhow!("a policy file {why}"))?;
        if named.insert(name.clone(), file).is_some() {
            anyhow::bail!("two paths contain {name}: push a directory that contains both");
        }
    }
    anyhow::ensure!(!named.is_empty(), "the paths contain neither policies (.rego) nor data");
    Ok(named)
}

async fn write(registry: &mut Registry, name: &ArtifactName, files: &BTreeMap<String, File>) -> anyhow::Result<String> {
    let mut layers = Vec::new();
    for (title, File { form, text, .. }) in files {
        let media_type = if *form == Form::Rego { POLICY } else { DATA };
        registry.push_blob(text.as_bytes()).await?;
        let annotations = Map::from_iter([(TITLE.to_owned(), json!(title))]);
        layers.push(Descriptor { annotations, ..descriptor(media_type, text.as_bytes()) });
    }
    let bundle = bundle(files)?;
    registry.push_blob(&bundle).await?;
    layers.push(descriptor(OPA_BUNDLE, &bundle));
    let config = b"{}";
    registry.push_blob(config).await?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(CONFIG, config),
        "layers": layers,
    });
    Ok(registry.push_manifest(&name.tag, &serde_json::to_vec(&manifest)?).await?)
}

/// Creates an OPA bundle; OPA reads data only from `data.json`.
fn bundle(files: &BTreeMap<String, File>) -> anyhow::Result<Vec<u8>> {
    let data = serde_json::to_vec(&files::data(files.values())?)?;
    let modules = files.iter().filter(|(_, file)| file.form == Form::Rego);
    let modules = modules.map(|(name, file)| (name.as_str(), file.text.as_bytes()));
    let mut builder = Builder::new(GzBuilder::new().write(Vec::new(), Compression::default()));
    for (name, content) in modules.chain([("data.json", &*data)]) {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content)?;
    }
    Ok(builder.into_inner()?.finish()?)
}

fn descriptor(media_type: &str, content: &[u8]) -> Descriptor {
    let (digest, size) = (digest_of(content), content.len() as u64);
    Descriptor { media_type: media_type.to_owned(), digest, size, annotations: Map::new(), artifact_type: None }
}
