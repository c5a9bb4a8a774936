//! Where policies come from: paths, the library inside the binary, objects of a cluster, and bundles.

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
    rule_settings::RuleSettings,
};

/// Where some policies come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// A file or directory.
    Path(PathBuf),
    /// The library inside the binary, or the part of this name; empty is the whole.
    Builtin(String),
    /// Files that were read elsewhere.
    Tree(Arc<FileTree>),
    /// Objects of the cluster, which have to be read first, as [`FileTree`]s.
    Cluster(ClusterSource),
    /// No place, but a choice: of the rules in Kubescape's layout those of this framework.
    Framework(String),
    /// No place, but what the user decides about rules, whatever they come from.
    Rules(Arc<RuleSettings>),
    /// What is published as a bundle, which has to be read first, as [`PolicySource::Unpacked`].
    Bundle(BundleReference),
    /// A bundle that was read.
    Unpacked(Arc<Bundle>),
}

/// Policies that are objects of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterSource {
    /// Gatekeeper's `ConstraintTemplate`s, Constraints and `Config`.
    Gatekeeper,
    /// `ConfigMap`s, as `kube-mgmt` loads them into OPA: each value is a file.
    ConfigMaps {
        /// Where they are; `None` is kaudit's own namespace.
        namespace: Option<String>,
        /// A label selector.
        selector: String,
    },
}

impl PolicySource {
    /// The whole library inside the binary.
    pub fn builtin() -> Self {
        Self::Builtin(String::new())
    }

    /// The bundle, if it is one that was read.
    pub(crate) fn bundle(&self) -> Option<&Bundle> {
        match self {
            Self::Unpacked(bundle) => Some(bundle),
            _ => None,
        }
    }

    /// What is decided about rules, if it is that.
    fn rules(&self) -> Option<&RuleSettings> {
        match self {
            Self::Rules(settings) => Some(settings),
            _ => None,
        }
    }

    /// Joins what `sources` decide about rules; later ones take precedence.
    pub(super) fn rule_settings(sources: &[Self]) -> RuleSettings {
        sources.iter().filter_map(Self::rules).fold(RuleSettings::default(), |mut all, later| {
            all.extend(later.clone());
            all
        })
    }

    /// As messages name it, which is how a user would name it.
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

/// Shows it as it is written on the command line.
impl fmt::Display for PolicySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Builtin(part) if part.is_empty() => f.write_str(builtin::NAME),
            Self::Builtin(part) => write!(f, "{}:{part}", builtin::NAME),
            Self::Tree(tree) => f.write_str(&tree.name),
            Self::Cluster(source) => source.fmt(f),
            Self::Framework(name) => write!(f, "--framework {name}"),
            Self::Rules(settings) => settings.fmt(f),
            Self::Bundle(reference) => reference.fmt(f),
            Self::Unpacked(bundle) => f.write_str(&bundle.edition.source),
        }
    }
}

/// What begins the name of a source in the cluster.
const CLUSTER: &str = "cluster:";
/// The label that `kube-mgmt` looks for.
const POLICY_LABEL: &str = "openpolicyagent.org/policy=rego";

impl ClusterSource {
    fn parse(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?.strip_prefix(CLUSTER)?;
        if text == "gatekeeper" {
            return Some(Self::Gatekeeper);
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

/// Shows it as it is written on the command line.
impl fmt::Display for ClusterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CLUSTER)?;
        match self {
            Self::Gatekeeper => f.write_str("gatekeeper"),
            Self::ConfigMaps { namespace, selector } => {
                f.write_str("configmaps")?;
                namespace.as_ref().map_or(Ok(()), |namespace| write!(f, "={namespace}"))?;
                if selector == POLICY_LABEL { Ok(()) } else { write!(f, ",{selector}") }
            }
        }
    }
}

/// A path, whatever its name.
impl From<PathBuf> for PolicySource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

/// As it is written on the command line: `builtin`, `builtin:PART`, `cluster:…`, `oci://…`, `https://…`, an archive by its name
/// or another path. A path of the name of something else begins with `./`.
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
    fn only_the_bare_name_is_the_library() {
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
