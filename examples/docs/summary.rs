//! The generated end of `docs/SUMMARY.md`, the table of contents: the rules and the reference.

use std::{fmt::Write as _, path::Path};

use super::Documents;

/// The table of contents, below `docs/`.
pub(crate) const FILE: &str = "SUMMARY.md";
/// The line after which everything is generated.
const MARK: &str = "<!-- Made by cargo run --example docs from here on; do not edit. -->";

/// Returns the table of contents: the committed text up to the mark, and an entry for each generated document. The pages of
/// a folder with an overview are below it.
pub(crate) fn text(committed: &str, documents: &Documents) -> String {
    let written = committed.split(MARK).next().unwrap_or_default().trim_end();
    let mut text = format!("{}\n\n{MARK}\n", if written.is_empty() { "# Summary" } else { written });
    for (heading, folder) in [("Rules", "rules"), ("Reference", "reference")] {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "\n# {heading}\n\n");
        let overview = Path::new(folder).join("README.md");
        let own = documents.iter().filter(|(path, _)| path.starts_with(folder));
        let mut entries: Vec<(&Path, &str)> = own.filter_map(|(path, text)| Some((&**path, title(text)?))).collect();
        entries.sort_by_key(|(path, _)| *path != overview);
        for (path, title) in entries {
            let indent = if path != overview && documents.contains_key(&overview) { "  " } else { "" };
            let _infallible = writeln!(text, "{indent}- [{title}]({})", path.display());
        }
    }
    text
}

/// Returns the title of a document.
fn title(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("# "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_kept() {
        let page = |path: &str, title: &str| (path.into(), format!("<!-- -->\n\n# {title}\n"));
        let documents: Documents =
            [page("reference/a.md", "A"), page("rules/B.md", "B"), page("rules/README.md", "All")].into();
        let generated = format!(
            "{MARK}\n\n# Rules\n\n- [All](rules/README.md)\n  - [B](rules/B.md)\n\n# Reference\n\n- [A](reference/a.md)\n"
        );
        assert_eq!(text("", &documents), format!("# Summary\n\n{generated}"));
        let written = format!("# Contents\n\n- [Start](start/README.md)\n\n{generated}");
        assert_eq!(text(&written, &Documents::new()).split(MARK).next(), written.split(MARK).next());
        assert_eq!(text(&text(&written, &Documents::new()), &documents), written);
    }
}
