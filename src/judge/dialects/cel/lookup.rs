//! Other objects that the expressions of Kyverno's policies and the bindings of admission policies look up in the
//! inventory.

use std::sync::Arc;

use kaudit_cel::{
    ObjectLookup,
    reads::{CelLookup, LookupNamespace},
};
use regorus::Value;
use serde_json::Value as Json;

use super::request::Subject;
use crate::{
    judge::{
        inventory::Inventory,
        reads::{
            InventoryReads, LookupReach,
            lookups::{KindLookup, UnreadLookups},
        },
        result_values::json,
    },
    model::object::Kind,
    rego::value,
};

/// The objects among which a policy looks up others.
#[derive(Debug, Clone)]
pub(crate) struct OtherObjects {
    /// By namespace, `apiVersion`, kind and name, in Gatekeeper's layout.
    by_kind: Value,
    /// By plural, namespace and name, in that of kube-mgmt.
    by_plural: Value,
    /// The lookups that are not available.
    unread: UnreadLookups,
    /// The kinds that are looked up and served.
    kinds: Arc<[Arc<KindLookup>]>,
}

impl Default for OtherObjects {
    fn default() -> Self {
        Self {
            by_kind: Value::Undefined,
            by_plural: Value::Undefined,
            unread: UnreadLookups::default(),
            kinds: Arc::default(),
        }
    }
}

/// Returns the read set of a lookup: the whole objects.
pub(super) fn reads(lookup: &CelLookup) -> InventoryReads {
    let place = match &lookup.namespace {
        LookupNamespace::Own => LookupReach::Own,
        LookupNamespace::Named(name) => LookupReach::Named(Arc::clone(name)),
        LookupNamespace::Any => LookupReach::All,
    };
    InventoryReads::of_resource(&lookup.resource, &place)
}

impl OtherObjects {
    /// Returns the objects of an inventory for a policy with these lookups.
    pub(super) fn new(reads: &InventoryReads, inventory: &Inventory) -> Self {
        let lookups = inventory.lookups();
        Self {
            by_kind: inventory.document("inventory").clone(),
            by_plural: inventory.document("kubernetes").clone(),
            unread: lookups.unread(reads),
            kinds: lookups.kinds.clone().into(),
        }
    }

    /// Returns the objects in Gatekeeper's layout.
    pub(super) fn by_kind(&self) -> &Value {
        &self.by_kind
    }

    /// Returns the kinds that are looked up and served.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.iter().map(|lookup| &*lookup.kind)
    }

    /// Returns why a policy cannot be evaluated for an object, until more objects have been read; `None` if it can.
    pub(super) fn unread(&self, subject: &Subject<'_>) -> Option<String> {
        self.unread.reason(subject.namespace)
    }

    /// Returns the kind with a plural name.
    ///
    /// # Errors
    /// Returns why its objects are not known.
    fn kind(&self, [api_version, plural]: [&str; 2]) -> Result<&Kind, String> {
        let named: Vec<&Kind> = self.kinds().filter(|kind| kind.plural == plural).collect();
        let other = || match named.first() {
            Some(other) => format!("kaudit reads {plural} in {}, not in {api_version}", other.api_version()),
            None => format!("no {plural} of {api_version} have been read"),
        };
        named.iter().find(|kind| kind.api_version() == api_version).copied().ok_or_else(other)
    }

    /// Returns the objects of a kind in a namespace, or the cluster-scoped ones.
    fn of(&self, kind: &Kind, namespace: &str) -> &Value {
        let objects = &self.by_plural[kind.plural.as_str()];
        if kind.namespaced { &objects[namespace] } else { objects }
    }
}

/// Returns an object if it is of a kind: two kinds may have the same plural name.
fn of_kind(object: &Value, kind: &Kind) -> Option<Json> {
    let is_of = |object: &Json| object["apiVersion"] == kind.api_version() && object["kind"] == *kind.kind;
    (*object != Value::Undefined).then(|| json(object)).filter(is_of)
}

impl ObjectLookup for OtherObjects {
    fn get(&self, kind: [&str; 2], namespace: &str, name: &str) -> Result<Option<Json>, String> {
        let kind = self.kind(kind)?;
        Ok(of_kind(&self.of(kind, namespace)[name], kind))
    }

    fn list(&self, kind: [&str; 2], namespace: &str) -> Result<Vec<Json>, String> {
        let kind = self.kind(kind)?;
        let named = |objects: &Value| -> Vec<Json> {
            let objects = value::object(objects).into_iter().flat_map(|objects| objects.iter_sorted());
            objects.filter_map(|(_, object)| of_kind(object, kind)).collect()
        };
        if !kind.namespaced || !namespace.is_empty() {
            return Ok(named(self.of(kind, namespace)));
        }
        let all = value::object(&self.by_plural[kind.plural.as_str()]);
        Ok(all.into_iter().flat_map(|all| all.iter_sorted()).flat_map(|(_, objects)| named(objects)).collect())
    }
}
