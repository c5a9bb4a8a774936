//! Where a form that needs a file and a line points to.

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

/// Stands for a file where there is none; forms refuse an empty name.
const NO_FILE: &str = "kaudit";
/// What a path keeps in a URI: unreserved characters and its separators (RFC 3986, sections 2.3 and 3.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A line of a file in the repository that a pipeline runs for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    path: String,
    /// From 1.
    pub(super) line: usize,
}

impl Anchor {
    /// Returns the line of the field in the manifest, or else of the object. An object of a cluster, or of standard input, is in no file: for it that is the line
    /// of the rule, which is in the repository of the policies.
    pub(super) fn of(entry: &Entry, tree: Option<&WorkTree>) -> Self {
        let manifest = entry.location.as_ref().filter(|location| &*location.file != "-");
        match manifest {
            Some(location) => Self::new(&in_tree(&location.file, tree), entry.field_line.unwrap_or(location.line)),
            None => Self { line: entry.source.line.max(1) as usize, ..Self::of_policies(&entry.source.file, tree) },
        }
    }

    /// Returns the first line of a file of policies. The library inside kaudit, commits and bundles are in no work tree.
    pub(super) fn of_policies(file: &str, tree: Option<&WorkTree>) -> Self {
        let elsewhere = file.starts_with("builtin") || file.contains(':') || file.is_empty();
        Self::new(&if elsewhere { file.to_owned() } else { in_tree(file, tree) }, 1)
    }

    /// Makes one of a path as the user wrote it.
    pub(super) fn new(path: &str, line: usize) -> Self {
        let path = plain(path);
        Self { path: if path.is_empty() { NO_FILE.to_owned() } else { path }, line: line.max(1) }
    }

    /// Returns the path as people read it.
    pub(super) fn file(&self) -> String {
        let shown = shown_line(&self.path);
        if shown.is_empty() { NO_FILE.to_owned() } else { shown }
    }

    /// Returns a relative reference, or a URI if the path is absolute.
    pub(super) fn uri(&self) -> String {
        let path = utf8_percent_encode(&self.path, ESCAPED);
        if self.path.starts_with('/') { format!("file://{path}") } else { path.to_string() }
    }
}

fn in_tree(path: &str, tree: Option<&WorkTree>) -> String {
    tree.and_then(|tree| tree.relative(path)).unwrap_or_else(|| path.to_owned())
}

/// Returns a path without `.`, `..` and doubled separators, as far as it can be without a look at the files.
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

/// Tells results of one id apart: those that differ in numbers alone by their number, and those of an object that is in
/// several files by the file. So one that is fixed does not change the fingerprint of the same result in another file.
pub(super) struct Occurrences<'r> {
    result: &'r AuditResult,
    /// Objects that are in several files.
    repeated: HashSet<ObjectName>,
    numbers: HashMap<Fingerprint, usize>,
}

impl<'r> Occurrences<'r> {
    /// Looks at all results.
    pub(super) fn of(result: &'r AuditResult) -> Self {
        let mut files: BTreeMap<&ObjectRef, &str> = BTreeMap::new();
        let located =
            result.results.iter().filter_map(|entry| Some((&*entry.resource, &*entry.location.as_ref()?.file)));
        let repeated = located.filter(|(object, file)| *files.entry(*object).or_insert(*file) != *file);
        let repeated = repeated.map(|(object, _)| object.as_name()).collect();
        Self { result, repeated, numbers: HashMap::new() }
    }

    /// Returns the fingerprint of a result, and how many results had it so far, this one included.
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
    fn uris_have_nothing_that_means_something_in_them() {
        assert_eq!(Anchor::new("a b/ä:#?%[1]\\.yaml", 1).uri(), "a%20b/%C3%A4%3A%23%3F%25%5B1%5D%5C.yaml");
        assert_eq!(Anchor::new("/a b", 1).uri(), "file:///a%20b");
    }
}
