//! Policy sources: paths, the builtin library, cluster objects, and bundles.
//!
//! A [`PolicySource`] is what a user names; a [`FileSource`] has files that can be read. Cluster objects and bundles
//! become sources of files by being read from the API server or downloaded, which is done elsewhere.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) use super::tree::CONFIG_MAPS;
pub use super::tree::{FileTree, TreeFile};
use super::{
    builtin,
    bundle::{Bundle, BundleReference},
};

/// A source of policies, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// A file or directory.
    Path(PathBuf),
    /// The builtin library, or the part with this name; empty means the whole library.
    Builtin(String),
    /// Cluster objects.
    Cluster(ClusterSource),
    /// A published bundle.
    Bundle(BundleReference),
}

/// A source whose policy and data files can be read without a cluster or registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSource {
    /// A file or directory.
    Path(PathBuf),
    /// The builtin library, or the part with this name; empty means the whole library.
    Builtin(String),
    /// Files in memory: those of cluster objects or of a commit.
    Tree(Arc<FileTree>),
    /// The files of a bundle, in memory.
    Bundle(Arc<Bundle>),
}

/// Policies that are cluster objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterSource {
    /// Gatekeeper's `ConstraintTemplate`s, Constraints and `Config`.
    Gatekeeper,
    /// `ValidatingAdmissionPolicy`s and their bindings.
    AdmissionPolicies,
    /// `ValidatingPolicy`s of Kyverno and their exceptions.
    Kyverno,
    /// The validation rules of CRDs.
    CrdRules,
    /// `ConfigMap`s, as `kube-mgmt` loads them into OPA: each value is a file.
    ConfigMaps {
        /// Their namespace; `None` is kaudit's own namespace.
        namespace: Option<String>,
        /// A label selector.
        selector: String,
    },
}

impl PolicySource {
    /// Returns the whole builtin library.
    pub fn builtin() -> Self {
        Self::Builtin(String::new())
    }
}

impl FileSource {
    /// Returns the whole builtin library.
    pub fn builtin() -> Self {
        Self::Builtin(String::new())
    }

    /// Whether it is the builtin library, or a part of it.
    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self, Self::Builtin(_))
    }

    /// Returns the path of a file or directory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn tree(&self) -> Option<&Arc<FileTree>> {
        match self {
            Self::Tree(tree) => Some(tree),
            _ => None,
        }
    }

    pub(super) fn bundle(&self) -> Option<&Arc<Bundle>> {
        match self {
            Self::Bundle(bundle) => Some(bundle),
            _ => None,
        }
    }

    /// Returns the source as shown in messages, which is how a user would write it.
    pub(crate) fn shown(&self) -> Arc<str> {
        match self {
            Self::Path(path) => shown(path),
            _ => self.to_string().into(),
        }
    }
}

/// Returns a path as the user wrote it, without a leading `./`.
pub(crate) fn shown(path: &Path) -> Arc<str> {
    let path = path.strip_prefix(".").unwrap_or(path);
    path.to_string_lossy().into()
}

/// Shows the source as written on the command line.
impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Builtin(part) => f.write_str(&builtin::named(part)),
            Self::Cluster(source) => source.fmt(f),
            Self::Bundle(reference) => reference.fmt(f),
        }
    }
}

/// Shows the source as written on the command line.
impl fmt::Display for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Builtin(part) => f.write_str(&builtin::named(part)),
            Self::Tree(tree) => f.write_str(&tree.name),
            Self::Bundle(bundle) => f.write_str(&bundle.edition.source),
        }
    }
}

/// The prefix of sources in the cluster.
const CLUSTER: &str = "cluster:";
/// The source of admission policies, behind that prefix.
const ADMISSION_POLICIES: &str = "admission-policies";
/// The source of Kyverno's policies, behind that prefix.
const KYVERNO: &str = "kyverno";
/// The source of the validation rules of CRDs.
const CRD_RULES: &str = "crd-rules";
/// The label that `kube-mgmt` selects by.
const POLICY_LABEL: &str = "openpolicyagent.org/policy=rego";

impl ClusterSource {
    fn parse(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?.strip_prefix(CLUSTER)?;
        if text == "gatekeeper" {
            return Some(Self::Gatekeeper);
        }
        if text == ADMISSION_POLICIES {
            return Some(Self::AdmissionPolicies);
        }
        if text == KYVERNO {
            return Some(Self::Kyverno);
        }
        if text == CRD_RULES {
            return Some(Self::CrdRules);
        }
        let rest = text.strip_prefix("configmaps")?;
        let (namespace, selector) = rest.split_once(',').unwrap_or((rest, POLICY_LABEL));
        let namespace = match namespace.strip_prefix('=') {
            Some(name) if !name.is_empty() => Some(name.to_owned()),
            None if namespace.is_empty() => None,
            _ => return None,
        };
        (!selector.is_empty()).then(|| Self::ConfigMaps { namespace, selector: selector.to_owned() })
    }
}

