//! Finds the end of a JSON value.

/// Finds where one JSON value ends in text that arrives in pieces. Reads each byte once; the value is validated by the
/// code that parses it.
#[derive(Debug, Default)]
pub(crate) struct ValueEnd {
    depth: usize,
    token: JsonToken,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum JsonToken {
    /// Between tokens.
    #[default]
    None,
    /// In a string.
    String,
    /// In a string, after a backslash.
    Escape,
    /// In a number or a literal that is the whole value.
    Scalar,
}

impl ValueEnd {
    /// Searches the next piece of the text; the first one begins with the value's first byte. Returns how many bytes of
    /// the piece belong to the value, if it ends there: a number or a literal ends where something else follows it.
    pub(crate) fn find(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match self.token {
                JsonToken::String => {
                    // Most bytes are inside of strings.
                    at += memchr::memchr2(b'"', b'\\', &text[at..])?;
                    self.token = if text[at] == b'\\' { JsonToken::Escape } else { JsonToken::None };
                    if self.token == JsonToken::None && self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                JsonToken::Escape => self.token = JsonToken::String,
                JsonToken::Scalar if matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\r' | b'\n') => {
                    return Some(at);
                }
                JsonToken::Scalar => {}
                JsonToken::None if self.depth > 0 && is_within(byte) => {
                    at += text[at..].iter().take_while(|byte| is_within(**byte)).count();
                    continue;
                }
                JsonToken::None => match byte {
                    b'"' => self.token = JsonToken::String,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => self.token = JsonToken::Scalar,
                },
            }
            at += 1;
        }
        None
    }
}

/// Whether a byte between strings of an object or an array neither begins nor ends anything: numbers, separators and
/// white space, of which there are long runs where JSON is indented.
fn is_within(byte: u8) -> bool {
    !matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the end of the value in pieces of `size` bytes.
    fn end(text: &str, size: usize) -> Option<usize> {
        let mut end = ValueEnd::default();
        text.as_bytes().chunks(size).enumerate().find_map(|(n, piece)| Some(n * size + end.find(piece)?))
    }

    #[test]
    fn the_end_of_a_value_is_found_however_the_text_is_cut() {
        let values = [
            r#"{"a":"}","b":["\"]","\\"],"c":{}}"#,
            r#""text \" with \\""#,
            "[1,[2,{}],\"]\"]",
            "{}",
            "-1.5e3",
            "null",
            r#"{"ä":"\u00e4 🦀"}"#,
        ];
        for value in values {
            for size in 1..=value.len() + 1 {
                assert_eq!(end(&format!("{value},1"), size), Some(value.len()), "{value} in pieces of {size}");
            }
        }
        assert_eq!(end("[1,", 1), None);
        assert_eq!(end("17", 1), None, "more digits may come");
    }
}
