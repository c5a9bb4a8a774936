//! Splits files into chunks: YAML streams between documents, JSON between values, and a large JSON list between its
//! items, so that a file need not be in memory as a whole.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use serde_json::value::RawValue;

use super::{
    encoding::decoded,
    files::{ManifestFile, is_stdin},
    open_list::{ListStep, OpenList},
};
use crate::source::{json::ValueEnd, received::Received};

/// The sizes by which a file is split.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Bytes per read. A chunk is about that large, or one document.
    pub(super) read: usize,
    /// Bytes of a list that are buffered before it is split. A smaller one is read as a whole, so that it can still
    /// turn out to be something else.
    pub(super) list: usize,
    /// Bytes of a document without an end, after which reading the file is an error: a device has no end.
    pub(super) document: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        // API servers refuse objects as large as the `list` size, so that at least one whole item is seen.
        Self { read: 128 * 1024, list: 2 * 1024 * 1024, document: 256 * 1024 * 1024 }
    }
}

/// A part of one file.
pub(super) struct Chunk {
    /// The file as the user named it.
    pub(super) file: Arc<str>,
    /// As in [`ManifestFile`].
    pub(super) is_settings: bool,
    /// Where it starts in the file.
    pub(super) at: ChunkPosition,
    /// Its content, or why the file cannot be read.
    pub(super) content: io::Result<ChunkContent>,
}

/// A position in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkPosition {
    /// From 1.
    pub(super) line: usize,
    /// Bytes before it in its line.
    pub(super) column: usize,
}

/// The content of a chunk.
pub(super) enum ChunkContent {
    /// Documents, and how many JSON values of the first one were in earlier chunks: at most [`FIRST_VALUES`].
    Documents(String, usize),
    /// Some items of a JSON list with their separators, and the fields of the list before its items.
    Items(String, Arc<Received>),
    /// Why a list is broken that was already split.
    Broken(String),
}

/// Returns the chunks of a file in their order.
pub(super) fn of(file: &ManifestFile, sizes: Sizes) -> impl Iterator<Item = Chunk> + use<> {
    let ManifestFile { path, is_settings, problem, content } = file.clone();
    Chunks {
        file: path.to_string_lossy().into(),
        is_settings,
        sizes,
        at: ChunkPosition { line: 1, column: 0 },
        rest: Vec::new(),
        unmarked: 0,
        within: Within::Documents(Values::default()),
        input: match (problem, content) {
            (Some(why), _) => Input::Refused(why),
            (None, Some(content)) => Input::Downloaded(content),
            (None, None) => Input::Closed(path),
        },
    }
}

enum Input {
    Closed(PathBuf),
    Downloaded(Arc<[u8]>),
    /// It is not read, and why.
    Refused(String),
    Open(Box<dyn Read + Send>),
    End,
}

/// The construct that the next text belongs to.
enum Within {
    /// Documents, with the JSON values at the start of the first one.
    Documents(Values),
    /// The items of a list, and how many values came before it in its document.
    List(OpenList, usize),
    /// The rest of a document that is not read because of a broken list.
    Broken,
}

struct Chunks {
    file: Arc<str>,
    is_settings: bool,
    sizes: Sizes,
    /// Where `rest` starts.
    at: ChunkPosition,
    /// Text that was read after the last chunk.
    rest: Vec<u8>,
    /// How many bytes of `rest` were searched and have no document marker.
    unmarked: usize,
    within: Within,
    input: Input,
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        if matches!(self.input, Input::End) && self.rest.is_empty() && !matches!(self.within, Within::List(..)) {
            return None;
        }
        let (at, content) = loop {
            let found =
                self.content().and_then(|found| if found.is_none() { self.read().map(|()| None) } else { Ok(found) });
            match found {
                Ok(None) => {}
                Ok(Some((at, content))) => break (at, Ok(content)),
                Err(error) => {
                    (self.input, self.within) = (Input::End, Within::Broken);
                    self.rest.clear();
                    break (self.at, Err(error));
                }
            }
        };
        Some(Chunk { file: self.file.clone(), is_settings: self.is_settings, at, content })
    }
}

