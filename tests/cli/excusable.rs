//! Rules that a namespace may excuse: options, configuration and output.

use std::fs;

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files;
use serde_json::Value;

use crate::kaudit;

const LABELS: &str = r#"
package labels

# METADATA
# custom: {id: LBL-01, severity: high}
deny_team contains "no team" if not input.metadata.labels.team

# METADATA
# custom: {id: LBL-02, severity: low}
deny_app contains "no app" if not input.metadata.labels.app

# METADATA
# custom: {id: LBL-03, severity: low, excusable: false}
deny_owner contains "no owner" if not input.metadata.labels.owner
"#;

/// Returns an exception of the namespace shop.
fn exception(policies: &str) -> String {
    format!(
        "apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{name: team, namespace: shop}}\n\
         spec: {{policies: {policies}, reason: legacy, expiresAt: 2999-12-31}}\n"
    )
}

fn folder(exception: &str) -> tempfile::TempDir {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
    files::folder(&[("policies/labels.rego", LABELS), ("a.yaml", &[object, exception].join("---\n"))])
}

/// Runs a check; returns the rules whose violations are excused, and the whole result.
fn excused(folder: &tempfile::TempDir, arguments: &[&str]) -> (Vec<String>, Value) {
    let command = [&["check", "-f", ".", "-o", "json"], arguments].concat();
    let ended = kaudit(folder.path(), &command).output().unwrap();
    let result: Value = serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let skipped = result["results"].as_array().unwrap().iter().filter(|entry| entry["result"] == "skip");
    let rules = skipped.map(|entry| entry["rule"].as_str().unwrap().to_owned()).collect();
    (rules, result)
}

#[test]
fn the_option_decides_which_rules_a_namespace_may_excuse() {
    let folder = folder(&exception("[{name: labels}]"));
    let rules = |arguments: &[&str]| excused(&folder, arguments).0.join(" ");
    assert_eq!(rules(&[]), "", "by default only rules of the library are excusable");
    for (pattern, wanted) in [
        ("LBL-01", "deny_team"),
        ("labels/*", "deny_app deny_team"),
        ("severity:medium", "deny_app"),
        ("severity:high", "deny_app deny_team"),
        ("none", ""),
        ("LBL-0?,none", "deny_app deny_team"),
        ("LBL-03,deny_app", "deny_app"),
    ] {
        assert_eq!(rules(&["--excusable", pattern]), wanted, "{pattern}");
    }
    // The severity from the settings counts.
    assert_eq!(rules(&["--excusable=severity:medium", "--rules={LBL-02: {severity: high}}"]), "");
    // Set in the configuration file and the environment.
    fs::write(folder.path().join("config.yaml"), "excusable: [LBL-01, 'severity:low']\n").unwrap();
    assert_eq!(rules(&["--config", "config.yaml"]), "deny_app deny_team");
    let mut command = kaudit(folder.path(), &["check", "-f", "a.yaml", "-o", "json"]);
    let ended = command.env("KAUDIT_EXCUSABLE", "LBL-01,LBL-02").output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&ended.stdout).unwrap()["summary"]["skip"], 2);
    let messages = |arguments: &[&str]| excused(&folder, arguments).1["exceptions"][0]["message"].clone();
    assert_eq!(messages(&["--excusable", "none"]), "rules of policy labels cannot be excused by a namespace");
    assert_cmd_snapshot!(
        "excusable_unknown",
        kaudit(folder.path(), &["check", "-f", "a.yaml", "--excusable=LBL-04,team"])
    );
    assert_cmd_snapshot!(
        "excusable_no_severity",
        kaudit(folder.path(), &["check", "-f", "a.yaml", "--excusable=severity:mediun"])
    );
}

#[test]
fn the_list_of_policies_names_excusable_rules() {
    let folder = folder(&exception("[{name: labels}]"));
    let list = |arguments: &[&str]| {
        let command = [&["policies", "policies", "-o", "json"], arguments].concat();
        let list: Value = serde_json::from_slice(&kaudit(folder.path(), &command).output().unwrap().stdout).unwrap();
        let rules = list["policies"][0]["rules"].as_array().unwrap().clone();
        let excusable = rules.iter().filter(|rule| rule["excusable"] == true);
        excusable.map(|rule| rule["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((&*list(&[]), &*list(&["--excusable", "severity:medium"])), ("", "deny_app"));
    let text = kaudit(folder.path(), &["policies", "policies", "--excusable", "LBL-01"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("  excuse  a namespace may excuse deny_team\n"), "{text}");
}

#[test]
fn exceptions_name_rules_by_glob_and_id() {
    for (policies, wanted) in [
        ("[{name: LBL-02}]", "deny_app"),
        ("[{name: lab*, rules: [deny_t*]}]", "deny_team"),
        ("[{name: '*'}]", "deny_app deny_team"),
    ] {
        let folder = folder(&exception(policies));
        assert_eq!(excused(&folder, &["--excusable=*"]).0.join(" "), wanted, "{policies}");
    }
    // Exceptions of the operator apply to any rule.
    let folder = folder("");
    fs::create_dir(folder.path().join("given")).unwrap();
    fs::write(folder.path().join("given/e.yaml"), exception("[{name: LBL-0?}]")).unwrap();
    let command = ["check", "-f", "a.yaml", "--exceptions", "given"];
    assert_eq!(kaudit(folder.path(), &command).output().unwrap().status.code(), Some(0));
    fs::write(folder.path().join("given/e.yaml"), exception("[{name: LBL-11}]")).unwrap();
    assert_cmd_snapshot!("excusable_no_such_rule", kaudit(folder.path(), &command));
}

#[test]
fn the_documented_example_works_with_default_policies_and_options() {
    let page = include_str!("../../docs/operate/exceptions.md");
    let (_, example) = page.split_once("```yaml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    assert!(example.contains("expiresAt: \"2"), "{example}");
    let lines = example.lines().map(|line| if line.contains("expiresAt:") { "  expiresAt: 2999-12-31" } else { line });
    let example = lines.collect::<Vec<_>>().join("\n");
    let deployment = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop, labels: {{team: a}}}}\n\
             spec: {{template: {{spec: {{containers: [{{name: c, image: registry.example.com/a:1}}]}}}}}}\n"
        )
    };
    let manifests = [deployment("legacy-web"), deployment("web"), example].join("---\n");
    let folder = files::folder(&[("manifests/a.yaml", &manifests)]);
    let command = ["check", "-f", "manifests", "-o", "json"];
    let ended = kaudit(folder.path(), &command).output().unwrap();
    let result: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let of_rule = result["results"].as_array().unwrap().iter().filter(|entry| entry["rule"] == "deny_run_as_root");
    let found: Vec<_> = of_rule.map(|entry| (entry["resource"]["name"].clone(), entry["result"].clone())).collect();
    assert_eq!(found, [("legacy-web".into(), "skip".into()), ("web".into(), "fail".into())], "{result:#}");
    assert_eq!(result["exceptions"][0]["state"], "active", "{}", result["exceptions"]);
}
