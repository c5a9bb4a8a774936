//! Compares kaudit with the real `opa`: the cases of `fidelity/*.yaml`, each in the Rego versions that it supports.
//!
//! A module is in package `test` or below; `deny` returns strings. All cases of a version are one query to one `opa`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    sync::Arc,
};

use kaudit::{judge::set::PolicySet, model::verdict::Outcome, rego::analysis::yaml};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde::Deserialize;
use serde_json::Value;

use crate::{evaluate_object, object};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    note: String,
    /// The module in Rego v0.
    v0: Option<String>,
    /// The module in Rego v1.
    v1: Option<String>,
    /// Further modules, which are valid in both versions.
    #[serde(default)]
    with: Vec<String>,
    inputs: Vec<Value>,
}

/// The Rego version of a batch of cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V0,
    V1,
}

impl Case {
    /// Returns the modules of a version, in unique packages.
    fn modules(&self, index: usize, version: Version) -> Option<Vec<String>> {
        let own = if version == Version::V0 { &self.v0 } else { &self.v1 };
        let module = own.as_ref()?;
        let package = |text: &String| {
            text.replace("package test", &format!("package case_{index}"))
                .replace("data.test", &format!("data.case_{index}"))
        };
        Some(std::iter::once(module).chain(&self.with).map(package).collect())
    }
}

/// The results for one input, or an error.
type CaseResults = Result<BTreeSet<String>, String>;

/// Returns the results of `opa`, by case and input.
fn by_opa(cases: &[Case], version: Version) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let root = tempfile::tempdir().unwrap();
    let open = if version == Version::V0 { "{" } else { "if {" };
    let mut questions = String::from("package questions\n\n");
    for (index, case) in cases.iter().enumerate() {
        let Some(modules) = case.modules(index, version) else { continue };
        for (number, text) in modules.iter().enumerate() {
            fs::write(root.path().join(format!("case_{index}_{number}.rego")), text).unwrap();
        }
        for (number, input) in case.inputs.iter().enumerate() {
            let _ = writeln!(
                questions,
                "found[\"{index}/{number}\"] = x {open} x = data.case_{index}.deny with input as {input} }}"
            );
        }
    }
    fs::write(root.path().join("questions.rego"), questions).unwrap();
    let flag = if version == Version::V0 { "--v0-compatible" } else { "--v1-compatible" };
    let mut opa = Command::new(tool(Tool::Opa).unwrap());
    let output = opa
        .args(["eval", flag, "--format", "json", "--data"])
        .arg(root.path())
        .arg("data.questions.found")
        .env_clear()
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // There was no case, or nothing is defined.
    if answer == serde_json::json!({}) {
        return Ok(BTreeMap::new());
    }
    let Some(found) = answer.pointer("/result/0/expressions/0/value").and_then(Value::as_object) else {
        let error = answer.pointer("/errors/0").cloned().unwrap_or_default();
        return Err(format!("{} at {}", error["message"], error["location"]));
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let texts = |value: &Value| value.as_array().unwrap().iter().map(text).collect();
    Ok(found.iter().map(|(key, value)| (key.clone(), texts(value))).collect())
}

/// Returns kaudit's results for each input of one case.
fn by_kaudit(case: &Case, index: usize, version: Version) -> Vec<CaseResults> {
    let root = tempfile::tempdir().unwrap();
    for (number, text) in case.modules(index, version).unwrap_or_default().iter().enumerate() {
        fs::write(root.path().join(format!("case_{number}.rego")), text).unwrap();
    }
    let policies = match PolicySet::load(&[root.path().to_owned()]) {
        Ok(policies) => Arc::new(policies),
        Err(why) => return case.inputs.iter().map(|_| Err(why.to_string())).collect(),
    };
    case.inputs.iter().map(|input| found(&policies, input)).collect()
}

fn found(policies: &Arc<PolicySet>, input: &Value) -> CaseResults {
    let verdict = evaluate_object(policies, object(input));
    match verdict.results.iter().find(|finding| finding.outcome == Outcome::Error) {
        Some(failed) => Err(failed.message.to_string()),
        None => Ok(verdict.results.iter().map(|finding| finding.message.to_string()).collect()),
    }
}

/// Returns the differences between the two.
fn differences(cases: &[Case], version: Version) -> Vec<String> {
    let opa = match by_opa(cases, version) {
        Ok(opa) => opa,
        Err(all) => {
            // Find the case that `opa` rejects.
            let alone = |index: usize| {
                by_opa(&cases[index..=index], version).err().map(|why| format!("{}: opa: {why}", cases[index].note))
            };
            let blamed: Vec<String> = (0..cases.len()).filter_map(alone).collect();
            return if blamed.is_empty() { vec![all] } else { blamed };
        }
    };
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate().filter(|(index, case)| case.modules(*index, version).is_some()) {
        for (number, kaudit) in by_kaudit(case, index, version).into_iter().enumerate() {
            let opa = opa.get(&format!("{index}/{number}")).cloned().unwrap_or_default();
            if kaudit.as_ref() != Ok(&opa) {
                let input = &case.inputs[number];
                differences.push(format!("{version:?} {}: {input}\n  opa    {opa:?}\n  kaudit {kaudit:?}", case.note));
            }
        }
    }
    differences
}

#[test]
fn results_equal_those_of_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/fidelity");
    let mut cases: Vec<Case> = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let read: Vec<Case> = yaml::from_str(&fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        cases.extend(read);
    }
    assert!(!cases.is_empty(), "no cases");
    let differences: Vec<String> =
        [Version::V0, Version::V1].into_iter().flat_map(|version| differences(&cases, version)).collect();
    assert!(
        differences.is_empty(),
        "{} differences in {} cases\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n")
    );
}