impl Chunks {
    /// Reads more of the input.
    fn read(&mut self) -> io::Result<()> {
        match &self.input {
            Input::Refused(why) => return Err(io::Error::other(why.clone())),
            Input::Closed(path) => {
                let input = if is_stdin(path) { decoded(io::stdin()) } else { decoded(File::open(path)?) };
                self.input = Input::Open(input?);
            }
            Input::Downloaded(content) => {
                self.input = Input::Open(decoded(io::Cursor::new(Arc::clone(content)))?);
            }
            Input::Open(_) | Input::End => {}
        }
        if self.rest.len() > self.sizes.document {
            let most = self.sizes.document / 1024 / 1024;
            let line = self.at.line;
            return Err(io::Error::other(format!(
                "the document at line {line} is larger than {most} MiB: separate its objects by lines with ---"
            )));
        }
        if let Input::Open(input) = &mut self.input {
            let more = input.by_ref().take(self.sizes.read as u64).read_to_end(&mut self.rest)?;
            if more < self.sizes.read {
                self.input = Input::End;
            }
        }
        Ok(())
    }

    /// Returns the next chunk and where it starts; `None` if more must be read.
    fn content(&mut self) -> io::Result<Option<(ChunkPosition, ChunkContent)>> {
        match &self.within {
            Within::Documents(_) => self.documents(),
            Within::List(..) => self.items(),
            Within::Broken => self.after_broken(),
        }
    }

    fn documents(&mut self) -> io::Result<Option<(ChunkPosition, ChunkContent)>> {
        let Within::Documents(values) = &mut self.within else { return Ok(None) };
        let (at, before) = (self.at, values.before);
        let mut list = None;
        let end = if matches!(self.input, Input::End) {
            Some(self.rest.len())
        } else if let Some(mark) = marks(&self.rest, self.unmarked).next_back() {
            *values = Values::default();
            Some(mark + 1)
        } else if let Some(end) = values.cut(&self.rest) {
            Some(end)
        } else if let Some(start) = values.large(&self.rest, self.sizes.list) {
            list = OpenList::begin(&self.rest[start..]).map(|(list, head)| (list, head, values.count));
            list.is_some().then_some(start)
        } else {
            None
        };
        self.unmarked = self.rest.len();
        let Some(end) = end else { return Ok(None) };
        let documents = ChunkContent::Documents(text(self.take(end), at.line)?, before);
        if let Some((list, head, values)) = list {
            self.take(head);
            self.within = Within::List(list, values);
        }
        Ok(Some((at, documents)))
    }

    fn items(&mut self) -> io::Result<Option<(ChunkPosition, ChunkContent)>> {
        let Within::List(list, values) = &mut self.within else { return Ok(None) };
        let (at, head, values) = (self.at, list.head.clone(), *values);
        let mark = marks(&self.rest, self.unmarked).next();
        self.unmarked = mark.unwrap_or(self.rest.len());
        let (end, is_end) = (self.unmarked, mark.is_some() || matches!(self.input, Input::End));
        let (end, why) = match list.step(&self.rest[..end]) {
            ListStep::More if is_end => (end, "the list is truncated".to_owned()),
            ListStep::More => return Ok(None),
            ListStep::Items(end) => return Ok(Some((at, ChunkContent::Items(text(self.take(end), at.line)?, head)))),
            ListStep::End(end) => {
                self.take(end);
                self.within = Within::Documents(Values::after(values + 1));
                return self.documents();
            }
            ListStep::Broken(at, why) => (at, why),
        };
        self.take(end);
        self.within = Within::Broken;
        let why = format!("{why}; its items before this position were read, the rest of this document was not");
        Ok(Some((self.at, ChunkContent::Broken(why))))
    }

    /// Continues with the next document.
    fn after_broken(&mut self) -> io::Result<Option<(ChunkPosition, ChunkContent)>> {
        let mark = marks(&self.rest, 0).next();
        if let Some(mark) = mark {
            self.take(mark + 1);
            self.within = Within::Documents(Values::default());
            return self.documents();
        }
        let is_end = matches!(self.input, Input::End);
        // The last line may be the start of a marker.
        let end = if is_end { None } else { memchr::memrchr(b'\n', &self.rest) };
        self.take(end.unwrap_or(self.rest.len()));
        Ok(is_end.then(|| (self.at, ChunkContent::Documents(String::new(), 0))))
    }

    /// Removes `count` bytes from `rest` and returns them.
    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.rest.split_off(count);
        let taken = std::mem::replace(&mut self.rest, rest);
        self.unmarked = self.unmarked.saturating_sub(count);
        self.at.line += memchr::memchr_iter(b'\n', &taken).count();
        self.at.column = memchr::memrchr(b'\n', &taken).map_or(self.at.column + count, |at| count - at - 1);
        taken
    }
}

