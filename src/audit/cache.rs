//! The latest state of each object, as compact bytes.
//!
//! In: objects from the sources, and where a list begins and ends. Out: which changes are real, and the object of a key when it
//! is evaluated. Only the pipeline owns a cache; bodies are shared with the evaluation threads.

mod objects;

use std::{collections::HashMap, num::NonZeroU64, sync::Arc};

use jiff::Timestamp;

use self::objects::{CacheEntry, ScopeObjects};
use super::memory::MemoryUsage;
use crate::{
    model::{
        body::{Body, Packer, Packing},
        object::{Controller, Kind, Location, MOST_OWNERS, Object, ObjectKey, ObjectVersion},
    },
    source::change::WatchScope,
};

/// What a change did to the cache.
#[derive(Debug)]
pub enum Effect {
    /// Nothing: the state was known.
    Same,
    /// A known object has a new state; this is the one before.
    Changed(Previous),
    /// The object was not known.
    New,
    /// Another object has taken the name; the old one, whose uid this is, was deleted.
    Replaced(Arc<str>),
}

/// The state of an object before it changed.
#[derive(Debug)]
pub struct Previous(CacheEntry);

impl Previous {
    /// The JSON of the object.
    pub fn body(&self) -> &Body {
        &self.0.body
    }

    /// The hash of what policies can read of it, if it was kept.
    pub fn projection(&self) -> Option<NonZeroU64> {
        self.0.projection
    }

    /// Its controller.
    pub fn controller(&self) -> Option<&Arc<Controller>> {
        self.0.controller.as_ref()
    }

    /// Whether it was inactive.
    pub fn inactive(&self) -> bool {
        self.0.inactive
    }

    /// Converts it into an object with this key.
    pub fn into_object(self, key: ObjectKey) -> Object {
        self.0.into_object(key)
    }
}

/// The latest state of each object, by watch scope.
#[derive(Debug, Default)]
pub struct Cache {
    scopes: HashMap<WatchScope, Entries>,
    packer: Packer,
    /// The bytes of all entries.
    usage: MemoryUsage,
}

#[derive(Debug)]
struct Entries {
    objects: ScopeObjects,
    /// Counts lists; an object that a complete list did not name was deleted.
    listing: u32,
    /// How many of the objects the present list has named.
    listed: usize,
    /// Objects that were dropped and only counted.
    dropped: usize,
    /// How many of the objects are inactive.
    inactive: usize,
    /// The controller of the last object: objects with the same controller often come one after the other.
    controller: Option<Arc<Controller>>,
}

impl Entries {
    fn new(kind: Arc<Kind>) -> Self {
        Self { objects: ScopeObjects::new(kind), listing: 0, listed: 0, dropped: 0, inactive: 0, controller: None }
    }

    /// Returns the same controller as another object has, if it is the same.
    fn shared(&mut self, controller: Option<Arc<Controller>>) -> Option<Arc<Controller>> {
        let controller = controller?;
        if self.controller.as_ref() != Some(&controller) {
            self.controller = Some(controller);
        }
        self.controller.clone()
    }

    /// Counts a new entry.
    fn entered(&mut self, entry: &CacheEntry) {
        self.inactive += usize::from(entry.inactive);
        self.listed += usize::from(entry.listing == self.listing);
    }

    /// No longer counts a removed entry.
    fn left(&mut self, entry: &CacheEntry) {
        self.inactive -= usize::from(entry.inactive);
        self.listed -= usize::from(entry.listing == self.listing);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<CacheEntry> {
        let entry = self.objects.remove(key)?;
        self.left(&entry);
        Some(entry)
    }
}

impl Cache {
    /// Makes a cache that trains the dictionary of `packing`, and compresses objects that are not compressed yet.
    pub fn new(packing: Packing) -> Self {
        Self { packer: Packer::new(packing), ..Self::default() }
    }

    /// Makes a cache that does not compress, for objects that are evaluated once and dropped.
    pub fn unpacked() -> Self {
        Self { packer: Packer::off(), ..Self::default() }
    }

    /// Returns how much memory the objects take.
    pub(crate) fn usage(&self) -> &MemoryUsage {
        &self.usage
    }

    /// Returns how many bytes an object takes in its present state, and would take in its new state.
    pub fn growth(&self, scope: &WatchScope, object: &Object) -> (usize, usize) {
        let known = self.scopes.get(scope).and_then(|entries| entries.objects.get(&object.key));
        (known.map_or(0, CacheEntry::bytes), objects::bytes(&object.body))
    }

