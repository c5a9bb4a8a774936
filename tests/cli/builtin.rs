//! The builtin library: used without policies, or by name, alone or with other sources.

use std::fs;

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {type: NodePort, externalIPs: [192.0.2.1]}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: debug, namespace: shop}\nspec:\n  hostPID: true\n  containers: [{name: shell, image: web}]\n";
const OWN: &str = "package own\n\ndeny contains \"set the label team\" if {\n\tinput.kind == \"Service\"\n\tnot input.metadata.labels.team\n}\n";

#[test]
fn without_policies_the_library_is_used_with_a_note() {
    let folder = folder(&[("service.yaml", SERVICE), ("own/own.rego", OWN)]);
    let check = |arguments: &[&str]| kaudit(folder.path(), &[&["check", "-f", "service.yaml"], arguments].concat());
    assert_cmd_snapshot!("builtin_by_default", check(&[]));
    let audit: serde_json::Value = serde_json::from_slice(&check(&["-o", "json"]).output().unwrap().stdout).unwrap();
    assert_eq!(audit["results"][0]["source"]["file"], "builtin/services.rego");
    // If it is named, there is no note.
    let named = check(&["-p", "builtin"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&named.stderr).contains("note:"));
    assert_eq!(named.stdout, check(&[]).output().unwrap().stdout);
    let listed = kaudit(folder.path(), &["policies"]).output().unwrap();
    assert!(
        listed.status.success()
            && String::from_utf8_lossy(&listed.stderr).starts_with("note: checking with the builtin")
    );
    // A dangling link is a mistake, not an absent directory.
    std::os::unix::fs::symlink("nowhere", folder.path().join("policies")).unwrap();
    assert_cmd_snapshot!("builtin_not_for_a_dead_link", check(&[]));
    fs::remove_file(folder.path().join("policies")).unwrap();
    fs::rename(folder.path().join("own"), folder.path().join("policies")).unwrap();
    // Adding the directory must not replace the library silently.
    assert_cmd_snapshot!("builtin_never_beside_by_itself", check(&[]));
    let named = check(&["-p", "builtin", "-p", "policies"]).output().unwrap();
    assert!(named.stderr.is_empty(), "{named:?}");
}

#[test]
fn a_part_of_the_library_includes_its_imports() {
    let folder = folder(&[("pod.yaml", POD)]);
    let with = |part: &str| kaudit(folder.path(), &["check", "-f", "pod.yaml", "-p", part]);
    assert_cmd_snapshot!("builtin_part", with("builtin:pod_security.baseline"));
    assert_cmd_snapshot!(
        "builtin_part_list",
        kaudit(folder.path(), &["policies", "builtin:services", "builtin:services"])
    );
    assert_cmd_snapshot!("builtin_part_misspelt", with("builtin:pod_securty"));
    assert_cmd_snapshot!("builtin_part_without_its_prefix", with("builtin:baseline"));
    assert_cmd_snapshot!("builtin_part_unknown", with("builtin:lib"));
}