/// Decodes UTF-8 text that starts at a line.
fn text(bytes: Vec<u8>, first_line: usize) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = first_line + memchr::memchr_iter(b'\n', before).count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8 text; save the file as UTF-8"))
    })
}

/// How many JSON values are read before it is certain that a document is not YAML: kubectl reads a document that starts
/// with one value as YAML if something else follows.
pub(super) const FIRST_VALUES: usize = 2;

/// The JSON values at the start of a document.
#[derive(Default)]
struct Values {
    /// How many are complete, including those of earlier chunks.
    count: usize,
    /// How many of them were in earlier chunks, at most [`FIRST_VALUES`].
    before: usize,
    /// Whether the start of the document was skipped.
    begun: bool,
    /// How many bytes were searched.
    searched: usize,
    open: Option<OpenValue>,
    /// Whether something other than a value followed.
    over: bool,
}

/// A value whose end has not been read yet.
struct OpenValue {
    start: usize,
    end: ValueEnd,
    /// Whether it was already reported as large.
    looked_at: bool,
}

impl Values {
    /// Returns the state in a document of which `count` values were read.
    fn after(count: usize) -> Self {
        Self { count, before: count.min(FIRST_VALUES), begun: true, ..Self::default() }
    }

    /// Returns where to split: after the last line that ends with a value, if it is not one of the first.
    fn cut(&mut self, bytes: &[u8]) -> Option<usize> {
        if !self.begun {
            self.searched = start(bytes)?;
            self.begun = true;
        }
        let mut cut = None;
        while !self.over && self.searched < bytes.len() {
            if let Some(open) = &mut self.open {
                let end = open.end.find(&bytes[self.searched..]);
                self.searched = end.map_or(bytes.len(), |end| self.searched + end);
                if end.is_some() {
                    let value = &bytes[open.start..self.searched];
                    self.over = self.count < FIRST_VALUES && serde_json::from_slice::<&RawValue>(value).is_err();
                    self.open = None;
                    self.count += 1;
                }
                continue;
            }
            match bytes[self.searched] {
                b'{' | b'[' => {
                    self.open = Some(OpenValue { start: self.searched, end: ValueEnd::default(), looked_at: false });
                }
                b'\n' if self.count >= FIRST_VALUES => {
                    self.searched += 1;
                    cut = Some(self.searched);
                }
                b' ' | b'\t' | b'\r' | b'\n' => self.searched += 1,
                _ => self.over = true,
            }
        }
        if cut.is_some() {
            self.before = FIRST_VALUES;
        }
        let behind = cut.unwrap_or_default();
        self.searched -= behind;
        if let Some(open) = &mut self.open {
            open.start -= behind;
        }
        cut
    }

    /// Returns where the open value starts, once, when `size` bytes of it were read.
    fn large(&mut self, bytes: &[u8], size: usize) -> Option<usize> {
        let open = self.open.as_mut().filter(|open| !open.looked_at && bytes.len() - open.start >= size)?;
        open.looked_at = true;
        Some(open.start)
    }
}

/// Returns where the content of a document starts, after a byte order mark and the marker that separates it from the one
/// before; `None` if that has not been read yet.
fn start(bytes: &[u8]) -> Option<usize> {
    const MARK: &[u8] = b"---";
    const BYTE_ORDER: &[u8] = "\u{feff}".as_bytes();
    if let Some(after) = bytes.strip_prefix(BYTE_ORDER) {
        return Some(BYTE_ORDER.len() + start(after)?);
    }
    if bytes.starts_with(MARK) {
        let end = MARK.len() + memchr::memchr(b'\n', &bytes[MARK.len()..])?;
        let behind = bytes[MARK.len()..end].trim_ascii();
        // Content after the marker belongs to the document.
        return Some(if behind.is_empty() || behind.starts_with(b"#") { end } else { MARK.len() });
    }
    let is_partial = MARK.starts_with(bytes) || BYTE_ORDER.starts_with(bytes);
    (!is_partial).then_some(0)
}

/// Returns the line breaks before lines that begin with `---`, in JSON too. There are none before `searched`.
fn marks(bytes: &[u8], searched: usize) -> impl DoubleEndedIterator<Item = usize> {
    let from = searched.saturating_sub(b"\n--- ".len());
    let is_mark = move |at: &usize| {
        bytes[at + 1..].starts_with(b"---") && matches!(bytes.get(at + 4), Some(b' ' | b'\t' | b'\r' | b'\n'))
    };
    memchr::memchr_iter(b'\n', &bytes[from..]).map(move |at| from + at).filter(is_mark)
}
