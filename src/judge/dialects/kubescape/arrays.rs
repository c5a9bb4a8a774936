//! The arrays of objects for rules that relate objects to each other, and the results of such a rule for each array.
//!
//! As Kubescape does on large clusters, a rule is evaluated on the objects of one namespace together with the
//! cluster-scoped ones, and on the latter alone. When the inventory changes, only arrays in which the rule can see a
//! difference are evaluated again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use regorus::Value;

use crate::{
    judge::{inventory::Inventory, resource_match::ResourceMatch},
    model::object::Kind,
    rego::{
        Failure,
        value::{self, fields},
    },
};

/// `attributes.resourcesAggregator` of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregator {
    /// Replaces RBAC objects by their subjects, each with its binding and role as `relatedObjects`.
    Subjects,
    /// Selects the Pods of the API server from all objects.
    ApiServerPod,
}

impl Aggregator {
    /// Returns the aggregator with a name; `None` for unknown names, which Kubescape ignores.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "subject-role-rolebinding" => Some(Self::Subjects),
            "apiserver-pod" => Some(Self::ApiServerPod),
            _ => None,
        }
    }
}

/// The identity of an object in a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
}

impl Identity {
    /// Returns the identity of an object; `None` if the value is not an object.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value::text(value).filter(|text| !text.is_empty()).cloned();
        let metadata = &object["metadata"];
        Some(Self {
            api_version: text(&object["apiVersion"]).unwrap_or_default(),
            kind: text(&object["kind"])?,
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]).or_else(|| text(&metadata["generateName"]))?,
        })
    }
}

/// The objects of a namespace (`Some`) together with the cluster-scoped ones, or the latter alone.
pub(crate) type ArrayScope = Option<Arc<str>>;

/// The results of a rule for an array, by the object that they are about, each with the index of its definition.
pub(crate) type ArrayResults = Result<HashMap<Identity, Vec<(usize, Value)>>, Failure>;

/// The objects of one array.
#[derive(Debug, Clone)]
pub(crate) struct ObjectArray {
    /// The objects of the namespace, in the order of `match`.
    own: Vec<Value>,
    /// The cluster-scoped objects.
    shared: Arc<[Value]>,
}

impl ObjectArray {
    /// Whether two arrays contain the same objects in the same states. The inventory keeps the value of an object until
    /// it changes.
    fn is_same(&self, other: &Self) -> bool {
        is_same(&self.own, &other.own)
            && (Arc::ptr_eq(&self.shared, &other.shared) || is_same(&self.shared, &other.shared))
    }

    fn objects(&self) -> impl Iterator<Item = &Value> {
        self.own.iter().chain(&*self.shared)
    }

    /// Returns the rule's input.
    pub(crate) fn input(&self, aggregator: Option<Aggregator>) -> Vec<Value> {
        let objects: Vec<Value> = self.objects().cloned().collect();
        if aggregator == Some(Aggregator::Subjects) { subjects(&objects) } else { objects }
    }

    fn identities(&self) -> impl Iterator<Item = Identity> {
        self.objects().filter_map(Identity::of)
    }
}

fn is_same(before: &[Value], now: &[Value]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| is_same_object(before, now))
}

fn is_same_object(before: &Value, now: &Value) -> bool {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => Arc::ptr_eq(before, now),
        (Value::Undefined, Value::Undefined) => true,
        _ => false,
    }
}

/// An array with the results of the rule for it.
#[derive(Debug)]
pub(crate) struct EvaluatedArray {
    array: ObjectArray,
    results: ArrayResults,
}

impl EvaluatedArray {
    /// Returns the objects that have results; all objects of the array if the evaluation failed.
    fn concerned(&self) -> Vec<Identity> {
        match &self.results {
            Ok(results) => results.keys().cloned().collect(),
            Err(_) => self.array.identities().collect(),
        }
    }

    /// Returns the objects that have different results in two arrays.
    fn differing(&self, before: &Self) -> Vec<Identity> {
        let (Ok(old), Ok(new)) = (&before.results, &self.results) else {
            return before.concerned().into_iter().chain(self.concerned()).collect();
        };
        old.keys().chain(new.keys()).filter(|identity| old.get(identity) != new.get(identity)).cloned().collect()
    }
}

/// An array that is evaluated when the first object in it is.
#[derive(Debug)]
struct LazyArray {
    array: ObjectArray,
    evaluated: OnceLock<Arc<EvaluatedArray>>,
    /// The last evaluation for the same scope, in an earlier state of the inventory.
    before: Option<Arc<EvaluatedArray>>,
}

