//! Builds Markdown.

use std::fmt::Write as _;

/// The first line of each generated document.
pub(crate) const MARK: &str = "<!-- Made by cargo run --example docs; do not edit. -->";

/// A document that grows by blocks, which are separated by empty lines.
pub(crate) struct Page(String);

impl Page {
    /// Starts a document with its title, which is Markdown.
    pub(crate) fn new(title: &str) -> Self {
        Self(format!("{MARK}\n\n# {title}\n"))
    }

    /// Adds a heading, a paragraph, a list or a table as Markdown; nothing if it is empty.
    pub(crate) fn add(&mut self, block: &str) {
        if !block.is_empty() {
            self.0.push('\n');
            self.0.push_str(block.trim_end());
            self.0.push('\n');
        }
    }

    /// Adds a code block.
    pub(crate) fn code(&mut self, language: &str, text: &str) {
        self.add(&format!("```{language}\n{}\n```", text.trim_end()));
    }

    /// Returns the whole document.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Returns a table of cells in Markdown, in which line breaks become spaces; empty without rows.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let mut text = String::new();
    let mut line = |cells: [&str; N]| {
        for cell in cells {
            let cell = cell.split_whitespace().collect::<Vec<_>>().join(" ");
            // A bar ends a cell, even in code.
            let _infallible = write!(text, "| {}{}", cell.replace('|', "\\|"), if cell.is_empty() { "" } else { " " });
        }
        text.push_str("|\n");
    };
    line(head);
    line(["---"; N]);
    rows.for_each(|row| line(row.each_ref().map(String::as_str)));
    text.replacen(&"| --- ".repeat(N), &"|---".repeat(N), 1)
}

/// Returns text as inline code; empty text remains empty.
pub(crate) fn code(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.contains('`') => format!("`` {text} ``"),
        text => format!("`{text}`"),
    }
}

/// Returns values as inline code, separated by commas.
pub(crate) fn codes<'c>(values: impl IntoIterator<Item = &'c str>) -> String {
    values.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// Escapes text that is not Markdown, but may contain inline code.
pub(crate) fn escape(text: &str) -> String {
    let special = |letter: char| matches!(letter, '\\' | '*' | '<' | '[' | ']');
    text.chars().fold(String::new(), |mut escaped, letter| {
        escaped.extend(special(letter).then_some('\\'));
        escaped.push(letter);
        escaped
    })
}

/// Returns text with a capital at the beginning.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Returns the anchor of a heading, as forges and mdBook make it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_bars_and_are_on_one_line() {
        let rows = [[code("a|b"), "two\nlines".to_owned()], [String::new(), escape("'*' is <all>")]];
        let want = "| one | two |\n|---|---|\n| `a\\|b` | two lines |\n| | '\\*' is \\<all> |\n";
        assert_eq!(table(["one", "two"], rows), want);
        assert_eq!(table(["one"], []), "");
    }
}
