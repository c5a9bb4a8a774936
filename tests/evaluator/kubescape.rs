//! Rules in Kubescape's layout: kaudit's answers to the cases that come with the rules, and those of the real `opa` to the array
//! that Kubescape builds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate},
        inventory::Inventory,
        set::PolicySet,
    },
    model::verdict::{Finding, Outcome},
};
use serde_json::Value;

use crate::object;

const PATHS: [&str; 4] = ["failedPaths", "reviewPaths", "deletePaths", "fixPaths"];

/// A result, by whom it is about, as far as expected results show it: kind, name, message, and the paths that are not empty.
type Row = (String, String, String, String);

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn paths(of: &Value) -> String {
    let lists = PATHS.iter().filter(|key| of[**key].as_array().is_some_and(|list| !list.is_empty()));
    let mut shown: Vec<String> = lists.map(|key| format!("{key} {}", of[*key])).collect();
    shown.sort();
    shown.join(" ")
}

/// Returns what Kubescape reports: a row for each object that a result names.
fn expected(responses: &[Value], given: &[Value]) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for response in responses {
        let about = &response["alertObject"];
        let objects = about["k8sApiObjects"].as_array().cloned().unwrap_or_default();
        let related = about.pointer("/externalObjects/relatedObjects").and_then(Value::as_array);
        let binding = related.and_then(|related| related.iter().find(|one| text(one, "/kind").ends_with("Binding")));
        let external = &about["externalObjects"];
        let is_named = |one: &&Value| {
            text(one, "/metadata/name") == text(external, "/name")
                && text(one, "/kind") == text(external, "/kind")
                && text(one, "/metadata/namespace") == text(external, "/namespace")
        };
        let named = given.iter().find(is_named);
        let external = if text(external, "/metadata/name").is_empty() { named } else { Some(external) };
        for object in objects.iter().chain(external.or(binding)) {
            let row = (text(object, "/kind"), text(object, "/metadata/name"), text(response, "/alertMessage"));
            rows.insert((row.0.to_owned(), row.1.to_owned(), row.2.to_owned(), paths(response)));
        }
    }
    rows
}

/// Judges objects together.
fn judged(policies: &PolicySet, objects: &[Value]) -> Vec<(Value, Finding)> {
    let mut inventory = Inventory::default();
    for value in objects {
        inventory.put(&object(value).key, Some(&regorus::Value::from_json_str(&value.to_string()).unwrap()));
    }
    let policies = Arc::new(policies.with_inventory(&inventory).unwrap());
    let mut all = Vec::new();
    for value in objects {
        let policies = Arc::clone(&policies);
        let job = Job { object: object(value), previous: None, deleted: false, namespace: None, policies };
        all.extend(evaluate(&job).results.into_iter().map(|finding| (value.clone(), finding)));
    }
    all
}

fn rows(findings: &[(Value, Finding)]) -> BTreeSet<Row> {
    let row = |(object, finding): &(Value, Finding)| {
        let details = finding.details.as_ref().map_or(Value::Null, |details| Value::Object((**details).clone()));
        let message = match finding.outcome {
            Outcome::Error => format!("error: {}", finding.message),
            _ => finding.message.to_string(),
        };
        (text(object, "/kind").to_owned(), text(object, "/metadata/name").to_owned(), message, paths(&details))
    };
    findings.iter().map(row).collect()
}

fn read(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let documents: Vec<Value> = if path.extension().is_some_and(|ending| ending == "json") {
        vec![serde_json::from_str(&text).unwrap()]
    } else {
        serde_saphyr::from_multiple(&text).unwrap()
    };
    documents
        .into_iter()
        .flat_map(|document| match document {
            Value::Array(items) => items,
            other => vec![other],
        })
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the controls that name a rule.
fn controls_of(library: &Path, rule: &Path) -> Vec<PathBuf> {
    let name = fs::read_to_string(rule.join("rule.metadata.json")).unwrap();
    let name = serde_json::from_str::<Value>(&name).unwrap()["name"].to_string();
    let names = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains(&name));
    files(&library.join("controls")).into_iter().filter(names).collect()
}

/// What became of the cases of a library.
#[derive(Default)]
struct Outcomes {
    equal: usize,
    left_out: usize,
    different: BTreeMap<String, String>,
}

/// Runs the cases of a library: `rules/*/test/*/{input,data.json,expected.json}`.
fn run(library: &Path) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let inputs = library.join("default-config-inputs.json");
    for rule in files(&library.join("rules")).into_iter().filter(|rule| rule.join("rule.metadata.json").exists()) {
        let controls = controls_of(library, &rule);
        for case in files(&rule.join("test")).iter().filter(|case| case.join("expected.json").exists()) {
            // A file below the rule is the rule's; this one is the user's.
            let own = tempfile::tempdir().unwrap();
            let own_inputs = own.path().join("data.json");
            let _none = fs::copy(case.join("data.json"), &own_inputs);
            let sources = [rule.clone(), inputs.clone(), own_inputs];
            let sources: Vec<PathBuf> = sources.into_iter().filter(|source| source.exists()).collect();
            let named = sources.iter().cloned().chain(controls.clone());
            let name = case.strip_prefix(library.join("rules")).unwrap().to_string_lossy().into_owned();
            // Some controls are for one cloud, and judge by themselves nothing elsewhere.
            let loaded = PolicySet::load(&named.collect::<Vec<_>>()).or_else(|_| PolicySet::load(&sources));
            let policies = match loaded {
                Ok(policies) => policies,
                Err(why) if why.to_string().contains("no rule to judge by") => {
                    outcomes.left_out += 1;
                    continue;
                }
                Err(why) => {
                    outcomes.different.insert(name, why.to_string());
                    continue;
                }
            };
            let objects: Vec<Value> = files(&case.join("input")).iter().flat_map(|file| read(file)).collect();
            let wanted = match read(&case.join("expected.json")).as_slice() {
                [Value::Null] => BTreeSet::new(),
                responses => expected(responses, &objects),
            };
            let own = rows(&judged(&policies, &objects));
            if own == wanted {
                outcomes.equal += 1;
            } else {
                let missing = wanted.difference(&own).map(|row| format!("- {row:?}"));
                let added = own.difference(&wanted).map(|row| format!("+ {row:?}"));
                outcomes.different.insert(name, missing.chain(added).collect::<Vec<_>>().join("\n"));
            }
        }
    }
    outcomes
}

/// With `KAUDIT_TEST_REGOLIBRARY=DIR`, a checkout of Kubescape's library: its own cases. Those that differ are named in
/// `kubescape/differences.yaml`, each with its reason.
#[test]
fn the_cases_of_a_library_come_out_as_they_say() {
    let Some(library) = std::env::var_os("KAUDIT_TEST_REGOLIBRARY") else { return };
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/kubescape/differences.yaml");
    let known: BTreeMap<String, String> = serde_saphyr::from_str(&fs::read_to_string(known).unwrap()).unwrap();
    let Outcomes { equal, left_out, different } = run(Path::new(&library));
    eprintln!("{equal} cases are equal, {} differ, {left_out} are of rules that are left out", different.len());
    let unknown: Vec<String> = different
        .iter()
        .filter(|(name, _)| !known.contains_key(*name))
        .map(|(name, how)| format!("{name}\n{how}"))
        .collect();
    assert!(unknown.is_empty(), "{} new differences:\n{}", unknown.len(), unknown.join("\n"));
    let gone: Vec<&String> = known.keys().filter(|name| !different.contains_key(*name)).collect();
    assert!(gone.is_empty(), "equal now, to be taken off the list: {gone:?}");
    assert!(equal > 800, "{equal} cases");
}