    /// Notes that a list has named an object whose new state is not kept: the one before stays, if it is the same object.
    pub fn keep(&mut self, scope: &WatchScope, object: &Object) {
        let Some(entries) = self.scopes.get_mut(scope) else { return };
        let listing = entries.listing;
        if let Some(known) = entries.objects.get_mut(&object.key).filter(|known| known.uid == *object.uid) {
            entries.listed += usize::from(std::mem::replace(&mut known.listing, listing) != listing);
        }
    }

    /// Begins to hold a scope.
    pub fn add(&mut self, scope: WatchScope) {
        let kind = Arc::clone(&scope.kind);
        self.scopes.entry(scope).or_insert_with(|| Entries::new(kind));
    }

    /// Removes a scope; returns the keys and uids of its objects, which are dropped one after the other.
    pub fn take(&mut self, scope: &WatchScope) -> impl Iterator<Item = (ObjectKey, Arc<str>)> + Send + use<> {
        let taken = self.scopes.remove(scope);
        for (namespace, entry) in taken.iter().flat_map(|entries| entries.objects.entries()) {
            self.usage.remove(namespace, entry.bytes());
        }
        taken.into_iter().flat_map(|entries| entries.objects.into_keys())
    }

    /// Whether another scope holds the same objects in another API version.
    pub fn has_version_of(&self, scope: &WatchScope) -> bool {
        self.scopes.keys().any(|other| other != scope && other.is_version_of(scope))
    }

    /// Notes that a new list of `scope` begins.
    pub fn listing(&mut self, scope: &WatchScope) {
        if let Some(entries) = self.scopes.get_mut(scope) {
            entries.listing = entries.listing.wrapping_add(1);
            entries.listed = 0;
        }
    }

    /// Ends a list: removes the objects that it did not name, and returns their keys and uids.
    pub fn listed(&mut self, scope: &WatchScope) -> Vec<(ObjectKey, Arc<str>)> {
        let Some(entries) = self.scopes.get_mut(scope) else { return Vec::new() };
        if entries.listed == entries.objects.len() {
            return Vec::new();
        }
        let listing = entries.listing;
        let gone = entries.objects.extract(|entry| entry.listing != listing);
        for (key, entry) in &gone {
            entries.left(entry);
            self.usage.remove(key.namespace.as_ref(), entry.bytes());
        }
        gone.into_iter().map(|(key, entry)| (key, entry.uid.text())).collect()
    }

    /// Stores the present state of an object; returns what changed.
    pub fn apply(&mut self, scope: &WatchScope, mut object: Object) -> Effect {
        // An unknown scope was dropped before this change arrived.
        let Some(entries) = self.scopes.get_mut(scope) else { return Effect::Same };
        let listing = entries.listing;
        if let Some(known) = entries.objects.get_mut(&object.key).filter(|known| known.is(&object)) {
            entries.listed += usize::from(std::mem::replace(&mut known.listing, listing) != listing);
            return Effect::Same;
        }
        object.body = self.packer.pack(object.body);
        object.controller = entries.shared(object.controller);
        let (key, entry) = CacheEntry::new(object, entries.objects.kind(), listing);
        let (uid, namespace, bytes) = (entry.uid.clone(), key.namespace.clone(), entry.bytes());
        entries.entered(&entry);
        let before = entries.objects.insert(key, entry);
        if let Some(before) = &before {
            entries.left(before);
            self.usage.remove(namespace.as_ref(), before.bytes());
        }
        self.usage.add(namespace.as_ref(), bytes);
        let effect = match before {
            None => Effect::New,
            Some(before) if before.uid == uid => Effect::Changed(Previous(before)),
            Some(before) => Effect::Replaced(before.uid.text()),
        };
        if self.packer.ready_to_train() {
            self.train();
        }
        effect
    }

    /// Forgets an object. Returns whether it was known under this uid.
    pub fn remove(&mut self, scope: &WatchScope, key: &ObjectKey, uid: &str) -> bool {
        let Some(entries) = self.scopes.get_mut(scope) else { return false };
        let is_known = entries.objects.get(key).is_some_and(|entry| entry.uid == *uid);
        let removed = if is_known { entries.remove(key) } else { None };
        self.usage.remove(key.namespace.as_ref(), removed.as_ref().map_or(0, CacheEntry::bytes));
        removed.is_some()
    }

