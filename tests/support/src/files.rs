//! Files of one test, in a temporary folder.

use std::fs;

use tempfile::TempDir;

/// Writes files into a new folder, including subfolders.
pub fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