impl LazyArray {
    fn new(array: ObjectArray, before: Option<Arc<EvaluatedArray>>) -> Self {
        // A failed evaluation may succeed the next time.
        let kept = before.as_ref().filter(|before| before.results.is_ok() && before.array.is_same(&array));
        let evaluated = kept.map_or_else(OnceLock::new, |kept| OnceLock::from(Arc::clone(kept)));
        Self { array, evaluated, before }
    }

    fn get(&self, evaluate: impl FnOnce(&ObjectArray) -> ArrayResults) -> &Arc<EvaluatedArray> {
        self.evaluated
            .get_or_init(|| Arc::new(EvaluatedArray { array: self.array.clone(), results: evaluate(&self.array) }))
    }

    /// Returns the last evaluation, in this or an earlier state of the inventory.
    fn last(&self) -> Option<&Arc<EvaluatedArray>> {
        self.evaluated.get().or(self.before.as_ref())
    }
}

/// All arrays of one rule in one state of the inventory. Each is evaluated once, when its results are first needed.
#[derive(Debug)]
pub(crate) struct RuleArrays {
    /// Whether one array contains all objects.
    whole: bool,
    scopes: BTreeMap<ArrayScope, LazyArray>,
    /// The merged results of all scopes for cluster-scoped objects.
    cluster: OnceLock<ArrayResults>,
    /// The evaluations of scopes that no longer exist.
    removed: Vec<Arc<EvaluatedArray>>,
}

impl RuleArrays {
    /// Creates the arrays of one state of the inventory; `before` are those of the previous state.
    pub(crate) fn new(source: &ArraySource<'_>, before: Option<&Self>) -> Self {
        let last = |scope: &ArrayScope| before?.scopes.get(scope)?.last().cloned();
        let array = |scope: ArrayScope| {
            let array = LazyArray::new(source.array(&scope), last(&scope));
            (scope, array)
        };
        let scopes: BTreeMap<ArrayScope, LazyArray> = source.scopes().into_iter().map(array).collect();
        let removed =
            before.into_iter().flat_map(|before| &before.scopes).filter(|(scope, _)| !scopes.contains_key(*scope));
        let removed = removed.filter_map(|(_, array)| array.last().cloned()).collect();
        Self { whole: source.whole, scopes, cluster: OnceLock::new(), removed }
    }

    /// Returns the results for an object; empty if it is in no array. `evaluate` evaluates the rule on an array.
    ///
    /// # Errors
    /// Returns why an array with the object could not be evaluated.
    pub(crate) fn results(
        &self,
        namespace: Option<&Arc<str>>,
        identity: &Identity,
        mut evaluate: impl FnMut(&ObjectArray) -> ArrayResults,
    ) -> Result<&[(usize, Value)], &Failure> {
        let results = match self.scope(namespace, identity) {
            Some(scope) => match self.scopes.get(&scope) {
                Some(array) => &array.get(evaluate).results,
                None => return Ok(&[]),
            },
            None => self.cluster.get_or_init(|| of_cluster(self.scopes.values().map(|array| array.get(&mut evaluate)))),
        };
        Ok(results.as_ref()?.get(identity).map_or(&[], Vec::as_slice))
    }

    /// Returns the array that contains an object; if there are several, the one without a namespace.
    pub(crate) fn array(&self, namespace: Option<&Arc<str>>, identity: &Identity) -> Option<&ObjectArray> {
        let scope = self.scope(namespace, identity).unwrap_or_default();
        self.scopes.get(&scope).map(|array| &array.array)
    }

    /// Returns the scope that contains an object; `None` if all do.
    fn scope(&self, namespace: Option<&Arc<str>>, identity: &Identity) -> Option<ArrayScope> {
        if self.whole {
            return Some(None);
        }
        let is_namespace = &*identity.kind == "Namespace" && &*identity.api_version == "v1";
        namespace.or(is_namespace.then_some(&identity.name)).map(|namespace| Some(Arc::clone(namespace)))
    }

    /// Returns the objects for which the results of the rule differ, or may differ, from its last evaluation. Arrays
    /// that were never evaluated are skipped, as no verdict depends on them, except for their results for
    /// cluster-scoped objects.
    pub(crate) fn differing(&self, mut evaluate: impl FnMut(&ObjectArray) -> ArrayResults) -> BTreeSet<Identity> {
        let mut all: BTreeSet<Identity> = self.removed.iter().flat_map(|removed| removed.concerned()).collect();
        if self.removed.is_empty() && self.scopes.values().all(|array| array.before.is_none()) {
            return all;
        }
        for array in self.scopes.values() {
            match &array.before {
                None => {
                    let concerned = array.get(&mut evaluate).concerned().into_iter();
                    all.extend(concerned.filter(|identity| identity.namespace.is_none()));
                }
                Some(before) if before.array.is_same(&array.array) => {}
                // An array that took too long is not evaluated here, as other work waits for the inventory.
                Some(before) if before.results.is_err() => {
                    all.extend(before.array.identities().chain(array.array.identities()));
                }
                Some(before) => all.extend(array.get(&mut evaluate).differing(before)),
            }
        }
        all
    }

