//! The inventory: objects as the evaluator's values, for policies with lookups.
//!
//! Input: objects that some policy can look up. Output: two documents, in the layouts of Gatekeeper and kube-mgmt. A
//! returned document never changes: later changes copy the path to the changed object and share the rest.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use regorus::Value;

use super::reads::lookups::LookupState;
use crate::model::{
    namespaced_kinds::DEFAULT_NAMESPACE,
    object::{Kind, ObjectKey},
};

/// Both documents, and hashes of the objects' fields that policies read.
#[derive(Debug, Clone)]
pub struct Inventory {
    gatekeeper: Value,
    kube_mgmt: Value,
    /// The kind of each plural name below `data.kubernetes`.
    plurals: BTreeMap<String, Arc<Kind>>,
    /// Whether the objects of a kind were replaced by those of another kind with the same plural name.
    replaced_plural: bool,
    /// The kinds of all objects, by `apiVersion` and `kind`.
    kinds: Arc<BTreeMap<(String, String), Arc<Kind>>>,
    /// Hashes of the fields that policies read, by object.
    seen: HashMap<ObjectKey, u64>,
    /// The kinds whose objects it contains, and which of them have been read.
    lookups: Arc<LookupState>,
}

impl Default for Inventory {
    fn default() -> Self {
        Self {
            gatekeeper: Value::new_object(),
            kube_mgmt: Value::new_object(),
            plurals: BTreeMap::new(),
            replaced_plural: false,
            kinds: Arc::default(),
            seen: HashMap::new(),
            lookups: Arc::default(),
        }
    }
}

impl Inventory {
    /// Whether the fields of an object that policies read have the recorded hash.
    pub fn is_seen_as(&self, key: &ObjectKey, hash: u64) -> bool {
        self.seen.get(key) == Some(&hash)
    }

    /// Records the hash of an object's fields that policies read; `None` if the object is deleted.
    pub fn note_seen(&mut self, key: &ObjectKey, hash: Option<u64>) {
        match hash {
            Some(hash) => self.seen.insert(key.clone(), hash),
            None => self.seen.remove(key),
        };
    }

    /// Sets the kinds whose objects it contains. Returns whether that may change a result.
    pub(crate) fn set_lookups(&mut self, lookups: Arc<LookupState>) -> bool {
        let changed = !self.lookups.has_read_the_same(&lookups);
        self.lookups = lookups;
        changed
    }

    /// Returns the kinds whose objects it contains.
    pub(crate) fn lookups(&self) -> &LookupState {
        &self.lookups
    }

    /// Sets the state of an object, or removes it (`None`). Returns whether the documents changed.
    pub fn put(&mut self, key: &ObjectKey, object: Option<&Value>) -> bool {
        let (kind, name) = (&key.kind, &*key.name);
        let version = kind.api_version();
        let shown = (version.clone(), kind.kind.clone());
        if !self.kinds.contains_key(&shown) {
            Arc::make_mut(&mut self.kinds).insert(shown, Arc::clone(kind));
        }
        let owns_plural = self.owns_plural(kind);
        let mut changed = false;
        for namespace in self.places(key) {
            let path = match namespace {
                Some(namespace) => &["namespace", namespace, &version, &kind.kind, name][..],
                None => &["cluster", &version, &kind.kind, name],
            };
            // An object of that place with the same name takes precedence.
            if namespace != key.namespace.as_deref() && *at(&self.gatekeeper, path) != Value::Undefined {
                continue;
            }
            changed |= put(&mut self.gatekeeper, path, object);
            if owns_plural {
                let path = match namespace {
                    Some(namespace) => &[&kind.plural, namespace, name][..],
                    None => &[&*kind.plural, name],
                };
                changed |= put(&mut self.kube_mgmt, path, object);
            }
        }
        changed
    }

    /// Returns the namespaces in which an object is found: its own, and as kubectl puts manifests without a namespace into
    /// the namespace `default`, these are found beside its objects, and its objects beside them.
    fn places<'k>(&self, key: &'k ObjectKey) -> impl Iterator<Item = Option<&'k str>> + use<'k> {
        let own = key.namespace.as_deref();
        let other = match own {
            None => Some(Some(DEFAULT_NAMESPACE)),
            Some(DEFAULT_NAMESPACE) => Some(None),
            Some(_) => None,
        };
        let has_other = self.lookups.lacks_namespaces && key.kind.is_known_as_namespaced();
        [own].into_iter().chain(other.filter(|_| has_other))
    }

    /// Returns whether all objects of a kind were replaced by those of another kind since the last call.
    pub(crate) fn take_replaced_plural(&mut self) -> bool {
        std::mem::take(&mut self.replaced_plural)
    }

    /// Returns the document `data.inventory` or `data.kubernetes`.
    pub(crate) fn document(&self, name: &str) -> &Value {
        if name == "kubernetes" { &self.kube_mgmt } else { &self.gatekeeper }
    }

    /// Returns the kinds of its objects, by `apiVersion` and `kind`.
    pub(crate) fn kinds(&self) -> &Arc<BTreeMap<(String, String), Arc<Kind>>> {
        &self.kinds
    }

    /// Whether a plural name refers to this kind. The layout has no level for the group, so if two kinds share a
    /// plural, it refers to the built-in kind of Kubernetes.
    fn owns_plural(&mut self, kind: &Arc<Kind>) -> bool {
        let rank = |kind: &Kind| {
            let group = kind.group.as_str();
            (group.contains('.') && !group.ends_with(".k8s.io"), group.to_owned())
        };
        match self.plurals.get(&kind.plural) {
            Some(owner) if owner.group == kind.group => return true,
            Some(owner) if rank(owner) < rank(kind) => return false,
            Some(_) => {
                self.replaced_plural = true;
                if let Ok(document) = self.kube_mgmt.as_object_mut() {
                    document.remove(&Value::from(kind.plural.as_str()));
                }
            }
            None => {}
        }
        self.plurals.insert(kind.plural.clone(), Arc::clone(kind));
        true
    }
}

