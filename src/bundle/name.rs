//! The names of artifacts: `REGISTRY/REPOSITORY[:TAG][@DIGEST]`.

use super::digest::is_digest;

/// The default tag.
const LATEST: &str = "latest";

/// The name of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArtifactName {
    /// The host, and the port if there is one.
    pub(super) registry: String,
    pub(super) repository: String,
    pub(super) tag: String,
    /// The digest that its manifest must have, if it is pinned.
    pub(super) digest: Option<String>,
}

impl ArtifactName {
    /// Parses the text after `oci://`.
    ///
    /// # Errors
    /// Names the part that is missing or invalid.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
            return Err(format!("{digest} is not a digest, which is sha256: and 64 hex digits"));
        }
        let (registry, rest) =
            name.split_once('/').ok_or("names no repository; write oci://REGISTRY/REPOSITORY:TAG")?;
        if !(registry.contains(['.', ':']) || registry == "localhost") {
            return Err(format!("{registry} is not a registry: write its host, such as registry.example.com"));
        }
        let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        if !registry.chars().all(host) {
            return Err(
                "its registry is not a host; leave credentials out of the reference and use docker login".to_owned()
            );
        }
        let (repository, tag) = rest.split_once(':').map_or((rest, LATEST), |(repository, tag)| (repository, tag));
        let part = |part: &str| {
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            ends(part.chars().next())
                && ends(part.chars().last())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
        };
        if !repository.split('/').all(part) {
            return Err(format!("{repository:?} is not a repository: use a-z and 0-9, with . _ - between them"));
        }
        let in_tag = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if tag.is_empty() || tag.len() > 128 || tag.starts_with(['.', '-']) || !tag.chars().all(in_tag) {
            return Err(format!("{tag:?} is not a tag: use up to 128 letters, digits, and . _ - (not . or - first)"));
        }
        let (registry, digest) = (registry.to_owned(), digest.map(str::to_owned));
        let library = registry == "docker.io" && !repository.contains('/');
        let repository = if library { format!("library/{repository}") } else { repository.to_owned() };
        Ok(Self { registry, repository, tag: tag.to_owned(), digest })
    }

    /// Returns the host that serves the registry.
    pub(super) fn host(&self) -> &str {
        if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry }
    }

    /// Returns the digest, or else the tag.
    pub(super) fn reference(&self) -> &str {
        self.digest.as_ref().unwrap_or(&self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_by_other_tools() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, want) in [
            ("r.example.com/a/b", ("r.example.com", "a/b", "latest")),
            ("localhost:5000/a:v1.0_x", ("localhost:5000", "a", "v1.0_x")),
            ("[::1]:5000/a", ("[::1]:5000", "a", "latest")),
            ("docker.io/a:1", ("registry-1.docker.io", "library/a", "1")),
        ] {
            let name = ArtifactName::parse(text).unwrap();
            assert_eq!((name.host(), &*name.repository, name.reference()), want, "{text}");
        }
        let pinned = ArtifactName::parse(&format!("r.example.com/a:1@{digest}")).unwrap();
        assert_eq!(pinned.reference(), digest);
        for (text, want) in [
            ("", "names no repository"),
            ("r.example.com", "names no repository"),
            ("registry/a", "not a registry"),
            ("user:secret@r.example.com/a", "not a digest"),
            ("r.example.com/A", "not a repository"),
            ("r.example.com/../a", "not a repository"),
            ("r.example.com/a//b", "not a repository"),
            ("r.example.com/a:", "not a tag"),
            ("r.example.com/a:b/c", "not a tag"),
            ("r.example.com/a@sha256:1", "not a digest"),
            ("r.example.com?/a", "not a host"),
        ] {
            let why = ArtifactName::parse(text).unwrap_err();
            assert!(why.contains(want), "{text}: {why}");
        }
    }
}
