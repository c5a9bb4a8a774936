//! Escapes untrusted text for terminals and logs.
//!
//! Messages and names come from policies and from everyone who may create objects. Terminals interpret their control
//! characters, editors their bidirectional marks, and CI runners lines that are commands: GitHub's runner executes
//! `::command::` at the beginning of a line and `##[command]` anywhere in it, the Azure agent `##vso[…]` and the
//! `TeamCity` server `##teamcity[…]` anywhere. [`Guarded`] disarms them in all output for people.

use std::{
    borrow::Cow,
    io::{self, Write as _},
};

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::DoubleQuoted;

/// Returns `text` with everything escaped that a terminal would interpret or that would hide text: control and bidi
/// characters, line separators, invisible marks. Line breaks stay, tabs become spaces.
pub(crate) fn shown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => safe.push('\n'),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\t' => safe.push_str("  "),
            c if is_unsafe(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns [`shown`] text on one line, with line breaks escaped and without white space at its end.
pub(crate) fn shown_line(text: &str) -> String {
    shown(text.trim_end()).replace('\n', "\\n")
}

/// Returns [`shown`] text for standard error, in which no line is a command to a CI runner.
pub fn shown_lines(text: &str) -> String {
    // Tabs align kaudit's own text, so they stay.
    let shown = text.split('\t').map(shown).collect::<Vec<_>>().join("\t");
    let mut guarded = Guarded::new(Vec::new());
    // Writing to memory does not fail.
    let _written = guarded.write_all(shown.as_bytes());
    String::from_utf8_lossy(&guarded.to).into_owned()
}

/// Writes text for people, with a backslash inserted into everything that is a command to a CI runner: `##\[`,
/// `##vso\[`, and `:\:` at the beginning of a line.
pub(crate) struct Guarded<W> {
    to: W,
    /// The last bytes that were written, in lower case.
    tail: Vec<u8>,
    start: LineStart,
    /// Whether commands at the beginning of a line are intended.
    has_commands: bool,
}

/// The part of the current line that was written so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineStart {
    /// Only characters that a runner skips.
    Blank,
    /// One colon.
    Colon,
    /// Other text.
    Text,
}

/// The text before the bracket of a command, in lower case.
const MARKS: [&[u8]; 3] = [b"##", b"##vso", b"##teamcity"];
/// Length of the longest of these.
const LONGEST_MARK: usize = 10;

impl<W: io::Write> Guarded<W> {
    /// Guards text that contains no intended commands.
    pub(crate) fn new(to: W) -> Self {
        Self { to, tail: Vec::new(), start: LineStart::Blank, has_commands: false }
    }

    /// Guards text with intended commands at the beginning of lines, and nowhere else.
    pub(crate) fn with_commands(to: W) -> Self {
        Self { has_commands: true, ..Self::new(to) }
    }

    fn guard(&mut self, text: &[u8]) -> Vec<u8> {
        let mut guarded = Vec::with_capacity(text.len());
        for byte in text {
            let second_colon = *byte == b':' && self.start == LineStart::Colon && !self.has_commands;
            let bracket = *byte == b'[' && MARKS.iter().any(|mark| self.tail.ends_with(mark));
            if second_colon || bracket {
                guarded.push(b'\\');
            }
            guarded.push(*byte);
            self.start = match (byte, self.start) {
                (b'\n' | b'\r', _) => LineStart::Blank,
                (b':', LineStart::Blank) => LineStart::Colon,
                // Non-ASCII white space is skipped as well.
                (byte, LineStart::Blank) if byte.is_ascii_whitespace() || !byte.is_ascii() => LineStart::Blank,
                _ => LineStart::Text,
            };
            if self.tail.len() == LONGEST_MARK {
                self.tail.remove(0);
            }
            self.tail.push(byte.to_ascii_lowercase());
        }
        guarded
    }
}

impl<W: io::Write> io::Write for Guarded<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let guarded = self.guard(text);
        self.to.write_all(&guarded)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether a character must be escaped. Joiners (U+200C, U+200D) stay, because scripts and emoji need them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fdd0}'..='\u{fdef}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Writes a value as JSON, on one line.
