//! Tables in Markdown.

/// A table with a title above it and notes below.
pub(crate) struct Table {
    text: String,
    notes: String,
}

impl Table {
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let text = format!("\n### {title}\n\n| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
        Self { text, notes: String::new() }
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        self.text.extend(["| ", &cells.join(" | "), " |\n"]);
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.notes.extend(["\n", text, "\n"]);
    }

    pub(crate) fn markdown(self) -> String {
        self.text + &self.notes
    }
}
