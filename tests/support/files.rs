//! Files for one test, in a folder that goes with it. Each test binary includes this module by its path.

use std::fs;

use tempfile::TempDir;

/// Writes files into a new folder, and the folders that their paths name.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
