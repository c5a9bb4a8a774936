//! Downloads a bundle from a registry, a server, or a file.

use std::{fs, io::Read as _, path::PathBuf, time::SystemTime};

use anyhow::bail;
use http::{
    HeaderValue, StatusCode,
    header::{AUTHORIZATION, ETAG, IF_NONE_MATCH, WWW_AUTHENTICATE},
};
use reqwest::Url;

use super::{
    cosign::ArtifactSignature,
    credential::RegistryCredential,
    digest::{check, digest_of},
    http::{FetchError, Http, Request, authority, is_loopback, secret},
    name::ArtifactName,
    package::{PACKAGE_BYTES, Package, PackagePart},
    registry::{ArtifactManifest, Descriptor, Registry},
    settings::Verification,
};
use crate::{
    blocking::spawn_blocking,
    judge::bundle::{self, BundleReference},
};

/// The media type of an OPA bundle.
pub(super) const OPA_BUNDLE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The media type of Trivy's checks.
const TRIVY_CHECKS: &str = "application/vnd.cncf.openpolicyagent.layer.v1.tar+gzip";
/// The media type of a conftest policy.
pub(super) const POLICY: &str = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego";
/// The annotation with the name of a layer that is a file.
pub(super) const TITLE: &str = "org.opencontainers.image.title";
/// The annotation by which ORAS, and thus gator, marks a layer that is a directory.
const UNPACK: &str = "io.deis.oras.content.unpack";
const REVISION: &str = "org.opencontainers.image.revision";
const CREATED: &str = "org.opencontainers.image.created";
/// The prefix of the media types of Sigstore bundles.
const SIGSTORE_BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The maximum number of layers.
const LAYERS: usize = 2_000;
/// The maximum number of signatures that are read.
const SIGNATURES: usize = 16;
/// The maximum size of a signature, in bytes.
const SIGNATURE_BYTES: u64 = 1 << 20;
/// The maximum size of all signatures together, in bytes.
const SIGNATURES_BYTES: u64 = 4 << 20;

/// The origin of a bundle.
pub(super) enum Download {
    Registry {
        registry: Box<Registry>,
        name: ArtifactName,
        signed: bool,
    },
    Server {
        http: Http,
        url: Url,
    },
    File {
        path: PathBuf,
        /// The state that was read last.
        state: Option<FileState>,
        /// The state that was seen last.
        seen: Option<FileState>,
    },
}

/// The state of a file, to detect changes: its real path, length and modification time.
type FileState = (PathBuf, u64, Option<SystemTime>);

impl Download {
    /// Creates a download, which includes the signatures of an artifact if they are to be verified.
    ///
    /// # Errors
    /// With the reason why the reference cannot be used or verified.
    pub(super) fn new(
        reference: &BundleReference,
        http: Http,
        verification: Option<&Verification>,
    ) -> anyhow::Result<Self> {
        let signed = verification.is_some();
        let is_artifact = matches!(reference, BundleReference::Oci(_));
        if matches!(verification, Some(Verification::Keyless(_))) && !is_artifact {
            bail!(
                "--certificate-identity requires a keyless signature, which only an artifact in a registry has; \
                 publish it there, give its oci:// reference, or verify OPA's signature of it by --verification-key"
            );
        }
        Ok(match reference {
            BundleReference::Oci(name) => {
                let name = ArtifactName::parse(name).map_err(anyhow::Error::msg)?;
                Self::Registry { registry: Box::new(Registry::new(http, name.clone(), "pull")), name, signed }
            }
            BundleReference::Http(url) => Self::Server { http, url: address(url, signed)? },
            BundleReference::File(path) => Self::File { path: path.clone(), state: None, seen: None },
        })
    }

    /// Returns the digest in the reference, if any.
    pub(super) fn pinned(&self) -> Option<&str> {
        match self {
            Self::Registry { name, .. } => name.digest.as_deref(),
            _ => None,
        }
    }

    /// Whether it is an artifact in a registry.
    pub(super) fn is_artifact(&self) -> bool {
        matches!(self, Self::Registry { .. })
    }

    /// Whether it is a file, for which checking for changes costs almost nothing.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Downloads the newest package; `None` if it is the `known` one. If that was refused, it is downloaded again when it
    /// has other signatures.
    ///
    /// # Errors
    /// If it cannot be read, or its content does not match its manifest or exceeds a limit.
    pub(super) async fn newest(
        &mut self,
        known: Option<&Package>,
        is_refused: bool,
    ) -> Result<Option<Package>, FetchError> {
        let newest = match self {
            Self::Registry { registry, name, signed } => artifact(registry, name, *signed, known, is_refused).await?,
            Self::Server { http, url } => archive(http, url, known.and_then(|known| known.etag.as_deref())).await?,
            Self::File { path, state, seen } => {
                let now = file_state(path)?;
                let before = seen.replace(now.clone());
                // A changed file is read only when it has stopped changing, as it may still be written.
                if state.as_ref() == Some(&now) || state.is_some() && before.as_ref() != Some(&now) {
                    return Ok(None);
                }
                let read = path.clone();
                let content = spawn_blocking(move || read_file(&read)).await;
                let content = content.map_err(|error| FetchError::Unavailable(error.to_string()))??;
                *state = Some(now);
                Some(packed(content, None))
            }
        };
        Ok(newest)
    }
}

