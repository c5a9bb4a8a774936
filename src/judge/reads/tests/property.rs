//! Random changes of objects: if the hash of the fields that are read stays the same, so does the verdict; and a rule
//! that is not evaluated for a kind has no results for it. Fields that are not read are not converted to values; with
//! them, the verdict is the same.
//!
//! `KAUDIT_READS_ROUNDS` sets the number of changes for each object and policy set. `KAUDIT_READS_POLICIES` adds policy
//! sets: directories, separated by colons.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use kaudit_test_support::settings::setting;
use serde_json::{Map, Value, json};

use super::{KINDS, READS, TRAPS, load};
use crate::{
    judge::{
        evaluate::{Job, evaluate, evaluate_whole, has_results},
        set::PolicySet,
    },
    model::{
        object::{Kind, Object, ObjectKey},
        verdict::Verdict,
    },
    rego::analysis::yaml,
};

/// Returns objects of many kinds, most of them with unusual values.
pub(super) fn seeds() -> Vec<Value> {
    let container = json!({"name": "a", "image": "example.com/a:1", "ports": [{"hostPort": 80}, {"containerPort": 1}],
        "env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "n"}}}],
        "securityContext": {"privileged": true, "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
            "seccompProfile": {"type": "Unconfined"}, "procMount": "Unmasked", "seLinuxOptions": {"type": "a"}},
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": 1}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "h"}}},
        "livenessProbe": {"httpGet": {"host": "h", "path": "/"}}});
    let pod = json!({"hostNetwork": true, "containers": [container, {"name": "b", "image": "b"}], "initContainers": [container],
        "ephemeralContainers": [{"name": "c", "image": "c@sha256:1"}], "serviceAccountName": "default",
        "securityContext": {"sysctls": [{"name": "kernel.x", "value": "1"}], "runAsNonRoot": false},
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}], "restartPolicy": "Always"});
    let template = json!({"metadata": {"labels": {"app": "a"}, "annotations":
        {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}, "spec": pod});
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"});
    let mut objects = Vec::new();
    let mut add = |version: &str, kind: &str, more: Value| {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "n", "uid": "u",
            "labels": {"app": "a", "team": "t"}, "annotations": {"note": "x"}, "resourceVersion": "1"}, "status": status,
            "a": {"b": 1}, "x": {"y": 2}, "m": {"k": "v"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        objects.push(object);
    };
    add("v1", "Pod", json!({"spec": pod}));
    add("v1", "PodTemplate", json!({"template": template}));
    for kind in ["Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"] {
        add("apps/v1", kind, json!({"spec": {"replicas": 2, "template": template}}));
    }
    add("batch/v1", "Job", json!({"spec": {"template": template}}));
    add("batch/v1", "CronJob", json!({"spec": {"jobTemplate": {"spec": {"template": template}}}}));
    add("v1", "Service", json!({"spec": {"type": "NodePort", "externalIPs": ["1.2.3.4", 5], "ports": [{"port": 1}]}}));
    add(
        "networking.k8s.io/v1",
        "Ingress",
        json!({"spec": {"rules": [{"host": "a.b"}, {}], "tls": [{"hosts": ["a.b"]}]}}),
    );
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "*", "escalate"]}]);
    add("rbac.authorization.k8s.io/v1", "ClusterRole", json!({"rules": rules}));
    add("rbac.authorization.k8s.io/v1", "Role", json!({"rules": rules}));
    let subjects =
        json!([{"kind": "Group", "name": "system:authenticated"}, {"kind": "User", "name": "system:anonymous"}]);
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        let role = json!({"kind": "ClusterRole", "name": "cluster-admin"});
        add("rbac.authorization.k8s.io/v1", kind, json!({"subjects": subjects, "roleRef": role}));
    }
    add("v1", "ConfigMap", json!({"data": {"a": "b"}}));
    add("example.com/v1", "Service", json!({"spec": {"type": "NodePort"}}));
    add("example.com/v1", "Widget", json!({"spec": {"containers": [container], "a": 1, "b": {"c": [1, 2]}}}));
    objects
}

