//! The arrays of objects that rules get which relate objects to each other, and what such a rule said of each array.
//!
//! As Kubescape does it on large clusters, a rule gets the objects of one namespace together with those of the cluster, and
//! the latter alone. A rule is evaluated once for an array, whatever the number of objects in it that are judged; when the
//! inventory changes, only arrays in which the rule can see a difference are evaluated again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use regorus::Value;

use super::matching::ResourceMatch;
use crate::{
    judge::inventory::Inventory,
    model::object::Kind,
    rego::{
        evaluator::Failure,
        value::{self, fields},
    },
};

/// `attributes.resourcesAggregator` of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregator {
    /// Instead of RBAC objects, their subjects: each with its binding and role as `relatedObjects`.
    Subjects,
    /// Of all objects, the Pods of the API server.
    ApiServerPod,
}

impl Aggregator {
    /// Returns the aggregator of a name; `None` for others, which Kubescape passes over.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "subject-role-rolebinding" => Some(Self::Subjects),
            "apiserver-pod" => Some(Self::ApiServerPod),
            _ => None,
        }
    }
}

/// What names an object in a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
}

impl Identity {
    /// Returns what names an object; `None` for what is none.
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

/// The objects of a namespace (`Some`), or of the cluster alone.
pub(crate) type Scope = Option<Arc<str>>;

/// One result of a rule, with the number of the definition that it came from, and whom it is about.
pub(crate) type Said = Result<HashMap<Identity, Vec<(usize, Value)>>, Failure>;

/// What a rule said of an array.
#[derive(Debug)]
pub(crate) struct ScopeAnswer {
    array: Vec<Value>,
    pub(crate) said: Said,
}

impl ScopeAnswer {
    /// Returns the objects that it says something of; all in the array if it is a failure.
    fn all(&self) -> Vec<Identity> {
        match &self.said {
            Ok(said) => said.keys().cloned().collect(),
            Err(_) => identities(&self.array).collect(),
        }
    }
}

fn identities(objects: &[Value]) -> impl Iterator<Item = Identity> {
    objects.iter().filter_map(Identity::of)
}

/// Returns the objects of which two answers say different things.
fn differing(before: &ScopeAnswer, now: &ScopeAnswer) -> Vec<Identity> {
    let (Ok(old), Ok(new)) = (&before.said, &now.said) else {
        return identities(&before.array).chain(identities(&now.array)).collect();
    };
    old.keys().chain(new.keys()).filter(|identity| old.get(identity) != new.get(identity)).cloned().collect()
}

/// What was said of arrays last, and in which state of the inventory.
#[derive(Debug, Default)]
struct Last {
    /// How many states there were.
    states: u64,
    answers: BTreeMap<Scope, (u64, Arc<ScopeAnswer>)>,
}

/// All arrays of one rule, made of one state of the inventory.
#[derive(Debug)]
pub(crate) struct Scopes {
    /// Whether one array holds all objects.
    pub(crate) whole: bool,
    /// As [`Inventory`] lays them out for Gatekeeper.
    objects: Value,
    kinds: Arc<BTreeMap<(String, String), Arc<Kind>>>,
    answers: Mutex<BTreeMap<Scope, Arc<OnceLock<Arc<ScopeAnswer>>>>>,
    /// What was said in all scopes of the objects of the cluster, which are in each of them.
    shared: OnceLock<Said>,
    /// Which state of the inventory it is.
    state: u64,
    /// What was said of the arrays before, in whatever state of the inventory.
    last: Arc<Mutex<Last>>,
}

impl Scopes {
    pub(super) fn new(whole: bool) -> Self {
        Self {
            whole,
            objects: Value::new_object(),
            kinds: Arc::default(),
            answers: Mutex::default(),
            shared: OnceLock::new(),
            state: 0,
            last: Arc::default(),
        }
    }

