//! Files in pieces: YAML streams are cut between documents, so that a file need not be in memory as a whole.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::STDIN;

/// How much is read at a time. A piece is that large, or one document.
const BYTES: usize = 128 * 1024;

/// Some documents of one file.
pub(super) struct Piece {
    /// The file as the user named it.
    pub(super) file: Arc<str>,
    /// The line that the text begins at, from 1.
    pub(super) line: usize,
    /// The text, or why there is none.
    pub(super) text: io::Result<String>,
}

/// Returns the pieces of a file in their order.
pub(super) fn of(path: &Path) -> impl Iterator<Item = Piece> + use<> {
    Pieces { file: path.to_string_lossy().into(), line: 1, rest: Vec::new(), source: Source::Shut(path.to_owned()) }
}

enum Source {
    Shut(PathBuf),
    Open(Box<dyn Read + Send>),
    Done,
}

struct Pieces {
    file: Arc<str>,
    line: usize,
    /// What was read behind the last piece.
    rest: Vec<u8>,
    source: Source,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if matches!(self.source, Source::Done) {
            return None;
        }
        let text = self.text();
        if text.is_err() {
            self.source = Source::Done;
        }
        let lines = text.as_ref().map_or(0, |text| memchr::memchr_iter(b'\n', text.as_bytes()).count());
        let piece = Piece { file: self.file.clone(), line: self.line, text };
        self.line += lines;
        Some(piece)
    }
}

impl Pieces {
    fn text(&mut self) -> io::Result<String> {
        if let Source::Shut(path) = &self.source {
            let input: Box<dyn Read + Send> =
                if path.as_os_str() == STDIN { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
            self.source = Source::Open(input);
        }
        let mut bytes = std::mem::take(&mut self.rest);
        while let Source::Open(input) = &mut self.source {
            let before = bytes.len();
            let more = input.by_ref().take(BYTES as u64).read_to_end(&mut bytes)?;
            if more < BYTES {
                self.source = Source::Done;
            } else if let Some(cut) = cut(&bytes, before) {
                self.rest = bytes.split_off(cut);
                break;
            }
        }
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
    }
}

/// Returns where to cut: before the last line that begins with `---`. What came before `searched` has none. JSON is not cut.
fn cut(bytes: &[u8], searched: usize) -> Option<usize> {
    if bytes.trim_ascii_start().starts_with(b"{") || bytes.trim_ascii_start().starts_with(b"[") {
        return None;
    }
    let from = searched.saturating_sub(b"\n--- ".len());
    let marks = |at: &usize| {
        bytes[at + 1..].starts_with(b"---") && matches!(bytes.get(at + 4), Some(b' ' | b'\t' | b'\r' | b'\n'))
    };
    memchr::memrchr_iter(b'\n', &bytes[from..]).map(|at| from + at).find(marks).map(|at| at + 1)
}