    /// Returns the present state of an object.
    pub fn object(&self, key: &ObjectKey) -> Option<Object> {
        self.entry(key).map(|entry| entry.clone().into_object(key.clone()))
    }

    /// Returns the uid of an object, if it exists.
    pub fn uid(&self, key: &ObjectKey) -> Option<Arc<str>> {
        self.entry(key).map(|entry| entry.uid.text())
    }

    /// Whether an object with this key and uid exists.
    pub fn has(&self, key: &ObjectKey, uid: &str) -> bool {
        self.entry(key).is_some_and(|entry| entry.uid == *uid)
    }

    /// Returns when the API server created an object.
    pub fn created(&self, key: &ObjectKey) -> Option<Timestamp> {
        self.entry(key)?.body.created()
    }

    /// Returns the controller of an object.
    pub fn controller(&self, key: &ObjectKey) -> Option<&Arc<Controller>> {
        self.entry(key)?.controller.as_ref()
    }

    /// Whether an object exists and is inactive.
    pub fn is_inactive(&self, key: &ObjectKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.inactive)
    }

    /// Returns the controller of an object, the controller of that, and so on up to the last one that exists: the nearest first.
    pub fn owners(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let mut owners: Vec<ObjectKey> = Vec::new();
        while let Some(owner) = self.owner(owners.last().unwrap_or(key)) {
            // Owner references are written by users and may be circular.
            if owners.len() == MOST_OWNERS || owner == *key || owners.contains(&owner) {
                break;
            }
            owners.push(owner);
        }
        owners
    }

    /// Whether the chain of an object's [owners](Self::owners) has a topmost one. It has none if it comes back to the object, or
    /// is too long. A chain that comes back to another owner ends before that one, as the owners in the circle have none.
    pub fn has_top(&self, key: &ObjectKey, owners: &[ObjectKey]) -> bool {
        let next = self.owner(owners.last().unwrap_or(key));
        next.is_none_or(|next| next != *key && owners.contains(&next))
    }

    fn owner(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let controller = self.controller(key)?;
        let is_named =
            |scope: &&WatchScope| *scope.kind.kind == *controller.kind && *scope.kind.group == *controller.group;
        let kinds = self.scopes.keys().filter(is_named).map(|scope| &scope.kind);
        let keys = kinds.flat_map(|kind| {
            // The kind of an owner decides whether it has a namespace; for kinds in manifests that is not known.
            [key.namespace.clone(), None].map(|namespace| ObjectKey {
                kind: Arc::clone(kind),
                namespace,
                name: Arc::clone(&controller.name),
                copy: 0,
            })
        });
        keys.into_iter().find(|owner| self.has(owner, &controller.uid))
    }

    /// Returns which state of an object the cache has.
    pub fn state(&self, key: &ObjectKey) -> Option<ObjectVersion> {
        self.entry(key)?.resource_version.state()
    }

    /// Returns where an object was read, for manifests.
    pub fn location(&self, key: &ObjectKey) -> Option<&Location> {
        self.entry(key)?.location()
    }

    /// Drops the JSON of an object that will not be evaluated again, except for its labels, which exceptions may select, and the
    /// time of its creation.
    pub fn drop_body(&mut self, key: &ObjectKey) {
        let entry = self.scope(key).and_then(|scope| self.scopes.get_mut(&scope)?.objects.get_mut(key));
        if let Some(entry) = entry {
            self.usage.remove(key.namespace.as_ref(), entry.bytes());
            entry.body = entry.body.labels_only();
            self.usage.add(key.namespace.as_ref(), entry.bytes());
        }
    }

    /// Drops an object that is no longer needed, and counts it.
    pub fn drop_object(&mut self, key: &ObjectKey) {
        let entries = self.scope(key).and_then(|scope| self.scopes.get_mut(&scope));
        if let Some(entries) = entries {
            let removed = entries.remove(key);
            entries.dropped += usize::from(removed.is_some());
            self.usage.remove(key.namespace.as_ref(), removed.as_ref().map_or(0, CacheEntry::bytes));
        }
    }

    /// Keeps a hash for the present state of an object.
    pub fn set_projection(&mut self, key: &ObjectKey, projection: Option<NonZeroU64>) {
        let entry = self.scope(key).and_then(|scope| self.scopes.get_mut(&scope)?.objects.get_mut(key));
        if let Some(entry) = entry {
            entry.projection = projection;
        }
    }

