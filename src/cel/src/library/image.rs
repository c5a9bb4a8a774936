//! References of images, which only policies of Kyverno read. The rules are those of go-containerregistry's weak
//! validation, except that the host of a registry is checked less exactly.

use std::sync::Arc;

use super::{EvaluatedValue, Table, argument, text};
use crate::{
    error::{EvalError, failed, no_overload},
    value::CelValue,
};

/// The registry of references without one, and its other name.
const DEFAULT_REGISTRY: &str = "index.docker.io";
const DEFAULT_ALIAS: &str = "docker.io";
/// The namespace of repositories in the default registry without one.
const DEFAULT_NAMESPACE: &str = "library";
const DEFAULT_TAG: &str = "latest";
const DIGEST: &str = "sha256:";

/// The reference of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    registry: String,
    repository: String,
    /// Empty if it has only a digest.
    tag: String,
    /// `sha256:…`; empty if it has only a tag.
    digest: String,
    /// The reference as it was written.
    written: String,
}

pub(super) const TABLE: Table = &[
    ("string_to_image", parse),
    ("string_to_image_deprecated", parse),
    ("is_image_string", |values| Ok(CelValue::Bool(ImageReference::parse(text(values, 0)?).is_some()))),
    ("image_contains_digest", |values| Ok(CelValue::Bool(!image(values)?.digest.is_empty()))),
    ("image_digest", |values| Ok(CelValue::from(image(values)?.digest.as_str()))),
    ("image_identifier", |values| Ok(CelValue::from(image(values)?.identifier()))),
    ("image_identifier_with_separator", |values| Ok(CelValue::from(image(values)?.identifier_with_separator()))),
    ("image_registry", |values| Ok(CelValue::from(image(values)?.registry.as_str()))),
    ("image_repository", |values| Ok(CelValue::from(image(values)?.repository.as_str()))),
    ("image_tag", |values| Ok(CelValue::from(image(values)?.tag.as_str()))),
];

fn parse<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let text = text(values, 0)?;
    match ImageReference::parse(text) {
        Some(image) => Ok(CelValue::Image(Arc::new(image))),
        None => failed(format!("could not parse reference: {text}")),
    }
}

fn image<'a>(values: &'a [CelValue<'_>]) -> Result<&'a ImageReference, EvalError> {
    match argument(values, 0)? {
        CelValue::Image(image) => Ok(image),
        _ => no_overload(),
    }
}

impl ImageReference {
    /// Parses a reference; `None` if it is invalid.
    pub(crate) fn parse(written: &str) -> Option<Self> {
        Self::with_tag(written).or_else(|| Self::with_digest(written))
    }

    fn with_tag(written: &str) -> Option<Self> {
        let (base, tag) = match written.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
            Some((base, tag)) if is_tag(tag) => (base, tag),
            Some(_) => return None,
            None => (written, DEFAULT_TAG),
        };
        let (registry, repository) = repository(base)?;
        Some(Self { registry, repository, tag: tag.into(), digest: String::new(), written: written.into() })
    }

    fn with_digest(written: &str) -> Option<Self> {
        let (base, digest) = written.split_once('@')?;
        let hex = digest.strip_prefix(DIGEST)?;
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if hex.len() != 64 || !hex.chars().all(is_hex) {
            return None;
        }
        let (registry, repository) = match Self::with_tag(base) {
            Some(tagged) => (tagged.registry, tagged.repository),
            None => repository(base)?,
        };
        let tag = base.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/')).unwrap_or_default();
        Some(Self { registry, repository, tag: tag.into(), digest: digest.into(), written: written.into() })
    }

    fn identifier(&self) -> String {
        match (&*self.tag, &*self.digest) {
            (tag, "") => tag.to_owned(),
            ("", digest) => digest.to_owned(),
            (tag, digest) => format!("{tag}@{digest}"),
        }
    }

    fn identifier_with_separator(&self) -> String {
        if self.digest.is_empty() { format!(":{}", self.tag) } else { format!("@{}", self.digest) }
    }

    /// Returns the reference as it was written.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }
}

/// Splits the part before tag and digest into registry and repository; `None` if it is invalid.
fn repository(base: &str) -> Option<(String, String)> {
    let is_registry = |host: &str| host == "localhost" || host.contains(['.', ':']);
    let (registry, repository) = match base.split_once('/').filter(|(host, _)| is_registry(host)) {
        Some((DEFAULT_ALIAS, repository)) => (DEFAULT_REGISTRY, repository),
        Some(parts) => parts,
        None => (DEFAULT_REGISTRY, base),
    };
    let is_part = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-' | '.' | '/');
    if !(2..=255).contains(&repository.len()) || !repository.chars().all(is_part) || !is_host(registry) {
        return None;
    }
    let is_official = !repository.contains('/') && registry == DEFAULT_REGISTRY;
    let repository = if is_official { format!("{DEFAULT_NAMESPACE}/{repository}") } else { repository.to_owned() };
    Some((registry.to_owned(), repository))
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len()) && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Whether a text is a host name or an address, possibly with a port.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, ""),
    };
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '[' | ']' | ':');
    port.chars().all(|c| c.is_ascii_digit()) && host.chars().all(is_of_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_split_into_their_parts() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let split = |written: &str| {
            let image = ImageReference::parse(written)?;
            Some([image.registry.clone(), image.repository.clone(), image.identifier()])
        };
        for (written, want) in [
            ("nginx", Some(["index.docker.io", "library/nginx", "latest"])),
            ("docker.io/team/nginx:1.2", Some(["index.docker.io", "team/nginx", "1.2"])),
            ("registry.example:5000/nginx", Some(["registry.example:5000", "nginx", "latest"])),
            ("localhost/nginx:a", Some(["localhost", "nginx", "a"])),
            ("nginx:", None),
            ("Nginx", None),
            ("a", None),
            ("nginx@sha256:abc", None),
        ] {
            assert_eq!(split(written), want.map(|want| want.map(str::to_owned)), "{written}");
        }
        let image = ImageReference::parse(&format!("ghcr.io/a/b:1@{digest}")).unwrap();
        assert_eq!((&*image.tag, &*image.digest, image.identifier()), ("1", &*digest, format!("1@{digest}")));
        assert_eq!(image.identifier_with_separator(), format!("@{digest}"));
    }
}
