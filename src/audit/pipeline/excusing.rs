//! What new exceptions, those that are gone and those that end change about what stands.

use jiff::Timestamp;
use tracing::{error, info};

use super::Pipeline;
use crate::{
    audit::{exceptions::Exceptions, work::Work},
    cluster::identity::is_exception,
    model::{body::Body, object::ObjectKey, verdict::Verdict},
};

impl Pipeline {
    /// Puts the exceptions of files in force, or notes why those loaded before stay in force. One about a rule that is not in
    /// force yet excuses nothing until it is.
    pub(super) fn reload_exceptions(&mut self, loaded: anyhow::Result<Exceptions>) {
        match loaded {
            Ok(exceptions) => {
                info!("Exceptions loaded");
                self.exceptions.replace_given(exceptions);
            }
            Err(why) => {
                let why = format!("{why:#}");
                error!("The exceptions could not be loaded; those loaded before stay in force: {why}");
                self.exceptions.refuse_given(why);
            }
        }
        self.excuse_again(|_| true);
    }

    /// Takes in the present state of an exception.
    pub(super) fn exception_seen(&mut self, key: &ObjectKey) {
        // A write of the status changes nothing about what is excused.
        if let Some(object) = self.cache.object(key)
            && self.exceptions.put(&object)
        {
            self.exceptions_changed.insert(key.namespace.clone());
        }
    }

    /// Forgets an exception, if the key is that of one.
    pub(super) fn exception_gone(&mut self, key: &ObjectKey) {
        if is_exception(&key.kind) {
            self.exceptions.remove(key);
            self.exceptions_changed.insert(key.namespace.clone());
        }
    }

    /// Excuses what a verdict found.
    pub(super) fn excuse(&self, verdict: &mut Verdict, now: Timestamp) {
        let nothing = verdict.results.is_empty() && verdict.transitions.is_empty();
        if self.exceptions.is_empty() || nothing {
            return;
        }
        let subjects = self.subjects(&verdict.key);
        for findings in [&mut verdict.results, &mut verdict.transitions] {
            self.exceptions.apply(&subjects, findings, now);
        }
    }

    /// Returns what an exception may match to excuse what is found about an object: the object, and its owners.
    pub(super) fn subjects(&self, key: &ObjectKey) -> Vec<(ObjectKey, Body)> {
        if self.exceptions.is_empty() {
            return Vec::new();
        }
        // Of an object that is gone only the name is left.
        let body = |key: &ObjectKey| self.cache.object(key).map(|object| object.body).unwrap_or_default();
        let owners = self.cache.owners(key);
        [key.clone()].into_iter().chain(owners).map(|key| (key.clone(), body(&key))).collect()
    }

    /// Excuses anew what stands of the objects that are wanted.
    pub(super) fn excuse_again(&mut self, wanted: impl Fn(&ObjectKey) -> bool) {
        let now = Timestamp::now();
        self.revision += 1;
        self.exception_turns = self.exceptions.next_turn(now);
        let judged = self.ledger.objects().map(|(key, _)| key).filter(|key| wanted(key));
        let keys: Vec<ObjectKey> = judged.cloned().collect();
        self.work.push_back(Work::Excuse(keys.into_iter()));
    }

    /// Applies exceptions again to the open violations of the namespaces in which exceptions changed, once for all changes that
    /// came together.
    pub(super) fn excuse_after_changes(&mut self) {
        let changed = std::mem::take(&mut self.exceptions_changed);
        if changed.is_empty() {
            return;
        }
        self.excuse_again(|key| changed.contains(&key.namespace));
    }

    /// Applies the exceptions to an object's results again; its owners come first, as they may cover it from now on.
    pub(super) fn excuse_object(&mut self, key: &ObjectKey) {
        let owners = self.cache.owners(key);
        for key in owners.iter().rev().chain([key]) {
            if let Some(uid) = self.cache.uid(key) {
                let delta = self.reconsidered(key, None);
                self.record_with_dependents(key, &uid, delta);
            }
        }
    }
}
