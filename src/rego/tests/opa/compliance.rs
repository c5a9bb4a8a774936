//! OPA's own compliance cases, evaluated by kaudit.
//!
//! `known.yaml` lists the groups of cases that are refused on purpose, and each case that ends in an error. The list
//! may only shrink: a listed case that passes fails the test, like any other case that does not. Cases that `opa eval`
//! refuses because of a check that OPA's own tests skip must be refused by both, which is compared as well.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_rego::{Value, analysis::yaml};
use kaudit_test_support::opa::{limits, policies};
use regorus::Engine;
use serde::Deserialize;

use super::{from_json, without_sets};

/// One case as printed by the tool. Numbers keep their notation.
#[derive(Deserialize)]
struct Case {
    note: String,
    version: String,
    group: String,
    query: String,
    #[serde(default)]
    modules: Vec<String>,
    data: Option<serde_json::Value>,
    input: Option<serde_json::Value>,
    /// The input as a Rego term; takes precedence over `input`.
    input_term: Option<String>,
    want_result: Option<Vec<BTreeMap<String, serde_json::Value>>>,
    want_error_code: Option<String>,
    want_error: Option<String>,
    #[serde(default)]
    sort_bindings: bool,
    #[serde(default)]
    strict_error: bool,
}

/// The outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CaseOutcome {
    /// The same as in OPA.
    Pass,
    /// An error where OPA has a value.
    ErrorOnly(String),
    /// A different value than in OPA.
    WrongValue(String),
}

/// Cases that are known not to pass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownCases {
    /// Groups of cases by reason; their outcomes are ignored.
    excluded: BTreeMap<String, BTreeSet<String>>,
    /// Cases by reason that end with an error.
    errors: BTreeMap<String, BTreeSet<String>>,
    /// Cases by reason that kaudit and `opa eval` refuse.
    refused: BTreeMap<String, BTreeSet<String>>,
}

impl Case {
    fn name(&self) -> String {
        format!("{} {}", self.version, self.note)
    }

    fn run(&self) -> CaseOutcome {
        let names: BTreeSet<&str> =
            self.want_result.iter().flatten().flat_map(BTreeMap::keys).map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let input = match (&self.input_term, &self.input) {
            (Some(term), _) => rego_term(term),
            (None, Some(input)) => from_json(input),
            (None, None) => Value::Undefined,
        };
        let data = self.data.clone().unwrap_or_else(|| serde_json::json!({}));
        let policies = policies(None, &self.modules, &data, &limits(self.strict_error));
        let query = policies.and_then(|policies| policies.query(&self.query, &names));
        let answer = match query {
            Ok(query) => query.solutions(&input).map_err(|why| format!("failed: {why}")),
            Err(why) => Err(format!("refused: {why}")),
        };
        let error = self.want_error.as_ref().or(self.want_error_code.as_ref());
        match (answer, error) {
            (Err(_), Some(_)) => CaseOutcome::Pass,
            (Ok(answers), Some(error)) => CaseOutcome::WrongValue(format!("{answers:?} instead of the error {error}")),
            (Err(why), None) => CaseOutcome::ErrorOnly(why),
            (Ok(answers), None) => self.compare(&answers),
        }
    }

    /// Whether `opa eval` refuses the case.
    fn is_refused_by_opa(&self) -> bool {
        let folder = tempfile::tempdir().unwrap();
        for (index, module) in self.modules.iter().enumerate() {
            fs::write(folder.path().join(format!("{index}.rego")), module).unwrap();
        }
        let data = self.data.as_ref().map_or_else(|| "{}".to_owned(), ToString::to_string);
        fs::write(folder.path().join("data.json"), data).unwrap();
        let mut command = Command::new(tool(Tool::Opa).unwrap());
        command.arg("eval").args((self.version == "v0").then_some("--v0-compatible"));
        let output = command.arg("--data").arg(folder.path()).arg(&self.query).output().unwrap();
        !output.status.success()
    }

