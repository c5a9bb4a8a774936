//! Policy files that do not come from the file system.

use std::sync::Arc;

/// The prefix of the names of trees that are `ConfigMap`s, followed by `/NAMESPACE/NAME`.
pub(crate) const CONFIG_MAPS: &str = "cluster:configmaps";
/// The name of the tree of Gatekeeper's objects in the cluster.
const GATEKEEPER: &str = "cluster:gatekeeper";
/// The name of the tree of admission policies in the cluster.
const ADMISSION_POLICIES: &str = "cluster:admission-policies";
/// The name of the tree of Kyverno's policies in the cluster.
const KYVERNO: &str = "cluster:kyverno";
/// The name of the tree of CRDs in the cluster.
const CRD_RULES: &str = "cluster:crd-rules";

/// The files of a directory, or one file, in memory, for example those of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTree {
    /// The name in messages.
    pub name: Arc<str>,
    /// The files, in the order of their names.
    pub files: Vec<TreeFile>,
}

/// One file of a [`FileTree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// The names of the directories below the tree, and of the file; empty if the tree is this file.
    pub path: Vec<String>,
    /// The file's content, or why it cannot be read.
    pub content: Result<Vec<u8>, String>,
}

impl FileTree {
    /// Returns the name of a file in messages.
    pub(crate) fn shown(&self, file: &TreeFile) -> Arc<str> {
        let names = [&*self.name].into_iter().chain(file.path.iter().map(String::as_str));
        names.collect::<Vec<_>>().join("/").into()
    }

    /// Returns the namespace if the tree is a `ConfigMap`, or the placeholder for `ConfigMap`s that cannot be read;
    /// empty for kaudit's own namespace.
    pub(crate) fn config_map_namespace(&self) -> Option<&str> {
        let rest = self.name.strip_prefix(CONFIG_MAPS)?.trim_start_matches(['/', '=']);
        Some(rest.split(['/', ',']).next().unwrap_or_default())
    }

    /// Whether it contains policies in the cluster that are objects of their own kinds.
    pub(crate) fn is_of_policy_objects(&self) -> bool {
        [GATEKEEPER, ADMISSION_POLICIES, KYVERNO, CRD_RULES].contains(&&*self.name)
    }
}
