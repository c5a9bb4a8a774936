//! Which objects are managed by which, for objects with results and for those between them and their topmost owners.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::model::object::ObjectKey;

/// Objects by the uid of their controller, which need not be there yet.
#[derive(Debug, Default)]
pub(crate) struct OwnedObjects {
    owned: HashMap<Arc<str>, HashSet<ObjectKey>>,
    controllers: HashMap<ObjectKey, Arc<str>>,
    /// Controllers that objects wait for: they are about to be evaluated, or to be listed.
    awaited: HashSet<Arc<str>>,
}

impl OwnedObjects {
    /// Notes the controller of an object.
    pub(crate) fn link(&mut self, key: &ObjectKey, controller: &Arc<str>) {
        match self.controllers.insert(key.clone(), Arc::clone(controller)) {
            Some(before) if before == *controller => return,
            Some(before) => self.drop_from(&before, key),
            None => {}
        }
        self.owned.entry(Arc::clone(controller)).or_default().insert(key.clone());
    }

    /// Forgets the controller of an object; returns whether it was known.
    pub(crate) fn unlink(&mut self, key: &ObjectKey) -> bool {
        let Some(before) = self.controllers.remove(key) else { return false };
        self.drop_from(&before, key);
        true
    }

    fn drop_from(&mut self, controller: &Arc<str>, key: &ObjectKey) {
        if let Some(owned) = self.owned.get_mut(controller) {
            owned.remove(key);
            if owned.is_empty() {
                self.owned.remove(controller);
                self.awaited.remove(controller);
            }
        }
    }

    /// Notes that objects wait for a controller.
    pub(crate) fn wait_for(&mut self, controller: &Arc<str>) {
        self.awaited.insert(Arc::clone(controller));
    }

    /// Whether objects waited for a controller, which they do no longer.
    pub(crate) fn arrived(&mut self, controller: &str) -> bool {
        self.awaited.remove(controller)
    }

    /// Whether no object has a known controller.
    pub(crate) fn is_empty(&self) -> bool {
        self.owned.is_empty()
    }

    /// Whether a controller manages objects that are known here.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.owned.contains_key(controller)
    }

    /// Returns the objects that a controller manages.
    pub(crate) fn of(&self, controller: &str) -> Vec<ObjectKey> {
        self.owned.get(controller).into_iter().flatten().cloned().collect()
    }
}
