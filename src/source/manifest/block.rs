//! Converts the YAML in which most manifests are written into JSON in one pass.
//!
//! Block mappings and sequences, scalars on one line or after `|`, flow collections on one line: that covers nearly
//! every manifest, and each line of it can be parsed separately. The rest of YAML (anchors, tags, scalars over several
//! lines, unusual keys, ambiguous indentation, errors) is left to the full parser, which takes many times as long. The
//! invariant: every document converted here is converted to the same JSON by the full parser; tests compare the two on
//! generated documents.

mod scalars;

use memchr::memchr;

/// Deeper documents are left to the full parser and its own limits.
const DEPTH: usize = 64;
/// Mappings with more keys are left to the full parser, as keys are compared one by one.
const KEYS: usize = 128;
/// Documents with longer keys are left to the full parser.
const KEY_BYTES: usize = 128;

/// A document converted to JSON.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) json: String,
    /// Where the items of lists begin: offset in the JSON, and line in the document, from 0.
    pub(super) items: Vec<(usize, usize)>,
    /// The keys that occur again in their mapping, with their lines; documents with any are left to the full parser.
    pub(super) duplicates: Vec<(usize, String)>,
}

/// Converts a document; `None` if it is invalid or needs the full parser.
pub(super) fn convert(document: &str) -> Option<Converted> {
    let mut seen = 0;
    for byte in document.bytes() {
        seen |= class(byte);
    }
    if seen & ODD != 0 {
        return None;
    }
    let mut reader = BlockReader {
        text: document.as_bytes(),
        source: document,
        at: 0,
        column: 0,
        line: 0,
        end: false,
        tabs: seen & TAB != 0,
        out: Vec::with_capacity(document.len() + document.len() / 4),
        keys: Vec::new(),
        items: Vec::new(),
    };
    reader.document()?;
    Some(Converted { json: String::from_utf8(reader.out).ok()?, items: reader.items, duplicates: Vec::new() })
}

const ODD: u8 = 1;
const TAB: u8 = 2;

/// Control characters are odd, and so are the lead bytes of blocks that contain others, line breaks and byte order
/// marks.
const fn class(byte: u8) -> u8 {
    match byte {
        b'\t' => TAB,
        b'\n' | b' '..=b'~' | 0x80..=0xbf | 0xc3..=0xdf | 0xe3..=0xec => 0,
        _ => ODD,
    }
}

/// Converts a document; each method returns `None` for syntax that it does not support.
struct BlockReader<'t> {
    text: &'t [u8],
    source: &'t str,
    /// Offset of the next byte.
    at: usize,
    /// Column of the content that begins at `at`, after [`Self::next_line`].
    column: usize,
    line: usize,
    /// Whether only blank lines and comments were left.
    end: bool,
    tabs: bool,
    out: Vec<u8>,
    /// Keys of all open mappings, the innermost last.
    keys: Vec<&'t str>,
    items: Vec<(usize, usize)>,
}

impl<'t> BlockReader<'t> {
    fn document(&mut self) -> Option<()> {
        // `---` may be followed by a comment; a document that starts on that line is rare.
        self.rest_is_blank()?;
        if self.text.first().is_some_and(|first| *first != b'\n' && !matches!(first, b' ' | b'#')) {
            self.at = 0;
            self.column = 0;
            (!self.tabs || !self.current_line().contains(&b'\t')).then_some(())?;
        } else {
            self.next_line()?;
        }
        if self.end {
            return None;
        }
        let column = self.column;
        self.node(column, 0)?;
        self.end.then_some(())
    }

    /// Checks that the rest of the first line is blank or a comment, unless a document starts in its first column.
    fn rest_is_blank(&mut self) -> Option<()> {
        let Some(b' ') = self.text.first() else { return Some(()) };
        let line = self.current_line();
        let content = line.iter().position(|byte| *byte != b' ');
        match content.map(|at| line[at]) {
            None | Some(b'#') => Some(()),
            Some(_) => None,
        }
    }