pub(crate) fn write_json(out: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    buffered(out, |out| serde_json::to_writer(out, value))
}

/// Writes a value as JSON, indented.
pub(crate) fn write_json_pretty(out: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    buffered(out, |out| serde_json::to_writer_pretty(out, value))
}

/// Returns a value as YAML for review: strings with unsafe characters are in double quotes, with the characters
/// escaped.
///
/// # Errors
/// If the YAML cannot be serialized, which no text causes.
pub(crate) fn to_yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(&Quoted(&serde_json::to_value(value)?))?;
    let mut yaml = Vec::with_capacity(text.len());
    Escaping::yaml(&mut yaml).write_all(text.as_bytes())?;
    Ok(String::from_utf8(yaml)?)
}

/// A value whose strings are written in double quotes if they need escapes.
struct Quoted<'v>(&'v Value);

impl Serialize for Quoted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if text.contains(is_unsafe) => DoubleQuoted(text).serialize(serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Quoted)),
            Value::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, Quoted(value)))),
            other => other.serialize(serializer),
        }
    }
}

/// Buffers the small pieces that serde writes, so that they are not escaped one by one.
fn buffered<W: io::Write>(
    out: W,
    fill: impl FnOnce(&mut io::BufWriter<Escaping<W>>) -> serde_json::Result<()>,
) -> io::Result<()> {
    let mut buffer = io::BufWriter::new(Escaping::json(out));
    fill(&mut buffer)?;
    // Flushing would also flush `out`.
    buffer.into_inner().map(drop).map_err(io::IntoInnerError::into_error)
}

/// Writes a JSON, YAML or markup document with all unsafe characters escaped, so that its meaning stays the same. In
/// JSON it also escapes the second of two `#`, with which commands to CI runners begin. Each write must contain whole
/// characters, as those of serde do.
pub(crate) struct Escaping<W> {
    to: W,
    escape: fn(char) -> String,
    /// Whether `#` is escaped as well.
    hashes: bool,
    /// Whether the last character was `#`.
    after_hash: bool,
}

impl<W: io::Write> Escaping<W> {
    /// Escapes JSON.
    pub(crate) fn json(to: W) -> Self {
        let escape = |c: char| {
            let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>();
            units.concat()
        };
        Self { to, escape, hashes: true, after_hash: false }
    }

    /// Escapes YAML in which unsafe characters occur in double quotes only.
    fn yaml(to: W) -> Self {
        let escape = |c: char| {
            let c = u32::from(c);
            if c > 0xffff { format!("\\U{c:08X}") } else { format!("\\u{c:04X}") }
        };
        Self { to, escape, hashes: false, after_hash: false }
    }

    /// Escapes XML or HTML.
    pub(crate) fn markup(to: W) -> Self {
        let escape = |c: char| match c {
            // XML cannot express them.
            '\u{fffe}' | '\u{ffff}' => c.escape_unicode().to_string(),
            c => format!("&#x{:x};", u32::from(c)),
        };
        Self { to, escape, hashes: false, after_hash: false }
    }

    fn escaped<'t>(&mut self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let ends_with_hash = text.last().map_or(self.after_hash, |last| *last == b'#');
        let after_hash = std::mem::replace(&mut self.after_hash, ends_with_hash);
        let hashes =
            self.hashes && (after_hash && text.first() == Some(&b'#') || text.windows(2).any(|two| two == b"##"));
        if text.is_ascii() && !text.contains(&b'\x7f') && !hashes {
            return Cow::Borrowed(text);
        }
        // Serde has already escaped ASCII where necessary; what remains are line breaks between strings.
        let to_escape = |c: char| is_unsafe(c) && (!c.is_ascii() || c == '\u{7f}');
        match str::from_utf8(text) {
            Ok(text) if hashes || text.contains(to_escape) => {
                let mut before = if after_hash { '#' } else { ' ' };
                let escaped = |c: char| {
                    let second = std::mem::replace(&mut before, c) == '#' && c == '#' && hashes;
                    if second || to_escape(c) { (self.escape)(c) } else { c.to_string() }
                };
                Cow::Owned(text.chars().map(escaped).collect::<String>().into_bytes())
            }
            _ => Cow::Borrowed(text),
        }
    }
}

