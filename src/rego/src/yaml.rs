//! YAML documents as trees of values with positions, as kubectl or OPA reads them.
//!
//! The parser is a port of libyaml, as those of Go are.

mod compose;
mod decode;
mod error;
mod node;
mod scalar;
mod typed;

use std::{borrow::Cow, panic::catch_unwind};

use serde::de::DeserializeOwned;

use self::compose::Composer;
pub use self::{
    decode::{MOST_DUPLICATES, YamlDocument},
    error::YamlError,
    node::{YamlContent, YamlField, YamlNode},
    scalar::{YamlDialect, YamlScalar},
};
use crate::position::Position;

/// The start of a text.
const START: Position = Position { line: 1, column: 1 };

/// Reads the first document of a text; `None` if there is none. The text after it may be invalid.
///
/// # Errors
/// If the document is invalid, or exceeds a limit: of depth, or of what its aliases expand to.
pub fn first(text: &str, dialect: YamlDialect) -> Result<Option<YamlDocument>, YamlError> {
    Ok(read(text, dialect, 1)?.pop())
}

/// Reads all documents of a text.
///
/// # Errors
/// As [`first`], for any document.
pub fn stream(text: &str, dialect: YamlDialect) -> Result<Vec<YamlDocument>, YamlError> {
    read(text, dialect, usize::MAX)
}

/// Reads all documents of a text, apart from empty ones.
///
/// # Errors
/// As [`stream`], and if a key occurs again in its mapping.
pub fn documents(text: &str, dialect: YamlDialect) -> Result<Vec<YamlNode>, YamlError> {
    let documents = stream(text, dialect)?.into_iter().filter(|document| !document.root.is_null());
    documents.map(YamlDocument::without_duplicates).collect()
}

/// Reads the only document of a text, apart from empty ones; null if there is none.
///
/// # Errors
/// As [`documents`], and if there is another one.
pub fn single(text: &str, dialect: YamlDialect) -> Result<YamlNode, YamlError> {
    let mut documents = documents(text, dialect)?;
    match documents.get(1) {
        Some(other) => Err(YamlError::new(other.at, "more than one document")),
        None => Ok(documents.pop().unwrap_or(YamlNode::new(YamlContent::Null, START))),
    }
}

/// Deserializes the only document of a text, as OPA reads it.
///
/// # Errors
/// As [`single`], and if the document does not fit the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    single(text, YamlDialect::Opa)?.deserialize()
}

/// Deserializes all documents of a text, as OPA reads them, without empty ones.
///
/// # Errors
/// As [`from_str`], for any document.
pub fn from_multiple<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    documents(text, YamlDialect::Opa)?.iter().map(YamlNode::deserialize).collect()
}

fn read(text: &str, dialect: YamlDialect, most: usize) -> Result<Vec<YamlDocument>, YamlError> {
    // The parser panics at the end of a text within a block scalar, or after a backslash.
    let last = text.rsplit('\n').next().unwrap_or_default();
    let ended = if last.is_empty() { Cow::from(text) } else { format!("{text}\n").into() };
    let end = if last.trim().is_empty() { ended.len() } else { text.len() };
    // It also panics on a comma after a tag.
    let read = catch_unwind(|| {
        let (mut composer, mut documents) = (Composer::new(&ended, end), Vec::new());
        while documents.len() < most
            && let Some(root) = composer.document()?
        {
            documents.push(YamlDocument::decode(&composer.nodes, root, dialect)?);
        }
        Ok(documents)
    });
    read.unwrap_or_else(|_| Err(YamlError::new(START, "the YAML parser failed on this document")))
}

#[cfg(test)]
mod tests;
