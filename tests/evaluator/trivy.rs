//! Compares kaudit with Trivy's scanner, with the same checks and objects.
//!
//! The checks are those written for this test, and the library of this scanner version; the objects are the library's
//! examples, the example manifests, and randomly altered objects. `known.yaml` lists known differences with reasons.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use kaudit::{
    judge::{load_options::LoadOptions, rule::Rule, set::PolicySet},
    model::verdict::{Finding, Outcome},
    rego::analysis::yaml,
};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    evaluate_object, object,
    objects::{alter, objects},
};

/// Number of variants of each object.
const ALTERATIONS: u64 = 8;

/// Package, rule and message of each failure.
type Failures = BTreeSet<[String; 3]>;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/trivy")
}

/// Returns Trivy's results for each object; `data` are data folders below that of the checks.
fn by_trivy(checks: &Path, data: &[&str], objects: &[Value]) -> Vec<Failures> {
    #[derive(Deserialize)]
    struct TrivyFailure {
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
    let failures = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Vec<TrivyFailure>>();
    let each = failures.map(|failures| {
        failures.unwrap().into_iter().map(|TrivyFailure { package, rule, message }| [package, rule, message]).collect()
    });
    each.collect()
}

/// Returns kaudit's results for each object, including errors.
fn by_kaudit(policies: &Arc<PolicySet>, objects: &[Value]) -> Vec<Failures> {
    let failure = |Finding { rule, message, outcome, .. }: &Finding| {
        let prefix = if *outcome == Outcome::Fail { "" } else { "not evaluated: " };
        [rule.policy.to_string(), rule.name.to_string(), format!("{prefix}{message}")]
    };
    objects.iter().map(|value| evaluate_object(policies, object(value)).results.iter().map(failure).collect()).collect()
}

/// Removes the messages of rules whose messages contain fields that Trivy adds to each object, locations, or a number
/// instead of a text, as its OPA version differs from the latest.
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

/// A known, intended difference.
#[derive(Deserialize)]
struct KnownDifference {
    package: String,
    reason: String,
}

/// Returns the packages with different results, each with an example.
fn differences(checks: &Path, data: &[&str], objects: &[Value]) -> (BTreeMap<String, String>, usize) {
    let policies = Arc::new(PolicySet::load(&[checks.to_owned()]).unwrap_or_else(|why| panic!("{why}")));
    let (trivy, kaudit) = (by_trivy(checks, data, objects), by_kaudit(&policies, objects));
    assert_eq!(trivy.len(), objects.len());
    let mut differences = BTreeMap::new();
    for ((trivy, kaudit), object) in trivy.iter().zip(&kaudit).zip(objects) {
        let (trivy, kaudit) = (comparable(trivy, trivy), comparable(kaudit, trivy));
        for (one, by) in [(trivy.difference(&kaudit), "Trivy"), (kaudit.difference(&trivy), "kaudit")] {
            for [package, rule, message] in one {
                let text = || format!("only {by} reports {rule}: {message}\n  of {object}");
                differences.entry(package.clone()).or_insert_with(text);
            }
        }
    }
    (differences, trivy.iter().map(BTreeSet::len).sum())
}

/// Alters everything except kind and names, which are always strings.
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

/// Removes values that Trivy reads differently: an empty array becomes null, and an object has one more field, which is
/// visible where an array is expected.
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
    let documents: Vec<Value> = yaml::from_multiple(text).unwrap_or_default();
    documents.into_iter().filter(|object| object["kind"].is_string() && object["metadata"].is_object()).collect()
}

/// Copies the modules of the library without their tests, as shipped with Trivy, and returns its examples.
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
            let file: Value = yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap_or_default();
            let texts = ["good", "bad"].map(|kind| file["kubernetes"][kind].as_array().cloned().unwrap_or_default());
            let texts = texts.iter().flatten().filter_map(Value::as_str);
            examples.extend(texts.flat_map(documents));
        }
    }
}

#[test]
fn results_equal_those_of_trivy_for_all_check_forms() {
    if !require_tool(Tool::Trivy) {
        return;
    }
    let mut objects = objects();
    objects.extend(documents(&fs::read_to_string(folder().join("objects.yaml")).unwrap()));
    let (differences, results) = differences(&folder().join("checks"), &["."], &altered(&objects));
    assert!(results > 1_000, "only {results} results");
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn compliance_specifications_are_frameworks() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "check.rego",
        "# METADATA\n# title: No latest\n# custom:\n#   id: X-0001\n#   avd_id: AVD-X-0001\n#   input: {selector: [{type: \
         kubernetes}]}\npackage builtin.kubernetes.X0001\n\ndeny contains res if {\n\tres := result.new(\"no\", {})\n}\n",
    );
    write(
        "acme.yaml",
        "spec:\n  id: acme-1.0\n  title: Acme\n  relatedResources: [https://example.com]\n  version: '1.0'\n  controls:\n  - {id: \
         '1.1', name: Images, severity: LOW, checks: [{id: AVD-X-0001}]}\n  - {id: '1.2', name: Nodes, checks: null}\n",
    );
    let load = |framework: &str| {
        let options = LoadOptions { frameworks: vec![framework.to_owned()], ..LoadOptions::default() };
        PolicySet::load_with(&[folder.path().to_owned()], &options)
    };
    let policies = load("acme-1.0:1.1").unwrap();
    assert!(policies.problems.is_empty(), "{:?}", policies.problems);
    let rule = &policies.policies[0].rules[0];
    assert_eq!(rule.metadata.custom["frameworks"], json!({"acme-1.0": ["1.1"]}));
    let unchecked: Vec<_> = policies.frameworks[0].controls.iter().map(|control| control.unchecked.is_some()).collect();
    assert_eq!(unchecked, [false, true]);
    assert!(load("acme-2.0").unwrap_err().to_string().contains("did you mean acme-1.0?"));
    assert!(load("acme-1.0:1.2").is_err(), "no rule is left");
}

#[test]
fn the_kubernetes_specifications_of_trivy_are_read() {
    if !require_tool(Tool::Trivy) {
        return;
    }
    let output = Command::new(tool(Tool::Trivy).unwrap()).arg("library").output().unwrap();
    let library = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let copy = tempfile::tempdir().unwrap();
    for part in ["checks", "lib"] {
        copy_library(&library.join(part), &copy.path().join(part), &mut Vec::new());
    }
    let sources = [copy.path().to_owned(), library.join("pkg/compliance")];
    let policies = PolicySet::load_with(&sources, &LoadOptions::default()).unwrap();
    let served = |name: &str| {
        let rules = policies.policies.iter().flat_map(|policy| &policy.rules);
        let names = |rule: &&Rule| rule.metadata.custom.get("frameworks").is_some_and(|own| own.get(name).is_some());
        rules.filter(names).count()
    };
    let tables: Vec<&str> = policies.frameworks.iter().map(|table| table.name.as_str()).collect();
    assert!(served("k8s-nsa-1.0") > 10 && served("k8s-pss-baseline-0.1") > 5, "{tables:?}");
}

#[test]
fn results_equal_those_of_trivy_for_its_library() {
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
    let (mut differences, results) = differences(copy.path(), &[], &altered(&objects));
    assert!(results > 5_000, "only {results} results");
    let known = fs::read_to_string(folder().join("known.yaml")).unwrap();
    for KnownDifference { package, reason } in yaml::from_str::<Vec<KnownDifference>>(&known).unwrap() {
        assert!(differences.remove(&package).is_some(), "{package} is judged as Trivy does, take it away: {reason}");
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
