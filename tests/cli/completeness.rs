//! Rules that report what does not exist, when manifests are checked.

use std::fs;

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files;
use serde_json::{Value, json};

use crate::kaudit;

const POLICY: &str = r#"package accounts

# METADATA
# custom: {id: ACC-01, severity: high, lookups: complete}
deny_missing contains msg if {
	input.kind == "Pod"
	name := input.spec.serviceAccountName
	not data.inventory.namespace[input.metadata.namespace].v1.ServiceAccount[name]
	msg := sprintf("ServiceAccount %q does not exist: create it", [name])
}

# METADATA
# custom: {id: ACC-02, severity: low, lookups: optional}
warn_default contains "names no ServiceAccount: set spec.serviceAccountName" if {
	input.kind == "Pod"
	not input.spec.serviceAccountName
}
"#;

const PODS: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {serviceAccountName: web}\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: shop}\nspec: {serviceAccountName: api}\n---\n\
                    apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web, namespace: shop}\n";

fn folder() -> tempfile::TempDir {
    files::folder(&[("policies/accounts.rego", POLICY), ("pods.yaml", PODS)])
}

/// Runs a check in a format; returns the exit code and standard output.
fn check(folder: &tempfile::TempDir, format: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let command = [&["check", "-f", "pods.yaml", "-o", format], arguments].concat();
    let ended = kaudit(folder.path(), &command).output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stdout).unwrap())
}

#[test]
fn rules_about_missing_objects_need_complete_files() {
    let folder = folder();
    assert_cmd_snapshot!("completeness", kaudit(folder.path(), &["check", "-f", "pods.yaml"]));
    let complete = ["check", "-f", "pods.yaml", "--files-are-complete"];
    assert_cmd_snapshot!("completeness_given", kaudit(folder.path(), &complete));
    let mut from_environment = kaudit(folder.path(), &["check", "-f", "pods.yaml"]);
    let code = from_environment.env("KAUDIT_FILES_ARE_COMPLETE", "true").output().unwrap().status.code();
    assert_eq!(code, Some(1));
    fs::write(folder.path().join("kaudit.yaml"), "files-are-complete: true\n").unwrap();
    assert_eq!(check(&folder, "text", &[]).0, Some(1));
}

#[test]
fn manifests_without_a_namespace_are_beside_those_in_the_default_one() {
    let (none, default, shop) = ("", ", namespace: default", ", namespace: shop");
    for (pod, config_map, is_missing) in
        [(none, none, false), (none, default, false), (default, none, false), (none, shop, true), (shop, none, true)]
    {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a{pod}}}\nspec:\n  containers:\n  - name: a\n    image: a:1\n    \
             envFrom: [{{configMapRef: {{name: c}}}}]\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{config_map}}}\n"
        );
        let folder = files::folder(&[("pods.yaml", &*text)]);
        let (_, result) = check(&folder, "json", &["-p", "builtin:references", "--files-are-complete"]);
        let result: Value = serde_json::from_str(&result).unwrap();
        let missing: Vec<&Value> =
            result["results"].as_array().unwrap().iter().filter(|found| found["ruleId"] == "REF-06").collect();
        assert_eq!(missing.len(), usize::from(is_missing), "{text}");
        let namespace = missing.first().map(|found| found["resource"]["namespace"].clone());
        let own = if pod == shop { json!("shop") } else { Value::Null };
        assert!(
            namespace.is_none_or(|found| found == own),
            "the result shows the namespace of the manifest: {missing:?}"
        );
    }
}

#[test]
fn every_format_names_the_rules_that_need_the_cluster() {
    let folder = folder();
    let words = "1 rule off without the cluster";
    for format in ["text", "markdown", "html", "sarif"] {
        let (code, output) = check(&folder, format, &[]);
        assert_eq!((code, output.matches(words).count()), (Some(0), 1), "{format}: {output}");
        let (_, output) = check(&folder, format, &["--files-are-complete"]);
        assert!(!output.contains(words), "{format}: {output}");
    }
    let off = json!([{"policy": "accounts", "rule": "deny_missing", "id": "ACC-01", "reason": "off without the cluster: --with-cluster or --files-are-complete"}]);
    for format in ["json", "ndjson"] {
        let (_, output) = check(&folder, format, &[]);
        let result: Value = serde_json::from_str(&output).unwrap();
        assert_eq!((&result["skippedRules"], &result["complete"]), (&off, &true.into()), "{format}: {output}");
    }
}

#[test]
fn a_comparison_of_policies_needs_complete_files_too() {
    let folder = folder();
    fs::create_dir(folder.path().join("before")).unwrap();
    fs::write(folder.path().join("before/p.rego"), POLICY.replace("deny_missing", "deny_other")).unwrap();
    let diff = |arguments: &[&str]| {
        let command = [&["diff", "before", "policies", "-f", "pods.yaml"], arguments].concat();
        kaudit(folder.path(), &command).output().unwrap().status.code()
    };
    assert_eq!((diff(&[]), diff(&["--files-are-complete"])), (Some(0), Some(1)));
}

#[test]
fn the_list_of_policies_names_rules_about_missing_objects() {
    let folder = folder();
    assert_cmd_snapshot!("completeness_policies", kaudit(folder.path(), &["policies", "policies"]));
    let ended = kaudit(folder.path(), &["policies", "policies", "-o", "json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let rules = list["policies"][0]["rules"].as_array().unwrap().iter();
    let lookups: Vec<&Value> = rules.map(|rule| &rule["lookups"]).collect();
    assert_eq!(lookups, ["complete", "optional"]);
}

#[test]
fn mistakes_are_errors() {
    let folder = folder();
    let without_rules = ["check", "-f", "pods.yaml", "--skip-rule", "ACC-02"];
    assert_cmd_snapshot!("completeness_nothing_left", kaudit(folder.path(), &without_rules));
    let message = |arguments: &[&str]| {
        let ended = kaudit(folder.path(), arguments).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        String::from_utf8(ended.stderr).unwrap()
    };
    let checked = ["check", "-f", "pods.yaml", "--with-cluster"];
    for (arguments, words) in [
        (&["check", "--once", "--with-cluster"][..], "--with-cluster needs --filename"),
        (&["check", "--once", "--files-are-complete"], "--files-are-complete needs --filename"),
        (&["diff", "policies", "policies", "--once", "--files-are-complete"], "--files-are-complete needs --filename"),
        (&[&checked[..], &["--files-are-complete"]].concat(), "cannot be used with"),
        (&[&checked[..], &["--record", "events"]].concat(), "--record makes no sense with --filename"),
        (&[&checked[..], &["--kubeconfig", "missing"]].concat(), "missing"),
        (&["check", "-f", "pods.yaml", "--context", "a"], "--context makes no sense with --filename"),
    ] {
        assert!(message(arguments).contains(words), "{arguments:?}: {}", message(arguments));
    }
    // A file beside the manifests, which may come from a pull request, must not connect to a cluster.
    fs::write(folder.path().join("kaudit.yaml"), "with-cluster: true\n").unwrap();
    assert!(message(&["check", "-f", "pods.yaml"]).contains("can only be set in a file given with --config"));
    fs::remove_file(folder.path().join("kaudit.yaml")).unwrap();
    fs::write(folder.path().join("policies/accounts.rego"), POLICY.replace("complete", "compleet")).unwrap();
    assert_cmd_snapshot!("completeness_unknown", kaudit(folder.path(), &["check", "-f", "pods.yaml"]));
}
