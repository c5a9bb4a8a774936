//! The shipped policies: their own tests, their annotations, and their results for the example manifests, by the real
//! `opa` and by kaudit.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use insta_cmd::assert_cmd_snapshot;
use kaudit::{
    judge::{rule::Rule, set::PolicySet},
    rego::analysis::yaml,
};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::{Value, json};

mod mutants;
mod mutation;

/// Runs a program from the root, as documented; returns its standard output if the exit code is one of `codes`.
fn run(program: &Path, arguments: &[&str], codes: &[i32]) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear().output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let code = output.status.code();
    assert!(code.is_some_and(|code| codes.contains(&code)), "{arguments:?}: {code:?}\n{stdout}{stderr}");
    stdout
}

/// Loads the library; panics on problems.
fn library() -> PolicySet {
    let set = PolicySet::load(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("policies")]).unwrap();
    assert!(set.problems.is_empty(), "{:?}", set.problems);
    set
}

/// Returns the names of all policies and their rules.
fn rules(set: &PolicySet) -> impl Iterator<Item = (&str, &Rule)> {
    set.policies.iter().flat_map(|policy| policy.rules.iter().map(|rule| (&*policy.name, rule)))
}

#[test]
fn opa_finds_no_problems() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let opa = tool(Tool::Opa).unwrap();
    let passed = run(&opa, &["test", "policies", "--timeout", "60s"], &[0]);
    let count = |part: &str| part.parse::<usize>().unwrap();
    let (all, of) = passed.trim().rsplit_once("PASS: ").and_then(|(_, counts)| counts.split_once('/')).unwrap();
    assert!(count(all) >= 50 && count(all) == count(of), "{passed}");
    run(&opa, &["check", "--strict", "policies"], &[0]);
    run(&opa, &["fmt", "--diff", "--fail", "policies"], &[0]);
}

#[test]
fn every_rule_has_annotations() {
    let set = library();
    let mut ids = BTreeMap::new();
    for policy in &set.policies {
        let package = &policy.metadata;
        assert!(package.info.title.is_some() && package.description.is_some(), "package {}", policy.name);
        for rule in &policy.rules {
            let (metadata, name) = (&rule.metadata, format!("{}/{}", policy.name, rule.name));
            // Rules inherit missing annotations from their package.
            assert!(metadata.info.title.is_some() && metadata.info.title != package.info.title, "title of {name}");
            assert!(
                metadata.description.is_some() && metadata.description != package.description,
                "description of {name}"
            );
            assert!(metadata.severity.is_some(), "severity of {name}");
            assert!(!metadata.related_resources.is_empty(), "related resources of {name}");
            let id = metadata.info.id.clone().unwrap_or_else(|| panic!("id of {name}"));
            if let Some(other) = ids.insert(id.clone(), name.clone()) {
                panic!("{id} is both {other} and {name}");
            }
        }
    }
}

/// A result for an object: policy, rule, message, the severity if it is not the rule's, and details as JSON.
type FoundResult = (String, String, String, String, String);
type FoundResults = BTreeSet<FoundResult>;

/// Returns kaudit's results for manifests, by object.
fn by_kaudit(set: &PolicySet, manifests: &Path) -> BTreeMap<String, FoundResults> {
    let severities = severities(set);
    let kaudit = Path::new(env!("CARGO_BIN_EXE_kaudit"));
    let arguments =
        ["check", "--secrets", "full", "--files-are-complete", "-o", "json", "-f", manifests.to_str().unwrap()];
    let result: Value = serde_json::from_str(&run(kaudit, &arguments, &[1])).unwrap();
    let mut found: BTreeMap<String, FoundResults> = BTreeMap::new();
    for entry in result["results"].as_array().unwrap() {
        let texts = ["policy", "rule", "message", "severity"].map(|key| entry[key].as_str().unwrap().to_owned());
        let [policy, rule, message, mut severity] = texts;
        if severities[&(policy.clone(), rule.clone())] == severity {
            severity.clear();
        }
        let resource = &entry["resource"];
        let name = object_name(&json!({"kind": resource["kind"], "metadata": resource}));
        assert!(found.entry(name).or_default().insert((policy, rule, message, severity, entry["details"].to_string())));
    }
    found
}

/// Returns the severity of every rule, by policy and name.
fn severities(set: &PolicySet) -> BTreeMap<(String, String), String> {
    let word = |rule: &Rule| rule.metadata.severity.unwrap().word().to_owned();
    rules(set).map(|(policy, rule)| ((policy.to_owned(), rule.name.to_string()), word(rule))).collect()
}

