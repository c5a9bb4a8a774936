//! A comparison with Trivy's scanner: the same checks and objects, the same results.
//!
//! Asked are checks written for this, and the library that this version of the scanner comes with, about the library's own
//! examples, the example manifests, and objects altered at random. `known.yaml` lists what is said otherwise, and why.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use kaudit::{
    judge::set::PolicySet,
    model::verdict::{Finding, Outcome},
};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    judge, object,
    objects::{alter, objects},
};

/// How often each object is altered.
const ALTERATIONS: u64 = 8;

/// Package, rule and message of what fails.
type Failures = BTreeSet<[String; 3]>;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/trivy")
}

/// Returns what Trivy finds in each object; `data` are folders of data below that of the checks.
fn by_trivy(checks: &Path, data: &[&str], objects: &[Value]) -> Vec<Failures> {
    #[derive(Deserialize)]
    struct Failure {
        package: String,
        rule: String,
        message: String,
    }
    let mut command = Command::new(tool(Tool::Trivy).unwrap());
    command.arg(checks).args(data).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writer.join().unwrap().unwrap();
    let failures = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Vec<Failure>>();
    let each = failures.map(|failures| {
        failures.unwrap().into_iter().map(|Failure { package, rule, message }| [package, rule, message]).collect()
    });
    each.collect()
}

/// Returns what kaudit finds in each object; errors are among it.
fn by_kaudit(policies: &Arc<PolicySet>, objects: &[Value]) -> Vec<Failures> {
    let failure = |Finding { rule, message, outcome, .. }: &Finding| {
        let said = if *outcome == Outcome::Fail { "" } else { "cannot be judged: " };
        [rule.policy.to_string(), rule.name.to_string(), format!("{said}{message}")]
    };
    objects.iter().map(|value| judge(policies, object(value)).results.iter().map(failure).collect()).collect()
}

/// Leaves out the messages of rules in whose messages Trivy prints what it adds to each object, the places of its parts, or a
/// number for a text, as its version of OPA does otherwise than the latest.
fn comparable(failures: &Failures, trivy: &Failures) -> Failures {
    let places = |[package, rule, message]: &[String; 3]| {
        (message.contains("__defsec_metadata") || message.contains("%!s(")).then(|| (package.clone(), rule.clone()))
    };
    let unlike: BTreeSet<(String, String)> = trivy.iter().filter_map(places).collect();
    let without = |[package, rule, message]: &[String; 3]| {
        let is_unlike = unlike.contains(&(package.clone(), rule.clone()));
        [package.clone(), rule.clone(), if is_unlike { String::new() } else { message.clone() }]
    };
    failures.iter().map(without).collect()
}

/// A difference that is meant.
#[derive(Deserialize)]
struct Known {
    package: String,
    reason: String,
}

/// Returns the packages of which the two say different things, each with an example.
fn differences(checks: &Path, data: &[&str], objects: &[Value]) -> (BTreeMap<String, String>, usize) {
    let policies = Arc::new(PolicySet::load(&[checks.to_owned()]).unwrap_or_else(|why| panic!("{why}")));
    let (trivy, kaudit) = (by_trivy(checks, data, objects), by_kaudit(&policies, objects));
    assert_eq!(trivy.len(), objects.len());
    let mut differences = BTreeMap::new();
    for ((trivy, kaudit), object) in trivy.iter().zip(&kaudit).zip(objects) {
        let (trivy, kaudit) = (comparable(trivy, trivy), comparable(kaudit, trivy));
        for (one, by) in [(trivy.difference(&kaudit), "Trivy"), (kaudit.difference(&trivy), "kaudit")] {
            for [package, rule, message] in one {
                let text = || format!("only {by} says {rule}: {message}\n  of {object}");
                differences.entry(package.clone()).or_insert_with(text);
            }
        }
    }
    (differences, trivy.iter().map(BTreeSet::len).sum())
}

/// Alters everything but what makes an object one of its kind, and its names, which are always texts.
fn altered(objects: &[Value]) -> Vec<Value> {
    let mut all = objects.to_vec();
    for object in &mut all {
        without_unlike(object, &Value::Null);
    }
    for (number, original) in objects.iter().enumerate() {
        for round in 0..ALTERATIONS {
            let mut random = fastrand::Rng::with_seed(number as u64 * ALTERATIONS + round);
            let mut object = original.clone();
            for _ in 0..=round / 3 {
                for (name, part) in object.as_object_mut().unwrap() {
                    if name != "apiVersion" && name != "kind" {
                        alter(part, &mut random);
                    }
                }
            }
            for name in ["name", "namespace"] {
                if let Some(own) = original["metadata"].get(name) {
                    let metadata = &mut object["metadata"];
                    *metadata = if metadata.is_object() { metadata.take() } else { json!({}) };
                    metadata[name] = own.clone();
                }
            }
            without_unlike(&mut object, original);
            all.push(object);
        }
    }
    all
}

/// Takes away what Trivy reads as something else: an empty array is null to it, and an object has one field more, which shows
/// where an array should be.
fn without_unlike(value: &mut Value, original: &Value) {
    match value {
        Value::Array(items) if items.is_empty() => *value = Value::Null,
        Value::Object(_) if original.is_array() => *value = Value::Null,
        Value::Array(items) => items.iter_mut().for_each(|item| without_unlike(item, &original[0])),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| without_unlike(field, &original[name])),
        _ => {}
    }
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    documents.into_iter().filter(|object| object["kind"].is_string() && object["metadata"].is_object()).collect()
}

/// Copies the modules of the library without their tests, which is what Trivy has of it, and returns its examples.
fn copy_library(from: &Path, to: &Path, examples: &mut Vec<Value>) {
    fs::create_dir_all(to).unwrap();
    let mut entries: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            copy_library(&path, &to.join(&name), examples);
        } else if extension == Some("rego") && !name.ends_with("_test.rego") {
            fs::write(to.join(&name), fs::read(&path).unwrap()).unwrap();
        } else if extension == Some("yaml") {
            let file: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap_or_default();
            let texts = ["good", "bad"].map(|kind| file["kubernetes"][kind].as_array().cloned().unwrap_or_default());
            let texts = texts.iter().flatten().filter_map(Value::as_str);
            examples.extend(texts.flat_map(documents));
        }
    }
}

#[test]
fn trivy_and_kaudit_judge_the_same_by_checks_of_every_form() {
    if !require_tool(Tool::Trivy) {
        return;
    }
    let mut objects = objects();
    objects.extend(documents(&fs::read_to_string(folder().join("objects.yaml")).unwrap()));
    let (differences, said) = differences(&folder().join("checks"), &["."], &altered(&objects));
    assert!(said > 1_000, "only {said} results");
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn trivy_and_kaudit_judge_the_same_by_the_library() {
    if !require_tool(Tool::Trivy) {
        return;
    }
    let output = Command::new(tool(Tool::Trivy).unwrap()).arg("library").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let library = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let (copy, mut objects) = (tempfile::tempdir().unwrap(), objects());
    for part in ["checks", "lib"] {
        copy_library(&library.join(part), &copy.path().join(part), &mut objects);
    }
    objects.extend(documents(&fs::read_to_string(folder().join("objects.yaml")).unwrap()));
    let (mut differences, said) = differences(copy.path(), &[], &altered(&objects));
    assert!(said > 5_000, "only {said} results");
    let known = fs::read_to_string(folder().join("known.yaml")).unwrap();
    for Known { package, reason } in serde_saphyr::from_str::<Vec<Known>>(&known).unwrap() {
        assert!(differences.remove(&package).is_some(), "{package} is judged as Trivy does, take it away: {reason}");
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