    /// Returns the same rule's arrays of another state of the inventory.
    pub(super) fn with_inventory(&self, inventory: &Inventory) -> Self {
        let objects = inventory.document("inventory").clone();
        let kinds = Arc::clone(inventory.kinds());
        let mut last = held(&self.last);
        last.states += 1;
        Self { objects, kinds, state: last.states, last: Arc::clone(&self.last), ..Self::new(self.whole) }
    }

    /// Returns the scopes that an object is in.
    pub(crate) fn of(&self, namespace: Option<&Arc<str>>, identity: &Identity) -> BTreeSet<Scope> {
        let is_namespace = &*identity.kind == "Namespace" && &*identity.api_version == "v1";
        let own = namespace.or(is_namespace.then_some(&identity.name));
        if let Some(namespace) = own.filter(|_| !self.whole) {
            return BTreeSet::from([Some(Arc::clone(namespace))]);
        }
        self.all()
    }

    /// Returns all scopes that there are.
    fn all(&self) -> BTreeSet<Scope> {
        if self.whole {
            return BTreeSet::from([None]);
        }
        let namespaces = fields(&self.objects["namespace"]).chain(fields(&self.namespaces()));
        namespaces.map(|(name, _)| Some(name)).chain([None]).collect()
    }

    /// Returns the objects of which a rule says something else than it last said, or may. `answer` is what it says of a scope
    /// now, for which it is evaluated; scopes that nobody asked about are passed over, as no verdict depends on them.
    pub(crate) fn touched(
        &self,
        matching: &[ResourceMatch],
        mut answer: impl FnMut(&Scope) -> Arc<ScopeAnswer>,
    ) -> BTreeSet<Identity> {
        let before: BTreeMap<Scope, Arc<ScopeAnswer>> =
            held(&self.last).answers.iter().map(|(scope, (_, answer))| (scope.clone(), Arc::clone(answer))).collect();
        if before.is_empty() {
            return BTreeSet::new();
        }
        let mut touched = BTreeSet::new();
        for scope in self.all().into_iter().chain(before.keys().cloned()).collect::<BTreeSet<_>>() {
            let Some(before) = before.get(&scope) else {
                // What is of the cluster is in this scope, too.
                touched.extend(answer(&scope).all().into_iter().filter(|identity| identity.namespace.is_none()));
                continue;
            };
            let array = self.array(&scope, matching);
            if same(&before.array, &array) {
                continue;
            }
            if before.said.is_err() {
                // What took too long is not evaluated while others wait for the inventory.
                touched.extend(identities(&before.array).chain(identities(&array)));
            } else {
                touched.extend(differing(before, &answer(&scope)));
            }
        }
        touched
    }

    fn namespaces(&self) -> Value {
        self.objects["cluster"]["v1"]["Namespace"].clone()
    }

    /// Returns what a rule says of the objects of the cluster in all these scopes, which are all that there are.
    pub(crate) fn of_cluster(
        &self,
        scopes: &BTreeSet<Scope>,
        mut answer: impl FnMut(&Scope) -> Arc<ScopeAnswer>,
    ) -> &Said {
        self.shared.get_or_init(|| {
            let mut all: HashMap<Identity, Vec<(usize, Value)>> = HashMap::new();
            for scope in scopes {
                let answer = answer(scope);
                let said = answer.said.as_ref().map_err(Clone::clone)?;
                for (identity, own) in said.iter().filter(|(identity, _)| identity.namespace.is_none()) {
                    let known = all.entry(identity.clone()).or_default();
                    let new = own.iter().filter(|said| !known.contains(said)).cloned().collect::<Vec<_>>();
                    known.extend(new);
                }
            }
            Ok(all)
        })
    }

