//! Exceptions: which violations new ones, deleted ones and expired ones excuse.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use tracing::{error, info};

use super::{ResultContext, Results, WatchedObjects};
use crate::{
    audit::{exceptions::Exceptions, work::Work},
    cluster::identity::is_exception,
    model::{
        body::Body,
        object::ObjectKey,
        verdict::{Outcome, Verdict, is_withheld},
    },
};

impl Results {
    /// Puts the exceptions of files in force, or notes why those loaded before stay in force. One about a rule that is not in
    /// force yet excuses nothing until it is.
    pub(in crate::audit) fn reload_exceptions(&mut self, loaded: anyhow::Result<Exceptions>) {
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
    }

    /// Puts the present state of an exception in force.
    pub(in crate::audit) fn exception_seen(&mut self, objects: &WatchedObjects, key: &ObjectKey) {
        // A write of the status changes nothing about what is excused.
        if let Some(object) = objects.cache.object(key)
            && self.exceptions.put(&object)
        {
            self.exceptions_changed.insert(key.namespace.clone());
        }
    }

    /// Forgets an exception, if the key is that of one.
    pub(in crate::audit) fn exception_gone(&mut self, key: &ObjectKey) {
        if is_exception(&key.kind) {
            self.exceptions.remove(key);
            self.exceptions_changed.insert(key.namespace.clone());
        }
    }

    /// Excuses the violations of a verdict that an exception matches.
    pub(in crate::audit) fn excuse(&self, objects: &WatchedObjects, verdict: &mut Verdict) {
        if verdict.results.is_empty() && verdict.transitions.is_empty() {
            return;
        }
        let (subjects, now) = (self.subjects(objects, &verdict.key), Timestamp::now());
        for findings in [&mut verdict.results, &mut verdict.transitions] {
            self.exceptions.apply(&subjects, findings, now);
        }
    }

    /// Returns what an exception may match to excuse the violations of an object; nothing if no exception can.
    pub(super) fn subjects(&self, objects: &WatchedObjects, key: &ObjectKey) -> Vec<(ObjectKey, Body)> {
        if self.exceptions.may_concern(key) { objects.with_owners(key) } else { Vec::new() }
    }

    /// Whether exceptions changed in some namespaces that are not applied to all results yet.
    pub(in crate::audit) fn have_changed_exceptions(&self) -> bool {
        !self.exceptions_changed.is_empty()
    }

    /// Returns the work of applying exceptions again in the namespaces in which exceptions changed, once for all changes that
    /// came together.
    pub(in crate::audit) fn excuse_after_changes(&mut self) -> Work {
        let changed = std::mem::take(&mut self.exceptions_changed);
        self.excuse_again(|key| changed.contains(&key.namespace))
    }

    /// Returns the same work after time has passed, if an exception has expired or is about to since the last time.
    pub(in crate::audit) fn excuse_after_expiry(&mut self) -> Option<Work> {
        let due = self.next_expiry.is_some_and(|next| next <= Timestamp::now());
        due.then(|| self.excuse_again(|_| true))
    }

    /// Returns the work of applying exceptions again to the results of the objects that are wanted.
    pub(in crate::audit) fn excuse_again(&mut self, wanted: impl Fn(&ObjectKey) -> bool) -> Work {
        self.next_expiry = self.exceptions.next_turn(Timestamp::now());
        let keys = self.ledger.objects().map(|(key, _)| key).filter(|key| wanted(key));
        Work::Excuse(keys.cloned().collect::<Vec<_>>().into_iter())
    }

    /// Applies the exceptions to an object's results again; its owners come first, as they may cover it from now on.
    pub(in crate::audit) fn excuse_object(&mut self, context: ResultContext<'_>, key: &ObjectKey) {
        let owners = context.objects.cache.owners(key);
        for key in owners.iter().rev().chain([key]) {
            if let Some(uid) = context.objects.cache.uid(key) {
                let delta = self.reconsidered(context, key, None);
                self.record_with_dependents(context, key, &uid, delta);
            }
        }
    }

    /// Turns violations that may be excused by exceptions which have not been read into errors.
    pub(in crate::audit) fn withhold(&self, objects: &WatchedObjects, verdict: &mut Verdict) {
        let unread = verdict.key.namespace.as_ref().and_then(|namespace| objects.gate.exceptions_unread(namespace));
        let Some(why) = unread.filter(|_| !objects.are_streamed()) else { return };
        for result in &mut verdict.results {
            if result.outcome.is_violation() && self.exceptions.may_be_excused(result) {
                result.withhold(why);
                verdict.undecided.push([&result.rule.policy, &result.rule.name].map(Arc::clone));
            }
        }
        verdict.transitions.retain(|found| !found.outcome.is_violation() || !self.exceptions.may_be_excused(found));
    }

    /// Whether violations are errors because exceptions that may excuse them cannot be read.
    pub(in crate::audit) fn are_withheld(&self) -> bool {
        let has_errors =
            self.ledger.counts().iter().any(|(class, count)| class.outcome == Outcome::Error && *count > 0);
        let mut results = self.ledger.objects().flat_map(|(_, object)| &object.results);
        has_errors && results.any(|known| is_withheld(known.finding.outcome, &known.finding.message))
    }

    /// Returns the objects in a namespace, or in all, that have errors: some of their violations may have waited for
    /// exceptions to be read.
    pub(in crate::audit) fn withheld(&self, namespace: Option<&Arc<str>>) -> BTreeSet<ObjectKey> {
        let is_in = |key: &ObjectKey| namespace.is_none() || namespace == key.namespace.as_ref();
        let undecided = self.ledger.objects().filter(|(key, object)| {
            is_in(key) && object.results.iter().any(|known| known.finding.outcome == Outcome::Error)
        });
        undecided.map(|(key, _)| key.clone()).collect()
    }
}