/// Sets the value at a path, or removes it and the objects that become empty. Returns whether the document changed; if
/// not, nothing is copied.
/// Returns the value at a path; undefined if there is none.
fn at<'d>(document: &'d Value, path: &[&str]) -> &'d Value {
    path.iter().fold(document, |value, key| &value[*key])
}

fn put(document: &mut Value, path: &[&str], value: Option<&Value>) -> bool {
    if *at(document, path) == *value.unwrap_or(&Value::Undefined) {
        return false;
    }
    replace(document, path, value);
    true
}

fn replace(document: &mut Value, path: &[&str], value: Option<&Value>) {
    let ([first, rest @ ..], Ok(fields)) = (path, document.as_object_mut()) else { return };
    let key = Value::from(*first);
    // Removed and inserted again, so that a map is copied only if it is shared.
    let mut below = fields.remove(&key).unwrap_or_else(Value::new_object);
    if rest.is_empty() {
        below = value.cloned().unwrap_or(Value::Undefined);
    } else {
        replace(&mut below, rest, value);
    }
    let empty = !rest.is_empty() && below == Value::new_object();
    if !empty && below != Value::Undefined {
        fields.insert(key, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::{
            evaluate::{Job, evaluate, with_inventory},
            set::PolicySet,
        },
        model::object::Object,
        rego::value,
    };

    fn key(kind: &Arc<Kind>, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey { kind: Arc::clone(kind), namespace: namespace.map(Into::into), name: name.into(), copy: 0 }
    }

    fn json(text: &str) -> Value {
        value::from_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn objects_are_laid_out_as_in_gatekeeper_and_kube_mgmt() {
        let mut inventory = Inventory::default();
        let (pods, ingresses) =
            (Kind::sample("", "pods", "Pod"), Kind::sample("networking.k8s.io", "ingresses", "Ingress"));
        let nodes = Kind::sample("", "nodes", "Node");
        for key in [key(&pods, Some("n"), "a"), key(&ingresses, Some("n"), "b"), key(&nodes, None, "c")] {
            let object = json(&format!(r#"{{"is": "{}"}}"#, key.name));
            assert!(inventory.put(&key, Some(&object)));
            assert!(!inventory.put(&key, Some(&object)), "nothing new");
        }
        let gatekeeper = r#"{"namespace": {"n": {"v1": {"Pod": {"a": {"is": "a"}}}, "networking.k8s.io/v1": {"Ingress": {"b": {"is": "b"}}}}},
            "cluster": {"v1": {"Node": {"c": {"is": "c"}}}}}"#;
        assert_eq!(*inventory.document("inventory"), json(gatekeeper));
        let kube_mgmt = r#"{"pods": {"n": {"a": {"is": "a"}}}, "ingresses": {"n": {"b": {"is": "b"}}}, "nodes": {"c": {"is": "c"}}}"#;
        assert_eq!(*inventory.document("kubernetes"), json(kube_mgmt));
    }

    #[test]
    fn manifests_without_a_namespace_are_beside_those_in_the_default_one() {
        let found = |kind: &Arc<Kind>, lacks_namespaces: bool| {
            let mut inventory = Inventory::default();
            inventory.set_lookups(Arc::new(LookupState { lacks_namespaces, ..LookupState::default() }));
            for (namespace, name) in [(None, "a"), (Some("default"), "b"), (Some("n"), "c")] {
                inventory.put(&key(kind, namespace, name), Some(&json("1")));
            }
            let names = |below: &Value| -> String {
                let objects = value::object(&below[kind.api_version()][&*kind.kind]).into_iter().flatten();
                objects.map(|(name, _)| value::text(name).unwrap().to_string()).collect()
            };
            let document = inventory.document("inventory");
            [&document["cluster"], &document["namespace"]["default"], &document["namespace"]["n"]].map(names)
        };
        let twins = |order: [Option<&str>; 2]| {
            let mut inventory = Inventory::default();
            inventory.set_lookups(Arc::new(LookupState { lacks_namespaces: true, ..LookupState::default() }));
            let pods = Kind::sample("", "pods", "Pod");
            for namespace in order {
                let object = if namespace.is_some() { "1" } else { "2" };
                inventory.put(&key(&pods, namespace, "a"), Some(&json(object)));
            }
            let document = inventory.document("inventory");
            [&document["namespace"]["default"], &document["cluster"]].map(|place| place["v1"]["Pod"]["a"].clone())
        };
        assert_eq!(twins([None, Some("default")]), ["1", "2"].map(json));
        assert_eq!(twins([Some("default"), None]), ["1", "2"].map(json));
        let (pods, nodes) = (Kind::sample("", "pods", "Pod"), Kind::sample("", "nodes", "Node"));
        let custom = Kind::sample("example.com", "pods", "Pod");
        assert_eq!(found(&pods, true), ["ab", "ab", "c"]);
        for (kind, lacks_namespaces) in [(&pods, false), (&nodes, true), (&custom, true)] {
            assert_eq!(found(kind, lacks_namespaces), ["a", "b", "c"], "{kind} {lacks_namespaces}");
        }
    }

    #[test]
    fn returned_documents_do_not_change_and_share_unchanged_parts() {
        let mut inventory = Inventory::default();
        let pods = Kind::sample("", "pods", "Pod");
        for name in ["a", "b"] {
            inventory.put(&key(&pods, Some(name), name), Some(&json(r#"{"v": 1}"#)));
        }
        let before = inventory.clone();
        assert!(inventory.put(&key(&pods, Some("a"), "a"), Some(&json(r#"{"v": 2}"#))));
        let at = |inventory: &Inventory, namespace: &str| inventory.document("kubernetes")["pods"][namespace].clone();
        assert_eq!((at(&before, "a"), at(&inventory, "a")), (json(r#"{"a": {"v": 1}}"#), json(r#"{"a": {"v": 2}}"#)));
        let (Value::Object(old), Value::Object(new)) = (at(&before, "b"), at(&inventory, "b")) else { unreachable!() };
        assert!(Arc::ptr_eq(&old, &new));
    }

    #[test]
    fn a_deleted_object_leaves_no_empty_entries() {
        let mut inventory = Inventory::default();
        let pods = Kind::sample("", "pods", "Pod");
        let key = key(&pods, Some("n"), "a");
        assert!(!inventory.put(&key, None));
        inventory.put(&key, Some(&json("{}")));
        assert!(inventory.put(&key, None));
        for document in ["inventory", "kubernetes"] {
            assert_eq!(*inventory.document(document), Value::new_object());
        }
    }

    #[test]
    fn a_plural_shared_by_two_groups_refers_to_the_built_in_kind() {
        let (own, other) =
            (Kind::sample("", "services", "Service"), Kind::sample("serving.example.com", "services", "Service"));
        let (own, other) = (key(&own, Some("n"), "own"), key(&other, Some("n"), "other"));
        for order in [[&own, &other], [&other, &own]] {
            let mut inventory = Inventory::default();
            for key in order {
                inventory.put(key, Some(&json("1")));
            }
            assert_eq!(inventory.take_replaced_plural(), order[0] == &other);
            assert!(!inventory.take_replaced_plural());
            assert_eq!(inventory.document("kubernetes")["services"]["n"], json(r#"{"own": 1}"#));
            assert_eq!(value::object(&inventory.document("inventory")["namespace"]["n"]).unwrap().len(), 2);
        }
    }

    #[test]
    fn rules_and_data_files_take_precedence_over_objects() {
        let directory = tempfile::tempdir().unwrap();
        let admission = "package kubernetes.pods\nlimit := 3\nwarn contains input.request.namespace if false\n";
        let main = "package main\ndeny contains data.kubernetes.pods.limit\n\
            deny contains data.kubernetes.nodes\ndeny contains name if data.kubernetes.services[_][name]\n";
        for (name, text) in [("a.rego", admission), ("b.rego", main), ("c.json", r#"{"kubernetes": {"nodes": "own"}}"#)]
        {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let mut inventory = Inventory::default();
        let kinds = [("pods", "Pod"), ("nodes", "Node"), ("services", "Service")];
        for (plural, kind) in kinds {
            inventory.put(&key(&Kind::sample("", plural, kind), Some("n"), "a"), Some(&json("{}")));
        }
        let policies = with_inventory(&PolicySet::load(&[directory.path().to_owned()]).unwrap(), &inventory);
        let key = key(&Kind::sample("", "pods", "Pod"), None, "a");
        let object = Object::sample(key, br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#);
        let job = Job { object, previous: None, deleted: false, namespace: None, policies: Arc::new(policies) };
        let messages: Vec<_> = evaluate(&job).results.iter().map(|finding| finding.message.to_string()).collect();
        assert_eq!(messages, ["3", "a", "own"]);
    }
}