/// Returns the object as a source would deliver it.
fn object(value: &Value) -> Object {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = text("/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let kind = Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: format!("{}s", text("/kind").to_lowercase()),
        kind: text("/kind"),
        singular: String::new(),
        short_names: Vec::new(),
        namespaced: true,
    };
    let namespace = value.pointer("/metadata/namespace").and_then(Value::as_str).map(Arc::from);
    let key = ObjectKey { kind: Arc::new(kind), namespace, name: text("/metadata/name").into(), copy: 0 };
    Object { uid: text("/metadata/uid").into(), ..Object::sample(key, value.to_string().as_bytes()) }
}

fn job(set: &Arc<PolicySet>, object: &Object) -> Job {
    let object = object.clone();
    Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(set) }
}

/// Policies that are tested with random objects.
pub(super) struct TestedPolicies {
    name: String,
    pub(super) policies: Arc<PolicySet>,
    /// Words of the rules, used to create objects.
    words: Vec<String>,
    /// Whether its rules read only fields with these words.
    small: bool,
}

impl TestedPolicies {
    pub(super) fn new(name: &str, policies: PolicySet, text: &str, small: bool) -> Self {
        // Fields and strings: words after a dot or a quote.
        let words = text.split(['.', '"']).skip(1).filter_map(|rest| {
            let word = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
            (!word.is_empty() && word.parse::<u64>().is_err()).then(|| word.to_owned())
        });
        let words: BTreeSet<String> = words.collect();
        Self { name: name.to_owned(), policies: Arc::new(policies), words: words.into_iter().collect(), small }
    }
}

/// Every policy set of the tests.
fn sets() -> Vec<TestedPolicies> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut sets = vec![TestedPolicies::new("policies", PolicySet::load(&[root.join("policies")]).unwrap(), "", false)];
    for path in std::env::var("KAUDIT_READS_POLICIES").unwrap_or_default().split(':').filter(|path| !path.is_empty()) {
        match PolicySet::load(&[PathBuf::from(path)]) {
            Ok(set) => {
                for policy in &set.policies {
                    eprintln!("{path}: {} [{}] reads {}", policy.name, policy.matches, policy.reads);
                }
                sets.push(TestedPolicies::new(path, set, "", false));
            }
            Err(why) => eprintln!("{path}: {why}"),
        }
    }
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root.join("tests/evaluator/cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        let text = std::fs::read_to_string(file).unwrap();
        let cases: Vec<Value> = yaml::from_str(&text).unwrap();
        for case in cases {
            let directory = tempfile::tempdir().unwrap();
            for part in ["modules", "data"] {
                for (name, text) in case[part].as_object().into_iter().flatten() {
                    let path = directory.path().join(name);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, text.as_str().unwrap()).unwrap();
                }
            }
            // Policies that read the clock have different results at different times.
            if let Ok(set) = PolicySet::load(&[directory.path().to_owned()])
                && !set.policies.iter().any(|policy| policy.depends.clock)
            {
                let name = case["note"].as_str().unwrap_or_default();
                sets.push(TestedPolicies::new(name, set, &case.to_string(), false));
            }
        }
    }
    let modules = READS.iter().chain(KINDS).map(|case| case.0).chain(TRAPS.iter().copied());
    sets.extend(modules.map(|module| TestedPolicies::new(module, load(module), module, true)));
    sets
}

/// The building blocks of random changes.
pub(super) struct Changes {
    random: fastrand::Rng,
    keys: Vec<String>,
    values: Vec<Value>,
}

