//! Symbolic links in directories given by the user: the boundary that they may not leave.
//!
//! The author of a change to such a directory must not choose which other files of the machine are read, such as the
//! credentials of a CI job. A link must stay inside one of the given directories or their git work tree.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The directories that links may lead to.
pub(crate) struct LinkBoundary {
    /// The paths given by the user, resolved.
    named: Vec<PathBuf>,
    /// Their git work trees. Hidden files of these, such as `.git/config`, are not read through links.
    trees: Vec<PathBuf>,
}

impl LinkBoundary {
    pub(crate) fn of<'p>(paths: impl Iterator<Item = &'p Path>) -> Self {
        let named: Vec<PathBuf> = paths.filter_map(|path| path.canonicalize().ok()).collect();
        let tree = |path: &PathBuf| path.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned);
        Self { trees: named.iter().filter_map(tree).collect(), named }
    }

    /// Returns the target of a link; `None` if the path is not a link.
    ///
    /// # Errors
    /// If the target cannot be found or is outside the boundary.
    pub(crate) fn target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if !path.is_symlink() {
            return Ok(None);
        }
        let target = path.canonicalize()?;
        let is_visible = |below: &Path| below.iter().all(|part| !part.as_encoded_bytes().starts_with(b"."));
        let is_inside = self.named.iter().any(|root| target.starts_with(root))
            || self.trees.iter().any(|tree| target.strip_prefix(tree).is_ok_and(is_visible));
        if !is_inside {
            return Err(io::Error::other(
                "the link leads out of the directory; to read its target, add the target to the policy paths",
            ));
        }
        Ok(Some(target))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_must_stay_in_the_given_paths_or_their_work_tree() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for directory in ["repo/.git", "repo/policies/..data", "repo/shared", "repo/.hidden", "other", "named"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        let links = root.join("repo/policies");
        let outcome = |boundary: &LinkBoundary, target: &str| {
            let link = links.join("link");
            let _absent = fs::remove_file(&link);
            symlink(target, &link).unwrap();
            boundary.target(&link).map_err(|why| why.kind())
        };
        let inside = LinkBoundary::of([links.as_path(), &root.join("named"), Path::new("nowhere")].into_iter());
        assert_eq!(inside.target(&links).unwrap(), None);
        for target in ["..data", ".", "../shared", "../../named"] {
            let want = links.join(target).canonicalize().unwrap();
            assert_eq!(outcome(&inside, target), Ok(Some(want)), "{target}");
        }
        for target in ["../../other", "../.git", "../.hidden", "..", "../..", "/"] {
            let want = if target == ".." {
                Ok(Some(root.join("repo").canonicalize().unwrap()))
            } else {
                Err(io::ErrorKind::Other)
            };
            assert_eq!(outcome(&inside, target), want, "{target}");
        }
        assert_eq!(outcome(&inside, "nowhere"), Err(io::ErrorKind::NotFound));
        fs::remove_dir(root.join("repo/.git")).unwrap();
        let outside = LinkBoundary::of([links.as_path()].into_iter());
        assert_eq!(outcome(&outside, "../shared"), Err(io::ErrorKind::Other));
    }
}
