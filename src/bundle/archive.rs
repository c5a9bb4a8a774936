//! Unpacks compressed tar archives into memory.
//!
//! Nothing is written to a disk, so no name can lead out of a directory. Names that would are refused nevertheless: such
//! an archive is hostile, or other tools unpack it differently. Memory is bounded, whatever sizes the archive declares.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

/// The maximum number of bytes that an archive may unpack to, including headers.
pub(super) const UNPACKED_BYTES: u64 = 64 << 20;
/// The maximum number of files in a bundle.
const ENTRIES: usize = 10_000;
/// The maximum length of a name, in bytes.
const NAME_BYTES: usize = 1_024;
/// The maximum nesting of directories.
const DEEPEST: usize = 32;

/// The files of a bundle, by their paths.
pub(super) type Files = BTreeMap<Vec<String>, Vec<u8>>;

/// Unpacks an archive into `files`.
///
/// # Errors
/// If it is not a gzipped tar, or contains unsafe entries.
pub(super) fn unpack(archive: &[u8], files: &mut Files) -> Result<(), String> {
    let used: u64 = files.values().map(|content| content.len() as u64).sum();
    let mut archive =
        Archive::new(Bounded { inner: MultiGzDecoder::new(archive), left: UNPACKED_BYTES - used.min(UNPACKED_BYTES) });
    let entries = archive.entries().map_err(|error| unreadable(&error))?;
    for entry in entries {
        let mut entry = entry.map_err(|error| unreadable(&error))?;
        if files.len() >= ENTRIES {
            return Err(format!("has more than {ENTRIES} files"));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = path(&entry)?;
        match kind {
            EntryType::Directory => {}
            EntryType::Regular | EntryType::Continuous => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).map_err(|error| unreadable(&error))?;
                add(files, path, content)?;
            }
            EntryType::Symlink | EntryType::Link => {
                return Err(format!("{} is a link, which is not allowed in a bundle", path.join("/")));
            }
            _ => return Err(format!("{} is neither a file nor a directory", path.join("/"))),
        }
    }
    // The data after the last file includes the checksum of the whole archive.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| unreadable(&error))?;
    Ok(())
}

/// Adds one file.
///
/// # Errors
/// If the name is empty, or there is already a file with this path: it is ambiguous which of the two counts.
pub(super) fn add(files: &mut Files, path: Vec<String>, content: Vec<u8>) -> Result<(), String> {
    let shown = path.join("/");
    if path.is_empty() {
        return Err("has a file without a name".to_owned());
    }
    match files.insert(path, content) {
        None => Ok(()),
        Some(_) => Err(format!("has {shown} twice")),
    }
}

/// Parses the name of a file or directory. OPA's own archives begin each name with a `/`, the root of the bundle.
///
/// # Errors
/// If it leads out of the bundle, is too long or nested too deeply, or contains control characters or backslashes.
pub(super) fn path_of(name: &str) -> Result<Vec<String>, String> {
    let shown = || format!("{:?}", crate::model::text::shortened(name, 100));
    if name.len() > NAME_BYTES {
        return Err(format!("has a name of more than {NAME_BYTES} bytes: {}", shown()));
    }
    if name.chars().any(|c| c.is_control() || c == '\\') {
        return Err(format!("has a name with invalid characters: {}", shown()));
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(format!("has a name that leads out of the archive: {}", shown()));
    }
    if parts.len() > DEEPEST {
        return Err(format!("has a name that is nested too deeply: {}", shown()));
    }
    Ok(parts.into_iter().map(str::to_owned).collect())
}

fn path<R: Read>(entry: &Entry<'_, R>) -> Result<Vec<String>, String> {
    let bytes = entry.path_bytes();
    path_of(std::str::from_utf8(&bytes).map_err(|_| "has a name that is not UTF-8".to_owned())?)
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge => format!("unpacks to more than {} MiB", UNPACKED_BYTES >> 20),
        io::ErrorKind::UnexpectedEof => "is truncated".to_owned(),
        _ => format!("is not a gzip-compressed tar archive: {error}"),
    }
}

