//! Parameters of rules, and profiles of the library.

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files;
use serde_json::Value;

use crate::kaudit;

const REPLICAS: &str = r#"
package replicas

# METADATA
# title: Replicas
# custom:
#   id: REP-01
#   severity: low
#   parameters:
#     least: {type: integer, minimum: 1, default: 2, description: The lowest number of replicas.}
#     exempt: {type: array, items: {type: string}, default: []}
deny contains msg if {
	input.kind == "Deployment"
	input.spec.replicas < least
	not input.metadata.name in exempt
	msg := sprintf("fewer than %d replicas", [least])
}

default least := 2

least := data.parameters["REP-01"].least

default exempt := []

exempt := data.parameters["REP-01"].exempt
"#;

const DEPLOYMENT: &str =
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 2}\n";

fn folder(settings: &str) -> tempfile::TempDir {
    files::folder(&[("policies/replicas.rego", REPLICAS), ("a.yaml", DEPLOYMENT), ("kaudit.yaml", settings)])
}

#[test]
fn parameters_are_set_in_the_settings_and_listed() {
    let folder = folder("policies: policies\nrules:\n  REP-01: {least: 3, severity: high}\n");
    assert_cmd_snapshot!("parameters", kaudit(folder.path(), &["check", "-f", "a.yaml"]));
    assert_cmd_snapshot!("parameters_list", kaudit(folder.path(), &["policies", "policies"]));
    assert_cmd_snapshot!("parameters_explain", kaudit(folder.path(), &["explain", "REP-01", "-p", "policies"]));
    let listed = kaudit(folder.path(), &["policies", "policies", "-o", "json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(list["policies"][0]["rules"][0]["parameters"][1]["default"], 2);
    let check = |rules: &str| {
        let rules = format!("--rules={rules}");
        kaudit(folder.path(), &["check", "-f", "a.yaml", "-p", "policies", &rules]).output().unwrap().status.code()
    };
    let codes = ["{}", "{REP-01: {least: 3}}", "{'*': {least: 3, exempt: [web]}}"].map(check);
    assert_eq!(codes, [Some(0), Some(1), Some(0)]);
}

#[test]
fn wrong_parameters_are_errors_in_every_command() {
    let folder = folder("policies: policies\nrules:\n  REP-01: {least: many}\n  replicas/deny: {leest: 3}\n");
    let rules = "--rules={REP-01: {least: 0}}";
    for (name, arguments) in [
        ("parameters_wrong", &["check", "-f", "a.yaml"][..]),
        ("parameters_wrong_without_refusal", &["check", "-f", "a.yaml", "--allow-refused"]),
        ("parameters_wrong_in_a_list", &["policies", "policies", rules]),
    ] {
        assert_cmd_snapshot!(name, kaudit(folder.path(), arguments));
    }
}

#[test]
fn profiles_select_rules_of_the_library_only() {
    let folder = folder("");
    let rules = |arguments: &[&str]| {
        let arguments = [&["policies", "-o", "json"], arguments].concat();
        let ended = kaudit(folder.path(), &arguments).output().unwrap();
        let list: Value = serde_json::from_slice(&ended.stdout).unwrap();
        (list["summary"]["rules"].as_u64().unwrap(), list["profile"].clone())
    };
    let library = ["builtin:practices.images", "policies"];
    assert_eq!(rules(&library), (4, Value::Null));
    assert_eq!(rules(&[&library[..], &["--profile", "strict"]].concat()), (4, "strict".into()));
    let minimal = |settings: &str| {
        let settings = format!("--rules={settings}");
        rules(&[&library[..], &["--profile", "minimal", &settings]].concat())
    };
    assert_eq!(minimal("{}"), (1, "minimal".into()), "a rule of severity low of another source stays");
    assert_eq!(minimal("{IMG-04: {off: false}}").0, 2);
    assert_eq!(minimal("{IMG-04: {severity: high}, IMG-02: {severity: low}}").0, 2);
    assert_cmd_snapshot!(
        "profile_without_rules",
        kaudit(folder.path(), &["check", "-f", "a.yaml", "-p", "builtin:images", "--profile", "minimal"])
    );
    assert_cmd_snapshot!(
        "profile_in_the_summary",
        kaudit(
            folder.path(),
            &["check", "-f", "a.yaml", "-p", "builtin", "--profile", "minimal", "--skip-rule", "IMG-01,RBAC-01"]
        )
    );
}
