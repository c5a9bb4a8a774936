//! Readable names of rules and objects, and the order of results.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::safe::{shown, shown_line};
use crate::{
    audit::result::Entry,
    model::{object::ObjectRef, text::dependents},
};

/// Returns names of objects that distinguish kinds with the same name in different groups.
pub(super) struct ShownNames<'r> {
    /// Kinds that occur in more than one group, so that their names need the group.
    ambiguous: BTreeSet<&'r str>,
}

impl<'r> ShownNames<'r> {
    /// Collects the kinds of all objects that will be named.
    pub(super) fn of(entries: impl IntoIterator<Item = &'r Entry>) -> Self {
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for resource in entries.into_iter().map(|entry| &*entry.resource) {
            groups.entry(&resource.kind).or_default().insert(resource.group());
        }
        Self { ambiguous: groups.into_iter().filter(|(_, groups)| groups.len() > 1).map(|(kind, _)| kind).collect() }
    }

    /// Returns `Kind namespace/name`, or `Kind.group namespace/name`.
    pub(super) fn object(&self, resource: &ObjectRef) -> String {
        object_name(resource, self.ambiguous.contains(resource.kind.as_str()))
    }
}

/// Returns `policy/rule`.
pub(super) fn rule_name(entry: &Entry) -> String {
    shown_line(&format!("{}/{}", entry.policy, entry.rule))
}

/// Returns the name of an object, with or without the group of its kind.
pub(super) fn object_name(resource: &ObjectRef, with_group: bool) -> String {
    let kind = if with_group { resource.kind_with_group() } else { resource.kind.clone() };
    shown_line(&format!("{}{kind} {}", resource.cluster_prefix(), resource.path()))
}

/// Returns the message of a result with the number of dependents it covers and its excuse. It may have several lines
/// and is never empty.
pub(super) fn message(entry: &Entry) -> String {
    let message = shown(&entry.message);
    let mut message = if message.trim().is_empty() { "(no message)" } else { message.trim_end() }.to_owned();
    if entry.dependents > 0 {
        let _ = write!(message, " (and {})", dependents(entry.dependents));
    }
    if let Some(excuse) = &entry.excuse {
        let _ = write!(message, "\n{}", shown(&excuse.to_string()));
    }
    message
}

/// Whether a result is only counted, and not listed for people: it is in the baseline, which is used to see only new ones,
/// or excused for a system component.
pub(super) fn is_only_counted(entry: &Entry) -> bool {
    entry.excuse.as_ref().is_some_and(|excuse| excuse.is_baseline() || excuse.is_system())
}

/// Returns a key that sorts the most severe results first.
pub(super) fn urgency(entry: &Entry) -> impl Ord + use<> {
    (entry.result, entry.severity.is_none(), entry.severity)
}

/// Returns the results that are not in the baseline, the most severe first and otherwise in their order.
pub(super) fn worst_first(entries: &[Entry]) -> Vec<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().filter(|entry| !is_only_counted(entry)).collect();
    sorted.sort_by_key(|entry| urgency(entry));
    sorted
}
