//! Rules in Kubescape's layout: kaudit's results for the cases that come with the rules, and the results of the real
//! `opa` for the arrays that Kubescape builds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate, with_inventory},
        inventory::Inventory,
        load_options::LoadOptions,
        metadata::Metadata,
        policy::Policy,
        set::PolicySet,
    },
    model::verdict::{Finding, Outcome, RuleDescriptor, Severity, Source},
    rego::analysis::yaml,
};
use kaudit_controlplane::{Tool, require_tool, tool};
use serde_json::{Value, json};

use crate::{object, shown};

const PATHS: [&str; 4] = ["failedPaths", "reviewPaths", "deletePaths", "fixPaths"];

/// A result as comparable with expected results: kind, name, message, and the non-empty paths.
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

/// Returns Kubescape's report: a row for each object that a result names.
fn expected(responses: &[Value], given: &[Value]) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    for response in responses {
        let about = &response["alertObject"];
        // Kubescape reads the keys of results case-insensitively.
        let objects = ["k8sApiObjects", "k8SApiObjects"].into_iter().find_map(|key| about[key].as_array());
        let objects = objects.cloned().unwrap_or_default();
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

/// Evaluates objects together.
fn evaluated(policies: &PolicySet, objects: &[Value]) -> Vec<(Value, Finding)> {
    let mut inventory = Inventory::default();
    for value in objects {
        inventory.put(&object(value).key, Some(&regorus::Value::from_json_str(&value.to_string()).unwrap()));
    }
    let policies = Arc::new(with_inventory(policies, &inventory));
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
        yaml::from_multiple(&text).unwrap()
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

/// Returns the controls that contain a rule.
fn controls_of(library: &Path, rule: &Path) -> Vec<PathBuf> {
    let name = fs::read_to_string(rule.join("rule.metadata.json")).unwrap();
    let name = serde_json::from_str::<Value>(&name).unwrap()["name"].to_string();
    let names = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains(&name));
    files(&library.join("controls")).into_iter().filter(names).collect()
}

/// The outcomes of a library's cases.
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
            // A file below the rule belongs to the rule; this one is the user's.
            let own = tempfile::tempdir().unwrap();
            let own_inputs = own.path().join("data.json");
            let _none = fs::copy(case.join("data.json"), &own_inputs);
            let sources = [rule.clone(), inputs.clone(), own_inputs];
            let sources: Vec<PathBuf> = sources.into_iter().filter(|source| source.exists()).collect();
            let named = sources.iter().cloned().chain(controls.clone());
            let name = case.strip_prefix(library.join("rules")).unwrap().to_string_lossy().into_owned();
            // Some controls are for one cloud provider, and are not evaluated by default.
            let loaded = PolicySet::load(&named.collect::<Vec<_>>()).or_else(|_| PolicySet::load(&sources));
            let policies = match loaded {
                Ok(policies) => policies,
                Err(why) if why.to_string().contains("no rule") => {
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
            let own = rows(&evaluated(&policies, &objects));
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

/// With `KAUDIT_TEST_REGOLIBRARY=DIR`, a checkout of Kubescape's library: its own cases. Known differences are in
/// `kubescape/differences.yaml`, with reasons.
#[test]
fn the_cases_of_a_library_pass() {
    let Some(library) = std::env::var_os("KAUDIT_TEST_REGOLIBRARY") else { return };
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/kubescape/differences.yaml");
    let known: BTreeMap<String, String> = yaml::from_str(&fs::read_to_string(known).unwrap()).unwrap();
    let Outcomes { equal, left_out, different } = run(Path::new(&library));
    eprintln!("{equal} cases are equal, {} differ, {left_out} are of rules that are left out", different.len());
    let unknown: Vec<String> = different
        .iter()
        .filter(|(name, _)| !known.contains_key(*name))
        .map(|(name, how)| format!("{name}\n{how}"))
        .collect();
    assert!(unknown.is_empty(), "{} new differences:\n{}", unknown.len(), unknown.join("\n"));
    let gone: Vec<&String> = known.keys().filter(|name| !different.contains_key(*name)).collect();
    assert!(gone.is_empty(), "these cases are equal now; remove them from differences.yaml: {gone:?}");
    assert!(equal > 800, "{equal} cases");
}

fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/kubescape").join(name)
}

fn metadata(rule: &Path) -> Value {
    read(&rule.join("rule.metadata.json")).remove(0)
}

/// Whether an entry of `match` matches an object; the test rules have one group and version per kind.
fn matches(rule: &Value, object: &Value) -> bool {
    let (group, version) = text(object, "/apiVersion").split_once('/').unwrap_or(("", text(object, "/apiVersion")));
    rule["match"].as_array().unwrap().iter().any(|one| {
        let has = |list: &str, name: &str| one[list].as_array().unwrap().iter().any(|known| known == name);
        has("apiGroups", group) && has("apiVersions", version) && has("resources", text(object, "/kind"))
    })
}

/// Returns the arrays that Kubescape builds for a rule: the objects of each namespace with the cluster-scoped ones, and
/// the latter alone. A Namespace belongs to its own objects.
fn arrays(rule: &Value, objects: &[Value]) -> Vec<Vec<Value>> {
    let mut scopes: BTreeMap<&str, Vec<Value>> = BTreeMap::from([("", Vec::new())]);
    for object in objects.iter().filter(|object| matches(rule, object)) {
        let name = if object["kind"] == "Namespace" { "/metadata/name" } else { "/metadata/namespace" };
        scopes.entry(text(object, name)).or_default().push(object.clone());
    }
    let resident = scopes[""].clone();
    let all = scopes.into_iter().map(|(scope, mut own)| {
        own.extend(resident.iter().filter(|_| !scope.is_empty()).cloned());
        match rule["attributes"]["resourcesAggregator"].as_str() {
            Some("subject-role-rolebinding") => vectors(&own),
            Some("apiserver-pod") => {
                own.retain(|pod| text(pod, "/metadata/namespace") == "kube-system");
                own
            }
            _ => own,
        }
    });
    all.collect()
}

fn vectors(objects: &[Value]) -> Vec<Value> {
    let mut all = Vec::new();
    for binding in objects.iter().filter(|object| object["subjects"].is_array()) {
        let is_role = |object: &&Value| {
            object["kind"] == binding["roleRef"]["kind"] && object["metadata"]["name"] == binding["roleRef"]["name"]
        };
        for role in objects.iter().filter(is_role) {
            for subject in binding["subjects"].as_array().unwrap() {
                let mut vector = subject.clone();
                vector["relatedObjects"] = json!([binding, role]);
                all.push(vector);
            }
        }
    }
    all
}

/// Returns the results of the real `opa` for a rule and an array.
fn opa(rule: &Path, data: &Path, array: &[Value]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.json");
    fs::write(&input, Value::from(array.to_vec()).to_string()).unwrap();
    let helpers = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/judge/dialects/kubescape/cautils.rego");
    let mut command = Command::new(tool(Tool::Opa).unwrap());
    command
        .args(["eval", "--v0-compatible", "--format", "json", "-d"])
        .arg(rule.join("raw.rego"))
        .arg("-d")
        .arg(helpers);
    let output = command.arg("-d").arg(data).arg("-i").arg(input).arg("data.armo_builtins.deny").output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = result.pointer("/result/0/expressions/0/value");
    value.unwrap_or_else(|| panic!("{}: {result}", rule.display())).as_array().unwrap().clone()
}

#[test]
fn results_equal_those_of_opa_for_kubescape_arrays() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let objects = read(&own("objects.yaml"));
    let inputs = own("library/default-config-inputs.json");
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.json");
    fs::write(&data, read(&inputs).remove(0)["settings"].to_string()).unwrap();
    let mut compared_rules = 0;
    for rule in files(&own("library/rules")) {
        // Without its controls a rule is evaluated once.
        let Ok(policies) = PolicySet::load(&[rule.clone(), inputs.clone()]) else { continue };
        let metadata = metadata(&rule);
        let responses: Vec<Value> =
            arrays(&metadata, &objects).iter().flat_map(|array| opa(&rule, &data, array)).collect();
        let wanted = expected(&responses, &objects);
        assert_eq!(rows(&evaluated(&policies, &objects)), wanted, "{}", rule.display());
        assert!(!wanted.is_empty(), "{} has no results", rule.display());
        compared_rules += 1;
    }
    assert_eq!(compared_rules, 6);
}

/// Loads the test library, optionally with a framework.
fn library(framework: Option<&str>, more: &[PathBuf]) -> Result<PolicySet, String> {
    let paths: Vec<PathBuf> = [own("library")].into_iter().chain(more.iter().cloned()).collect();
    let frameworks = framework.map(str::to_owned).into_iter().collect();
    let options = LoadOptions { frameworks, ..LoadOptions::default() };
    PolicySet::load_with(&paths, &options).map_err(|why| why.to_string())
}

fn names(policies: &PolicySet) -> Vec<String> {
    let one = |policy: &Policy| {
        let Metadata { info, severity, .. } = &policy.metadata;
        let severity = severity.map_or("-", Severity::word);
        format!("{}/{} {severity} {}", policy.name, policy.rules[0].name, info.title.as_deref().unwrap_or_default())
    };
    policies.policies.iter().map(one).collect()
}

#[test]
fn controls_and_frameworks_select_the_rules() {
    let all = library(None, &[]).unwrap();
    let left_out: Vec<String> = all.unjudged.iter().map(|rule| format!("{}: {}", rule.name, rule.reason)).collect();
    let wanted = [
        "kubelet-port: it needs data of Kubescape's host scanner about the nodes",
        "signed-images: it calls cosign.verify, which needs the signatures of images",
    ];
    assert_eq!(left_out, wanted);
    let wanted = [
        "X-0001/host-network critical Networks of nodes",
        "X-0002/replica-limit low Replicas",
        "X-0003/exposed-workload high Exposure",
        "X-0003/host-network high Exposure",
        "X-0004/namespace-without-quota medium Quotas",
        "X-0005/secret-readers high Secrets",
        "X-0006/api-server-anonymous medium API server",
        "X-0009/replica-limit low Few replicas",
    ];
    assert_eq!(names(&all), wanted);
    let exposed = [
        "X-0003/exposed-workload high Exposed to all",
        "X-0003/host-network high Exposed to all",
        "X-0005/secret-readers high Secrets",
    ];
    assert_eq!(names(&library(Some("exposed"), &[]).unwrap()), exposed);
    assert_eq!(names(&library(Some("exposed-framework"), &[]).unwrap()), exposed, "the name of its file");
    // A control for one cloud is evaluated if a framework contains it.
    let small = ["X-0002/replica-limit low Replicas", "X-0008/host-network medium Of one cloud"];
    assert_eq!(names(&library(Some("Small"), &[]).unwrap()), small);
    let unknown = library(Some("exposd"), &[]).unwrap_err();
    assert!(
        unknown.contains("--framework exposd: no framework has this name") && unknown.contains("did you mean Exposed?"),
        "{unknown}"
    );
}

#[test]
fn frameworks_have_their_controls_and_the_reasons_of_those_not_evaluated() {
    let all = library(None, &[]).unwrap();
    let controls = |policies: &PolicySet, name: &str| -> Vec<String> {
        let table = policies.frameworks.iter().find(|table| table.name == name).unwrap();
        let shown = table.controls.iter().map(|control| {
            let why = control.unchecked.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{} {}{why}", control.id, control.title)
        });
        shown.collect()
    };
    assert_eq!(controls(&all, "kubescape-exposed"), ["X-0003 Exposed to all", "X-0005 Secrets"]);
    let small = ["X-0002 Replicas", "X-0008 Of one cloud: it applies to one cloud"];
    assert_eq!(controls(&all, "kubescape-small"), small);
    let served = |policies: &PolicySet, name: &str| {
        let policy = policies.policies.iter().find(|policy| &*policy.name == name).unwrap();
        policy.rules[0].metadata.custom.get("frameworks").cloned()
    };
    assert_eq!(served(&all, "X-0003"), Some(json!({"kubescape-exposed": ["X-0003"]})));
    assert_eq!(served(&all, "X-0001"), None);
    // A chosen framework is the only one.
    let exposed = library(Some("kubescape-exposed"), &[]).unwrap();
    let tables: Vec<&str> = exposed.frameworks.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(tables, ["kubescape-exposed"]);
    assert_eq!(names(&exposed).len(), 3);
}

#[test]
fn config_inputs_of_the_user_override_those_of_the_library() {
    let objects = read(&own("objects.yaml"));
    let messages = |more: &[PathBuf]| -> Vec<String> {
        let findings = evaluated(&library(Some("small"), more).unwrap(), &objects);
        let of_replicas = findings.iter().filter(|(_, finding)| &*finding.rule.name == "replica-limit");
        of_replicas.map(|(_, finding)| finding.message.to_string()).collect()
    };
    assert_eq!(messages(&[]), ["web has 5 replicas, more than 3"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inputs.json");
    for (text, wanted) in [
        (r#"{"postureControlInputs": {"maxReplicas": ["10"]}}"#, &[][..]),
        (
            r#"{"settings": {"postureControlInputs": {"exemptNames": ["web"]}}}"#,
            &["scaled has 50 replicas, more than 3"],
        ),
    ] {
        fs::write(&file, text).unwrap();
        assert_eq!(messages(std::slice::from_ref(&file)), wanted, "{text}");
    }
}

#[test]
fn results_have_paths_and_related_objects() {
    let findings = evaluated(&library(None, &[]).unwrap(), &read(&own("objects.yaml")));
    let mut shown: Vec<String> = findings
        .iter()
        .map(|(object, finding)| {
            let source = Source { file: "".into(), ..finding.rule.source.clone() };
            let rule = Arc::new(RuleDescriptor { source, ..RuleDescriptor::clone(&finding.rule) });
            let finding = Finding { rule, ..finding.clone() };
            format!("{} {}: {}", text(object, "/kind"), text(object, "/metadata/name"), shown(&finding))
        })
        .collect();
    shown.sort();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_broken_rule_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |name: &str, metadata: &str, module: &str| {
        let folder = folder.path().join("rules").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("rule.metadata.json"), metadata).unwrap();
        fs::write(folder.join("raw.rego"), module).unwrap();
    };
    let metadata = |name: &str| {
        json!({"name": name, "ruleLanguage": "Rego", "match": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["Pod"]}]})
            .to_string()
    };
    let good = "package armo_builtins\nimport rego.v1\ndeny contains {\"alertMessage\": \"bad\", \"alertObject\": {\"k8sApiObjects\": [pod]}} if pod := input[_]\n";
    rule("good", &metadata("good"), good);
    rule("syntax", &metadata("syntax"), "package armo_builtins\ndeny contains {\n");
    rule("nothing", &metadata("nothing"), "package armo_builtins\nimport rego.v1\nother := 1\n");
    rule("json", "{", good);
    let policies = PolicySet::load_with(&[folder.path().to_owned()], &LoadOptions::allowing_refused()).unwrap();
    assert_eq!(names(&policies), ["good/deny - "]);
    let refused: Vec<String> = policies.refused().map(|problem| problem.message.clone()).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    assert_eq!(rows(&evaluated(&policies, &[object])).len(), 1);
}
