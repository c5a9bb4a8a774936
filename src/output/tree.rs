//! The work tree that a job runs in: the formats of GitHub and GitLab need file names relative to the repository,
//! whatever the working directory is.

use std::{
    env,
    path::{Component, Path, PathBuf},
};

/// Environment variables of CI systems with the path of the repository.
const VARIABLES: [&str; 2] = ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"];

/// A work tree, and the working directory in it, which relative paths refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTree {
    /// Its root, in canonical form and as given.
    roots: Vec<PathBuf>,
    folder: PathBuf,
}

impl WorkTree {
    /// Finds the work tree of the current directory: the nearest ancestor with `.git`, or else the directory that the
    /// CI system names.
    pub fn here() -> Option<Self> {
        let folder = env::current_dir().ok()?.canonicalize().ok()?;
        if let Some(root) = folder.ancestors().find(|folder| folder.join(".git").exists()) {
            return Some(Self { roots: vec![root.to_owned()], folder });
        }
        let named = VARIABLES.iter().filter_map(env::var_os).map(PathBuf::from);
        let roots =
            named.filter(|root| root.is_absolute()).filter_map(|root| Some(vec![root.canonicalize().ok()?, root]));
        let mut roots = roots.filter(|roots| folder.starts_with(&roots[0]));
        Some(Self { roots: roots.next()?, folder })
    }

    /// Returns a path relative to the repository; `None` if it is outside.
    pub(super) fn relative(&self, path: &str) -> Option<String> {
        // An absolute path replaces the folder.
        let path = plain(&self.folder.join(path));
        let inside = self.roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
        inside.to_str().map(str::to_owned)
    }
}

/// Returns an absolute path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_repository() {
        let tree = WorkTree { roots: vec!["/src/repo".into(), "/link/repo".into()], folder: "/src/repo/deploy".into() };
        for (path, want) in [
            ("manifests/a.yaml", Some("deploy/manifests/a.yaml")),
            ("./a.yaml", Some("deploy/a.yaml")),
            ("../a.yaml", Some("a.yaml")),
            ("/src/repo/deploy/a.yaml", Some("deploy/a.yaml")),
            ("/link/repo/a.yaml", Some("a.yaml")),
            ("../../a.yaml", None),
            ("/src/other/a.yaml", None),
        ] {
            assert_eq!(tree.relative(path).as_deref(), want, "{path}");
        }
    }
}