/// A reader that fails when more bytes are read than allowed.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, Header};

    use super::*;

    fn packed(fill: impl FnOnce(&mut Builder<GzEncoder<Vec<u8>>>)) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
        fill(&mut builder);
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn header(kind: EntryType, name: &[u8], size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        // As in a hostile archive: `set_path` refuses such names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_size(size);
        header.set_cksum();
        header
    }

    fn one(kind: EntryType, name: &[u8], content: &[u8]) -> Result<Files, String> {
        let archive = packed(|builder| builder.append(&header(kind, name, content.len() as u64), content).unwrap());
        let mut files = Files::new();
        unpack(&archive, &mut files).map(|()| files)
    }

    #[test]
    fn files_are_read_and_directories_skipped() {
        let archive = packed(|builder| {
            builder.append(&header(EntryType::Directory, b"a/", 0), &b""[..]).unwrap();
            builder.append(&header(EntryType::Regular, b"./a/b.rego", 2), &b"xy"[..]).unwrap();
            builder.append(&header(EntryType::Regular, b"/data.json", 2), &b"{}"[..]).unwrap();
        });
        let mut files = Files::new();
        unpack(&archive, &mut files).unwrap();
        let shown: Vec<String> = files.keys().map(|path| path.join("/")).collect();
        assert_eq!(shown, ["a/b.rego", "data.json"]);
        assert!(unpack(&archive, &mut files).unwrap_err().contains("twice"));
    }

    #[test]
    fn hostile_archives_are_refused() {
        for (kind, name, want) in [
            (EntryType::Symlink, &b"a.rego"[..], "is a link"),
            (EntryType::Link, b"a.rego", "is a link"),
            (EntryType::Fifo, b"a.rego", "neither a file"),
            (EntryType::Char, b"a.rego", "neither a file"),
            (EntryType::GNUSparse, b"a.rego", ""),
            (EntryType::Regular, b"../a.rego", "leads out"),
            (EntryType::Regular, b"/../a.rego", "leads out"),
            (EntryType::Regular, b"a/../../a.rego", "leads out"),
            (EntryType::Directory, b"../", "leads out"),
            (EntryType::Regular, b"a\x1b[2Jb.rego", "characters"),
            (EntryType::Regular, b"..\\a.rego", "characters"),
            (EntryType::Regular, b"a\xff.rego", "UTF-8"),
            (EntryType::Regular, b"/", "without a name"),
            (EntryType::Regular, &b"a/".repeat(40), "too deep"),
        ] {
            let why = one(kind, name, b"").unwrap_err();
            assert!(why.contains(want), "{kind:?} {name:?}: {why}");
        }
    }

    #[test]
    fn bombs_are_refused_at_the_limit() {
        let zeros = vec![0; 1 << 20];
        let bomb = packed(|builder| {
            for number in 0..80 {
                builder
                    .append(&header(EntryType::Regular, format!("{number}").as_bytes(), 1 << 20), &zeros[..])
                    .unwrap();
            }
        });
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        assert!(unpack(&bomb, &mut Files::new()).unwrap_err().contains("more than 64 MiB"));
        // A name with the declared length of a whole disk.
        let mut long = GzEncoder::new(Vec::new(), Compression::best());
        long.write_all(header(EntryType::GNULongName, b"././@LongLink", 1 << 40).as_bytes()).unwrap();
        (0..80).for_each(|_| long.write_all(&zeros).unwrap());
        let why = unpack(&long.finish().unwrap(), &mut Files::new()).unwrap_err();
        assert!(why.contains("more than 64 MiB"), "{why}");
        let many = packed(|builder| {
            for number in 0..=ENTRIES {
                builder.append(&header(EntryType::Regular, format!("{number}").as_bytes(), 0), &b""[..]).unwrap();
            }
        });
        assert!(unpack(&many, &mut Files::new()).unwrap_err().contains("more than 10000 files"));
    }

    #[test]
    fn truncated_and_invalid_archives_are_refused() {
        let archive = packed(|builder| builder.append(&header(EntryType::Regular, b"a", 2), &b"xy"[..]).unwrap());
        for length in 1..archive.len() {
            let outcome = unpack(&archive[..length], &mut Files::new());
            assert!(outcome.is_err(), "{length} of {}", archive.len());
        }
        for text in [&b""[..], b"package a", b"PK\x03\x04", &[0x1f, 0x8b]] {
            unpack(text, &mut Files::new()).unwrap_err();
        }
    }
    #[test]
    fn no_archive_ends_the_process() {
        let mut builder = Builder::new(Vec::new());
        builder.append(&header(EntryType::Regular, b"a/own.rego", 2), &b"xy"[..]).unwrap();
        builder.append(&header(EntryType::GNULongName, b"././@LongLink", 2), &b"xy"[..]).unwrap();
        builder.append(&header(EntryType::XHeader, b"pax", 20), &b"20 path=b/other.rego"[..]).unwrap();
        builder.append(&header(EntryType::Regular, b"b", 0), &b""[..]).unwrap();
        let tar = builder.into_inner().unwrap();
        for at in 0..tar.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = tar.clone();
                changed[at] ^= change;
                if at < 512 {
                    // Otherwise the checksum would be wrong.
                    let mut first = Header::from_byte_slice(&changed[..512]).clone();
                    first.set_cksum();
                    changed[..512].copy_from_slice(first.as_bytes());
                }
                let mut packed = GzEncoder::new(Vec::new(), Compression::none());
                packed.write_all(&changed).unwrap();
                let mut files = Files::new();
                let _result = unpack(&packed.finish().unwrap(), &mut files);
                assert!(files.keys().all(|path| !path.iter().any(|part| part == "..")));
            }
        }
    }
}
