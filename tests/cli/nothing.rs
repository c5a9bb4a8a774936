//! An audit without objects is never clean.

use std::{fs, path::Path};

use clap::ValueEnum as _;
use insta_cmd::assert_cmd_snapshot;
use kaudit::output::Format;
use kaudit_test_support::files;

use crate::kaudit;

const POLICY: &str = "package p\n\ndeny contains \"no label\" if not input.metadata.labels\n";

fn object(api_version: &str, kind: &str, namespace: &str) -> String {
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a, namespace: {namespace}, labels: {{a: b}}}}\n"
    )
}

fn folder() -> tempfile::TempDir {
    files::folder(&[
        ("policies/p.rego", POLICY),
        ("shop.yaml", &[object("v1", "Pod", "shop"), object("v1", "Service", "shop")].join("---\n")),
        ("misspelt.yaml", &[object("v1", "Pod", "shop"), object("apps/v1", "Deploymnet", "shop")].join("---\n")),
        ("only.yaml", &object("batch/v1", "cronjob", "shop")),
        ("group.yaml", &[object("v1", "Pod", "shop"), object("app/v1", "Deployment", "shop")].join("---\n")),
        ("custom.yaml", &object("example.com/v1", "Deploymnet", "shop")),
        ("empty.yaml", "# Nothing.\n"),
    ])
}

#[test]
fn a_namespace_or_kind_without_objects_is_an_error() {
    let folder = folder();
    let check = |arguments: &[&str]| kaudit(folder.path(), &[&["check", "-f"], arguments].concat());
    assert_cmd_snapshot!("nothing_namespace", check(&["shop.yaml", "-n", "shpo"]));
    assert_cmd_snapshot!("nothing_one_of_two", check(&["shop.yaml", "-n", "shop", "-n", "shpo"]));
    assert_cmd_snapshot!("nothing_excluded", check(&["shop.yaml", "--exclude", "*"]));
    assert_cmd_snapshot!("nothing_misspelt_kind", check(&["misspelt.yaml"]));
    assert_cmd_snapshot!("nothing_misspelt_group", check(&["group.yaml"]));
    assert_cmd_snapshot!("nothing_but_misspelt", check(&["only.yaml"]));
    let code = |arguments: &[&str]| check(arguments).output().unwrap().status.code();
    // A kind unknown to this kaudit, a custom kind, and an excluded kind.
    assert_eq!(code(&["misspelt.yaml", "--include", "Deploymnet"]), Some(0));
    assert_eq!(code(&["custom.yaml"]), Some(0));
    assert_eq!(code(&["misspelt.yaml", "--exclude", "Deploymnet"]), Some(0));
}

#[test]
fn an_empty_audit_is_not_clean_and_writes_nothing() {
    let folder = folder();
    let given: [&[&str]; 6] = [
        &["-f", "shop.yaml", "-n", "shpo"],
        &["-f", "shop.yaml", "-n", "shop", "-n", "shpo"],
        &["-f", "shop.yaml", "--exclude", "*"],
        &["-f", "empty.yaml"],
        &["-f", "only.yaml"],
        &["-f", "shop.yaml", "-n", "shpo", "--write-baseline", "baseline.json"],
    ];
    for arguments in given {
        for format in Format::value_variants() {
            let command = [&["check", "-o", format.name()], arguments].concat();
            let ended = kaudit(folder.path(), &command).output().unwrap();
            assert_eq!(ended.status.code(), Some(2), "{command:?} {ended:?}");
            let output = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).to_lowercase();
            assert!(!output.contains("clean"), "{command:?} {output}");
        }
    }
    assert!(!Path::exists(&folder.path().join("baseline.json")));
    fs::write(folder.path().join("baseline.json"), "{}").unwrap();
    let diff = ["diff", "policies", "policies", "-f", "shop.yaml", "-n", "shpo"];
    assert_eq!(kaudit(folder.path(), &diff).output().unwrap().status.code(), Some(2));
}