    /// Returns the number of evaluated arrays.
    #[cfg(test)]
    pub(crate) fn evaluated(&self) -> usize {
        self.scopes.values().filter(|array| array.evaluated.get().is_some()).count()
    }
}

/// Merges the results for cluster-scoped objects.
fn of_cluster<'a>(arrays: impl Iterator<Item = &'a Arc<EvaluatedArray>>) -> ArrayResults {
    let mut all: HashMap<Identity, Vec<(usize, Value)>> = HashMap::new();
    for evaluated in arrays {
        let results = evaluated.results.as_ref().map_err(Clone::clone)?;
        for (identity, own) in results.iter().filter(|(identity, _)| identity.namespace.is_none()) {
            let known = all.entry(identity.clone()).or_default();
            let new: Vec<_> = own.iter().filter(|result| !known.contains(result)).cloned().collect();
            known.extend(new);
        }
    }
    Ok(all)
}

/// One state of the inventory, from which the arrays of a rule are created.
pub(crate) struct ArraySource<'a> {
    /// The objects, in [`Inventory`]'s layout for Gatekeeper.
    objects: &'a Value,
    kinds: &'a BTreeMap<(String, String), Arc<Kind>>,
    matching: &'a [ResourceMatch],
    whole: bool,
    /// The cluster-scoped objects, which are in all arrays.
    shared: Arc<[Value]>,
}

impl<'a> ArraySource<'a> {
    /// `whole` is whether one array contains all objects.
    pub(crate) fn new(inventory: &'a Inventory, matching: &'a [ResourceMatch], whole: bool) -> Self {
        let objects = inventory.document("inventory");
        let mut source = Self { objects, kinds: inventory.kinds(), matching, whole, shared: Arc::default() };
        source.shared = source
            .collect(&[&objects["cluster"]], |_, [version, kind], _| whole || !is_namespace(version, kind))
            .into();
        source
    }

    /// Returns all existing scopes.
    fn scopes(&self) -> BTreeSet<ArrayScope> {
        if self.whole {
            return BTreeSet::from([None]);
        }
        let namespaces = fields(&self.objects["namespace"]).chain(fields(&self.objects["cluster"]["v1"]["Namespace"]));
        namespaces.map(|(name, _)| Some(name)).chain([None]).collect()
    }

    /// Returns the array of a scope; empty if no object of the namespace matches the rule.
    fn array(&self, scope: &ArrayScope) -> ObjectArray {
        let (namespaces, cluster) = (&self.objects["namespace"], &self.objects["cluster"]);
        let own = match scope {
            _ if self.whole => {
                let namespaces: Vec<Value> = fields(namespaces).map(|(_, below)| below).collect();
                self.collect(&namespaces.iter().collect::<Vec<_>>(), |_, _, _| true)
            }
            None => Vec::new(),
            // A Namespace is never below a namespace.
            Some(namespace) => self.collect(&[&namespaces[&**namespace], cluster], |below, [version, kind], name| {
                below == 0 || is_namespace(version, kind) && *name == **namespace
            }),
        };
        let is_empty = own.is_empty() && scope.is_some();
        ObjectArray { own, shared: if is_empty { Arc::default() } else { Arc::clone(&self.shared) } }
    }

    /// Returns the objects below these documents that match the rule and are wanted, in the order of `match`; each only
    /// once, as two entries of `match` may match one object. The arguments of `wanted` are the index of the document,
    /// `apiVersion` and `kind`, and the name.
    fn collect(&self, documents: &[&Value], wanted: impl Fn(usize, [&str; 2], &str) -> bool) -> Vec<Value> {
        let mut found = Vec::new();
        for one in self.matching {
            let is_about = |version: &Arc<str>, kind: &Arc<str>| {
                let known = self.kinds.get(&(version.to_string(), kind.to_string()));
                known.is_some_and(|kind| one.matches(kind))
            };
            for (index, document) in documents.iter().enumerate() {
                for (version, kinds) in fields(document) {
                    for (kind, objects) in fields(&kinds).filter(|(kind, _)| is_about(&version, kind)) {
                        let wanted = fields(&objects).filter(|(name, _)| wanted(index, [&version, &kind], name));
                        found.extend(wanted.map(|(_, object)| object));
                    }
                }
            }
        }
        let mut seen = BTreeSet::new();
        found.retain(|object| match object {
            Value::Object(fields) => seen.insert(Arc::as_ptr(fields) as usize),
            _ => false,
        });
        found
    }
}

