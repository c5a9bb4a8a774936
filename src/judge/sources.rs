//! Where policies come from: paths, and the library inside the binary.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::builtin;

/// Where some policies come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicySource {
    /// A file or directory.
    Path(PathBuf),
    /// The library inside the binary, or the part of this name; empty is the whole.
    Builtin(String),
    /// Files that were read elsewhere.
    Tree(Arc<FileTree>),
}

/// The files of a directory, or one file, in memory: those of a commit.
#[derive(Debug, PartialEq, Eq)]
pub struct FileTree {
    /// As messages name it.
    pub name: Arc<str>,
    /// In the order of their names.
    pub files: Vec<TreeFile>,
}

/// One file of a [`FileTree`].
#[derive(Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// Names of the directories below the tree, and of the file; none if the tree is that file.
    pub path: Vec<String>,
    /// What is in it, or why it cannot be read.
    pub content: Result<Vec<u8>, String>,
}

impl PolicySource {
    /// The whole library inside the binary.
    pub fn builtin() -> Self {
        Self::Builtin(String::new())
    }

    /// As messages name it, which is how a user would name it.
    pub(crate) fn shown(&self) -> Arc<str> {
        match self {
            Self::Path(path) => shown(path),
            Self::Builtin(_) | Self::Tree(_) => self.to_string().into(),
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
        }
    }
}

/// A path, whatever its name.
impl From<PathBuf> for PolicySource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

/// As it is written on the command line: `builtin`, `builtin:PART` or a path. A path of that name is `./builtin`.
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
        part(&text).map_or_else(|| Self::Path(text.into()), Self::Builtin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(PolicySource::from(text), want, "{text}");
        }
        assert_eq!(PolicySource::from("builtin:rbac").to_string(), "builtin:rbac");
        assert_eq!(PolicySource::from("builtin:").to_string(), "builtin");
    }
}
