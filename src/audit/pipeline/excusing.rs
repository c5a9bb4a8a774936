//! What new exceptions, those that are gone and those that end change about what stands.

use jiff::Timestamp;

use super::Pipeline;
use crate::model::{object::ObjectKey, verdict::Verdict};

impl Pipeline {
    /// Takes in the present state of an exception.
    pub(super) fn exception_seen(&mut self, key: &ObjectKey) {
        if let Some(object) = self.cache.object(key) {
            self.exceptions.put(&object);
            self.excuse_again(|other| other.namespace == key.namespace);
        }
    }

    /// Excuses what a verdict found.
    pub(super) fn excuse(&self, verdict: &mut Verdict, now: Timestamp) {
        let nothing = verdict.results.is_empty() && verdict.transitions.is_empty();
        if self.exceptions.is_empty() || nothing {
            return;
        }
        // Of an object that is gone only the name is left.
        let body = self.cache.object(&verdict.key).map(|object| object.body).unwrap_or_default();
        for findings in [&mut verdict.results, &mut verdict.transitions] {
            self.exceptions.apply(&verdict.key, &body, findings, now);
        }
    }

    /// Excuses anew what stands of the objects that are wanted.
    pub(super) fn excuse_again(&mut self, wanted: impl Fn(&ObjectKey) -> bool) {
        let now = Timestamp::now();
        self.revision += 1;
        self.exception_ends = self.exceptions.next_end(now);
        let judged = self.ledger.objects().filter(|(key, standing)| !standing.results.is_empty() && wanted(key));
        let keys: Vec<ObjectKey> = judged.map(|(key, _)| key.clone()).collect();
        for key in keys {
            let Some(object) = self.cache.object(&key) else { continue };
            let exceptions = &self.exceptions;
            let apply = |findings: &mut [_]| exceptions.apply(&key, &object.body, findings, now);
            let delta = self.ledger.excuse(&key, apply, now);
            self.recording.record(delta);
        }
    }
}