/// A namespace whose `LimitRange`, `ServiceAccount` and `Service` affect the results of its `Deployment`, and a
/// binding.
const NEIGHBOURS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: sizes, namespace: shop}
spec: {limits: [{type: Container, default: {cpu: "1", memory: 1Gi}}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
automountServiceAccountToken: false
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: superuser}
subjects: [{kind: ServiceAccount, name: web, namespace: shop}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: superuser}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
"#;

/// Each group of rules with lookups, with and without the objects that they look up.
#[test]
fn library_rules_with_missing_lookups_give_results_and_no_errors() {
    let folder = folder(&[("shop.yaml", NEIGHBOURS)]);
    let found = |arguments: &[&str]| {
        let check = ["check", "-f", "shop.yaml", "-p", "builtin", "-o", "json"];
        let output = kaudit(folder.path(), &[&check, arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        let audit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rules = ["deny_missing_memory_limit", "warn_missing_requests", "warn_default_token"];
        let results = audit["results"].as_array().unwrap().iter().filter_map(|result| {
            let [rule, severity] = ["rule", "severity"].map(|key| result[key].as_str().unwrap());
            assert_ne!(result["result"], "error", "{result}");
            (rules.contains(&rule) || rule == "deny_cluster_admin").then(|| format!("{rule} {severity}"))
        });
        let mut results: Vec<String> = results.collect();
        results.sort();
        results.join(", ")
    };
    let limited = "deny_missing_memory_limit info, warn_missing_requests info";
    assert_eq!(found(&[]), format!("deny_cluster_admin high, {limited}"));
    assert_eq!(found(&["-n", "shop"]), limited);
    let excluded = ["limitranges", "serviceaccounts", "clusterroles"].map(|kind| ["--exclude", kind]);
    let unlimited = "deny_missing_memory_limit medium, warn_default_token low, warn_missing_requests low";
    assert_eq!(found(excluded.as_flattened()), unlimited);
}

#[test]
fn the_library_is_loaded_once_with_other_sources() {
    let library = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/policies/services.rego")).unwrap();
    let folder = folder(&[("service.yaml", SERVICE), ("own/own.rego", OWN), ("copy/services.rego", &library)]);
    let check = |arguments: &[&str]| kaudit(folder.path(), &[&["check", "-f", "service.yaml"], arguments].concat());
    assert_cmd_snapshot!("builtin_and_own", check(&["-p", "own", "-p", "builtin:services"]));
    let count = |arguments: &[&str]| {
        let output = check(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned()
    };
    let alone = count(&["-p", "builtin:services"]);
    assert_eq!(count(&["-p", "copy", "-p", "builtin:services"]), alone, "a copy is no second policy");
    assert_eq!(count(&["-p", "builtin:services", "-p", "builtin:services"]), alone);
}

#[test]
fn a_directory_named_builtin_needs_a_path() {
    let folder = folder(&[("service.yaml", SERVICE), ("builtin/own.rego", OWN)]);
    let rules = |path: &str| {
        let output = kaudit(folder.path(), &["policies", path]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned()
    };
    assert_eq!(rules("./builtin"), "1 policy, 1 rule");
    assert_eq!(rules("builtin/own.rego"), "1 policy, 1 rule");
    assert_ne!(rules("builtin"), "1 policy, 1 rule");
}

#[test]
fn the_library_can_be_named_in_environment_and_file() {
    let settings = "policies: [own, 'builtin:services']\n";
    let folder = folder(&[("service.yaml", SERVICE), ("own/own.rego", OWN), ("kaudit.yaml", settings)]);
    let wanted =
        kaudit(folder.path(), &["check", "-f", "service.yaml", "-p", "own", "-p", "builtin:services"]).output();
    let wanted = wanted.unwrap().stdout;
    let mut environment = kaudit(folder.path(), &["check", "-f", "service.yaml"]);
    assert_eq!(environment.env("KAUDIT_POLICIES", "own,builtin:services").output().unwrap().stdout, wanted);
    let mut file = kaudit(folder.path(), &["check", "-f", "service.yaml", "--config", "kaudit.yaml"]);
    assert_eq!(file.output().unwrap().stdout, wanted);
}

#[test]
fn own_tests_can_use_the_library_which_has_no_tests() {
    let test = "package own_test\n\ntest_ports if {\n\tcount(data.services.warn_node_port) == 1 with input as \
                {\"apiVersion\": \"v1\", \"kind\": \"Service\", \"spec\": {\"type\": \"NodePort\"}}\n}\n";
    let folder = folder(&[("policies/own.rego", OWN), ("policies/own_test.rego", test)]);
    assert_cmd_snapshot!("builtin_no_tests", kaudit(folder.path(), &["test", "builtin:services"]));
    let mut environment = kaudit(folder.path(), &["test"]);
    let output = environment.env("KAUDIT_POLICIES", "policies,builtin:services").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let elsewhere = tempfile::tempdir().unwrap();
    assert_cmd_snapshot!("test_without_policies", kaudit(elsewhere.path(), &["test"]));
}
