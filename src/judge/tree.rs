//! Policy files that were read elsewhere than from the file system.

use std::sync::Arc;

/// What begins the names of trees that are `ConfigMap`s; namespace and name follow behind slashes.
pub(crate) const CONFIG_MAPS: &str = "cluster:configmaps";
/// The name of the tree of Gatekeeper's objects in the cluster.
const GATEKEEPER: &str = "cluster:gatekeeper";

/// The files of a directory, or one file, in memory: those of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTree {
    /// As messages name it.
    pub name: Arc<str>,
    /// In the order of their names.
    pub files: Vec<TreeFile>,
}

/// One file of a [`FileTree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Names of the directories below the tree, and of the file; none if the tree is that file.
    pub path: Vec<String>,
    /// What is in it, or why it cannot be read.
    pub content: Result<Vec<u8>, String>,
}

impl FileTree {
    /// Returns how messages name a file of it.
    pub(crate) fn shown(&self, file: &TreeFile) -> Arc<str> {
        let names = [&*self.name].into_iter().chain(file.path.iter().map(String::as_str));
        names.collect::<Vec<_>>().join("/").into()
    }

    /// Returns the namespace if it is a `ConfigMap`, or of all that cannot be read; empty for kaudit's own.
    pub(crate) fn config_map_namespace(&self) -> Option<&str> {
        let rest = self.name.strip_prefix(CONFIG_MAPS)?.trim_start_matches(['/', '=']);
        Some(rest.split(['/', ',']).next().unwrap_or_default())
    }

    /// Whether it is made of Gatekeeper's objects in the cluster.
    pub(crate) fn is_of_gatekeeper(&self) -> bool {
        &*self.name == GATEKEEPER
    }
}
