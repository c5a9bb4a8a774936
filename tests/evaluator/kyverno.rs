//! Compares kaudit with Kyverno's engine: whether a policy refuses an object.
//!
//! It runs where `KAUDIT_TEST_KYVERNO` is set. The policies are those written for this test, and those that Kyverno itself is tested with, from Go's module cache; the
//! objects are those next to the policies, the example manifests, and randomly altered objects.
//! `KAUDIT_TEST_KYVERNO_LIBRARY` names a folder with more policies, such as a checkout of Kyverno's library.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate},
        set::PolicySet,
    },
    model::{
        object::{Kind, Object, ObjectKey},
        verdict::Outcome,
    },
    rego::analysis::yaml,
};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::{Value, json};

use crate::{
    object,
    objects::{alter, objects},
};

/// Number of variants of each object.
const ALTERATIONS: u64 = 6;
/// What policies need that the test does not provide: other objects, and what kaudit does not support.
const NOT_COMPARED: [&str; 11] = [
    "resource.",
    "json.",
    "globalContext.",
    "http.",
    "image.",
    "hash.",
    "md5(",
    "sha1(",
    "random(",
    "time.",
    "userInfo",
];

/// Whether the comparison is made: its judge takes long to build.
fn is_wanted() -> bool {
    ["KAUDIT_TEST_KYVERNO", "TEST_ASSET_KYVERNO"].into_iter().any(|name| env::var_os(name).is_some())
}

/// Kyverno's engine, which answers line by line.
struct Kyverno {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Kyverno {
    fn start() -> Self {
        let mut command = Command::new(tool(Tool::Kyverno).unwrap());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// Returns the decision about each object; `None` if the policy is refused.
    fn decide(&mut self, policy: &Value, exceptions: &[Value], objects: &[Value]) -> Option<Vec<&'static str>> {
        let asked = json!({
            "policy": policy, "exceptions": exceptions, "objects": objects, "namespaces": namespaces(objects),
        });
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{asked}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let results = answer["results"].as_array()?;
        let decision = |results: &Value| {
            let has = |status: &str| results.as_array().unwrap().iter().any(|result| result["status"] == status);
            if has("error") {
                "error"
            } else if has("fail") {
                "fail"
            } else {
                "pass"
            }
        };
        Some(results.iter().map(decision).collect())
    }
}

impl Drop for Kyverno {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Returns the Namespaces of objects.
fn namespaces(objects: &[Value]) -> Vec<Value> {
    let names: BTreeSet<&str> = objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
    names.into_iter().map(namespace).collect()
}

fn namespace(name: &str) -> Value {
    let labels = json!({"kubernetes.io/metadata.name": name, "env": "test"});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Returns an object with the plural name and the scope that the engine knows it with.
fn with_plural(value: &Value) -> Object {
    let object = object(value);
    let kind = &object.key.kind;
    let name = kind.kind.to_lowercase();
    let plural = match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if name.ends_with('s') => format!("{name}es"),
        None => format!("{name}s"),
    };
    let kind = Kind { plural, namespaced: object.key.namespace.is_some(), ..Kind::clone(kind) };
    Object { key: ObjectKey { kind: Arc::new(kind), ..object.key }, ..object }
}

/// Returns kaudit's decision about each object.
fn by_kaudit(policies: &Arc<PolicySet>, objects: &[Value]) -> Vec<&'static str> {
    let decision = |value: &Value| {
        let namespace = value["metadata"]["namespace"].as_str().map(|name| with_plural(&namespace(name)));
        let object = with_plural(value);
        let job = Job { object, previous: None, deleted: false, namespace, policies: Arc::clone(policies) };
        let results = evaluate(&job).results;
        if results.iter().any(|result| result.outcome == Outcome::Error) {
            "error"
        } else if results.iter().any(|result| result.outcome.is_violation()) {
            "fail"
        } else {
            "pass"
        }
    };
    objects.iter().map(decision).collect()
}

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    yaml::from_multiple::<Value>(&text).unwrap_or_default()
}

/// Returns the files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    entries.into_iter().flat_map(below).filter(is_yaml).collect()
}

fn is_policy(document: &Value) -> bool {
    let kind = document["kind"].as_str().unwrap_or_default();
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with("policies.kyverno.io/"))
        && (kind == "ValidatingPolicy" || kind == "NamespacedValidatingPolicy")
        && document["metadata"]["name"].is_string()
        && document["spec"]["matchConstraints"].is_object()
}

/// Whether both can evaluate a policy in the same way.
fn is_compared(policy: &Value) -> bool {
    let text = policy["spec"].to_string();
    !NOT_COMPARED.iter().any(|part| text.contains(part))
        && policy["spec"]["evaluation"]["mode"] != "JSON"
        && policy["spec"]["evaluation"]["background"]["enabled"] != false
}

/// Returns the objects among documents: of a known kind, with a name, in a namespace unless they are cluster-scoped.
fn objects_of(documents: &[Value]) -> Vec<Value> {
    let is_object = |document: &&Value| {
        let version = document["apiVersion"].as_str().unwrap_or_default();
        document["metadata"]["name"].is_string() && !version.contains("kyverno.io") && !version.starts_with("chainsaw")
    };
    let mut objects: Vec<Value> = documents.iter().filter(is_object).cloned().collect();
    for object in &mut objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let is_cluster_scoped = ["Namespace", "Node", "Cluster"].iter().any(|prefix| kind.starts_with(prefix));
        if object["metadata"]["namespace"].is_null() && !is_cluster_scoped {
            object["metadata"]["namespace"] = "default".into();
        }
    }
    objects
}

