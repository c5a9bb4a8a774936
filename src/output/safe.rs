//! Untrusted text, escaped for terminals and logs.
//!
//! Messages and names come from policies and from everybody who may create objects. A terminal would obey their control
//! characters, an editor their bidirectional marks, and the log of a CI system lines that look like its commands.

use std::{borrow::Cow, io};

use serde::Serialize;

/// Returns `text` with everything made visible that a terminal would act on or that would hide what is there:
/// control and bidi characters, line separators, invisible marks. Line breaks stay, tabs become spaces.
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

/// As [`shown`], on one line.
pub(crate) fn shown_line(text: &str) -> String {
    shown(text.trim_end()).replace('\n', "\\n")
}

/// As [`shown`], for standard error: none of the lines is a command.
pub fn shown_lines(text: &str) -> String {
    // Tabs align what is ours.
    let shown = text.split('\t').map(shown).collect::<Vec<_>>().join("\t");
    shown.split('\n').map(|line| no_command(line.to_owned())).collect::<Vec<_>>().join("\n")
}

/// Keeps a line from being a command to the log of a pipeline (`::error::`, `##[group]`), which several of them take
/// from any line of output.
pub(super) fn no_command(line: String) -> String {
    let text = line.trim_start();
    if !text.starts_with("::") && !text.starts_with("##[") {
        return line;
    }
    format!("{}\\{text}", &line[..line.len() - text.len()])
}

/// Joiners (U+200C, U+200D) are left alone: scripts and emoji need them.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Writes a value as JSON, on one line.
pub(crate) fn write_json(out: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    buffered(out, |out| serde_json::to_writer(out, value))
}

/// Writes a value as JSON, indented.
pub(crate) fn write_json_pretty(out: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    buffered(out, |out| serde_json::to_writer_pretty(out, value))
}

/// Gathers the pieces that serde writes, which are small, so that each is not looked through on its own.
fn buffered<W: io::Write>(
    out: W,
    fill: impl FnOnce(&mut io::BufWriter<Escaping<W>>) -> serde_json::Result<()>,
) -> io::Result<()> {
    let mut buffer = io::BufWriter::new(Escaping::json(out));
    fill(&mut buffer)?;
    // Flushing would go on to what is behind `out`, too.
    buffer.into_inner().map(drop).map_err(io::IntoInnerError::into_error)
}

/// Takes a document in a language that has escapes, and writes the same document with those characters escaped that
/// [`shown`] shows. Each write must hold whole characters, as those of serde do.
pub(crate) struct Escaping<W> {
    to: W,
    escape: fn(char) -> String,
}

impl<W: io::Write> Escaping<W> {
    /// Takes JSON.
    pub(crate) fn json(to: W) -> Self {
        let escape = |c: char| {
            let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>();
            units.concat()
        };
        Self { to, escape }
    }

    /// Takes XML or HTML.
    pub(crate) fn markup(to: W) -> Self {
        Self { to, escape: |c| format!("&#x{:x};", u32::from(c)) }
    }

    fn escaped<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        if text.is_ascii() && !text.contains(&b'\x7f') {
            return Cow::Borrowed(text);
        }
        // ASCII is escaped already where it has to be; what is left are line breaks between strings.
        let to_escape = |c: char| is_unsafe(c) && (!c.is_ascii() || c == '\u{7f}');
        match str::from_utf8(text) {
            Ok(text) if text.contains(to_escape) => {
                let escaped = |c: char| if to_escape(c) { (self.escape)(c) } else { c.to_string() };
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
    use std::io::Write as _;

    use super::*;

    #[test]
    fn json_stays_the_same_json() {
        let text = "a\u{1b}\u{7f}\u{9b}\u{202e}\u{e0001}ä\u{200d}😀\n";
        let mut out = Vec::new();
        write_json(&mut out, &text).unwrap();
        assert_eq!(str::from_utf8(&out).unwrap(), "\"a\\u001b\\u007f\\u009b\\u202e\\udb40\\udc01ä\u{200d}😀\\n\"");
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        Escaping::json(&mut out).write_all(b"\n\xff").unwrap();
        assert!(out.ends_with(b"\n\xff"));
    }

    #[test]
    fn no_line_is_a_command() {
        assert_eq!(shown_lines("a\n ::error::b\r\n##[x]\u{1b}"), "a\n \\::error::b\n\\##[x]\\u{1b}");
    }
}
