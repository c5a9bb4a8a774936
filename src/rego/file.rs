//! The text of a policy or data file.

use std::{path::Path, sync::Arc};

use super::limits::Version;

/// What a file is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Rego,
    Json,
    Yaml,
}

impl Form {
    /// Returns the form that a file's name promises; `None` for other files.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "rego" => Some(Self::Rego),
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// A version that someone else than the module itself declares for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) version: Version,
    /// Who declares it, as a problem names it.
    pub(crate) by: &'static str,
    /// How to mend a wrong one.
    pub(crate) help: &'static str,
}

/// One file that was read.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// As the user would name it.
    pub(crate) shown: Arc<str>,
    /// Directories between the given path and the file; where its data goes.
    pub(crate) directories: Vec<String>,
    pub(crate) form: Form,
    /// The version that a module is to be read in; without one it is detected.
    pub(crate) declared: Option<Declared>,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(shown: Arc<str>, form: Form, text: String) -> Self {
        Self { shown, directories: Vec::new(), form, declared: None, text }
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.declared.map(|declared| declared.version)
    }

    /// The name below the given path, with `/` on every system.
    pub(crate) fn relative(&self) -> String {
        let name = Path::new(&*self.shown).file_name().unwrap_or_default().to_string_lossy();
        self.directories.iter().map(String::as_str).chain([&*name]).collect::<Vec<_>>().join("/")
    }

    /// Whether it holds tests, by its name.
    pub(crate) fn is_test(&self) -> bool {
        self.form == Form::Rego && self.shown.ends_with("_test.rego")
    }
}
