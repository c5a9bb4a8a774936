//! Terms of recording: when deltas are told, and what was recorded before is settled with what is known.

use std::{collections::BTreeMap, sync::Arc};

use super::{Pipeline, Term};
use crate::{
    audit::{
        ledger::{Delta, Ledger},
        queue::Lane,
        recorded::{Recorded, RecordedObject},
    },
    model::object::ObjectKey,
    source::change::WatchScope,
};

impl Pipeline {
    pub(super) fn tell(&mut self, delta: Option<Delta>, lane: Lane) {
        if let (Some(delta), Some(record)) = (delta, &mut self.outputs.record) {
            record.record(&Delta { lane, ..delta });
        }
    }

    pub(super) fn turn(&mut self, term: Term) {
        let (recorded, record) = match term {
            Term::Begin(mut recorded, record) => {
                // What another shard answers for is neither known here nor over.
                recorded.keep(|namespace| self.settings.shard.owns(namespace));
                (recorded, Some(record))
            }
            Term::End => (Recorded::default(), None),
        };
        (self.recorded, self.outputs.record) = (recorded, record);
        if self.outputs.record.is_none() {
            return;
        }
        self.tell_refused();
        if !self.gate.is_open() {
            return;
        }
        let scopes: Vec<WatchScope> = self.gate.joined().cloned().collect();
        let judged = self.ledger.objects().filter(|(_, standing)| !standing.results.is_empty());
        let mut unrecorded: BTreeMap<ObjectKey, Arc<str>> =
            judged.map(|(key, standing)| (key.clone(), Arc::clone(&standing.uid))).collect();
        for scope in &scopes {
            for key in self.recall(scope) {
                unrecorded.remove(&key);
            }
        }
        for (key, uid) in unrecorded {
            let delta = self.ledger.recall(&key, &uid, Vec::new());
            self.tell(delta, Lane::Snapshot);
        }
        self.recall_former_kinds();
    }

    /// Settles what was recorded of a scope's objects with what is known of them; returns those that are still there. One
    /// that took the name of another was not recorded by that.
    pub(super) fn recall(&mut self, scope: &WatchScope) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for object in self.recorded.take(scope) {
            let key = object.key(&scope.kind);
            let RecordedObject { uid, results, .. } = object;
            let delta = if self.cache.uid(&key) == Some(&uid) {
                let delta = self.ledger.recall(&key, &uid, results);
                keys.push(key);
                delta
            } else {
                Ledger::gone(key, uid, results)
            };
            self.tell(delta, Lane::Snapshot);
        }
        keys
    }

    /// Tells that what was recorded of kinds which are judged no more is over. Kinds of a server that does not answer may
    /// come back.
    pub(super) fn recall_former_kinds(&mut self) {
        if !self.gate.is_open() {
            return;
        }
        for object in self.recorded.take_unless(|group, kind| self.gate.expects(group, kind)) {
            let key = object.key(&object.former_kind());
            self.tell(Ledger::gone(key, object.uid, object.results), Lane::Snapshot);
        }
    }
}