/// Creates a package from an archive.
pub(super) fn packed(archive: Vec<u8>, etag: Option<String>) -> Package {
    let (digest, parts) = (digest_of(&archive), vec![PackagePart::Archive(archive)]);
    Package { digest, etag, manifest: None, revision: None, created: None, parts, signatures: Vec::new() }
}

fn address(text: &str, signed: bool) -> anyhow::Result<Url> {
    let Ok(url) = Url::parse(text) else { bail!("it is not a URL") };
    if !url.username().is_empty() || url.password().is_some() {
        bail!("it contains credentials: use docker login, and kaudit reads them from $DOCKER_CONFIG/config.json");
    }
    if url.scheme() == "http" && !is_loopback(&url) && !signed {
        bail!("without TLS it could be replaced in transit; use https, or a signed bundle and --verification-key");
    }
    Ok(url)
}

fn file_state(path: &PathBuf) -> Result<FileState, FetchError> {
    let state = || {
        let real = fs::canonicalize(path)?;
        let metadata = fs::metadata(&real)?;
        Ok::<_, std::io::Error>((real, metadata.len(), metadata.modified().ok(), metadata.is_file()))
    };
    match state() {
        Ok((real, length, time, true)) => Ok((real, length, time)),
        Ok(_) => {
            Err(FetchError::Unavailable("is not a file; the path of a policy directory must end with /".to_owned()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(FetchError::Unavailable("no such file".to_owned()))
        }
        Err(error) => Err(FetchError::Unavailable(format!("cannot be read: {error}"))),
    }
}

fn read_file(path: &PathBuf) -> Result<Vec<u8>, FetchError> {
    let unreadable = |error: std::io::Error| FetchError::Unavailable(format!("cannot be read: {error}"));
    let mut content = Vec::new();
    fs::File::open(path).map_err(unreadable)?.take(PACKAGE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > PACKAGE_BYTES {
        let limit = PACKAGE_BYTES >> 20;
        return Err(FetchError::Unacceptable(format!("exceeds the limit of {limit} MiB for a bundle")));
    }
    Ok(content)
}

/// Downloads an archive from a server, unless its `ETag` is `etag`.
async fn archive(http: &Http, url: &Url, etag: Option<&str>) -> Result<Option<Package>, FetchError> {
    let request = |authorization: Option<HeaderValue>| {
        let mut request = Request::get(url.clone(), PACKAGE_BYTES);
        request.headers.extend(etag.and_then(|etag| Some((IF_NONE_MATCH, HeaderValue::from_str(etag).ok()?))));
        request.headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
        request
    };
    let mut answer = http.send(request(None)).await?;
    // Without TLS, credentials could be read in transit; after a redirect, another server would get them.
    let may_send = answer.url.origin() == url.origin() && (url.scheme() == "https" || is_loopback(url));
    if may_send && answer.status == StatusCode::UNAUTHORIZED && answer.headers.contains_key(WWW_AUTHENTICATE) {
        let basic = RegistryCredential::of(&authority(url)).await.and_then(|credential| secret(&credential.basic()?));
        if basic.is_some() {
            answer = http.send(request(basic)).await?;
        }
    }
    match answer.status {
        StatusCode::OK => {
            let etag = answer.header(ETAG.as_str()).map(str::to_owned);
            Ok(Some(packed(answer.body, etag)))
        }
        StatusCode::NOT_MODIFIED if etag.is_some() => Ok(None),
        _ => Err(answer.refusal("cannot be downloaded")),
    }
}

/// Downloads an artifact, unless it is the `known` one.
async fn artifact(
    registry: &mut Registry,
    name: &ArtifactName,
    signed: bool,
    known: Option<&Package>,
    is_refused: bool,
) -> Result<Option<Package>, FetchError> {
    if let Some(known) = known
        && registry.digest(name.reference()).await?.as_ref() == Some(&known.digest)
    {
        // An artifact is published first and signed afterwards.
        let may_be_signed = signed && is_refused;
        if !may_be_signed || signatures(registry, &known.digest).await? == known.signatures {
            return Ok(None);
        }
    }
    let found = registry.manifest(name.reference()).await?;
    let Some((manifest, bytes)) = found else {
        let (registry, repository, reference) = (&name.registry, &name.repository, name.reference());
        return Err(FetchError::Unavailable(format!("{registry} has no {reference} of {repository}")));
    };
    let mut contents = Vec::new();
    let mut left = PACKAGE_BYTES;
    for layer in layers(&manifest)? {
        let content = registry.blob(layer, left).await?;
        left = left.saturating_sub(content.len() as u64);
        contents.push(content);
    }
    let signatures = if signed { signatures(registry, &digest_of(&bytes)).await? } else { Vec::new() };
    assembled(bytes, contents, signatures).map(Some)
}

/// Assembles an artifact from its manifest, and the contents of those of its layers that make up the bundle.
///
/// # Errors
/// If the contents do not match the manifest.
pub(super) fn assembled(
    bytes: Vec<u8>,
    contents: Vec<Vec<u8>>,
    signatures: Vec<ArtifactSignature>,
) -> Result<Package, FetchError> {
    let unusable = |why: String| FetchError::Unacceptable(format!("its manifest does not match its layers: {why}"));
    let manifest: ArtifactManifest = serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?;
    let layers = layers(&manifest)?;
    if layers.len() != contents.len() {
        return Err(unusable(format!("{} of {} layers are present", contents.len(), layers.len())));
    }
    let mut parts = Vec::new();
    for (layer, content) in layers.into_iter().zip(contents) {
        check(&layer.digest, &content).map_err(unusable)?;
        let name = layer.annotation(TITLE).unwrap_or_default().to_owned();
        parts.push(if is_archive(layer) { PackagePart::Archive(content) } else { PackagePart::File { name, content } });
    }
    let annotation = |name: &str| manifest.annotations.get(name).and_then(|value| value.as_str());
    let revision = annotation(REVISION).map(str::to_owned);
    let created = annotation(CREATED).and_then(|time| time.parse().ok());
    let digest = digest_of(&bytes);
    Ok(Package { digest, etag: None, manifest: Some(bytes), revision, created, parts, signatures })
}

fn is_archive(layer: &Descriptor) -> bool {
    let unpack = layer.annotation(UNPACK) == Some("true");
    unpack
        || [OPA_BUNDLE, TRIVY_CHECKS].contains(&&*layer.media_type)
            && layer.annotation(TITLE).is_none_or(bundle::is_archive)
}

/// Returns the layers that make up a bundle: the first archive of OPA or Trivy, or else all directories and files with a
/// name.
///
/// # Errors
/// If there are too many layers, or none of these.
fn layers(manifest: &ArtifactManifest) -> Result<Vec<&Descriptor>, FetchError> {
    let layers = &manifest.layers;
    if layers.len() > LAYERS {
        return Err(FetchError::Unacceptable(format!("has more than {LAYERS} layers")));
    }
    // `kaudit push` adds a bundle for OPA with the same files.
    let of_conftest = layers.iter().any(|layer| layer.media_type == POLICY);
    let is_bundle = |layer: &&Descriptor| is_archive(layer) && layer.annotation(UNPACK).is_none();
    if let Some(bundle) = layers.iter().find(is_bundle).filter(|_| !of_conftest) {
        return Ok(vec![bundle]);
    }
    let named: Vec<&Descriptor> = layers.iter().filter(|layer| layer.annotation(TITLE).is_some()).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let types: Vec<&str> = layers.iter().map(|layer| &*layer.media_type).take(4).collect();
    let what = if layers.is_empty() { "no layers".to_owned() } else { format!("layers of {}", types.join(", ")) };
    Err(FetchError::Unacceptable(format!(
        "is not a bundle of policies like those of kaudit push, conftest, OPA, Trivy and gator: it has {what}"
    )))
}

/// Downloads the cosign signatures of an artifact.
async fn signatures(registry: &mut Registry, digest: &str) -> Result<Vec<ArtifactSignature>, FetchError> {
    let mut layers: Vec<(Descriptor, ArtifactSignature)> = Vec::new();
    if let Some((manifest, _)) = registry.manifest(&format!("{}.sig", digest.replace(':', "-"))).await? {
        let annotated = |layer: Descriptor| ArtifactSignature::annotated(&layer).map(|signature| (layer, signature));
        layers.extend(manifest.layers.into_iter().take(SIGNATURES).filter_map(annotated));
    }
    let referrers = registry.referrers(digest).await?;
    let is_signature =
        |referrer: &&Descriptor| referrer.artifact_type.as_deref().is_none_or(|kind| kind.starts_with(SIGSTORE_BUNDLE));
    for referrer in referrers.iter().filter(is_signature).take(SIGNATURES) {
        if layers.len() >= SIGNATURES {
            break;
        }
        let Some((manifest, _)) = registry.manifest(&referrer.digest).await? else { continue };
        let bundles = manifest.layers.into_iter().filter(|layer| layer.media_type.starts_with(SIGSTORE_BUNDLE));
        let left = SIGNATURES.saturating_sub(layers.len());
        layers.extend(bundles.map(|layer| (layer, ArtifactSignature::bundled(String::new()))).take(left));
    }
    let mut found = Vec::new();
    let mut left = SIGNATURES_BYTES;
    for (layer, signature) in layers {
        let content = registry.blob(&layer, SIGNATURE_BYTES.min(left)).await?;
        left = left.saturating_sub(content.len() as u64);
        found.extend(String::from_utf8(content).ok().map(|payload| ArtifactSignature { payload, ..signature }));
    }
    Ok(found)
}
