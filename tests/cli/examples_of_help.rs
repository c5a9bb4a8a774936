//! Runs the examples of the help as a user would copy them.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use kaudit_test_support::files;
use regex::Regex;
use serde_json::Value;

use crate::kaudit;

/// Programs that examples pipe to or from.
const OTHERS: [(&str, &str); 3] =
    [("helm", "cat manifests/web.yaml"), ("jq", "cat > /dev/null"), ("kubectl", "cat > /dev/null")];
const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {spec: {containers: [{name: web, image: web}]}}}
";
/// Output that marks an invalid command.
const MISUSE: [&str; 4] = ["Usage:", "For more information", "unexpected argument", "invalid value"];

/// Returns the examples in the help of a command, without their descriptions.
fn examples(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let help = String::from_utf8(kaudit(folder, arguments).output().unwrap().stdout).unwrap();
    let (_, examples) = help.split_once("EXAMPLES:").or_else(|| help.split_once("Examples:")).unwrap_or_default();
    let lines =
        examples.lines().map(str::trim).filter(|line| line.starts_with("kaudit ") || line.contains("| kaudit "));
    lines.map(|line| line.split("   ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn each_rule_in_the_help_is_a_rule_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        |arguments: &[&str]| String::from_utf8(kaudit(folder.path(), arguments).output().unwrap().stdout).unwrap();
    let library: Value = serde_json::from_str(&output(&["policies", "builtin", "-o", "json"])).unwrap();
    let mut known = BTreeSet::new();
    for policy in library["policies"].as_array().unwrap() {
        for rule in policy["rules"].as_array().unwrap() {
            let name = rule["name"].as_str().unwrap();
            known.extend([name.to_owned(), format!("{}/{name}", policy["name"].as_str().unwrap())]);
            known.extend(rule["id"].as_str().map(str::to_owned));
        }
    }
    let rule = Regex::new(r"\b([a-z_.]+/)?(deny|violation|warn)_[a-z_]+|\b[A-Z]{2,}-[A-Z]?[0-9]{2}\b").unwrap();
    let commands = kaudit::cli::command();
    let help: String = commands.get_subcommands().map(|command| output(&[command.get_name(), "--help"])).collect();
    let named: BTreeSet<String> = rule.find_iter(&help).map(|name| name.as_str().to_owned()).collect();
    assert!(named.contains("images/deny_latest_tag") && named.contains("IMG-01"), "{named:?}");
    assert_eq!(named.difference(&known).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn each_example_of_the_help_works() {
    let folder = files::folder(&[
        (
            "policies/images.rego",
            "package images\n\n# METADATA\n# custom: {id: IMG-01}\ndeny_latest_tag contains \"no tag\"\n",
        ),
        ("policies/main_test.rego", "package main_test\n\ntest_latest if true\n"),
        ("more/more.rego", "package more\n\nwarn contains \"more\"\n"),
        ("manifests/web.yaml", WEB),
        ("manifests/api.yaml", &WEB.replace("web", "api")),
        ("web.yaml", WEB),
        ("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 0.1.0\n"),
    ]);
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for (name, does) in OTHERS {
        fs::write(bin.join(name), format!("#!/bin/sh\n{does}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_kaudit"));
    let path = format!("{}:{}:/usr/local/bin:/usr/bin:/bin", program.parent().unwrap().display(), bin.display());
    let run = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(folder.path()).env_clear().env("PATH", &path);
        // The address does not answer, so that no cluster is needed or touched.
        let kubeconfig = folder.path().join("kubeconfig");
        let ended = command.env("KUBECONFIG", kubeconfig).env("HOME", folder.path()).output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let set_up = "git init --quiet --initial-branch main && git add . && \
                  git -c user.name=a -c user.email=a@example.com commit --quiet --message a && \
                  kaudit check manifests --fail-on none -o json=monday.json && cp monday.json today.json";
    assert_eq!(run(set_up).0, Some(0), "{}", run(set_up).1);

    let commands = ["check", "explain", "diff", "test", "policies", "rbac"];
    let of_help = commands.iter().flat_map(|command| examples(folder.path(), &[command, "--help"]));
    let mut all: Vec<String> = of_help.chain(examples(folder.path(), &["check", "-h"])).collect();
    all.sort();
    all.dedup();
    assert!(all.len() > 20, "{all:?}");
    for line in all {
        let (code, stderr) = run(&line);
        assert!(!MISUSE.iter().any(|word| stderr.contains(word)), "{line}: {stderr}");
        let needs_a_cluster = stderr.contains("kubeconfig");
        // The ids of results and test cases refer to other manifests and suites.
        let is_of_others = stderr.contains("has a result with this id")
            || line.contains("required-labels")
            || line.contains("deny_privileged");
        assert!(matches!(code, Some(0 | 1)) || needs_a_cluster || is_of_others, "{line}: {code:?} {stderr}");
    }
}