/// Returns the objects, and variants with random changes of everything except kind and names.
fn altered(objects: &[Value]) -> Vec<Value> {
    let mut all = objects.to_vec();
    for (number, original) in objects.iter().enumerate() {
        for round in 0..ALTERATIONS {
            let mut random = fastrand::Rng::with_seed(number as u64 * ALTERATIONS + round);
            let mut object = original.clone();
            for _ in 0..=round / 2 {
                for part in ["spec", "metadata"] {
                    object.get_mut(part).into_iter().for_each(|part| alter(part, &mut random));
                }
            }
            // The engine needs names, and labels and annotations that are text.
            let mut metadata = original["metadata"].clone();
            for field in ["labels", "annotations"] {
                let texts = object["metadata"][field].as_object().cloned().unwrap_or_default();
                let texts = texts.into_iter().filter(|(_, value)| value.is_string());
                metadata[field] = texts.collect::<serde_json::Map<_, _>>().into();
            }
            object["metadata"] = metadata;
            all.push(object);
        }
    }
    all
}

/// What a comparison found.
#[derive(Default)]
struct Comparison {
    policies: usize,
    decisions: usize,
    violations: usize,
    differences: Vec<String>,
}

impl Comparison {
    /// Compares the decisions of a policy about objects.
    fn policy(&mut self, kyverno: &mut Kyverno, policy: &Value, exceptions: &[Value], objects: &[Value]) {
        let name = policy["metadata"]["name"].as_str().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (index, document) in [policy].into_iter().chain(exceptions).enumerate() {
            fs::write(folder.path().join(format!("{index}.json")), document.to_string()).unwrap();
        }
        let Some(expected) = kyverno.decide(policy, exceptions, objects) else { return };
        let policies = match PolicySet::load(&[folder.path().to_owned()]) {
            Ok(policies) => Arc::new(policies),
            // The CRD refuses the others.
            Err(why)
                if ["do not cover the creation", "unknown action"].iter().any(|one| why.to_string().contains(one)) =>
            {
                return;
            }
            Err(why) => return self.differences.push(format!("{name} is refused: {why}")),
        };
        self.policies += 1;
        self.decisions += expected.len();
        self.violations += expected.iter().filter(|decision| **decision == "fail").count();
        let found = by_kaudit(&policies, objects);
        let different = expected.iter().zip(found).zip(objects).find(|((one, other), _)| *one != other);
        if let Some(((expected, found), object)) = different {
            self.differences.push(format!("{name}: {found} instead of {expected} for {object}"));
        }
    }

    /// Compares the policies below a folder, on the objects next to them and on others.
    fn library(&mut self, kyverno: &mut Kyverno, folder: &Path, others: &[Value]) {
        for file in files(folder) {
            let found = documents(&file);
            for policy in found.iter().filter(|document| is_policy(document) && is_compared(document)) {
                let next: Vec<Value> = files(file.parent().unwrap()).iter().flat_map(|file| documents(file)).collect();
                let mut objects = objects_of(&next);
                objects.truncate(40);
                objects.extend_from_slice(others);
                self.policy(kyverno, policy, &[], &objects);
            }
        }
    }
}

#[test]
fn decisions_equal_those_of_kyverno_for_all_forms_of_policies() {
    if !is_wanted() || !require_tool(Tool::Kyverno) {
        return;
    }
    let mut kyverno = Kyverno::start();
    let documents = documents(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/kyverno/policies.yaml"));
    let exceptions: Vec<Value> =
        documents.iter().filter(|document| document["kind"] == "PolicyException").cloned().collect();
    let objects = altered(&objects_of(&objects()));
    let mut compared = Comparison::default();
    for policy in documents.iter().filter(|document| is_policy(document)) {
        let refers = |exception: &&Value| exception["spec"]["policyRefs"][0]["name"] == policy["metadata"]["name"];
        let own: Vec<Value> = exceptions.iter().filter(refers).cloned().collect();
        compared.policy(&mut kyverno, policy, &own, &objects);
    }
    let Comparison { policies, decisions, violations, differences } = compared;
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(policies >= 30 && violations > 500, "{policies} policies, {decisions} decisions, {violations} violations");
}

#[test]
fn decisions_equal_those_of_kyverno_for_its_own_test_policies() {
    if !is_wanted() || !require_tool(Tool::Kyverno) {
        return;
    }
    let output = Command::new(tool(Tool::Kyverno).unwrap()).arg("library").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let own = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let mut kyverno = Kyverno::start();
    let others = altered(&objects_of(&objects()));
    let mut compared = Comparison::default();
    for folder in [Some(own), env::var_os("KAUDIT_TEST_KYVERNO_LIBRARY").map(PathBuf::from)].into_iter().flatten() {
        compared.library(&mut kyverno, &folder, &others);
    }
    let Comparison { policies, decisions, violations, differences } = compared;
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(policies > 30 && violations > 200, "{policies} policies, {decisions} decisions, {violations} violations");
}