    /// Returns the keys of all objects of a scope, in no order.
    pub fn keys(&self, scope: &WatchScope) -> impl Iterator<Item = ObjectKey> {
        self.scopes.get(scope).into_iter().flat_map(|entries| entries.objects.keys())
    }

    /// Returns the namespaces of the objects of a scope, `None` for objects of the cluster; in no order.
    pub fn namespaces(&self, scope: &WatchScope) -> impl Iterator<Item = Option<&Arc<str>>> {
        self.scopes.get(scope).into_iter().flat_map(|entries| entries.objects.namespaces())
    }

    /// Returns the keys of the objects of a scope in one namespace, or of the objects of the cluster, in no order.
    pub fn keys_in(&self, scope: &WatchScope, namespace: Option<&Arc<str>>) -> impl Iterator<Item = ObjectKey> {
        self.scopes.get(scope).into_iter().flat_map(move |entries| entries.objects.keys_in(namespace))
    }

    /// Returns how many objects a scope has.
    pub fn len(&self, scope: &WatchScope) -> usize {
        self.scopes.get(scope).map_or(0, |entries| entries.objects.len() + entries.dropped)
    }

    /// Returns how many objects of a scope are inactive.
    pub fn inactive(&self, scope: &WatchScope) -> usize {
        self.scopes.get(scope).map_or(0, |entries| entries.inactive)
    }

    /// Returns the scope that holds objects like `key`.
    pub fn scope(&self, key: &ObjectKey) -> Option<WatchScope> {
        let whole = WatchScope { kind: key.kind.clone(), namespace: None };
        if self.scopes.contains_key(&whole) {
            return Some(whole);
        }
        let part = WatchScope { namespace: key.namespace.clone(), ..whole };
        self.scopes.contains_key(&part).then_some(part)
    }

    fn entry(&self, key: &ObjectKey) -> Option<&CacheEntry> {
        self.scopes.get(&self.scope(key)?)?.objects.get(key)
    }

