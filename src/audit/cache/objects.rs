//! The objects of one scope as the cache keeps them, by namespace: a change of a Namespace concerns the objects in it, which
//! can be found without a search through all others.
//!
//! There may be hundreds of thousands, so each has one allocation of its own, and what many have in common is shared: the kind
//! and the namespace are stored once.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    num::NonZeroU64,
    sync::Arc,
};

use hashbrown::HashTable;

use crate::model::{
    body::Body,
    object::{Controller, Kind, Location, Object, ObjectKey, ResourceVersion},
    uid::Uid,
};

/// The bytes that the key of an object takes in addition to its entry, with the allocator's share for both.
const KEY_BYTES: usize = 144;

/// Returns about how many bytes of memory the entry with a body takes.
pub(super) fn bytes(body: &Body) -> usize {
    size_of::<NamedEntry>() + KEY_BYTES + body.bytes().len()
}

/// One object.
#[derive(Debug, Clone)]
pub(super) struct CacheEntry {
    pub(super) uid: Uid,
    pub(super) resource_version: ResourceVersion,
    pub(super) body: Body,
    /// For objects that differ from the others in more than their state.
    pub(super) origin: Option<Box<ManifestOrigin>>,
    /// Hash of what policies can read of it, if it was computed.
    pub(super) projection: Option<NonZeroU64>,
    pub(super) controller: Option<Arc<Controller>>,
    /// The list that named it last.
    pub(super) listing: u32,
    pub(super) inactive: bool,
}

/// Where a manifest was read, and its kind in its own spelling.
#[derive(Debug, Clone)]
pub(super) struct ManifestOrigin {
    kind: Arc<Kind>,
    location: Option<Location>,
}

impl CacheEntry {
    /// Makes the entry of an object.
    pub(super) fn new(object: Object, kind: &Arc<Kind>, listing: u32) -> (ObjectKey, Self) {
        let Object { key, uid, resource_version, body, location, controller, inactive, .. } = object;
        let own_kind = !Arc::ptr_eq(&key.kind, kind) && key.kind.kind != kind.kind;
        let origin = (own_kind || location.is_some())
            .then(|| Box::new(ManifestOrigin { kind: Arc::clone(&key.kind), location }));
        let uid = Uid::from(&uid);
        (key, Self { uid, resource_version, body, origin, projection: None, controller, listing, inactive })
    }

    /// Whether `object` is in this state. Manifests have no resourceVersion to compare.
    pub(super) fn is(&self, object: &Object) -> bool {
        let known = self.resource_version;
        known == object.resource_version && known.state().is_some() && self.uid == *object.uid
    }

    /// Returns about how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        bytes(&self.body)
    }

    /// Returns where it was read.
    pub(super) fn location(&self) -> Option<&Location> {
        self.origin.as_ref()?.location.as_ref()
    }

    /// Makes it an object again.
    pub(super) fn into_object(self, key: ObjectKey) -> Object {
        let Self { uid, resource_version, body, origin, controller, inactive, .. } = self;
        let location = origin.and_then(|origin| origin.location);
        Object { key, uid: uid.text(), resource_version, body, location, controller, inactive, projected: None }
    }
}

/// An entry with the part of the key that only it has.
#[derive(Debug)]
struct NamedEntry {
    name: Arc<str>,
    copy: u32,
    entry: CacheEntry,
}

impl NamedEntry {
    fn is(&self, key: &ObjectKey) -> bool {
        self.copy == key.copy && self.name == key.name
    }

    fn key(&self, kind: &Arc<Kind>, namespace: Option<&Arc<str>>) -> ObjectKey {
        let kind = self.entry.origin.as_ref().map_or(kind, |origin| &origin.kind);
        ObjectKey {
            kind: Arc::clone(kind),
            namespace: namespace.cloned(),
            name: Arc::clone(&self.name),
            copy: self.copy,
        }
    }
}

