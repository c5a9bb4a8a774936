//! Groups results by owner: the topmost owner of the object, or the object itself.

use std::collections::HashMap;

use crate::{audit::result::Entry, model::object::ObjectRef, output::names::urgency};

/// An owner with its results and those of its dependents, the most severe first.
#[derive(Debug)]
pub(super) struct OwnerResults<'p> {
    /// As returned by [`name`].
    pub(super) name: String,
    pub(super) entries: Vec<&'p Entry>,
}

/// Returns the topmost owner of an entry's object, or the object itself.
pub(super) fn of(entry: &Entry) -> &ObjectRef {
    entry.owner.as_ref().unwrap_or(&entry.resource)
}

/// Returns `Kind.group/namespace/name`, or `Kind.group/name`; without `.group` for the core group.
pub(super) fn name(object: &ObjectRef) -> String {
    format!("{}/{}", object.kind_with_group(), object.path())
}

/// Groups entries, which must be sorted by severity. The owner with the most severe entry comes first, and of several
/// such owners the one with the most entries.
pub(super) fn grouped<'p>(entries: impl Iterator<Item = &'p Entry>) -> Vec<OwnerResults<'p>> {
    let mut owners: Vec<OwnerResults<'p>> = Vec::new();
    let mut indices: HashMap<(&str, &str, Option<&str>, &str), usize> = HashMap::new();
    for entry in entries {
        let owner = of(entry);
        let key = (owner.group(), owner.kind.as_str(), owner.namespace.as_deref(), &*owner.name);
        let index = *indices.entry(key).or_insert_with(|| {
            owners.push(OwnerResults { name: name(owner), entries: Vec::new() });
            owners.len() - 1
        });
        owners[index].entries.push(entry);
    }
    let worst = |owner: &OwnerResults<'_>| owner.entries.first().map(|entry| urgency(entry));
    owners.sort_by(|a, b| (worst(a), b.entries.len(), &a.name).cmp(&(worst(b), a.entries.len(), &b.name)));
    owners
}