    /// Returns what a rule says of a scope; `ask` evaluates it.
    pub(crate) fn answer(
        &self,
        scope: &Scope,
        (matching, aggregator): (&[ResourceMatch], Option<Aggregator>),
        ask: impl FnOnce(&[Value]) -> Said,
    ) -> Arc<ScopeAnswer> {
        let cell = Arc::clone(held(&self.answers).entry(scope.clone()).or_default());
        let answer = cell.get_or_init(|| {
            let (array, input) = self.input(scope, (matching, aggregator));
            let before = held(&self.last).answers.get(scope).map(|(_, before)| Arc::clone(before));
            // What failed may not fail the next time.
            if let Some(before) = before.filter(|before| before.said.is_ok() && same(&before.array, &array)) {
                return before;
            }
            let said = if input.is_empty() { Ok(HashMap::new()) } else { ask(&input) };
            let answer = Arc::new(ScopeAnswer { array, said });
            let mut last = held(&self.last);
            // Whoever still judges by a state of before must not hide what is said now.
            if last.answers.get(scope).is_none_or(|(state, _)| *state <= self.state) {
                last.answers.insert(scope.clone(), (self.state, Arc::clone(&answer)));
            }
            answer
        });
        Arc::clone(answer)
    }

    /// Returns the objects of a scope, and what a rule gets of them.
    pub(super) fn input(
        &self,
        scope: &Scope,
        (matching, aggregator): (&[ResourceMatch], Option<Aggregator>),
    ) -> (Vec<Value>, Vec<Value>) {
        let array = self.array(scope, matching);
        let input = match aggregator {
            Some(Aggregator::Subjects) => subjects(&array),
            _ => array.clone(),
        };
        (array, input)
    }

    /// Returns the objects of a scope, in the order of `matching`; empty for a namespace without an object that the rule is about.
    fn array(&self, scope: &Scope, matching: &[ResourceMatch]) -> Vec<Value> {
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        let namespaces = &self.objects["namespace"];
        let is_namespace = |version: &str, kind: &str| version == "v1" && kind == "Namespace";
        for one in matching {
            let add = |below: &Value, to: &mut Vec<Value>, wanted: &dyn Fn(&str, &str, &str) -> bool| {
                for (version, kinds) in fields(below) {
                    let matches = |kind: &str| {
                        let known = self.kinds.get(&(version.to_string(), kind.to_owned()));
                        known.is_some_and(|kind| one.matches(kind))
                    };
                    for (kind, objects) in fields(&kinds).filter(|(kind, _)| matches(kind)) {
                        let wanted = fields(&objects).filter(|(name, _)| wanted(&version, &kind, name));
                        to.extend(wanted.map(|(_, object)| object));
                    }
                }
            };
            match scope {
                _ if self.whole => {
                    fields(namespaces).for_each(|(_, below)| add(&below, &mut own, &|_, _, _| true));
                    add(&self.objects["cluster"], &mut shared, &|_, _, _| true);
                }
                Some(namespace) => {
                    add(&namespaces[&**namespace], &mut own, &|_, _, _| true);
                    add(&self.objects["cluster"], &mut own, &|version, kind, name| {
                        is_namespace(version, kind) && *name == **namespace
                    });
                    add(&self.objects["cluster"], &mut shared, &|version, kind, _| !is_namespace(version, kind));
                }
                None => add(&self.objects["cluster"], &mut shared, &|version, kind, _| !is_namespace(version, kind)),
            }
        }
        if own.is_empty() && scope.is_some() {
            return own;
        }
        own.append(&mut shared);
        let mut seen = BTreeSet::new();
        // Two entries of `match` may be about one object.
        own.retain(|object| match object {
            Value::Object(fields) => seen.insert(Arc::as_ptr(fields) as usize),
            _ => false,
        });
        own
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two arrays hold the same objects in the same states. The inventory keeps an object as it is until it changes.
fn same(before: &[Value], now: &[Value]) -> bool {
    before.len() == now.len()
        && before.iter().zip(now).all(|pair| match pair {
            (Value::Object(before), Value::Object(now)) => Arc::ptr_eq(before, now),
            _ => false,
        })
}

/// Whether a binding can refer to a role of the kind and name that it refers to. As in Kubescape, what is not set is equal to
/// anything.
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

/// Returns the subjects of all bindings whose role is among the objects, as Kubescape joins them: a subject, and below
/// `relatedObjects` its binding and its role.
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
