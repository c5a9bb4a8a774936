//! YAML documents as trees of values with positions, as kubectl or OPA reads them.
//!
//! The parser is a port of libyaml, as those of Go are.

mod compose;
mod decode;
mod error;
mod node;
mod scalar;
mod typed;

use std::panic::catch_unwind;

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, budget::BudgetBreach};

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

/// Deserializes the only document of a text, which is read as by kubectl. Numbers and booleans can be strings, as they
/// are written.
///
/// # Errors
/// As [`single`], and if the document does not fit the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    single(text, YamlDialect::Kubectl)?.deserialize()
}

/// Deserializes the documents of a text as [`from_str`] does, without empty ones.
///
/// # Errors
/// As [`from_str`], for any document.
pub fn from_multiple<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    documents(text, YamlDialect::Kubectl)?.iter().map(YamlNode::deserialize).collect()
}

fn read(text: &str, dialect: YamlDialect, most: usize) -> Result<Vec<YamlDocument>, YamlError> {
    // The parser panics on some input: a comma after a tag.
    let read = catch_unwind(|| {
        let (mut composer, mut documents) = (Composer::new(text), Vec::new());
        while documents.len() < most
            && let Some(root) = composer.document()?
        {
            documents.push(YamlDocument::decode(&composer.nodes, root, dialect)?);
        }
        Ok(documents)
    });
    read.unwrap_or_else(|_| Err(YamlError::new(START, "the YAML parser failed on this document")))
}

/// The same depth as for JSON.
const DEEPEST: usize = 127;

/// Returns the options with which kubectl parses manifests: YAML 1.1, where `yes` is true and `010` is eight.
pub fn as_kubectl() -> Options {
    options(false, 200_000)
}

/// Returns the options with which OPA parses data: `yes` is a string, `010` is eight.
pub fn as_opa() -> Options {
    options(true, 200_000)
}

/// Returns OPA's options for short texts: annotations, and strings that rules unmarshal, where nothing can stop the
/// parser once it expands nested aliases.
pub fn as_opa_short() -> Options {
    options(true, 20_000)
}

/// Returns the options of OPA's `yaml.unmarshal`: of several entries with one key, the last one counts.
pub fn as_opa_text() -> Options {
    let mut options = as_opa_short();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options
}

/// Returns options with limits on what grows beyond the text: the values of anchors and aliases (`most`), and the
/// stack. The size of the text itself is limited by the caller (a `List` of a whole cluster is one document).
fn options(strict_booleans: bool, most: usize) -> Options {
    serde_saphyr::options! {
        strict_booleans: strict_booleans,
        legacy_octal_numbers: true,
        strict_indentation: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: most },
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            // The scanner looks ahead by up to 1,024 brackets.
            flow_nesting_limit: 2_000,
            max_recorded_anchor_events: most,
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_anchors: usize::MAX,
            max_aliases: usize::MAX,
            max_merge_keys: usize::MAX,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// Returns the inner error, without wrappers that only add the location.
pub fn cause(mut error: &Error) -> &Error {
    while let Error::WithSnippet { error: inner, .. } | Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// Whether parsing failed because of one of these limits; the text may still be valid YAML.
pub(crate) fn is_too_much(error: &Error) -> bool {
    matches!(cause(error), Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. })
}

/// Returns the reason of an error on one line, without the location.
pub fn reason(error: &Error) -> String {
    match cause(error) {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => format!("nested deeper than {DEEPEST} levels"),
        error if is_too_much(error) => "its anchors and aliases expand to too many values".into(),
        other => {
            let text = other.to_string();
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // The location is at either end.
            let line = line.split_once(": ").filter(|(at, _)| at.starts_with("line ")).map_or(line, |it| it.1);
            line.rsplit_once(" at line ").map_or(line, |it| it.0).to_owned()
        }
    }
}

/// Parses YAML and accepts an error that kubectl tolerates: continuation lines of a quoted string that are indented no
/// deeper than their key. Such a line is moved to the right, which changes nothing but its own columns.
pub fn forgiving<T>(
    yaml: &str,
    read: impl Fn(&str) -> Result<T, serde_saphyr::Error>,
) -> Result<T, serde_saphyr::Error> {
    const MOVED: &str = "                                                                ";
    let mut moved: Option<String> = None;
    loop {
        let text = moved.as_deref().unwrap_or(yaml);
        let error = match read(text) {
            Err(error) if error.to_string().contains("invalid indentation in multiline quoted scalar") => error,
            other => return other,
        };
        let line = error.location().and_then(|place| usize::try_from(place.line()).ok()).unwrap_or(0);
        let Some(line) = text.split_inclusive('\n').nth(line.saturating_sub(1)) else { return Err(error) };
        let offset = (line.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        if line.starts_with(MOVED) || !text.is_char_boundary(offset) {
            return Err(error);
        }
        moved = Some(format!("{}{MOVED}{}", &text[..offset], &text[offset..]));
    }
}

#[cfg(test)]
mod tests;