impl<W: io::Write> io::Write for Escaping<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let escaped = self.escaped(text);
        self.to.write_all(&escaped)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rego::analysis::yaml;

    #[test]
    fn escaping_keeps_json_equivalent() {
        let text = "a\u{1b}\u{7f}\u{9b}\u{202e}\u{e0001}ä\u{200d}😀\n";
        let mut out = Vec::new();
        write_json(&mut out, &text).unwrap();
        assert_eq!(str::from_utf8(&out).unwrap(), "\"a\\u001b\\u007f\\u009b\\u202e\\udb40\\udc01ä\u{200d}😀\\n\"");
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        Escaping::json(&mut out).write_all(b"\n\xff").unwrap();
        assert!(out.ends_with(b"\n\xff"));
    }

    #[test]
    fn escaping_keeps_yaml_equivalent_and_shows_hidden_characters() {
        let hidden: String = ('\0'..=char::MAX).filter(|c| is_unsafe(*c)).collect();
        for text in [
            &*hidden,
            "a\u{202e}b",
            "\u{e0041}",
            "\\\u{2066}\"'",
            "- a: \u{feff}",
            "\u{200b}\n\u{200b} ",
            "plain",
            "ä \u{200d} 😀",
            "it's: #\n  two lines",
            "no",
            "",
        ] {
            let value = serde_json::json!({"name": text, "list": [text, {"deeper": text}], "other": [1, true, null]});
            let yaml = to_yaml(&value).unwrap();
            assert_eq!(yaml::from_str::<Value>(&yaml).unwrap(), value, "{yaml}");
            assert!(!yaml.contains(|c| is_unsafe(c) && c != '\n'), "{yaml:?}");
        }
        assert_eq!(to_yaml(&serde_json::json!({"a": "b\u{202e}c", "d": "e"})).unwrap(), "a: \"b\\u202Ec\"\nd: e\n");
    }

    #[test]
    fn commands_to_runners_are_disarmed() {
        for (text, want) in [
            ("a\n ::error::b\r\n##[x]\u{1b}", "a\n :\\:error::b\n##\\[x]\\u{1b}"),
            ("see ##[add-mask]a", "see ##\\[add-mask]a"),
            ("a ##vso[task.setvariable variable=PATH]/tmp", "a ##vso\\[task.setvariable variable=PATH]/tmp"),
            ("##VSO[x] ###[y]\t##TeamCity[z]", "##VSO\\[x] ###\\[y]\t##TeamCity\\[z]"),
            ("\u{a0}::error::x", "\u{a0}:\\:error::x"),
            ("a::b : ::c #[d] ## [e] [[f]]", "a::b : ::c #[d] ## [e] [[f]]"),
        ] {
            assert_eq!(shown_lines(text), want);
        }
    }

    #[test]
    fn text_written_in_pieces_is_guarded_like_the_whole() {
        let text = "ä ##[a]\n::b\n  ::c ##vso[d] ##teamcity[e]\n###[f]";
        let of = |size: usize| {
            let mut guarded = Guarded::new(Vec::new());
            text.as_bytes().chunks(size).for_each(|piece| guarded.write_all(piece).unwrap());
            String::from_utf8(guarded.to).unwrap()
        };
        assert_eq!(of(1), of(text.len()));
        let mut out = Vec::new();
        let mut json = Escaping::json(&mut out);
        for piece in ["\"a#", "#[b] ###", "# #c\""] {
            json.write_all(piece.as_bytes()).unwrap();
        }
        let json = String::from_utf8(out).unwrap();
        assert!(!json.contains("##"), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "a##[b] #### #c");
    }
}
