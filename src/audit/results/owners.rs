//! The owners that may cover results of an object, and what changes for dependents with their owners.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;

use super::{ResultContext, Results, WatchedObjects};
use crate::{
    audit::ledger::{
        Delta,
        dependents::{Labels, Owners},
    },
    model::{object::ObjectKey, verdict::Finding},
};

impl Results {
    /// Returns the owners of an object, the topmost first, and notes that it depends on them. One that is `decided` is not
    /// waited for. An object that is its own owner, through others, has none.
    pub(super) fn owners(
        &mut self,
        ResultContext { objects, schedule }: ResultContext<'_>,
        key: &ObjectKey,
        decided: Option<&ObjectKey>,
    ) -> Owners {
        let mut owners = Owners::default();
        let mut dependent = key.clone();
        let chain = objects.cache.owners(key);
        let has_top = objects.cache.has_top(key, &chain);
        for owner in chain {
            self.link(objects, &dependent);
            if let Some(uid) = objects.cache.uid(&owner) {
                if Some(&owner) != decided && schedule.is_pending(&owner) {
                    self.owned.wait_for(&uid);
                    owners.awaited = Some(Arc::clone(&uid));
                }
                owners.chain.push((owner.clone(), uid));
            }
            dependent = owner;
        }
        // The owner of the last one may come later.
        self.link(objects, &dependent);
        if !has_top {
            owners = Owners::default();
        }
        owners.chain.reverse();
        owners.labels = self.labels(objects, owners.chain.first().map_or(key, |(topmost, _)| topmost));
        owners
    }

    /// Returns those labels of an object that deltas have; `None` if they have none, or the object does not exist.
    fn labels(&self, objects: &WatchedObjects, key: &ObjectKey) -> Option<Labels> {
        let object = if self.labels.is_empty() { None } else { objects.cache.object(key) };
        let mut labels = object?.body.labels();
        labels.retain(|key, _| self.labels.contains(key));
        Some(Arc::new(labels))
    }

    /// Notes which object manages another.
    pub(super) fn link(&mut self, objects: &WatchedObjects, dependent: &ObjectKey) {
        match objects.cache.controller(dependent) {
            Some(controller) => self.owned.link(dependent, &controller.uid),
            None => {
                self.owned.unlink(dependent);
            }
        }
    }

    /// Records what changed for an object, and what that changes for its dependents.
    pub(super) fn record_with_dependents(
        &mut self,
        context: ResultContext<'_>,
        key: &ObjectKey,
        uid: &str,
        delta: Option<Delta>,
    ) {
        if self.owned.arrived(uid) || (delta.is_some() && self.owned.has(uid)) {
            self.reconsider_dependents(context, key, uid);
        }
        self.record(delta);
    }

    /// Reconsiders the results of everything that an object manages, directly or not.
    pub(super) fn reconsider_dependents(&mut self, context: ResultContext<'_>, key: &ObjectKey, uid: &str) {
        let mut waiting: VecDeque<ObjectKey> = self.owned.of(uid).into();
        // Owner references are written by users and may be circular.
        let mut seen: HashSet<ObjectKey> = waiting.iter().cloned().collect();
        while let Some(dependent) = waiting.pop_front() {
            self.reconsider(context, &dependent, Some(key));
            let uid = context.objects.cache.uid(&dependent);
            let owned = uid.map(|uid| self.owned.of(&uid)).unwrap_or_default();
            waiting.extend(owned.into_iter().filter(|key| seen.insert(key.clone())));
        }
    }

    /// Attributes the results of an object to its present owners, applies exceptions again, and records what that changes.
    /// One owner that is `decided` is not waited for.
    pub(super) fn reconsider(&mut self, context: ResultContext<'_>, key: &ObjectKey, decided: Option<&ObjectKey>) {
        let delta = self.reconsidered(context, key, decided);
        self.record(delta);
    }

    /// The same, without recording it; returns what changed.
    pub(super) fn reconsidered(
        &mut self,
        context: ResultContext<'_>,
        key: &ObjectKey,
        decided: Option<&ObjectKey>,
    ) -> Option<Delta> {
        let owners = self.owners(context, key, decided);
        let (now, subjects) = (Timestamp::now(), self.subjects(context.objects, key));
        let excuse = |findings: &mut [Finding]| self.exceptions.apply(&subjects, findings, now);
        self.ledger.reconsider(key, excuse, &owners, now)
    }

    /// Updates the owners of an object whose controller changed.
    pub(in crate::audit) fn controller_changed(&mut self, context: ResultContext<'_>, key: &ObjectKey, uid: &str) {
        self.link(context.objects, key);
        self.reconsider(context, key, None);
        self.reconsider_dependents(context, key, uid);
    }

    /// Notes that an object is about to be evaluated, for which its dependents wait.
    pub(in crate::audit) fn owner_arrived(&mut self, uid: &Arc<str>) {
        if self.owned.has(uid) {
            self.owned.wait_for(uid);
        }
    }

    /// The same for an object in the cache.
    pub(in crate::audit) fn object_arrived(&mut self, objects: &WatchedObjects, key: &ObjectKey) {
        if !self.owned.is_empty()
            && let Some(uid) = objects.cache.uid(key)
        {
            self.owner_arrived(&uid);
        }
    }
}