    fn compare(&self, answers: &[Value]) -> CaseOutcome {
        let wanted: BTreeSet<Value> = self
            .want_result
            .iter()
            .flatten()
            .map(|bindings| {
                let entry = |(key, value): (&String, &serde_json::Value)| {
                    (Value::from(key.as_str()), self.sorted(from_json(value)))
                };
                Value::from(bindings.iter().map(entry).collect::<BTreeMap<_, _>>())
            })
            .collect();
        let got: BTreeSet<Value> = answers
            .iter()
            .map(|bindings| {
                let Value::Object(entries) = bindings else { panic!("no bindings: {bindings}") };
                let entry = |(key, value): (&Value, &Value)| (key.clone(), self.sorted(without_sets(value)));
                Value::from(entries.iter().map(entry).collect::<BTreeMap<_, _>>())
            })
            .collect();
        if wanted == got {
            CaseOutcome::Pass
        } else {
            CaseOutcome::WrongValue(format!("{got:?} instead of {wanted:?}"))
        }
    }

    /// Sorts a list that represents a set.
    fn sorted(&self, value: Value) -> Value {
        match &value {
            Value::Array(items) if self.sort_bindings => {
                let mut items = items.to_vec();
                items.sort();
                Value::from(items)
            }
            _ => value,
        }
    }
}

/// Parses a term that JSON cannot represent.
fn rego_term(term: &str) -> Value {
    let mut results = Engine::new().eval_query(term.to_owned(), false).unwrap();
    results.result.remove(0).expressions.remove(0).value
}

/// Runs all cases on two threads; returns the outcomes in the order of the cases.
fn run(cases: &[Case]) -> Vec<CaseOutcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, case)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, cases.get(i)?)))
        {
            done.push((index, case.run()));
        }
        done
    };
    let mut outcomes: Vec<(usize, CaseOutcome)> = thread::scope(|scope| {
        let spawn = || thread::Builder::new().stack_size(16 << 20).spawn_scoped(scope, work).unwrap();
        let threads = [spawn(), spawn()];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn opa_compliance_cases_pass() {
    if !require_tool(Tool::OpaCases) || !require_tool(Tool::Opa) {
        return;
    }
    let printed = Command::new(tool(Tool::OpaCases).unwrap()).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let cases: Vec<Case> = printed
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert!(cases.len() > 4_000, "{}", cases.len());
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opa");
    let known: KnownCases = yaml::from_str(&fs::read_to_string(here.join("known.yaml")).unwrap()).unwrap();
    let reason = |list: &BTreeMap<String, BTreeSet<String>>, name: &str| {
        list.iter().find(|(_, names)| names.contains(name)).map(|(reason, _)| reason.clone())
    };
    let mut wrong = String::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (case, outcome) in cases.iter().zip(run(&cases)) {
        let name = case.name();
        let mut count = |label: String| *counts.entry(label).or_default() += 1;
        match (outcome, reason(&known.errors, &name)) {
            (CaseOutcome::Pass, None) if reason(&known.refused, &name).is_none() => count("passed".to_owned()),
            (CaseOutcome::ErrorOnly(_), Some(reason)) => count(format!("known error: {reason}")),
            (CaseOutcome::ErrorOnly(_), None)
                if reason(&known.refused, &name).is_some() && case.is_refused_by_opa() =>
            {
                count(format!("refused by opa eval: {}", reason(&known.refused, &name).unwrap()));
            }
            (CaseOutcome::ErrorOnly(_), None) if reason(&known.excluded, &case.group).is_some() => {
                count(format!("excluded: {}", reason(&known.excluded, &case.group).unwrap()));
            }
            (outcome, ..) => {
                count("wrong".to_owned());
                let _ = writeln!(wrong, "{name} [{}]: {outcome:?}", case.group);
            }
        }
    }
    for (label, count) in &counts {
        println!("{count:5} {label}");
    }
    assert!(wrong.is_empty(), "passes now (remove it from the list), or differs from OPA:\n{wrong}\n{counts:#?}");
}
