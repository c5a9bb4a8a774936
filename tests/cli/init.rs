//! `kaudit init`: the written files work immediately, and existing files are never overwritten.

use std::{fs, path::Path};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    spec:\n      hostPID: true\n      containers: [{name: web, image: 'registry.example.com/web:1.4'}]\n";

/// Returns the files below a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    fn below(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    below(folder, folder, &mut found);
    found.sort();
    found
}

#[test]
fn written_files_work_immediately() {
    for (from, rules) in [(&[][..], 39), (&["--from", "builtin:pod_security.baseline"], 13), (&["--from", "none"], 1)] {
        let folder = folder(&[("web.yaml", DEPLOYMENT)]);
        let init = kaudit(folder.path(), &[&["init"], from].concat()).output().unwrap();
        assert!(init.status.success(), "{from:?}");
        let test = kaudit(folder.path(), &["test"]).output().unwrap();
        assert!(String::from_utf8_lossy(&test.stdout).contains("PASS: 3/3"), "{from:?}: {test:?}");
        let config = ["check", "--config", "kaudit.yaml", "-o", "json", "-f", "."];
        let check = kaudit(folder.path(), &config).output().unwrap();
        assert_eq!(check.status.code(), Some(1), "{from:?}: {check:?}");
        assert!(check.stderr.is_empty(), "{from:?}: {check:?}");
        let audit: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
        let found: Vec<&str> =
            audit["results"].as_array().unwrap().iter().map(|entry| entry["rule"].as_str().unwrap()).collect();
        assert!(found.contains(&"deny_host_namespaces") && found.contains(&"warn_missing_team"), "{found:?}");
        let listed = kaudit(folder.path(), &["policies", "-o", "json"]).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert!(listed["summary"]["rules"].as_u64().unwrap() >= rules, "{from:?}: {}", listed["summary"]);
    }
}

#[test]
fn init_lists_written_files_and_next_steps() {
    let folder = tempfile::tempdir().unwrap();
    let part = ["init", "shop/audit", "--from", "builtin:pod_security.restricted", "--from", "builtin:rbac"];
    assert_cmd_snapshot!("init", kaudit(folder.path(), &part));
    insta::assert_snapshot!("init_settings", fs::read_to_string(folder.path().join("shop/audit/kaudit.yaml")).unwrap());
    assert_cmd_snapshot!("init_none", kaudit(folder.path(), &["init", "--from", "none"]));
    insta::assert_snapshot!("init_none_settings", fs::read_to_string(folder.path().join("kaudit.yaml")).unwrap());
}

#[test]
fn existing_files_are_not_overwritten_or_extended() {
    let folder =
        folder(&[("policies/own/labels.rego", "mine"), ("policies/mine.rego", "package mine"), ("a/policies", "")]);
    std::os::unix::fs::symlink("elsewhere", folder.path().join("kaudit.yaml")).unwrap();
    let before = files(folder.path());
    assert_cmd_snapshot!("init_taken", kaudit(folder.path(), &["init"]));
    // A file in place of a folder.
    let below = kaudit(folder.path(), &["init", "a", "--from", "none"]).output().unwrap();
    assert_eq!(below.status.code(), Some(2));
    assert_eq!(files(folder.path()), before);
    assert_eq!(fs::read_to_string(folder.path().join("policies/own/labels.rego")).unwrap(), "mine");
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn available_sources_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    assert_cmd_snapshot!("init_unknown_part", kaudit(folder.path(), &["init", "--from", "builtin:rback"]));
    assert_cmd_snapshot!("init_no_part", kaudit(folder.path(), &["init", "--from", "policies"]));
    assert!(files(folder.path()).is_empty());
}
