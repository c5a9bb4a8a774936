//! Results by what people own: the topmost owner of the object, or the object itself.

use std::collections::HashMap;

use crate::{audit::result::Entry, model::object::ObjectRef, output::names::urgency};

/// An owner and what was found of it and its dependents, the worst first.
#[derive(Debug)]
pub(super) struct Owner<'p> {
    /// As [`name`] makes it.
    pub(super) name: String,
    pub(super) entries: Vec<&'p Entry>,
}

/// Returns what people own of an entry.
pub(super) fn of(entry: &Entry) -> &ObjectRef {
    entry.owner.as_ref().unwrap_or(&entry.resource)
}

/// Returns `Kind.group/namespace/name`, or `Kind.group/name`; the core group has none.
pub(super) fn name(object: &ObjectRef) -> String {
    let group = object.group();
    let dot = if group.is_empty() { "" } else { "." };
    let namespace = object.namespace.as_deref().map_or(String::new(), |namespace| format!("{namespace}/"));
    format!("{}{dot}{group}/{namespace}{}", object.kind, object.name)
}

/// Groups entries, which are sorted, the worst first: the owner with the worst entry comes first, of those that are equal
/// the one with the most.
pub(super) fn grouped<'p>(entries: impl Iterator<Item = &'p Entry>) -> Vec<Owner<'p>> {
    let mut owners: Vec<Owner<'p>> = Vec::new();
    let mut places: HashMap<(&str, &str, Option<&str>, &str), usize> = HashMap::new();
    for entry in entries {
        let owner = of(entry);
        let key = (owner.group(), owner.kind.as_str(), owner.namespace.as_deref(), &*owner.name);
        let place = *places.entry(key).or_insert_with(|| {
            owners.push(Owner { name: name(owner), entries: Vec::new() });
            owners.len() - 1
        });
        owners[place].entries.push(entry);
    }
    let worst = |owner: &Owner<'_>| owner.entries.first().map(|entry| urgency(entry));
    owners.sort_by(|a, b| (worst(a), b.entries.len(), &a.name).cmp(&(worst(b), a.entries.len(), &b.name)));
    owners
}