/// The entries of a scope by key.
#[derive(Debug)]
pub(super) struct ScopeObjects {
    kind: Arc<Kind>,
    namespaces: HashMap<Option<Arc<str>>, HashTable<Box<NamedEntry>>>,
    hasher: RandomState,
    len: usize,
}

impl ScopeObjects {
    /// Makes an empty one for objects of a kind.
    pub(super) fn new(kind: Arc<Kind>) -> Self {
        Self { kind, namespaces: HashMap::new(), hasher: RandomState::new(), len: 0 }
    }

    pub(super) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&CacheEntry> {
        let hash = self.hasher.hash_one(&*key.name);
        Some(&self.namespaces.get(&key.namespace)?.find(hash, |named| named.is(key))?.entry)
    }

    pub(super) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut CacheEntry> {
        let hash = self.hasher.hash_one(&*key.name);
        Some(&mut self.namespaces.get_mut(&key.namespace)?.find_mut(hash, |named| named.is(key))?.entry)
    }

    /// Adds an entry; returns the one that it replaces.
    pub(super) fn insert(&mut self, key: ObjectKey, entry: CacheEntry) -> Option<CacheEntry> {
        if let Some(known) = self.get_mut(&key) {
            return Some(std::mem::replace(known, entry));
        }
        let hasher = &self.hasher;
        let hash = |named: &NamedEntry| hasher.hash_one(&*named.name);
        let named = Box::new(NamedEntry { name: key.name, copy: key.copy, entry });
        self.namespaces.entry(key.namespace).or_default().insert_unique(hash(&named), named, |named| hash(named));
        self.len += 1;
        None
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<CacheEntry> {
        let hash = self.hasher.hash_one(&*key.name);
        let entries = self.namespaces.get_mut(&key.namespace)?;
        let (named, _) = entries.find_entry(hash, |named| named.is(key)).ok()?.remove();
        if entries.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
        Some(named.entry)
    }

    /// Removes the entries for which `gone` is true.
    pub(super) fn extract(&mut self, gone: impl Fn(&CacheEntry) -> bool) -> Vec<(ObjectKey, CacheEntry)> {
        let mut extracted = Vec::new();
        self.namespaces.retain(|namespace, entries| {
            let gone = entries.extract_if(|named| gone(&named.entry));
            extracted.extend(gone.map(|named| (named.key(&self.kind, namespace.as_ref()), named.entry)));
            !entries.is_empty()
        });
        self.len -= extracted.len();
        extracted
    }

    /// Returns the namespaces of the objects, `None` for those without one.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = Option<&Arc<str>>> {
        self.namespaces.keys().map(Option::as_ref)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.namespaces().flat_map(|namespace| self.keys_in(namespace))
    }

    pub(super) fn keys_in(&self, namespace: Option<&Arc<str>>) -> impl Iterator<Item = ObjectKey> + use<'_> {
        let found = self.namespaces.get_key_value(&namespace.cloned());
        found
            .into_iter()
            .flat_map(|(namespace, entries)| entries.iter().map(|named| named.key(&self.kind, namespace.as_ref())))
    }

    /// Returns the keys with the uids, and drops the entries one after the other.
    pub(super) fn into_keys(self) -> impl Iterator<Item = (ObjectKey, Arc<str>)> + Send {
        let Self { kind, namespaces, .. } = self;
        namespaces.into_iter().flat_map(move |(namespace, entries)| {
            let kind = Arc::clone(&kind);
            let taken = move |named: Box<NamedEntry>| (named.key(&kind, namespace.as_ref()), named.entry.uid.text());
            entries.into_iter().map(taken)
        })
    }

    /// Returns all entries with their namespaces.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &CacheEntry)> {
        self.namespaces
            .iter()
            .flat_map(|(namespace, entries)| entries.iter().map(|named| (namespace.as_ref(), &named.entry)))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &CacheEntry> {
        self.namespaces.values().flatten().map(|named| &named.entry)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut CacheEntry> {
        self.namespaces.values_mut().flatten().map(|named| &mut named.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<NamedEntry>() <= 112, "{} bytes", size_of::<NamedEntry>());
    }
}
