//! Terms of recording: when deltas are recorded, and how what was recorded before is compared with what is known.

use std::{collections::BTreeMap, sync::Arc};

use super::{Pipeline, lookups::is_only_looked_up};
use crate::{
    audit::{
        command::Term,
        ledger::{Delta, Ledger},
        queue::Lane,
        recorded::RecordedObject,
    },
    model::object::{ObjectKey, ObjectRef},
    source::change::WatchScope,
};

impl Pipeline {
    pub(super) fn turn(&mut self, term: Term) {
        self.revision += 1;
        let shard = self.settings.shard;
        let kept = self.recording.turn(term, |namespace| shard.owns(namespace));
        if !self.recording.is_on() {
            return;
        }
        self.publish_refused();
        if self.gate.is_open() {
            self.compare_recorded();
        }
        for delta in kept {
            let results = self.ledger.results(&delta.object, &delta.uid);
            self.recording.record(Some(Delta { results, ..delta }));
        }
        self.outputs.metrics.recording_began();
    }

    /// Compares everything that was recorded with what is known.
    fn compare_recorded(&mut self) {
        let judged = self.ledger.objects();
        let mut unrecorded: BTreeMap<ObjectKey, Arc<str>> =
            judged.map(|(key, standing)| (key.clone(), Arc::clone(&standing.uid))).collect();
        for scope in self.judged_scopes() {
            for key in self.recall(&scope) {
                unrecorded.remove(&key);
            }
        }
        for (key, uid) in unrecorded {
            let owners = self.owners(&key, None);
            let delta = self.ledger.recall(&key, &uid, Vec::new(), &owners);
            self.recording.record(delta);
        }
        self.recall_former_kinds();
    }

    /// Whether violations are recorded of kinds of which only a later pass of discovery shows whether they are gone.
    pub(super) fn awaits_former_kinds(&self) -> bool {
        self.gate.is_provisional() && self.recording.recorded.has_others(|group, kind| self.gate.expects(group, kind))
    }

    /// Compares what was recorded of a scope's objects with what is known of them; returns those that are still there.
    /// What was recorded of an object does not count for another that took its name.
    pub(super) fn recall(&mut self, scope: &WatchScope) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for mut recorded in self.recording.recorded.take(scope) {
            let key = recorded.key(&scope.kind);
            let is_there = self.cache.has(&key, &recorded.object.uid);
            if is_there {
                recorded.correct_times(self.cache.created(&key));
            }
            let RecordedObject { object: ObjectRef { uid, .. }, results } = recorded;
            let delta = if is_there {
                let owners = self.owners(&key, None);
                let delta = self.ledger.recall(&key, &uid, results, &owners);
                keys.push(key);
                delta
            } else {
                Ledger::gone(key, uid, results, Lane::Snapshot)
            };
            self.recording.record(delta);
        }
        keys
    }

    /// Resolves recorded violations of kinds that are no longer served, once discovery has confirmed that. Kinds of a server
    /// that does not answer may come back.
    pub(super) fn recall_former_kinds(&mut self) {
        if !self.gate.is_open() || self.gate.is_provisional() {
            return;
        }
        let (gate, selection) = (&self.gate, self.selection.as_ref());
        let expected =
            |group: &str, kind: &str| gate.expects(group, kind) && !is_only_looked_up(gate, selection, group, kind);
        for recorded in self.recording.recorded.take_unless(expected) {
            let key = recorded.key(&recorded.former_kind());
            self.recording.record(Ledger::gone(key, recorded.object.uid, recorded.results, Lane::Snapshot));
        }
    }
}