    /// Trains a dictionary on the objects so far, and compresses those that are not compressed yet.
    fn train(&mut self) {
        let count = self.scopes.values().map(|entries| entries.objects.len()).sum();
        let bodies = self.scopes.values().flat_map(|entries| entries.objects.values()).map(|entry| &entry.body);
        if self.packer.train(bodies, count) {
            for entry in self.scopes.values_mut().flat_map(|entries| entries.objects.values_mut()) {
                entry.body = self.packer.pack(entry.body.clone());
            }
            self.usage.clear();
            for (namespace, entry) in self.scopes.values().flat_map(|entries| entries.objects.entries()) {
                self.usage.add(namespace, entry.bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::object::Kind,
        source::received::{Received, Secrets},
    };

    fn scope() -> WatchScope {
        WatchScope { kind: Kind::sample("", "pods", "Pod"), namespace: None }
    }

    fn pod(name: &str, uid: &str, version: u32) -> Object {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{"nodeName":"node-{version}","containers":[{{"name":"main","image":"registry.example.com/shop/{name}:1"}}]}}}}"#
        );
        Received::read(&json).into_object(&scope().kind, Secrets::Full, 0).unwrap()
    }

    fn cache() -> Cache {
        let mut cache = Cache::new(Packing::default());
        cache.add(scope());
        cache
    }

    #[test]
    fn tells_new_same_changed_and_replaced_apart() {
        let mut cache = cache();
        assert!(matches!(cache.apply(&scope(), pod("a", "1", 1)), Effect::New));
        assert!(matches!(cache.apply(&scope(), pod("a", "1", 1)), Effect::Same));
        let Effect::Changed(previous) = cache.apply(&scope(), pod("a", "1", 2)) else { panic!("it changed") };
        let (key, first) = (pod("a", "1", 1).key, pod("a", "1", 1).body);
        assert_eq!(previous.into_object(key).body.json().unwrap(), first.json().unwrap());
        assert!(matches!(cache.apply(&scope(), pod("a", "2", 3)), Effect::Replaced(_)));
        let key = pod("a", "2", 3).key;
        assert!(!cache.remove(&scope(), &key, "1"), "the delete of the first object must not take the second");
        assert!(cache.remove(&scope(), &key, "2"));
    }

    #[test]
    fn a_relist_finds_what_vanished_and_an_aborted_one_does_not() {
        let mut cache = cache();
        cache.listing(&scope());
        for name in ["a", "b", "c"] {
            cache.apply(&scope(), pod(name, name, 1));
        }
        assert!(cache.listed(&scope()).is_empty());
        cache.listing(&scope());
        cache.apply(&scope(), pod("a", "a", 1));
        cache.listing(&scope());
        cache.apply(&scope(), pod("b", "b", 1));
        cache.apply(&scope(), pod("c", "c", 2));
        let gone: Vec<_> = cache.listed(&scope()).iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(gone, ["Pod n/a"]);
        assert_eq!(cache.len(&scope()), 2);
    }

    #[test]
    fn packs_with_a_trained_dictionary_and_gives_back_every_byte() {
        let mut cache = cache();
        let objects: Vec<_> = (0..1_500).map(|n| pod(&format!("p{n}"), &n.to_string(), n)).collect();
        for object in &objects {
            cache.apply(&scope(), object.clone());
        }
        for object in &objects {
            let held = cache.object(&object.key).unwrap();
            assert!(held.body.is_packed(), "{:?}", held.body);
            assert_eq!(held.body.json().unwrap(), object.body.json().unwrap());
        }
    }

    /// A Pod in a namespace with so many bytes that cannot be compressed.
    fn large(namespace: &str, name: &str, version: u32, bytes: usize) -> Object {
        let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(bytes).collect();
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{name}","resourceVersion":"{version}"}},"data":"{text}"}}"#
        );
        Received::read(&json).into_object(&scope().kind, Secrets::Full, 0).unwrap()
    }

    #[test]
    fn an_object_whose_state_is_not_kept_still_exists() {
        let mut cache = cache();
        for name in ["a", "b"] {
            cache.apply(&scope(), pod(name, name, 1));
        }
        let (old, new) = cache.growth(&scope(), &large("n", "a", 2, 10_000));
        assert!(old < 1_000 && new > 10_000, "{old} and {new}");
        cache.listing(&scope());
        cache.keep(&scope(), &large("n", "a", 2, 10_000));
        cache.keep(&scope(), &large("n", "new", 2, 10_000));
        let gone: Vec<_> = cache.listed(&scope()).iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(gone, ["Pod n/b"]);
        assert_eq!(cache.state(&pod("a", "a", 1).key), ObjectVersion::of("1"));
    }

    #[test]
    fn whatever_happens_the_bytes_are_those_of_what_is_there() {
        let mut random = fastrand::Rng::with_seed(7);
        let other = WatchScope { kind: Kind::sample("", "configmaps", "ConfigMap"), namespace: None };
        let mut cache = cache();
        for step in 0..4_000 {
            let (name, namespace) = (format!("p{}", random.u8(0..60)), format!("n{}", random.u8(0..3)));
            let object = large(&namespace, &name, step, random.usize(0..20_000));
            match random.u8(0..20) {
                0 => drop(cache.listed(&scope())),
                1 => cache.listing(&scope()),
                2 => cache.drop_body(&object.key),
                3 => cache.drop_object(&object.key),
                4..8 => drop(cache.remove(&scope(), &object.key, &name)),
                8 => {
                    cache.add(other.clone());
                    let mut object = object;
                    object.key.kind = Arc::clone(&other.kind);
                    cache.apply(&other, object);
                }
                9 => drop(cache.take(&other)),
                _ => drop(cache.apply(&scope(), object)),
            }
            let entries = cache.scopes.values().flat_map(|entries| entries.objects.entries());
            let bytes: usize = entries.map(|(_, entry)| entry.bytes()).sum();
            assert_eq!(cache.usage.all(), bytes, "after step {step}");
        }
    }

    #[test]
    fn a_dropped_object_is_counted_and_no_more() {
        let mut cache = cache();
        let (a, b) = (pod("a", "1", 1), pod("b", "2", 1));
        cache.apply(&scope(), a.clone());
        cache.apply(&scope(), b.clone());
        cache.drop_object(&a.key);
        cache.drop_object(&a.key);
        assert_eq!((cache.len(&scope()), cache.keys(&scope()).collect::<Vec<_>>()), (2, vec![b.key.clone()]));
        assert!(cache.object(&a.key).is_none());
    }

    #[test]
    fn a_dropped_scope_takes_its_objects_and_ignores_late_changes() {
        let mut cache = cache();
        cache.apply(&scope(), pod("a", "1", 1));
        assert_eq!(cache.take(&scope()).count(), 1);
        assert!(matches!(cache.apply(&scope(), pod("a", "1", 2)), Effect::Same));
        assert_eq!(cache.len(&scope()), 0);
    }
}
