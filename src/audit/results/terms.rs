//! Terms of recording: when deltas are recorded, and how what was recorded before is compared with what is known.

use std::{collections::BTreeMap, sync::Arc};

use super::{ResultContext, Results, WatchedObjects};
use crate::{
    audit::{
        command::Term,
        ledger::{Delta, Ledger},
        queue::Lane,
        recorded::RecordedObject,
    },
    model::{
        object::{ObjectKey, ObjectRef},
        shard::Shard,
    },
    source::change::WatchScope,
};

impl Results {
    /// Begins or ends a term; returns whether deltas are recorded from now on. What was recorded before is compared with what
    /// is known.
    pub(in crate::audit) fn turn(&mut self, context: ResultContext<'_>, term: Term, shard: Shard) -> bool {
        let kept = self.recording.turn(term, |namespace| shard.owns(namespace));
        if !self.recording.is_on() {
            return false;
        }
        self.recording.note_refused(&context.schedule.policies);
        if context.objects.gate.is_open() {
            self.compare_recorded(context);
        }
        for delta in kept {
            let results = self.ledger.results(&delta.key, &delta.object.uid);
            self.record(Some(Delta { results, ..delta }));
        }
        true
    }

    /// Compares everything that was recorded with what is known.
    fn compare_recorded(&mut self, context: ResultContext<'_>) {
        let judged = self.ledger.objects();
        let mut unrecorded: BTreeMap<ObjectKey, Arc<str>> =
            judged.map(|(key, object)| (key.clone(), Arc::clone(&object.uid))).collect();
        for scope in context.objects.evaluated_scopes() {
            for key in self.recall(context, &scope) {
                unrecorded.remove(&key);
            }
        }
        for (key, uid) in unrecorded {
            let owners = self.owners(context, &key, None);
            let delta = self.ledger.recall(&key, &uid, Vec::new(), &owners);
            self.record(delta);
        }
        self.recall_former_kinds(context.objects);
    }

    /// Whether violations are recorded of kinds of which only a later pass of discovery shows whether they are gone.
    pub(in crate::audit) fn await_former_kinds(&self, objects: &WatchedObjects) -> bool {
        let gate = &objects.gate;
        gate.is_provisional() && self.recording.recorded.has_others(|group, kind| gate.expects(group, kind))
    }

    /// Compares what was recorded of a scope's objects with what is known of them; returns those that still exist. What was
    /// recorded of an object does not count for another that took its name.
    pub(in crate::audit) fn recall(&mut self, context: ResultContext<'_>, scope: &WatchScope) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for mut recorded in self.recording.recorded.take(scope) {
            let key = recorded.key(&scope.kind);
            let exists = context.objects.cache.has(&key, &recorded.object.uid);
            if exists {
                recorded.correct_times(context.objects.cache.created(&key));
            }
            let RecordedObject { object: ObjectRef { uid, .. }, results } = recorded;
            let delta = if exists {
                let owners = self.owners(context, &key, None);
                let delta = self.ledger.recall(&key, &uid, results, &owners);
                keys.push(key);
                delta
            } else {
                Ledger::gone(key, &uid, results, Lane::Snapshot)
            };
            self.record(delta);
        }
        keys
    }

    /// Resolves recorded violations of kinds that are no longer served, once discovery has confirmed that. Kinds of a server
    /// that does not answer may come back.
    pub(in crate::audit) fn recall_former_kinds(&mut self, objects: &WatchedObjects) {
        if !objects.gate.is_open() || objects.gate.may_lack_former_kinds() {
            return;
        }
        for recorded in self.recording.recorded.take_unless(|group, kind| objects.expects(group, kind)) {
            let key = recorded.key(&recorded.former_kind());
            self.record(Ledger::gone(key, &recorded.object.uid, recorded.results, Lane::Snapshot));
        }
    }
}