/// Shows the source as written on the command line.
impl fmt::Display for ClusterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLUSTER)?;
        match self {
            Self::Gatekeeper => f.write_str("gatekeeper"),
            Self::AdmissionPolicies => f.write_str(ADMISSION_POLICIES),
            Self::Kyverno => f.write_str(KYVERNO),
            Self::CrdRules => f.write_str(CRD_RULES),
            Self::ConfigMaps { namespace, selector } => {
                f.write_str("configmaps")?;
                namespace.as_ref().map_or(Ok(()), |namespace| write!(f, "={namespace}"))?;
                if selector == POLICY_LABEL { Ok(()) } else { write!(f, ",{selector}") }
            }
        }
    }
}

/// Returns a path source, whatever the file name.
impl From<PathBuf> for FileSource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

/// Parses a source as written on the command line: `builtin`, `builtin:PART`, `cluster:…`, `oci://…`, `https://…`, an
/// archive by its name or another path. A path that looks like another source must start with `./`.
impl From<&str> for PolicySource {
    fn from(text: &str) -> Self {
        Self::from(OsString::from(text))
    }
}

impl From<OsString> for PolicySource {
    fn from(text: OsString) -> Self {
        let part = |text: &OsStr| {
            let rest = text.to_str()?.strip_prefix(builtin::NAME)?;
            if rest.is_empty() { Some(String::new()) } else { rest.strip_prefix(':').map(str::to_owned) }
        };
        let cluster = || ClusterSource::parse(&text).map(Self::Cluster);
        let bundle = || BundleReference::parse(text.to_str()?).map(Self::Bundle);
        part(&text).map(Self::Builtin).or_else(cluster).or_else(bundle).unwrap_or_else(|| Self::Path(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(namespace: Option<&str>, selector: &str) -> ClusterSource {
        ClusterSource::ConfigMaps { namespace: namespace.map(str::to_owned), selector: selector.to_owned() }
    }

    #[test]
    fn sources_are_parsed_from_the_command_line() {
        for (text, want) in [
            ("builtin", PolicySource::builtin()),
            ("builtin:", PolicySource::builtin()),
            ("builtin:rbac", PolicySource::Builtin("rbac".to_owned())),
            ("./builtin", PolicySource::Path("./builtin".into())),
            ("builtin/rbac.rego", PolicySource::Path("builtin/rbac.rego".into())),
            ("builtins", PolicySource::Path("builtins".into())),
            ("policies", PolicySource::Path("policies".into())),
            ("oci://r/a:1", PolicySource::Bundle(BundleReference::Oci("r/a:1".to_owned()))),
            ("https://r/a", PolicySource::Bundle(BundleReference::Http("https://r/a".to_owned()))),
            ("./a.tar.gz", PolicySource::Bundle(BundleReference::File("./a.tar.gz".into()))),
            ("oci/a", PolicySource::Path("oci/a".into())),
        ] {
            assert_eq!(PolicySource::from(text), want, "{text}");
            assert!(text.ends_with(':') || want.to_string() == text, "{want}");
        }
        for (text, want) in [
            ("cluster:gatekeeper", Some(ClusterSource::Gatekeeper)),
            ("cluster:admission-policies", Some(ClusterSource::AdmissionPolicies)),
            ("cluster:kyverno", Some(ClusterSource::Kyverno)),
            ("cluster:crd-rules", Some(ClusterSource::CrdRules)),
            ("cluster:configmaps", Some(maps(None, POLICY_LABEL))),
            ("cluster:configmaps=opa", Some(maps(Some("opa"), POLICY_LABEL))),
            ("cluster:configmaps,a=b,c", Some(maps(None, "a=b,c"))),
            ("cluster:configmaps=opa,a in (b,c)", Some(maps(Some("opa"), "a in (b,c)"))),
            ("cluster:", None),
            ("cluster:configmaps=", None),
            ("cluster:configmapsopa", None),
            ("cluster:configmaps,", None),
            ("cluster:secrets", None),
        ] {
            let parsed = PolicySource::from(text);
            let want = want.map_or_else(|| PolicySource::Path(text.into()), PolicySource::Cluster);
            assert_eq!((&parsed, parsed.to_string().as_str()), (&want, text));
        }
        assert_eq!(PolicySource::from("builtin:rbac").to_string(), "builtin:rbac");
        assert_eq!(PolicySource::from("builtin:").to_string(), "builtin");
    }
}
