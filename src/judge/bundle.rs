//! Policies published as a bundle: references to bundles, and their content.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use super::tree::FileTree;
use crate::rego::{Problem, Version};

/// The place where a bundle is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleReference {
    /// In a registry: the text after `oci://`.
    Oci(String),
    /// An archive on a web server: its URL.
    Http(String),
    /// An archive in a file.
    File(PathBuf),
}

/// Shown in place of a secret.
const HIDDEN: &str = "[hidden]";
/// The prefix of references to bundles in a registry.
pub const OCI: &str = "oci://";

/// Whether the file name is that of an archive.
pub(crate) fn is_archive(name: &str) -> bool {
    matches!(name.rsplit_once('.'), Some((_, "tgz"))) || name.ends_with(".tar.gz")
}

impl BundleReference {
    /// Parses a reference as written on the command line; `None` if the text is not a bundle reference.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(OCI) {
            return Some(Self::Oci(rest.to_owned()));
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            return Some(Self::Http(text.to_owned()));
        }
        is_archive(text).then(|| Self::File(text.into()))
    }
}

impl BundleReference {
    /// Returns the reference as given, including any secrets in the URL.
    pub(crate) fn secret_text(&self) -> String {
        match self {
            Self::Http(url) => url.clone(),
            _ => self.to_string(),
        }
    }
}

/// Shows the reference as written on the command line, without the secrets of a URL: credentials, and the query, which
/// holds the signature of presigned URLs.
impl fmt::Display for BundleReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oci(rest) => write!(f, "{OCI}{rest}"),
            Self::Http(url) => f.write_str(&without_secrets(url)),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

fn without_secrets(url: &str) -> String {
    let (shown, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let query = rest.chars().next().map_or(String::new(), |begin| format!("{begin}{HIDDEN}"));
    let Some((scheme, shown)) = shown.split_once("://") else { return format!("{shown}{query}") };
    let (authority, path) = shown.split_at(shown.find('/').unwrap_or(shown.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}{path}{query}"),
        None => format!("{scheme}://{authority}{path}{query}"),
    }
}

/// The version of a bundle that is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition {
    /// The reference of the bundle, as given.
    pub source: Arc<str>,
    /// The digest of an artifact's manifest, or of an archive's bytes: `sha256:…`.
    pub digest: String,
    /// The revision given by its publisher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether the reference contains the digest, so that the content cannot change.
    pub pinned: bool,
    /// Whether its signature was verified with the configured key.
    pub verified: bool,
    /// Why a newer version may exist; empty if this is the newest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stale: String,
}

impl Edition {
    /// Returns an edition without a digest, neither pinned nor verified.
    #[cfg(test)]
    pub(crate) fn sample(source: &str) -> Self {
        Self {
            source: source.into(),
            digest: String::new(),
            revision: None,
            pinned: false,
            verified: false,
            stale: String::new(),
        }
    }

    /// Describes the edition in one line.
    pub fn described(&self) -> String {
        let Self { source, digest, revision, pinned, verified, stale } = self;
        let revision = revision.as_ref().map_or(String::new(), |revision| format!(", revision {revision}"));
        let words = [(*pinned, ", pinned"), (*verified, ", signature verified")];
        let words: String = words.iter().filter(|(is, _)| *is).map(|(_, words)| *words).collect();
        let stale = if stale.is_empty() { String::new() } else { format!(", may not be the newest: {stale}") };
        format!("{source}: {digest}{revision}{words}{stale}")
    }
}

/// The content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its policies and data.
    pub tree: FileTree,
    /// The version of the bundle.
    pub edition: Edition,
    /// The paths below `data` that the bundle owns, if it declares any: no other bundle may contain them.
    pub roots: Option<Vec<String>>,
    /// The Rego versions that the bundle declares, by path of the module.
    pub versions: BTreeMap<Vec<String>, Version>,
    /// The problem of the newest version, if this is an older one.
    pub problem: Option<Problem>,
}