/// Returns the inventory of objects, in Gatekeeper's layout.
fn inventory(objects: &[Value]) -> Value {
    let mut inventory = json!({});
    for object in objects {
        let metadata = &object["metadata"];
        let place = match metadata["namespace"].as_str() {
            Some(namespace) => &mut inventory["namespace"][namespace],
            None => &mut inventory["cluster"],
        };
        let [version, kind, name] = [&object["apiVersion"], &object["kind"], &metadata["name"]];
        place[version.as_str().unwrap()][kind.as_str().unwrap()][name.as_str().unwrap()] = object.clone();
    }
    json!({ "inventory": inventory })
}

/// Returns opa's results for objects.
fn by_opa(set: &PolicySet, objects: &[Value]) -> BTreeMap<String, FoundResults> {
    let queries: Vec<String> =
        rules(set).map(|(policy, rule)| format!("[\"{policy}\", \"{0}\", data.{policy}.{0}]", rule.name)).collect();
    let query =
        format!("answers := [answer | some object in input; answer := [{}] with input as object]", queries.join(", "));
    let inputs = tempfile::tempdir().unwrap();
    let input = inputs.path().join("objects.json");
    fs::write(&input, serde_json::to_vec(&objects).unwrap()).unwrap();
    let data = inputs.path().join("data.json");
    fs::write(&data, inventory(objects).to_string()).unwrap();
    let [input, data] = [&input, &data].map(|path| path.to_str().unwrap());
    let arguments = ["eval", "--data", "policies", "--data", data, "--input", input, "--fail", &query];
    let output: Value = serde_json::from_str(&run(&tool(Tool::Opa).unwrap(), &arguments, &[0])).unwrap();
    let answers = output["result"][0]["bindings"]["answers"].as_array().unwrap();
    assert_eq!(answers.len(), objects.len());
    let mut found: BTreeMap<String, FoundResults> = BTreeMap::new();
    for (object, answers) in objects.iter().zip(answers) {
        let name = object_name(object);
        for answer in answers.as_array().unwrap() {
            let [policy, rule] = [0, 1].map(|index| answer[index].as_str().unwrap().to_owned());
            for result in answer[2].as_array().unwrap() {
                let message = result["msg"].as_str().unwrap().to_owned();
                let severity = result["severity"].as_str().unwrap_or_default().to_owned();
                let one = (policy.clone(), rule.clone(), message, severity, result["details"].to_string());
                assert!(found.entry(name.clone()).or_default().insert(one));
            }
        }
    }
    found
}

/// Returns the folder of the example manifests.
fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests")
}

/// Returns the objects of the example manifests.
fn examples() -> Vec<Value> {
    let mut files: Vec<PathBuf> = fs::read_dir(manifests()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| yaml::from_multiple::<Value>(&fs::read_to_string(file).unwrap()).unwrap();
    files.iter().flat_map(read).collect()
}

/// Returns kind, namespace and name.
fn object_name(object: &Value) -> String {
    let parts = [&object["kind"], &object["metadata"]["namespace"], &object["metadata"]["name"]];
    parts.map(|part| part.as_str().unwrap_or_default()).join("/")
}

#[test]
fn results_of_the_examples_equal_those_of_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let objects = examples();
    assert!(objects.len() >= 10, "{}", objects.len());
    let set = library();
    let opa = by_opa(&set, &objects);
    assert!(opa.len() >= 5, "{opa:?}");
    assert_eq!(by_kaudit(&set, &manifests()), opa);
}

#[test]
fn an_ingress_with_thousands_of_hosts_is_evaluated_in_time() {
    let host = |prefix: &str, number: usize| format!("{prefix}{number}.example.com");
    let rules: Vec<Value> = (0..4_000).map(|number| json!({"host": host("shop", number)})).collect();
    let tls: Vec<Value> = (0..4_000).map(|number| json!({"hosts": [host("other", number)]})).collect();
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop"},
        "spec": {"rules": rules, "tls": tls}});
    let directory = tempfile::tempdir().unwrap();
    let manifest = directory.path().join("ingress.json");
    fs::write(&manifest, ingress.to_string()).unwrap();
    let kaudit = Path::new(env!("CARGO_BIN_EXE_kaudit"));
    let arguments = ["check", "-o", "json", "-f", manifest.to_str().unwrap(), "-p", "policies/ingress.rego"];
    let result: Value = serde_json::from_str(&run(kaudit, &arguments, &[0, 1, 3])).unwrap();
    let errors: Vec<&Value> =
        result["results"].as_array().unwrap().iter().filter(|entry| entry["result"] == "error").collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(result["summary"]["warn"], 50, "as many as are listed of one rule");
}

#[test]
fn the_examples_look_like_this() {
    let mut kaudit = Command::new(env!("CARGO_BIN_EXE_kaudit"));
    kaudit.env_clear().current_dir(env!("CARGO_MANIFEST_DIR")).args(["check", "-f", "examples/manifests"]);
    assert_cmd_snapshot!("examples", kaudit);
}
