//! Copies of the data of servers.

use std::{fs, io, path::Path};

use tempfile::TempDir;

/// A copy of a server's data.
#[derive(Debug)]
pub struct DataBackup(TempDir);

impl DataBackup {
    pub(crate) fn new(data: &Path) -> io::Result<Self> {
        let backup = TempDir::new()?;
        copy(data, backup.path())?;
        Ok(Self(backup))
    }

    /// Replaces the data.
    pub(crate) fn restore(&self, data: &Path) -> io::Result<()> {
        fs::remove_dir_all(data)?;
        copy(self.0.path(), data)
    }
}

/// Copies what is in a folder into another, which is created if it does not exist.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