/// Whether a path below `data` equals `above` or lies below it; `""` is `data` itself.
pub(crate) fn is_below(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a problem for each bundle that owns a path of an earlier bundle.
pub(super) fn overlaps<'b>(bundles: &(impl Iterator<Item = &'b Bundle> + Clone)) -> Vec<Problem> {
    let owned = |bundle: &'b Bundle| bundle.roots.iter().flatten().map(move |root| (bundle, root));
    let mut problems = Vec::new();
    for (index, bundle) in bundles.clone().enumerate() {
        let others = bundles.clone().take(index).flat_map(owned);
        let overlap = others
            .flat_map(|other| owned(bundle).map(move |own| (other, own)))
            .find(|((_, other), (_, own))| is_below(own, other) || is_below(other, own));
        let Some(((other, theirs), (_, own))) = overlap else { continue };
        let shown = |root: &str| if root.is_empty() { "everything".to_owned() } else { format!("{root:?}") };
        let message = format!("owns {}, and {} owns {}", shown(own), other.edition.source, shown(theirs));
        let help = "declare distinct roots for each bundle in its .manifest file, which opa build reads";
        problems.push(Problem::refused(&bundle.edition.source, message).help(help));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{
        load_options::LoadOptions,
        set::PolicySet,
        sources::{FileSource, PolicySource, TreeFile},
    };

    fn bundle(name: &str, roots: Option<&[&str]>) -> Bundle {
        Bundle {
            tree: FileTree { name: name.into(), files: Vec::new() },
            edition: Edition::sample(name),
            roots: roots.map(|roots| roots.iter().map(|root| (*root).to_owned()).collect()),
            versions: BTreeMap::new(),
            problem: None,
        }
    }

    #[test]
    fn secrets_in_urls_are_not_shown() {
        for (text, want) in [
            ("https://r/a.tar.gz", "https://r/a.tar.gz"),
            ("https://r/a?sig=SECRET", "https://r/a?[hidden]"),
            ("https://r?sig=SECRET#SECRET", "https://r?[hidden]"),
            ("http://r/a#SECRET?SECRET", "http://r/a#[hidden]"),
            ("https://user:SECRET@r/a?sig=SECRET", "https://[hidden]@r/a?[hidden]"),
            ("https://user:SECRET@r", "https://[hidden]@r"),
            ("https://r/a?b=https://u:SECRET@x/", "https://r/a?[hidden]"),
            ("https://r/@a", "https://r/@a"),
        ] {
            let source = PolicySource::from(text);
            assert_eq!(source.to_string(), want);
            let PolicySource::Bundle(reference) = source else { panic!("{text}") };
            assert_eq!(reference.secret_text(), text);
        }
    }

    #[test]
    fn bundles_with_overlapping_roots_are_refused() {
        for (one, other, want) in [
            (Some(&["a"][..]), Some(&["b"][..]), 0),
            (Some(&["a"]), Some(&["ab", "c/a"]), 0),
            (Some(&["a"]), Some(&["b", "a/c"]), 1),
            (Some(&["a/b"]), Some(&["a"]), 1),
            (Some(&[""]), Some(&["a"]), 1),
            (None, Some(&[""]), 0),
        ] {
            let bundles = [bundle("one", one), bundle("other", other)];
            let problems = overlaps(&bundles.iter());
            assert_eq!(problems.len(), want, "{one:?} {other:?}: {problems:?}");
            assert!(problems.iter().all(|problem| &*problem.file == "other"));
        }
    }
    #[test]
    fn an_older_bundle_is_evaluated_and_its_problem_reported() {
        let mut older = bundle("one", None);
        let content = Ok(b"package a\n\ndeny contains \"x\" if input.a\n".to_vec());
        older.tree.files.push(TreeFile { path: vec!["a.rego".to_owned()], content });
        for (problem, partial) in [
            (Problem::warning(&"one".into(), "cannot be reached"), false),
            (Problem::refused(&"one".into(), "is not an archive"), true),
        ] {
            older.problem = Some(problem.clone());
            let source = FileSource::Bundle(Arc::new(older.clone()));
            let set = PolicySet::load_with(&[source], &LoadOptions::allowing_refused()).unwrap();
            assert_eq!((set.policies.len(), set.is_partial(), &set.problems[..]), (1, partial, &[problem][..]));
            assert_eq!(set.bundles, std::slice::from_ref(&older.edition));
        }
    }
}
