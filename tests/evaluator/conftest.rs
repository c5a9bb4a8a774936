//! Compares conftest and kaudit with the same policies, data and manifests: results, exceptions, messages and details.

use std::{collections::BTreeSet, path::Path, process::Command};

use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::{Map, Value};

/// File, outcome, rule with its package, message and other fields of the result; exceptions have no message.
type Results = BTreeSet<[String; 5]>;

fn run(program: &Path, arguments: &[&str]) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/conftest");
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    // conftest needs a home directory for plugins, even without any.
    command.env_clear().env("HOME", home.path()).current_dir(folder);
    let output = command.args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}: {stderr}", program.display());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {stderr}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// Returns the other fields of a result in one form: kaudit takes a lone `details` as the details themselves.
fn details(mut fields: Map<String, Value>) -> String {
    if fields.len() == 1
        && let Some(Value::Object(details)) = fields.remove("details")
    {
        fields = details;
    }
    Value::from(fields).to_string()
}

fn by_conftest() -> Results {
    // In this mode modules that import rego.v1 are v1, and all others v0.
    let version = ["test", "--rego-version", "v0", "--all-namespaces", "--output", "json"];
    let files = ["--policy", "policy", "--data", "data", "objects"];
    let output = run(&tool(Tool::Conftest).unwrap(), &[&version[..], &files[..]].concat());
    let mut results = Results::new();
    for part in output.as_array().unwrap() {
        let (file, namespace) = (text(&part["filename"]), text(&part["namespace"]));
        let each = |key: &str| part[key].as_array().cloned().unwrap_or_default();
        for (key, outcome) in [("failures", "fail"), ("warnings", "warn")] {
            for mut result in each(key) {
                let mut fields = std::mem::take(result["metadata"].as_object_mut().unwrap());
                let rule = text(&fields.remove("query").unwrap());
                let rule = rule.strip_prefix("data.").unwrap().to_owned();
                // kaudit has a separate field for the severity.
                fields.remove("severity");
                results.insert([file.clone(), outcome.to_owned(), rule, text(&result["msg"]), details(fields)]);
            }
        }
        // Listed once for each rule with this suffix, whether the rule has results or not.
        for exception in each("exceptions") {
            let query = text(&exception["msg"]);
            let suffix = query.rsplit_once("== ").unwrap().1.trim_matches('"');
            results.insert([file.clone(), "skip".to_owned(), namespace.clone(), suffix.to_owned(), String::new()]);
        }
    }
    results
}

fn by_kaudit() -> Results {
    let arguments = ["check", "-p", "policy", "-p", "data", "-f", "objects", "-o", "json", "--fail-on", "none"];
    let output = run(Path::new(env!("CARGO_BIN_EXE_kaudit")), &arguments);
    let entries = output["results"].as_array().unwrap();
    let results = entries.iter().map(|entry| {
        let (file, outcome) = (text(&entry["location"]["file"]), text(&entry["result"]));
        let (policy, rule) = (text(&entry["policy"]), text(&entry["rule"]));
        if outcome == "skip" {
            let suffix = rule.split_once('_').map_or("", |(_, suffix)| suffix).to_owned();
            return [file, outcome, policy, suffix, String::new()];
        }
        let fields = entry["details"].as_object().cloned().unwrap_or_default();
        [file, outcome, format!("{policy}.{rule}"), text(&entry["message"]), details(fields)]
    });
    results.collect()
}

#[test]
fn results_equal_those_of_conftest() {
    if !require_tool(Tool::Conftest) {
        return;
    }
    let conftest = by_conftest();
    for outcome in ["fail", "warn", "skip"] {
        assert!(conftest.iter().any(|result| result[1] == outcome), "{conftest:#?}");
    }
    assert_eq!(by_kaudit(), conftest);
}
