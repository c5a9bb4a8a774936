//! Paths of documents as a tree, and how they are displayed.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::rego::analysis::references::push_key;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    /// The field with this name.
    Field(Arc<str>),
    /// Every field or element, and their number.
    Any,
}

impl From<&str> for Segment {
    fn from(name: &str) -> Self {
        Self::Field(name.into())
    }
}

/// The parts of a value that are read.
///
/// A node alone means that the type of the value is read, and the value itself if it is a scalar; its children are
/// parts of the value, and `whole` means everything below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadTree {
    pub(super) whole: bool,
    /// Whether existence is read by itself, not only for its parts.
    pub(super) seen: bool,
    // Shared with the many similar trees that this one was merged from.
    pub(super) fields: BTreeMap<Arc<str>, Arc<Self>>,
    pub(super) any: Option<Arc<Self>>,
}

impl ReadTree {
    /// Returns the tree of a value that is read completely.
    pub(crate) fn all() -> Self {
        Self { whole: true, seen: true, ..Self::default() }
    }

    /// Adds one path; including everything below its end if `whole`.
    pub(crate) fn insert(&mut self, path: &[Segment], whole: bool) {
        match path.split_first() {
            _ if self.whole => {}
            None if whole => *self = Self::all(),
            None => self.seen = true,
            Some((Segment::Any, rest)) => Arc::make_mut(self.any.get_or_insert_default()).insert(rest, whole),
            Some((Segment::Field(name), rest)) => match self.fields.get_mut(name) {
                Some(child) => Arc::make_mut(child).insert(rest, whole),
                None => Arc::make_mut(self.fields.entry(Arc::clone(name)).or_default()).insert(rest, whole),
            },
        }
    }

    /// Returns the tree of a value with this one at a field.
    pub(crate) fn below(self, field: &str) -> Self {
        Self { fields: BTreeMap::from([(field.into(), Arc::new(self))]), ..Self::default() }
    }

    /// Adds all paths of another tree.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.whole {
            return;
        }
        if other.whole {
            *self = Self::all();
            return;
        }
        self.seen |= other.seen;
        for (name, child) in &other.fields {
            match self.fields.get_mut(name) {
                Some(own) => merge(own, child),
                None => drop(self.fields.insert(Arc::clone(name), Arc::clone(child))),
            }
        }
        match (&mut self.any, &other.any) {
            (Some(own), Some(any)) => merge(own, any),
            (own @ None, Some(any)) => *own = Some(Arc::clone(any)),
            (_, None) => {}
        }
    }

    /// Returns the read set of one field; `None` if not even its existence is read.
    pub(crate) fn field(&self, name: &str) -> Option<Self> {
        if self.whole {
            return Some(Self::all());
        }
        match (self.fields.get(name), self.any.as_deref()) {
            (Some(named), Some(any)) => {
                let mut both = Self::clone(named);
                both.merge(any);
                Some(both)
            }
            (Some(named), None) => Some(Self::clone(named)),
            (None, any) => any.cloned(),
        }
    }

    /// Returns the merged read set of all fields and elements; `None` if not even their existence is read.
    pub(crate) fn parts(&self) -> Option<Self> {
        if self.whole {
            return Some(Self::all());
        }
        self.children().fold(None, |all: Option<Self>, child| {
            let mut all = all.unwrap_or_default();
            all.merge(child);
            Some(all)
        })
    }

    /// Removes the read set of a field by its name.
    pub(super) fn remove_field(&mut self, name: &str) {
        self.fields.remove(name);
    }

    /// Whether the value at a path, a part of it, or its existence is read.
    pub(crate) fn covers(&self, place: &[Segment]) -> bool {
        self.any_at(place, &|_| true)
    }

    /// Whether the value at a path is read if it is a scalar.
    pub(crate) fn covers_scalar(&self, place: &[Segment]) -> bool {
        self.any_at(place, &|tree| tree.whole || tree.seen)
    }

    fn any_at(&self, place: &[Segment], is: &impl Fn(&Self) -> bool) -> bool {
        match place.split_first() {
            _ if self.whole => true,
            None => is(self),
            Some((Segment::Field(name), rest)) => {
                self.fields.get(name).into_iter().chain(&self.any).any(|child| child.any_at(rest, is))
            }
            Some((Segment::Any, rest)) => self.children().any(|child| child.any_at(rest, is)),
        }
    }

    /// Whether everything is read.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Merges the reads of any field into each named one, so that a lookup needs only one child.
    pub(super) fn settle(&mut self) {
        if let Some(any) = &mut self.any {
            Arc::make_mut(any).settle();
            for child in self.fields.values_mut() {
                merge(child, any);
            }
        }
        self.fields.values_mut().for_each(|child| Arc::make_mut(child).settle());
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        self.fields.values().chain(&self.any).map(AsRef::as_ref)
    }

    /// Lists the paths that end here, with `?` for those that are not read completely.
    fn list(&self, path: &mut String, out: &mut Vec<String>) {
        if self.whole {
            return out.push(if path.is_empty() { "*".to_owned() } else { path.clone() });
        }
        if self.fields.is_empty() && self.any.is_none() {
            if !path.is_empty() {
                out.push(format!("{path}?"));
            }
            return;
        }
        let length = path.len();
        for (name, child) in &self.fields {
            push_key(path, name);
            child.list(path, out);
            path.truncate(length);
        }
        if let Some(any) = &self.any {
            path.push_str("[*]");
            any.list(path, out);
            path.truncate(length);
        }
    }

    /// Returns the paths, sorted: `spec.containers[*].image`, `metadata.labels["a/b"]`; `path?` if only existence is
    /// read (and the value if it is a scalar); `*` for everything.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.list(&mut String::new(), &mut paths);
        paths.sort();
        paths
    }
}

