//! What is kept of the objects of one scope, by namespace: what happens to a Namespace concerns those in it, and nobody
//! should have to look through all others for them.

use std::{collections::HashMap, sync::Arc};

use crate::model::object::ObjectKey;

/// The entries of a scope by key.
#[derive(Debug)]
pub(super) struct Objects<E> {
    namespaces: HashMap<Option<Arc<str>>, HashMap<ObjectKey, E>>,
    len: usize,
}

impl<E> Default for Objects<E> {
    fn default() -> Self {
        Self { namespaces: HashMap::new(), len: 0 }
    }
}

impl<E> Objects<E> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&E> {
        self.namespaces.get(&key.namespace)?.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut E> {
        self.namespaces.get_mut(&key.namespace)?.get_mut(key)
    }

    /// Puts an entry in; returns the one that it replaces.
    pub(super) fn insert(&mut self, key: ObjectKey, entry: E) -> Option<E> {
        let before = self.namespaces.entry(key.namespace.clone()).or_default().insert(key, entry);
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<E> {
        let entries = self.namespaces.get_mut(&key.namespace)?;
        let known = entries.remove(key);
        if entries.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= usize::from(known.is_some());
        known
    }

    /// Takes out the entries for which `gone` is true.
    pub(super) fn extract(&mut self, gone: impl Fn(&E) -> bool) -> Vec<(ObjectKey, E)> {
        let entries = self.namespaces.values_mut();
        let extracted: Vec<_> = entries.flat_map(|entries| entries.extract_if(|_, entry| gone(entry))).collect();
        self.namespaces.retain(|_, entries| !entries.is_empty());
        self.len -= extracted.len();
        extracted
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.namespaces.values().flat_map(HashMap::keys)
    }

    pub(super) fn keys_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &ObjectKey> + use<'_, E> {
        self.namespaces.get(&Some(Arc::clone(namespace))).into_iter().flat_map(HashMap::keys)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &E> {
        self.namespaces.values().flat_map(HashMap::values)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.namespaces.values_mut().flat_map(HashMap::values_mut)
    }
}
