//! A file of notifications, one line of JSON each, with a limited number of older files: `violations.ndjson`,
//! `violations.ndjson.1` and so on, the higher the older.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;

use super::notification::{AuditIdentity, Batch};

/// A file that is rotated by its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RotatedFile {
    pub(super) path: PathBuf,
    /// The largest size of a file in bytes, exceeded only by a line that alone is longer.
    pub(super) max_bytes: u64,
    /// The most files, including the current one.
    pub(super) max_files: usize,
}

/// A line, with the name of the cluster if there is one.
#[derive(Serialize)]
struct NotificationLine<'a, T> {
    #[serde(flatten)]
    content: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
}

/// Returns the lines of a batch.
pub(super) fn lines(batch: &Batch, audit: &AuditIdentity) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let cluster = audit.cluster.as_deref();
    if let Some(first) = batch.notifications.first().filter(|_| batch.left_out > 0) {
        let content = json!({"event": "leftOut", "time": first.time, "leftOut": batch.left_out});
        serde_json::to_writer(&mut lines, &NotificationLine { content, cluster })?;
        lines.push(b'\n');
    }
    for notification in &batch.notifications {
        serde_json::to_writer(&mut lines, &NotificationLine { content: &**notification, cluster })?;
        lines.push(b'\n');
    }
    Ok(lines)
}

impl RotatedFile {
    /// Appends lines. If one of the files cannot be written, none of the lines for that file are kept.
    ///
    /// # Errors
    /// When the file cannot be written, or the older ones cannot be moved.
    pub(super) fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut rest = lines;
        while !rest.is_empty() {
            let (mut file, length) = self.open()?;
            let room = usize::try_from(self.max_bytes.saturating_sub(length)).unwrap_or(usize::MAX);
            // As many whole lines as fit; a line that fits into no file gets its own.
            let fits = if rest.len() <= room { rest.len() } else { last_end(&rest[..room]) };
            let fits = if fits == 0 && length == 0 { first_end(rest) } else { fits };
            if fits == 0 {
                drop(file);
                self.rotate()?;
                continue;
            }
            if let Err(error) = file.write_all(&rest[..fits]) {
                // Remove the partial write: the lines are written again later.
                file.set_len(length)?;
                return Err(error);
            }
            rest = &rest[fits..];
        }
        Ok(())
    }

    /// Opens the file, and ends a line that a killed process left unfinished.
    fn open(&self) -> io::Result<(File, u64)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
        let mut length = file.metadata()?.len();
        if length > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                length += 1;
            }
        }
        Ok((file, length))
    }

    fn rotate(&self) -> io::Result<()> {
        let older = |number: usize| {
            let mut name = OsString::from(&self.path);
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.max_files < 2 {
            return File::create(&self.path).map(drop);
        }
        for number in (1..self.max_files - 1).rev() {
            rename_if_there(&older(number), &older(number + 1))?;
        }
        rename_if_there(&self.path, &older(1))
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns where the last whole line of a text ends.
fn last_end(text: &[u8]) -> usize {
    memchr::memrchr(b'\n', text).map_or(0, |place| place + 1)
}

fn first_end(text: &[u8]) -> usize {
    memchr::memchr(b'\n', text).map_or(text.len(), |place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(folder: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn file(folder: &Path, max_bytes: u64, max_files: usize) -> RotatedFile {
        RotatedFile { path: folder.join("f"), max_bytes, max_files }
    }

    #[test]
    fn no_file_grows_too_large_and_only_some_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 6, 3);
        for line in ["1\n", "2\n3\n", "4\n5\n6\n7\n", "a long one\n", "8\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        let kept = contents(folder.path());
        let kept: Vec<_> = kept.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(kept, [("f", "8\n"), ("f.1", "a long one\n"), ("f.2", "7\n")]);
    }

    #[test]
    fn a_single_file_is_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 4, 1);
        file.append(b"1\n2\n3\n").unwrap();
        assert_eq!(contents(folder.path()), [("f".to_owned(), "3\n".to_owned())]);
    }

    #[test]
    fn an_unfinished_line_does_not_corrupt_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), "{\"half").unwrap();
        file(folder.path(), 100, 2).append(b"1\n").unwrap();
        assert_eq!(contents(folder.path())[0].1, "{\"half\n1\n");
    }

    #[test]
    fn a_failed_write_is_an_error() {
        let full = RotatedFile { path: "/dev/full".into(), max_bytes: 100, max_files: 2 };
        assert!(full.append(b"1\n").is_err());
        assert!(file("/nowhere/at/all".as_ref(), 100, 2).append(b"1\n").is_err());
    }
}