impl Changes {
    pub(super) fn new(seed: u64, set: &TestedPolicies, seeds: &[Value]) -> Self {
        let mut keys = BTreeSet::new();
        let mut values = Vec::new();
        if !set.small {
            for seed in seeds {
                collect(seed, &mut keys, &mut values);
            }
        }
        keys.extend(set.words.iter().cloned());
        let scalars = [json!(null), json!(true), json!(false), json!(1), json!(2), json!("x"), json!([]), json!({})];
        let words = set.words.iter().map(|word| json!(word));
        let plain: Vec<Value> = scalars.into_iter().chain(words).collect();
        while values.len() < 200 || values.len() < 4 * plain.len() {
            values.extend(plain.clone());
        }
        Self { random: fastrand::Rng::with_seed(seed), keys: keys.into_iter().collect(), values }
    }

    /// Returns objects made of a policy set's words.
    fn small_objects(&mut self) -> Vec<Value> {
        let kinds = ["Pod", "Job", "Widget", "Pod", "Pod", "Widget"];
        let kinds = kinds.into_iter().map(|kind| {
            let mut object =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": "n", "uid": "u"}});
            for _ in 0..8 {
                let (key, value) = (self.key(), self.tree(3));
                if !matches!(&*key, "apiVersion" | "kind" | "metadata") {
                    object[key] = value;
                }
            }
            object
        });
        kinds.collect()
    }

    fn tree(&mut self, depth: usize) -> Value {
        match self.random.u8(0..5) {
            0 | 1 if depth > 0 => {
                let fields = (0..4).map(|_| (self.key(), self.tree(depth - 1)));
                Value::Object(fields.collect())
            }
            2 if depth > 0 => (0..self.random.u8(0..4)).map(|_| self.tree(depth - 1)).collect(),
            _ => self.value(),
        }
    }

    fn key(&mut self) -> String {
        self.random.choice(&self.keys).cloned().unwrap_or_default()
    }

    fn value(&mut self) -> Value {
        self.random.choice(&self.values).cloned().unwrap_or_default()
    }

    /// Changes one random field, recursively. Name and type stay the same, as they identify the object.
    fn change(&mut self, value: &mut Value, top: bool) {
        if !top && self.random.u8(0..5) == 0 {
            *value = self.tree(2);
            return;
        }
        match value {
            Value::Object(fields) => self.change_object(fields, top),
            Value::Array(items) if !items.is_empty() => {
                let index = self.random.usize(0..items.len());
                match self.random.u8(0..6) {
                    0 => drop(items.remove(index)),
                    1 => items.insert(index, items[index].clone()),
                    2 => {
                        let item = self.tree(1);
                        items.push(item);
                    }
                    _ => self.change(&mut items[index], false),
                }
            }
            other => *other = self.value(),
        }
    }

    fn change_object(&mut self, fields: &mut Map<String, Value>, top: bool) {
        let fixed = |key: &str| top && matches!(key, "apiVersion" | "kind");
        let inserted = |key: &str| !(top && matches!(key, "apiVersion" | "kind" | "metadata"));
        let names: Vec<String> = fields.keys().filter(|key| !fixed(key)).cloned().collect();
        let name = self.random.choice(&names).cloned();
        match (self.random.u8(0..8), name) {
            (0, Some(name)) if !(top && name == "metadata") => drop(fields.remove(&name)),
            (1, _) | (_, None) => {
                let (key, value) = (self.key(), self.tree(2));
                if inserted(&key) {
                    fields.insert(key, value);
                }
            }
            (_, Some(name)) => {
                let kept = (top && name == "metadata").then(|| fields[&name].clone());
                let Some(value) = fields.get_mut(&name) else { return };
                self.change(value, false);
                if let (Some(kept), Some(now)) = (kept, fields.get_mut("metadata")) {
                    if !now.is_object() {
                        *now = json!({});
                    }
                    for key in ["name", "namespace", "uid"] {
                        now[key] = kept[key].clone();
                    }
                }
            }
        }
    }
}

fn collect(value: &Value, keys: &mut BTreeSet<String>, values: &mut Vec<Value>) {
    values.push(value.clone());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                keys.insert(key.clone());
                collect(value, keys, values);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, keys, values)),
        _ => {}
    }
}

