//! Files in chunks: YAML streams are cut between documents and JSON between values, so that a file need not be in memory
//! as a whole.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use super::files::{ManifestFile, is_stdin};
use crate::source::json::ValueEnd;

/// How much is read at a time. A chunk is that large, or one document.
const BYTES: usize = 128 * 1024;

/// Some documents of one file.
pub(super) struct Chunk {
    /// The file as the user named it.
    pub(super) file: Arc<str>,
    /// As in [`ManifestFile`].
    pub(super) is_settings: bool,
    /// The line that the text begins at, from 1.
    pub(super) line: usize,
    /// Whether it begins in the middle of a document of JSON values, behind the first two of them.
    pub(super) continues: bool,
    /// The text, or why there is none.
    pub(super) text: io::Result<String>,
}

/// Returns the chunks of a file in their order.
pub(super) fn of(file: &ManifestFile) -> impl Iterator<Item = Chunk> + use<> {
    let ManifestFile { path, is_settings } = file.clone();
    let (file, input) = (path.to_string_lossy().into(), Input::Closed(path));
    Chunks { file, is_settings, line: 1, rest: Vec::new(), values: Values::default(), input }
}

enum Input {
    Closed(PathBuf),
    Open(Box<dyn Read + Send>),
    End,
}

struct Chunks {
    file: Arc<str>,
    is_settings: bool,
    line: usize,
    /// What was read behind the last chunk.
    rest: Vec<u8>,
    /// The JSON values at the beginning of what is read.
    values: Values,
    input: Input,
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        if matches!(self.input, Input::End) {
            return None;
        }
        let continues = self.values.count >= FIRST_VALUES;
        let text = self.text();
        if text.is_err() {
            self.input = Input::End;
        }
        let lines = text.as_ref().map_or(0, |text| memchr::memchr_iter(b'\n', text.as_bytes()).count());
        let chunk = Chunk { file: self.file.clone(), is_settings: self.is_settings, line: self.line, continues, text };
        self.line += lines;
        Some(chunk)
    }
}

impl Chunks {
    fn text(&mut self) -> io::Result<String> {
        if let Input::Closed(path) = &self.input {
            let input: Box<dyn Read + Send> =
                if is_stdin(path) { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
            self.input = Input::Open(input);
        }
        let mut bytes = std::mem::take(&mut self.rest);
        while let Input::Open(input) = &mut self.input {
            let before = bytes.len();
            let more = input.by_ref().take(BYTES as u64).read_to_end(&mut bytes)?;
            if more < BYTES {
                self.input = Input::End;
            } else if let Some(cut) = cut(&bytes, before) {
                self.values = Values::default();
                self.rest = bytes.split_off(cut);
                break;
            } else if let Some(cut) = self.values.cut(&bytes) {
                self.rest = bytes.split_off(cut);
                break;
            }
        }
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
    }
}

/// JSON values that are read before it is certain that a document is not YAML: kubectl reads what begins with one value as
/// YAML if something else follows.
pub(super) const FIRST_VALUES: usize = 2;

/// The JSON values that a document begins with, one after the other.
#[derive(Default)]
struct Values {
    /// Complete ones so far, those of earlier chunks included.
    count: usize,
    /// How far the text was looked at.
    searched: usize,
    /// The end of the value that is open.
    open: Option<ValueEnd>,
    /// Something else came.
    over: bool,
}

impl Values {
    /// Returns where to cut: behind the last line that ends with a value, if it is not one of the first.
    fn cut(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.count == 0 && self.searched == 0 && self.open.is_none() {
            self.searched = start(bytes);
        }
        let mut cut = None;
        while !self.over && self.searched < bytes.len() {
            if let Some(open) = &mut self.open {
                let end = open.find(&bytes[self.searched..]);
                self.searched = end.map_or(bytes.len(), |end| self.searched + end);
                if end.is_some() {
                    self.open = None;
                    self.count += 1;
                }
                continue;
            }
            match bytes[self.searched] {
                b'{' | b'[' => self.open = Some(ValueEnd::default()),
                b'\n' if self.count >= FIRST_VALUES => {
                    self.searched += 1;
                    cut = Some(self.searched);
                }
                b' ' | b'\t' | b'\r' | b'\n' => self.searched += 1,
                _ => self.over = true,
            }
        }
        self.searched -= cut.unwrap_or_default();
        cut
    }
}

/// Returns where the content of a document begins, behind a byte order mark and the line that separates it from the one
/// before.
fn start(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"---") {
        return memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
    }
    if bytes.starts_with("\u{feff}".as_bytes()) { '\u{feff}'.len_utf8() } else { 0 }
}

/// Returns where to cut: before the last line that begins with `---`, in JSON too. What came before `searched` has none.
fn cut(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(b"\n--- ".len());
    let marks = |at: &usize| {
        bytes[at + 1..].starts_with(b"---") && matches!(bytes.get(at + 4), Some(b' ' | b'\t' | b'\r' | b'\n'))
    };
    memchr::memrchr_iter(b'\n', &bytes[from..]).map(|at| from + at).find(marks).map(|at| at + 1)
}
