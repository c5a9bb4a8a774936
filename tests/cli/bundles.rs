//! Errors for bundles that cannot be read or published; working ones are tested in `tests/bundles`.

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

const POLICY: &str = "package own\n\ndeny contains \"x\" if input.kind == \"Pod\"\n";

#[test]
fn unreadable_bundles_are_2() {
    let folder = folder(&[("broken.tar.gz", "no archive"), ("directory.tgz/own.rego", POLICY), ("no.pem", "")]);
    let policies = |source: &str| kaudit(folder.path(), &["policies", source]);
    assert_cmd_snapshot!("bundle_missing", policies("missing.tar.gz"));
    assert_cmd_snapshot!("bundle_no_archive", policies("broken.tar.gz"));
    assert_cmd_snapshot!("bundle_directory", policies("directory.tgz"));
    assert_cmd_snapshot!("bundle_a_directory_after_all", policies("directory.tgz/"));
    assert_cmd_snapshot!("bundle_no_tls", policies("http://bundles.example.com/policies.tar.gz"));
    assert_cmd_snapshot!("bundle_no_registry", policies("oci://policies:v1"));
    assert_cmd_snapshot!("bundle_no_digest", policies("oci://registry.example.com/policies@sha256:12"));
    let mut key = kaudit(folder.path(), &["policies", "broken.tar.gz", "--verification-key", "no.pem"]);
    assert_cmd_snapshot!("bundle_no_key", key);
    let mut ca = kaudit(folder.path(), &["policies", "https://bundles.example.com/a.tgz", "--bundle-ca", "no.pem"]);
    assert_cmd_snapshot!("bundle_no_authority", ca);
    assert_cmd_snapshot!("bundle_test", kaudit(folder.path(), &["test", "broken.tar.gz"]));
}

#[test]
fn failed_pushes_are_2() {
    let folder = folder(&[("policies/own.rego", POLICY), ("more/own.rego", POLICY), ("none/notes.txt", "")]);
    let push = |arguments: &[&str]| kaudit(folder.path(), &[&["push"], arguments].concat());
    let target = "oci://registry.example.com/policies:v1";
    assert_cmd_snapshot!("push_nothing", push(&[target, "none"]));
    assert_cmd_snapshot!("push_missing", push(&[target, "nowhere"]));
    assert_cmd_snapshot!("push_twice", push(&[target, "policies", "more"]));
    assert_cmd_snapshot!("push_no_registry", push(&["policies", "policies"]));
    let digest = format!("{target}@sha256:{}", "0".repeat(64));
    assert_cmd_snapshot!("push_digest", push(&[&digest, "policies"]));
}
