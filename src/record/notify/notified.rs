//! The receivers that were sent the appearance of each open violation: its resolution is sent to the same ones.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::audit::{
    ledger::{Id, Violation},
    recorded::Recorded,
};

/// The namespace of an object, if it has one.
type ObjectNamespace = Option<Arc<str>>;

/// The receivers that were sent the appearance of each open violation.
#[derive(Debug, Default)]
pub(super) struct Notified {
    /// By namespace, too: anyone can compute the id of a violation, and put it into an Event in their own namespace.
    by_violation: HashMap<ObjectNamespace, HashMap<Id, Arc<str>>>,
    /// Each list of names once: there are few different ones.
    lists: HashSet<Arc<str>>,
}

/// The names of receivers, separated by commas.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceiverNames(Arc<str>);

impl ReceiverNames {
    /// Whether a receiver is one of them.
    pub(super) fn has(&self, receiver: &str) -> bool {
        self.0.split(',').any(|name| name == receiver)
    }
}

impl Notified {
    /// Reads the notified receivers from the records of an earlier run.
    pub(super) fn new(recorded: &Recorded) -> Self {
        let mut notified = Self::default();
        for recorded in recorded.objects() {
            for violation in &recorded.results {
                if let Some(names) = &violation.notified {
                    notified.insert(&recorded.object.namespace, violation.id, names);
                }
            }
        }
        notified
    }

    /// Notes that the appearance of a violation is sent to these receivers.
    pub(super) fn begin<'a>(&mut self, namespace: &ObjectNamespace, id: Id, receivers: impl Iterator<Item = &'a str>) {
        self.insert(namespace, id, &receivers.collect::<Vec<_>>().join(","));
    }

    /// Removes a violation that is resolved; returns the receivers that were sent its appearance, or `None` if that is
    /// unknown.
    pub(super) fn end(&mut self, namespace: &ObjectNamespace, violation: &Violation) -> Option<ReceiverNames> {
        let known = self.by_violation.get_mut(namespace).and_then(|violations| violations.remove(&violation.id));
        if self.by_violation.get(namespace).is_some_and(HashMap::is_empty) {
            self.by_violation.remove(namespace);
        }
        known.or_else(|| violation.notified.clone()).map(ReceiverNames)
    }

    /// Returns the receivers that were sent the appearance of a violation, as records hold them.
    pub(super) fn of(&self, namespace: &ObjectNamespace, id: Id) -> Option<Arc<str>> {
        self.by_violation.get(namespace)?.get(&id).cloned()
    }

    fn insert(&mut self, namespace: &ObjectNamespace, id: Id, names: &str) {
        let names = self.lists.get(names).cloned().unwrap_or_else(|| {
            let names = Arc::<str>::from(names);
            self.lists.insert(Arc::clone(&names));
            names
        });
        self.by_violation.entry(namespace.clone()).or_default().insert(id, names);
    }
}
