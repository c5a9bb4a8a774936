//! Files in chunks: YAML streams are cut between documents, so that a file need not be in memory as a whole.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use super::files::{ManifestFile, is_stdin};

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
    /// The text, or why there is none.
    pub(super) text: io::Result<String>,
}

/// Returns the chunks of a file in their order.
pub(super) fn of(file: &ManifestFile) -> impl Iterator<Item = Chunk> + use<> {
    let ManifestFile { path, is_settings } = file.clone();
    Chunks { file: path.to_string_lossy().into(), is_settings, line: 1, rest: Vec::new(), input: Input::Closed(path) }
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
    input: Input,
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        if matches!(self.input, Input::End) {
            return None;
        }
        let text = self.text();
        if text.is_err() {
            self.input = Input::End;
        }
        let lines = text.as_ref().map_or(0, |text| memchr::memchr_iter(b'\n', text.as_bytes()).count());
        let chunk = Chunk { file: self.file.clone(), is_settings: self.is_settings, line: self.line, text };
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
                self.rest = bytes.split_off(cut);
                break;
            }
        }
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
    }
}

/// Returns where to cut: before the last line that begins with `---`, in JSON too. What came before `searched` has none.
fn cut(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(b"\n--- ".len());
    let marks = |at: &usize| {
        bytes[at + 1..].starts_with(b"---") && matches!(bytes.get(at + 4), Some(b' ' | b'\t' | b'\r' | b'\n'))
    };
    memchr::memrchr_iter(b'\n', &bytes[from..]).map(|at| from + at).find(marks).map(|at| at + 1)
}
