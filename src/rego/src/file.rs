//! The text of a policy or data file.

use std::{
    ops::Deref,
    path::Path,
    sync::{Arc, OnceLock},
};

use super::limits::Version;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A module.
    Rego,
    /// JSON, for `data`.
    Json,
    /// YAML, for `data`; all documents are merged.
    Yaml,
}

impl Form {
    /// Returns the format by the extension of a file; `None` for other files.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "rego" => Some(Self::Rego),
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// A language version that is declared outside the module itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// The version.
    pub version: Version,
    /// The source of the declaration, as named in problems.
    pub by: &'static str,
    /// How to fix a wrong declaration.
    pub help: &'static str,
}

/// The content of one file.
#[derive(Debug, Clone)]
pub struct File {
    /// The name shown to the user.
    pub shown: Arc<str>,
    /// Directories between the given path and the file; they are the keys of its data.
    pub directories: Vec<String>,
    /// The format of the text.
    pub form: Form,
    /// The declared version of a module; without one it is detected.
    pub declared: Option<Declared>,
    /// The text.
    pub text: FileText,
}

/// A text with an index of its lines: a file may have a problem in each of them.
#[derive(Debug, Clone, Default)]
pub struct FileText {
    text: String,
    /// The start of each line, indexed on first use.
    lines: OnceLock<Vec<usize>>,
}

impl FileText {
    /// Returns a line, counted from 1, without its line end; empty if it does not exist.
    pub fn line(&self, line: u32) -> &str {
        let begins =
            || [0].into_iter().chain(self.text.match_indices('\n').map(|(at, _)| at + 1)).collect::<Vec<usize>>();
        let lines = self.lines.get_or_init(begins);
        let rest = (line as usize).checked_sub(1).and_then(|index| self.text.get(*lines.get(index)?..));
        rest.and_then(|rest| rest.lines().next()).unwrap_or_default()
    }
}

impl From<String> for FileText {
    fn from(text: String) -> Self {
        Self { text, lines: OnceLock::new() }
    }
}

impl Deref for FileText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl File {
    /// Returns a file with the name shown in problems, without directories or a declared version.
    pub fn new(shown: Arc<str>, form: Form, text: String) -> Self {
        Self { shown, directories: Vec::new(), form, declared: None, text: text.into() }
    }

    /// Returns the declared version of the module.
    pub fn version(&self) -> Option<Version> {
        self.declared.map(|declared| declared.version)
    }

    /// Returns the path below the given one, with `/` on every system.
    pub fn relative(&self) -> String {
        let name = Path::new(&*self.shown).file_name().unwrap_or_default().to_string_lossy();
        self.directories.iter().map(String::as_str).chain([&*name]).collect::<Vec<_>>().join("/")
    }

    /// Returns a lower bound for the number of words, other characters and lines of a module, including comments.
    pub fn tokens(&self) -> usize {
        let mut after_word = false;
        let mut tokens = 0;
        for byte in self.text.bytes() {
            let is_word = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
            tokens += usize::from(if is_word { !after_word } else { byte == b'\n' || !byte.is_ascii_whitespace() });
            after_word = is_word;
        }
        tokens
    }

    /// Returns an estimate of the number of values in a data file, without expanding aliases; never too low.
    pub fn values(&self) -> usize {
        let (mut values, mut before, mut quoted) = (1, b' ', false);
        for byte in self.text.bytes() {
            // Only JSON has reliable quotes.
            if self.form == Form::Json && before == b'\\' {
                before = b' ';
                continue;
            }
            quoted ^= self.form == Form::Json && byte == b'"';
            let begins = match byte {
                b',' | b'[' | b'{' | b':' => true,
                b' ' | b'\t' => matches!(before, b'-' | b'?'),
                b'\n' => self.form != Form::Json,
                _ => false,
            };
            values += usize::from(begins && !quoted);
            before = byte;
        }
        values
    }

    /// Whether it is a test file, by its name.
    pub fn is_test(&self) -> bool {
        self.form == Form::Rego && self.shown.ends_with("_test.rego")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_match_those_of_the_text() {
        for text in ["", "\n", "a", "a\n", "a\r\nb\n\nä\n", "\n\n a\rb\n\r\n", "a\r"] {
            let indexed = FileText::from(text.to_owned());
            let lines: Vec<&str> = text.lines().collect();
            for line in 0..9_u32 {
                let want = line.checked_sub(1).and_then(|index| lines.get(index as usize)).copied();
                assert_eq!(indexed.line(line), want.unwrap_or_default(), "{text:?} {line}");
            }
        }
        assert_eq!(FileText::from("a".to_owned()).line(u32::MAX), "");
    }

    #[test]
    fn size_estimates_are_never_too_low() {
        let file = |form, text: &str| File::new("f".into(), form, text.to_owned());
        for (text, least) in [("[]", 1), ("[[],[],0]", 4), (r#"{"a":{"b":[1,2]}}"#, 5), (r#"["a,\",b"]"#, 2)] {
            let (json, yaml) = (file(Form::Json, text).values(), file(Form::Yaml, text).values());
            assert!(json >= least && yaml >= least, "{text}: {json} {yaml}");
        }
        assert!(file(Form::Json, &format!("[\"{}\"]", ",".repeat(1_000))).values() < 10);
        assert!(file(Form::Yaml, "- - - a\n- b: c\n").values() >= 7);
        for (text, tokens) in [("", 0), ("package a\n", 3), ("x:=[[],[]]", 10), ("\n\n\n", 3)] {
            assert_eq!(file(Form::Rego, text).tokens(), tokens, "{text}");
        }
    }
}
