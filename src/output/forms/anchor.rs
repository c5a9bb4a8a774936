//! Returns a file and a line for each result, for formats that require them.

use std::collections::{BTreeMap, HashMap, HashSet};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    audit::{
        fingerprint::Fingerprint,
        result::{AuditResult, Entry},
    },
    model::object::{ObjectName, ObjectRef},
    output::{safe::shown_line, tree::WorkTree},
};

/// The file name of results without a file; consumers reject an empty one.
const NO_FILE: &str = "kaudit";
/// Characters escaped in a URI: all but unreserved characters and the path separator (RFC 3986, sections 2.3 and 3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A line of a file in the repository of the pipeline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    path: String,
    /// From 1.
    pub(super) line: usize,
}

impl Anchor {
    /// Returns the line of the field in the manifest, or of the object if the field is unknown. For an object of a
    /// cluster or of standard input, returns the line of the rule, which is in the repository of the policies.
    pub(super) fn of(entry: &Entry, tree: Option<&WorkTree>) -> Self {
        let manifest = entry.location.as_ref().filter(|location| &*location.file != "-");
        match manifest {
            Some(location) => Self::new(&in_tree(&location.file, tree), entry.field_line.unwrap_or(location.line)),
            None => Self { line: entry.source.line.max(1) as usize, ..Self::of_policies(&entry.source.file, tree) },
        }
    }

    /// Returns the first line of a policy file. The builtin library, commits and bundles are not in the work tree.
    pub(super) fn of_policies(file: &str, tree: Option<&WorkTree>) -> Self {
        let elsewhere = file.starts_with("builtin") || file.contains(':') || file.is_empty();
        Self::new(&if elsewhere { file.to_owned() } else { in_tree(file, tree) }, 1)
    }

    /// Creates an anchor from a path as the user wrote it.
    pub(super) fn new(path: &str, line: usize) -> Self {
        let path = plain(path);
        Self { path: if path.is_empty() { NO_FILE.to_owned() } else { path }, line: line.max(1) }
    }

    /// Returns the path with unsafe characters escaped.
    pub(super) fn file(&self) -> String {
        let shown = shown_line(&self.path);
        if shown.is_empty() { NO_FILE.to_owned() } else { shown }
    }

    /// Returns a relative reference, or a `file:` URI if the path is absolute.
    pub(super) fn uri(&self) -> String {
        let path = utf8_percent_encode(&self.path, ESCAPED);
        if self.path.starts_with('/') { format!("file://{path}") } else { path.to_string() }
    }
}

fn in_tree(path: &str, tree: Option<&WorkTree>) -> String {
    tree.and_then(|tree| tree.relative(path)).unwrap_or_else(|| path.to_owned())
}

/// Returns a path without `.`, `..` and repeated separators, without reading the file system.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match parts.last() {
            Some(last) if part == ".." && *last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Distinguishes results with the same id: by a counter if they differ only in numbers, and by the file if the object is
/// in several files. So fixing a result does not change the fingerprint of the same result in another file.
pub(super) struct Occurrences<'r> {
    result: &'r AuditResult,
    /// Objects that are in several files.
    repeated: HashSet<ObjectName>,
    numbers: HashMap<Fingerprint, usize>,
}

impl<'r> Occurrences<'r> {
    /// Finds the objects that are in several files.
    pub(super) fn of(result: &'r AuditResult) -> Self {
        let mut files: BTreeMap<&ObjectRef, &str> = BTreeMap::new();
        let located =
            result.results.iter().filter_map(|entry| Some((&*entry.resource, &*entry.location.as_ref()?.file)));
        let repeated = located.filter(|(object, file)| *files.entry(*object).or_insert(*file) != *file);
        let repeated = repeated.map(|(object, _)| object.as_name()).collect();
        Self { result, repeated, numbers: HashMap::new() }
    }

    /// Returns the fingerprint of a result, and how many results had it so far, including this one.
    pub(super) fn next(&mut self, entry: &Entry) -> (Fingerprint, usize) {
        let object = entry.resource.as_name();
        let is_repeated = self.result.repeated.contains(&object) || self.repeated.contains(&object);
        let file = entry.location.as_ref().filter(|_| is_repeated).map(|location| plain(&location.file));
        let fingerprint = file.map_or(entry.id, |file| entry.id.in_file(&file));
        let number = self.numbers.entry(fingerprint).or_default();
        *number += 1;
        (fingerprint, *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_repository() {
        for (path, want) in [
            ("./a/b.yaml", "a/b.yaml"),
            ("a/../b//./c.yaml", "b/c.yaml"),
            ("../a.yaml", "../a.yaml"),
            ("../../a/..", "../.."),
            ("/a/b.yaml", "/a/b.yaml"),
            ("", NO_FILE),
            (".", NO_FILE),
        ] {
            assert_eq!(Anchor::new(path, 0), Anchor { path: want.to_owned(), line: 1 });
        }
    }

    #[test]
    fn special_characters_in_uris_are_escaped() {
        assert_eq!(Anchor::new("a b/ä:#?%[1]\\.yaml", 1).uri(), "a%20b/%C3%A4%3A%23%3F%25%5B1%5D%5C.yaml");
        assert_eq!(Anchor::new("/a b", 1).uri(), "file:///a%20b");
    }
}
