//! Owners and dependents: the owners that may cover results of an object, and what changes for dependents with their owners.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;

use super::Pipeline;
use crate::{
    audit::ledger::{
        Delta,
        dependents::{Labels, Owners},
    },
    model::{
        object::{ObjectKey, ObjectRef},
        verdict::Finding,
    },
};

impl Pipeline {
    /// Returns the owners of an object, the topmost first, and notes that it depends on them. One that is `decided` is not
    /// waited for. An object that is its own owner, through others, has none.
    pub(super) fn owners(&mut self, key: &ObjectKey, decided: Option<&ObjectKey>) -> Owners {
        let mut owners = Owners::default();
        let mut dependent = key.clone();
        let chain = self.cache.owners(key);
        let has_top = self.cache.has_top(key, &chain);
        for owner in chain {
            self.link(&dependent);
            if let Some(uid) = self.cache.uid(&owner) {
                if Some(&owner) != decided && (self.queue.is_on_its_way(&owner) || self.inventory.waits(&owner)) {
                    self.owned.wait_for(&uid);
                    owners.awaited = Some(Arc::clone(&uid));
                }
                owners.chain.push((owner.clone(), uid));
            }
            dependent = owner;
        }
        // The owner of the last one may come later.
        self.link(&dependent);
        if !has_top {
            owners = Owners::default();
        }
        owners.chain.reverse();
        owners.labels = self.labels(owners.chain.first().map_or(key, |(topmost, _)| topmost));
        owners
    }

    /// Returns those labels of an object that anybody asks for; `None` if nobody does, or it is not there.
    fn labels(&self, key: &ObjectKey) -> Option<Labels> {
        let wanted = &self.outputs.labels;
        let object = if wanted.is_empty() { None } else { self.cache.object(key) };
        let mut labels = object?.body.labels();
        labels.retain(|key, _| wanted.contains(key));
        Some(Arc::new(labels))
    }

    pub(super) fn link(&mut self, dependent: &ObjectKey) {
        match self.cache.controller(dependent) {
            Some(controller) => self.owned.link(dependent, &controller.uid),
            None => {
                self.owned.unlink(dependent);
            }
        }
    }

    /// Records what changed for an object, and what that changes for its dependents.
    pub(super) fn record_with_dependents(&mut self, key: &ObjectKey, uid: &str, delta: Option<Delta>) {
        if self.owned.arrived(uid) || (delta.is_some() && self.owned.has(uid)) {
            self.reconsider_dependents(key, uid);
        }
        let delta = delta.map(|delta| self.ledger.counted(delta));
        self.recording.record(delta);
    }

    /// Reconsiders what stands of everything that an object manages, directly or not.
    pub(super) fn reconsider_dependents(&mut self, key: &ObjectKey, uid: &str) {
        let mut waiting: VecDeque<ObjectKey> = self.owned.of(uid).into();
        // Whoever may write owners may write circles.
        let mut seen: HashSet<ObjectKey> = waiting.iter().cloned().collect();
        while let Some(dependent) = waiting.pop_front() {
            let delta = self.reconsidered(&dependent, Some(key));
            self.recording.record(delta);
            let owned = self.cache.uid(&dependent).map(|uid| self.owned.of(&uid)).unwrap_or_default();
            waiting.extend(owned.into_iter().filter(|key| seen.insert(key.clone())));
        }
    }

    /// Attributes what stands of an object to its present owners, and excuses it anew; returns what that changes.
    pub(super) fn reconsidered(&mut self, key: &ObjectKey, decided: Option<&ObjectKey>) -> Option<Delta> {
        let owners = self.owners(key, decided);
        let (now, subjects) = (Timestamp::now(), self.subjects(key));
        let excuse = |findings: &mut [Finding]| self.exceptions.apply(&subjects, findings, now);
        self.ledger.reconsider(key, excuse, &owners, now)
    }

    /// Takes in that an object has another controller than before.
    pub(super) fn controller_changed(&mut self, key: &ObjectKey, uid: &str) {
        self.link(key);
        let delta = self.reconsidered(key, None);
        self.recording.record(delta);
        self.reconsider_dependents(key, uid);
    }

    /// Has the dependents of an object that is about to be judged for the first time wait for that.
    pub(super) fn owner_arrived(&mut self, uid: &Arc<str>) {
        if self.owned.has(uid) {
            self.owned.wait_for(uid);
        }
    }

    /// The same for an object that is there.
    pub(super) fn object_arrived(&mut self, key: &ObjectKey) {
        if !self.owned.is_empty()
            && let Some(uid) = self.cache.uid(key)
        {
            self.owner_arrived(&uid);
        }
    }

    /// Returns a reference to the owner of an object that has this uid.
    pub(super) fn owner_reference(&self, key: &ObjectKey, uid: &Arc<str>) -> Option<Arc<ObjectRef>> {
        let owner = self.cache.owners(key).into_iter().find(|owner| self.cache.has(owner, uid))?;
        Some(Arc::new(ObjectRef::new(&owner, uid)))
    }
}