fn projection_hash(set: &PolicySet, object: &Object) -> Option<u64> {
    set.projection(&object.key.kind).hash(&object.body.json().unwrap())
}

/// Checks that rules that are not evaluated for this object's kind have no results for it.
fn assert_silent(name: &str, set: &Arc<PolicySet>, object: &Object, value: &Value) {
    let job = job(set, object);
    for unit in &set.units {
        for group in &unit.groups {
            let evaluated = &group.queries.of(&object.key.kind.kind).unwrap().rules;
            let rules = group.entrypoints.iter().enumerate();
            for (index, entrypoint) in rules.filter(|(index, _)| !evaluated.contains(index)) {
                let found = has_results(&job, unit, group, index);
                assert_eq!(found, Ok(false), "{name}: {} of {value}", entrypoint.rule.name);
            }
        }
    }
}

/// Counts of the changes made.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) verdicts: usize,
    unread: usize,
    read: usize,
    pub(super) flipped: usize,
}

/// Changes an object `rounds` times, mostly cumulatively, and compares the verdicts.
pub(super) fn hold(
    name: &str,
    set: &Arc<PolicySet>,
    original: &Value,
    rounds: usize,
    random: &mut Changes,
    seen: &mut Seen,
) {
    let named = |verdict: &Verdict| (verdict.results.clone(), verdict.passed.clone());
    let mut before = original.clone();
    let mut object_before = object(&before);
    let mut hash = projection_hash(set, &object_before);
    let mut verdict = evaluate_whole(&job(set, &object_before));
    assert!(hash.is_some());
    assert_eq!(named(&evaluate(&job(set, &object_before))), named(&verdict), "{name}\n{before}");
    for _ in 0..rounds {
        let mut after = before.clone();
        for _ in 0..=random.random.u8(0..3) {
            random.change(&mut after, true);
        }
        let object_after = object(&after);
        let hash_after = projection_hash(set, &object_after);
        let verdict_after = evaluate_whole(&job(set, &object_after));
        let by_parts = evaluate(&job(set, &object_after));
        assert_eq!(
            named(&by_parts),
            named(&verdict_after),
            "{name}\nreads {}\n{after}",
            set.projection(&object_after.key.kind)
        );
        let same = verdict.results == verdict_after.results && verdict.passed == verdict_after.passed;
        seen.flipped += usize::from(!same);
        seen.verdicts += 1;
        if hash == hash_after {
            seen.unread += usize::from(before != after);
            assert!(
                same,
                "{name}\nreads {}\nbefore {before}\n{:#?}\nafter {after}\n{:#?}",
                set.projection(&object_before.key.kind),
                verdict.results,
                verdict_after.results
            );
        } else {
            seen.read += 1;
        }
        if random.random.u8(0..8) == 0 {
            assert_silent(name, set, &object_after, &after);
        }
        // Mostly continues from here, so that unusual shapes accumulate; sometimes restarts.
        if random.random.u8(0..6) == 0 {
            before = original.clone();
            object_before = object(&before);
            hash = projection_hash(set, &object_before);
            verdict = evaluate_whole(&job(set, &object_before));
        } else {
            (before, object_before, hash, verdict) = (after, object_after, hash_after, verdict_after);
        }
    }
}

pub(super) fn rounds() -> usize {
    setting("KAUDIT_READS_ROUNDS").unwrap_or(2)
}

#[test]
fn unread_fields_do_not_change_verdicts() {
    let seeds = seeds();
    let mut seen = Seen::default();
    for (number, set) in sets().into_iter().enumerate() {
        let mut random = Changes::new(number as u64, &set, &seeds);
        let seeds = if set.small { random.small_objects() } else { seeds.clone() };
        let rounds = if number == 0 || set.small { rounds() * 5 } else { rounds() };
        for seed in &seeds {
            hold(&set.name, &set.policies, seed, rounds, &mut random, &mut seen);
        }
    }
    eprintln!("{seen:?}");
    assert!(seen.unread > 1000 && seen.read > 1000 && seen.flipped > 300);
}