    fn current_line(&self) -> &'t [u8] {
        let rest = &self.text[self.at..];
        &rest[..memchr(b'\n', rest).unwrap_or(rest.len())]
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.text.get(self.at + offset).copied()
    }

    /// Moves to the next line with content.
    fn next_line(&mut self) -> Option<()> {
        loop {
            let Some(offset) = memchr(b'\n', &self.text[self.at..]) else {
                self.end = true;
                return Some(());
            };
            self.at += offset + 1;
            self.line += 1;
            let start = self.at;
            while self.byte(0) == Some(b' ') {
                self.at += 1;
            }
            match self.byte(0) {
                Some(b'\n' | b'#') => {}
                None => {
                    self.end = true;
                    return Some(());
                }
                Some(_) => {
                    self.column = self.at - start;
                    return (!self.tabs || !self.current_line().contains(&b'\t')).then_some(());
                }
            }
        }
    }

    /// Whether an item of a sequence starts here.
    fn is_dash(&self) -> bool {
        self.byte(0) == Some(b'-') && matches!(self.byte(1), None | Some(b' ' | b'\n'))
    }

    fn node(&mut self, column: usize, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        if self.is_dash() { self.sequence(column, false, depth) } else { self.mapping(column, depth) }
    }

    fn mapping(&mut self, column: usize, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        let first = self.keys.len();
        let mut before = b'{';
        loop {
            let key = self.key()?;
            let known = &self.keys[first..];
            if known.len() > KEYS || known.contains(&key) {
                return None;
            }
            self.keys.push(key);
            self.out.push(before);
            before = b',';
            self.text_out(key);
            self.out.push(b':');
            self.value(column, true, depth)?;
            if self.end || self.column < column {
                break;
            }
            if self.column > column || self.is_dash() {
                return None;
            }
        }
        self.keys.truncate(first);
        self.out.push(b'}');
        Some(())
    }

    /// Reads a sequence; `shared` if a key in the same column may follow it.
    fn sequence(&mut self, column: usize, shared: bool, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        let mut before = b'[';
        loop {
            self.out.push(before);
            before = b',';
            self.begin_item();
            self.at += 1;
            let spaces = self.text[self.at..].iter().take_while(|byte| **byte == b' ').count();
            self.at += spaces;
            let inner = column + 1 + spaces;
            if self.is_dash() {
                self.sequence(inner, false, depth + 1)?;
            } else if self.at_key() {
                self.mapping(inner, depth + 1)?;
            } else {
                self.value(column, false, depth)?;
            }
            if self.end || self.column < column {
                break;
            }
            if self.column > column {
                return None;
            }
            if !self.is_dash() {
                if shared {
                    break;
                }
                return None;
            }
        }
        self.out.push(b']');
        Some(())
    }

    /// Records where an item starts, if it may be an object of a list: in the field `items`, or in no field at all.
    fn begin_item(&mut self) {
        if self.keys.last().is_none_or(|key| *key == "items") {
            self.items.push((self.out.len(), self.line));
        }
    }

    /// Reads the value after a key or a dash, and moves to the next line.
    fn value(&mut self, column: usize, in_mapping: bool, depth: usize) -> Option<()> {
        while self.byte(0) == Some(b' ') {
            self.at += 1;
        }
        match self.byte(0) {
            None | Some(b'\n') => return self.below(column, in_mapping, depth),
            Some(b'#') if self.text[self.at - 1] == b' ' => return self.below(column, in_mapping, depth),
            Some(b'|') => return self.literal(column),
            Some(b'"' | b'\'') => self.quoted()?,
            Some(b'{' | b'[') => self.flow(depth)?,
            Some(_) => return self.plain(column),
        }
        self.blank_to_the_end()?;
        self.after_scalar(column)
    }

    /// Reads the value of a key or dash from the lines below it.
    fn below(&mut self, column: usize, in_mapping: bool, depth: usize) -> Option<()> {
        self.next_line()?;
        if !self.end && self.column > column {
            let column = self.column;
            return self.node(column, depth + 1);
        }
        if !self.end && in_mapping && self.column == column && self.is_dash() {
            return self.sequence(column, true, depth + 1);
        }
        self.out.extend_from_slice(b"null");
        Some(())
    }

    /// Moves to the next line, which must not continue the value.
    fn after_scalar(&mut self, column: usize) -> Option<()> {
        self.next_line()?;
        (self.end || self.column <= column).then_some(())
    }

    /// Checks that the rest of the line is blank or a comment.
    fn blank_to_the_end(&mut self) -> Option<()> {
        let line = self.current_line();
        let content = line.iter().position(|byte| *byte != b' ');
        match content.map(|at| (at, line[at])) {
            None => Some(()),
            Some((at, b'#')) if at > 0 => Some(()),
            Some(_) => None,
        }
    }

    fn at_key(&self) -> bool {
        self.key_here().is_some()
    }

    /// Returns the key at the current position, and its length including the colon.
    fn key_here(&self) -> Option<(&'t str, usize)> {
        let rest = &self.text[self.at..];
        let (start, length, behind) = match rest.first()? {
            quote @ (b'"' | b'\'') => {
                let length = memchr(*quote, &rest[1..])?;
                (1, length, length + 2)
            }
            first if first.is_ascii_alphabetic() || *first == b'_' => {
                let length = rest.iter().position(|byte| !is_key_byte(*byte))?;
                (0, length, length)
            }
            _ => return None,
        };
        if rest.get(behind) != Some(&b':') || !matches!(rest.get(behind + 1), None | Some(b' ' | b'\n')) {
            return None;
        }
        let key = self.source.get(self.at + start..self.at + start + length)?;
        let doubtful = key.len() > KEY_BYTES
            || key.is_empty()
            || if start == 0 { is_word(key) } else { key.contains(['\\', '\n', '\'', '"']) };
        (!doubtful).then_some((key, behind + 1))
    }

    fn key(&mut self) -> Option<&'t str> {
        let (key, length) = self.key_here()?;
        self.at += length;
        Some(key)
    }

    /// Reads a flow collection that ends on its line.
    fn flow(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        let open = self.byte(0)?;
        let close = if open == b'{' { b'}' } else { b']' };
        self.out.push(open);
        self.at += 1;
        let first_key = self.keys.len();
        self.spaces();
        let mut first = true;
        while first || self.byte(0)? != close {
            if !first {
                (self.byte(0)? == b',').then_some(())?;
                self.at += 1;
                self.spaces();
                self.out.push(b',');
            } else if self.byte(0)? == close {
                break;
            }
            first = false;
            if open == b'{' {
                let key = self.key()?;
                let known = &self.keys[first_key..];
                if known.len() > KEYS || known.contains(&key) {
                    return None;
                }
                self.keys.push(key);
                self.text_out(key);
                self.out.push(b':');
                self.spaces();
            }
            if open == b'[' {
                self.begin_item();
            }
            self.flow_value(depth)?;
            self.spaces();
        }
        self.keys.truncate(first_key);
        self.out.push(close);
        self.at += 1;
        Some(())
    }

    fn flow_value(&mut self, depth: usize) -> Option<()> {
        match self.byte(0)? {
            b'{' | b'[' => self.flow(depth + 1),
            b'"' | b'\'' => self.quoted(),
            _ => {
                let rest = &self.text[self.at..];
                let length = rest.iter().position(|byte| !is_key_byte(*byte))?;
                let text = self.source.get(self.at..self.at + length)?;
                self.scalar(text)?;
                self.at += length;
                self.spaces();
                matches!(self.byte(0)?, b',' | b'}' | b']').then_some(())
            }
        }
    }

    fn spaces(&mut self) {
        while self.byte(0) == Some(b' ') {
            self.at += 1;
        }
    }
}

/// Whether a byte may occur in plain keys, and in plain scalars in flow collections.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-')
}

/// Whether a word has a special meaning in some version of YAML.
fn is_word(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.len() <= 5 && WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;