fn is_namespace(version: &str, kind: &str) -> bool {
    version == "v1" && kind == "Namespace"
}

/// Whether a binding can refer to a role with the kind and name of its `roleRef`. As in Kubescape, an unset field
/// matches any value.
fn can_bind(binding: &Value, role: &Value) -> bool {
    let set = |value: &Value| value::text(value).filter(|text| !text.is_empty()).cloned();
    let differ =
        |one: Option<Arc<str>>, other: Option<Arc<str>>| one.zip(other).is_some_and(|(one, other)| one != other);
    let version = set(&role["apiVersion"]);
    let group = version.and_then(|version| version.split_once('/').map(|(group, _)| Arc::from(group)));
    let is_namespaced_binding = value::text(&binding["kind"]).is_some_and(|kind| **kind == *"RoleBinding");
    let namespace = set(&role["metadata"]["namespace"]);
    let is_role = value::text(&role["kind"]).is_some_and(|kind| **kind == *"Role");
    !differ(set(&binding["roleRef"]["apiGroup"]), group)
        && (is_namespaced_binding || !is_role && namespace.is_none())
        && !differ(set(&binding["metadata"]["namespace"]), namespace)
}

/// Returns the subjects of all bindings whose role is among the objects, in Kubescape's form: a subject with its
/// binding and its role below `relatedObjects`.
fn subjects(objects: &[Value]) -> Vec<Value> {
    let ends = |object: &Value, end: &str| value::text(&object["kind"]).is_some_and(|kind| kind.ends_with(end));
    let mut roles: BTreeMap<(&Value, &Value), Vec<&Value>> = BTreeMap::new();
    for role in objects.iter().filter(|object| ends(object, "Role")) {
        roles.entry((&role["kind"], &role["metadata"]["name"])).or_default().push(role);
    }
    let mut vectors = Vec::new();
    for binding in objects.iter().filter(|object| ends(object, "Binding")) {
        let role = &binding["roleRef"];
        let named = roles.get(&(&role["kind"], &role["name"])).into_iter().flatten();
        for role in named.filter(|role| can_bind(binding, role)) {
            let Some(subjects) = value::array(&binding["subjects"]) else { continue };
            for subject in subjects {
                let mut vector = subject.clone();
                let Ok(fields) = vector.as_object_mut() else { continue };
                fields.insert(Value::from("relatedObjects"), vec![binding.clone(), (*role).clone()].into());
                vectors.push(vector);
            }
        }
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_joined_with_the_role_that_it_refers_to() {
        let role = |kind: &str, namespace: &str, group: &str| {
            format!(
                r#"{{"apiVersion":"{group}/v1","kind":"{kind}","metadata":{{"name":"r","namespace":"{namespace}"}}}}"#
            )
        };
        let binding = |kind: &str, namespace: &str, to: &str| {
            format!(
                r#"{{"kind":"{kind}","metadata":{{"name":"b","namespace":"{namespace}"}},"subjects":[{{"name":"eve"}}],
                "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"{to}","name":"r"}}}}"#
            )
        };
        let rbac = "rbac.authorization.k8s.io";
        for (binding, role, want) in [
            (binding("RoleBinding", "a", "Role"), role("Role", "a", rbac), 1),
            (binding("RoleBinding", "a", "Role"), role("Role", "b", rbac), 0),
            (binding("RoleBinding", "", "Role"), role("Role", "b", rbac), 1),
            (binding("RoleBinding", "a", "ClusterRole"), role("ClusterRole", "", rbac), 1),
            (binding("ClusterRoleBinding", "", "ClusterRole"), role("ClusterRole", "", rbac), 1),
            (binding("ClusterRoleBinding", "", "Role"), role("Role", "a", rbac), 0),
            (binding("ClusterRoleBinding", "", "Role"), role("Role", "", rbac), 0),
            (binding("ClusterRoleBinding", "", "TeamRole"), role("TeamRole", "a", rbac), 0),
            (binding("ClusterRoleBinding", "", "TeamRole"), role("TeamRole", "", rbac), 1),
            (binding("RoleBinding", "a", "Role"), role("Role", "a", "example.com"), 0),
        ] {
            let objects = [&role, &binding].map(|text| Value::from_json_str(text).unwrap());
            assert_eq!(subjects(&objects).len(), want, "{binding} {role}");
        }
    }
}