/// Adds all paths of another tree to one that may be shared.
fn merge(own: &mut Arc<ReadTree>, other: &Arc<ReadTree>) {
    if !own.whole && !Arc::ptr_eq(own, other) {
        Arc::make_mut(own).merge(other);
    }
}

impl fmt::Display for ReadTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[(&[&str], bool)]) -> ReadTree {
        let mut tree = ReadTree::default();
        for (path, whole) in paths {
            let keys: Vec<Segment> =
                path.iter().map(|key| if *key == "*" { Segment::Any } else { Segment::from(*key) }).collect();
            tree.insert(&keys, *whole);
        }
        tree
    }

    #[test]
    fn paths_are_displayed() {
        let read = tree(&[
            (&["spec", "containers", "*", "image"], true),
            (&["metadata", "labels", "a/b"], true),
            (&["spec", "nodeName"], false),
        ]);
        assert_eq!(read.to_string(), r#"metadata.labels["a/b"] spec.containers[*].image spec.nodeName?"#);
        assert_eq!(ReadTree::all().to_string(), "*");
        assert_eq!(ReadTree::default().to_string(), "");
    }

    #[test]
    fn a_whole_read_includes_its_parts() {
        let mut read = tree(&[(&["spec", "a"], true), (&["spec"], true), (&["spec", "b"], false)]);
        assert_eq!(read.to_string(), "spec");
        read.merge(&tree(&[(&["spec", "c"], false), (&["kind"], true)]));
        assert_eq!(read.to_string(), "kind spec");
        assert!(read.field("spec").and_then(|spec| spec.field("x")).is_some_and(|tree| tree.is_whole()));
        assert_eq!(read.field("status"), None);
    }

    #[test]
    fn reads_of_any_field_include_named_fields() {
        let mut read = tree(&[(&["*", "a"], true), (&["x", "b"], true)]);
        assert_eq!(read.field("x").map(|tree| tree.to_string()).as_deref(), Some("a b"));
        assert_eq!(read.field("y").map(|tree| tree.to_string()).as_deref(), Some("a"));
        read.settle();
        assert_eq!(read.to_string(), "[*].a x.a x.b");
    }
}
