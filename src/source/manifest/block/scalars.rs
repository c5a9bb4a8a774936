//! Scalars: plain and quoted ones on one line, and those after `|`.

use memchr::{memchr, memchr2, memchr3};

use super::{BlockReader, is_word};
use crate::rego::analysis::yaml::{YamlDialect, YamlScalar};

impl BlockReader<'_> {
    /// Reads a plain scalar that ends on its line.
    pub(super) fn plain(&mut self, column: usize) -> Option<()> {
        let line = self.current_line();
        let mut end = line.len();
        for (at, byte) in line.iter().enumerate() {
            match byte {
                b'#' if at > 0 && line[at - 1] == b' ' => {
                    end = at;
                    break;
                }
                b':' if line.get(at + 1).is_none_or(|next| *next == b' ') => return None,
                _ => {}
            }
        }
        let text = self.source.get(self.at..self.at + end)?.trim_end_matches(' ');
        self.scalar(text)?;
        self.after_scalar(column)
    }

    /// Writes the JSON value of a plain scalar.
    pub(super) fn scalar(&mut self, text: &str) -> Option<()> {
        let bytes = text.as_bytes();
        let number_like = |byte: &u8| byte.is_ascii_hexdigit() || b"xXoO_+.-".contains(byte);
        match bytes.first()? {
            b'a'..=b'z' | b'A'..=b'Z' => match text {
                "true" | "false" | "null" => self.out.extend_from_slice(bytes),
                word if is_word(word) => return None,
                _ => self.text_out(text),
            },
            b'~' if text == "~" => self.out.extend_from_slice(b"null"),
            b'/' | b'$' | b'(' | b'_' | 0x80.. => self.text_out(text),
            b'0'..=b'9'
                if bytes.len() < 18 && bytes.iter().all(u8::is_ascii_digit) && (bytes[0] != b'0' || text == "0") =>
            {
                self.out.extend_from_slice(bytes);
            }
            b'0'..=b'9' if !bytes.iter().all(number_like) => self.text_out(text),
            b'-' if bytes.get(1) == Some(&b'-') && bytes.get(2) != Some(&b'-') => self.text_out(text),
            b'-' if bytes.get(1)?.is_ascii_alphanumeric() && !bytes.iter().all(number_like) => self.text_out(text),
            b'.' if bytes.get(1) == Some(&b'/') => self.text_out(text),
            b'0'..=b'9' | b'-' | b'+' | b'.' if bytes.len() > 1 && bytes.iter().all(number_like) => {
                if text.starts_with("--") || text.starts_with("..") {
                    return None;
                }
                self.out.extend_from_slice(
                    YamlScalar::plain(text, YamlDialect::Kubectl).into_json()?.to_string().as_bytes(),
                );
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads a quoted scalar that ends on its line.
    pub(super) fn quoted(&mut self) -> Option<()> {
        let line = self.current_line();
        let quote = line[0];
        if quote == b'"' {
            let mut end = 1;
            loop {
                end += memchr2(b'"', b'\\', line.get(end..)?)?;
                if line[end] == b'"' {
                    break;
                }
                // These escapes are the same in JSON.
                matches!(line.get(end + 1)?, b'"' | b'\\' | b'/' | b'n' | b't' | b'r' | b'b' | b'f').then_some(())?;
                end += 2;
            }
            // Raw tabs are invalid in JSON strings; lines with tabs were left to the full parser.
            self.out.extend_from_slice(&line[..=end]);
            self.at += end + 1;
            return Some(());
        }
        let (start, mut end) = (self.at + 1, 1);
        loop {
            end += memchr(b'\'', line.get(end..)?)?;
            if line.get(end + 1) != Some(&b'\'') {
                break;
            }
            end += 2;
        }
        let text = self.source.get(start..self.at + end)?;
        if text.contains('\'') {
            self.text_out(&text.replace("''", "'"));
        } else {
            self.text_out(text);
        }
        self.at += end + 1;
        Some(())
    }

    /// Reads a block scalar after `|`, whose lines are indented deeper than `column`.
    pub(super) fn literal(&mut self, column: usize) -> Option<()> {
        let strip = match self.current_line() {
            b"|" => false,
            b"|-" => true,
            _ => return None,
        };
        self.at += memchr(b'\n', &self.text[self.at..])? + 1;
        self.line += 1;
        let indent = self.text[self.at..].iter().take_while(|byte| **byte == b' ').count();
        if indent <= column || matches!(self.byte(indent), None | Some(b'\n' | b'\t')) {
            return None;
        }
        self.out.push(b'"');
        let mut blank = 0;
        let mut first = true;
        loop {
            let line = self.current_line();
            let spaces = line.iter().take_while(|byte| **byte == b' ').count();
            if spaces == line.len() {
                if spaces > indent {
                    return None;
                }
                blank += 1;
            } else if spaces < indent {
                // A comment between the two indentations is ambiguous.
                if line[spaces] == b'#' && spaces > column {
                    return None;
                }
                break;
            } else {
                let breaks = if first { 0 } else { blank + 1 };
                (0..breaks).for_each(|_| self.out.extend_from_slice(b"\\n"));
                escape(&line[indent..], &mut self.out);
                (first, blank) = (false, 0);
            }
            if self.at + line.len() == self.text.len() {
                // If the last line break is missing, the full parser decides.
                if !line.is_empty() {
                    return None;
                }
                break;
            }
            self.at += line.len() + 1;
            self.line += 1;
        }
        self.out.extend_from_slice(if strip { b"\"" } else { b"\\n\"" });
        // Back to the line break, from which the next line with content is searched.
        self.at -= 1;
        self.line -= 1;
        self.after_scalar(column)
    }

    /// Writes a JSON string.
    pub(super) fn text_out(&mut self, text: &str) {
        self.out.push(b'"');
        escape(text.as_bytes(), &mut self.out);
        self.out.push(b'"');
    }
}

fn escape(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr3(b'"', b'\\', b'\t', text) {
        out.extend_from_slice(&text[..at]);
        out.extend_from_slice(match text[at] {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            _ => b"\\t",
        });
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}
