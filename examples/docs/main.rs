//! Writes the documents in `docs/` that are made from the code: a page for each rule of the library, and the reference.
//!
//! ```sh
//! cargo run --example docs
//! ```
//!
//! Its test fails if a committed document differs from the code.

mod cases;
mod chart;
mod commands;
mod events;
mod json;
mod markdown;
mod metrics;
mod rules;
mod serialized;
mod settings;
mod source;
mod summary;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// The folder of all documents.
const DOCS: &str = "docs";
/// The folders in it that contain only generated documents.
const GENERATED: [&str; 2] = ["rules", "reference"];

/// The text of each document, by its path below `docs/`.
type Documents = BTreeMap<PathBuf, String>;

fn main() -> Result<()> {
    let root = root();
    let documents = documents(root)?;
    for path in existing(root)?.difference(&documents.keys().cloned().collect()) {
        fs::remove_file(root.join(DOCS).join(path))?;
    }
    for (path, text) in documents {
        let path = root.join(DOCS).join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Makes all documents.
fn documents(root: &Path) -> Result<Documents> {
    let mut documents = rules::documents(root)?;
    let reference = [
        ("command-line", commands::reference()),
        ("configuration", settings::reference()),
        ("exit-codes", commands::exit_codes()?),
        ("metrics", metrics::reference(root)?),
        ("chart-values", chart::reference(root)?),
        ("json", json::reference(root)?),
        ("events", events::reference(root)?),
    ];
    documents.extend(reference.map(|(name, text)| (Path::new("reference").join(name).with_extension("md"), text)));
    let committed = fs::read_to_string(root.join(DOCS).join(summary::FILE)).unwrap_or_default();
    let summary = summary::text(&committed, &documents);
    documents.insert(summary::FILE.into(), summary);
    Ok(documents)
}

/// Returns the generated documents that exist, and with them those that are not generated any more.
fn existing(root: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for folder in GENERATED {
        match fs::read_dir(root.join(DOCS).join(folder)) {
            Ok(entries) => {
                for entry in entries {
                    found.insert(Path::new(folder).join(entry?.file_name()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_documents_are_those_that_the_code_makes() {
        let root = root();
        let documents = documents(root).unwrap();
        let existing = existing(root).unwrap();
        let superfluous = existing.iter().filter(|path| !documents.contains_key(*path));
        let committed = |path: &Path| fs::read_to_string(root.join(DOCS).join(path)).unwrap_or_default();
        let differing = documents.iter().filter(|(path, text)| committed(path) != **text).map(|(path, _)| path);
        let wrong: Vec<String> = differing.chain(superfluous).map(|path| path.display().to_string()).collect();
        assert!(wrong.is_empty(), "outdated in {DOCS}/: {}\nrun: cargo run --example docs", wrong.join(", "));
    }
}
