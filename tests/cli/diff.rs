//! Comparison of two policy sets for the same objects, and of two audits.

use std::{fs, path::Path, process::Command};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files;

use crate::kaudit;

/// The old policies; in the new ones, the second rule is removed and the message of the third changes.
const OLD: &str = r#"package images

# METADATA
# custom: {severity: medium}
deny_latest contains msg if {
	some container in input.spec.containers
	endswith(container.image, ":latest")
	msg := sprintf("container %s runs latest", [container.name])
}

warn_registry contains msg if {
	some container in input.spec.containers
	not startswith(container.image, "registry.example.com/")
	msg := sprintf("container %s comes from elsewhere", [container.name])
}

warn_host contains "uses the host's network" if input.spec.hostNetwork

deny_root contains "runs as root" if input.spec.securityContext.runAsUser == 0
"#;

const NEW: &str = r#"package images

# METADATA
# custom: {severity: high}
deny_latest contains msg if {
	some container in input.spec.containers
	endswith(container.image, ":latest")
	msg := sprintf("container %s runs latest", [container.name])
}

warn_host contains "hostNetwork is true: remove it" if input.spec.hostNetwork

warn_root contains "runs as root" if input.spec.securityContext.runAsUser == 0

deny_owner contains "set the label owner" if not input.metadata.labels.owner
"#;

fn pod(namespace: &str, name: &str, labels: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\nspec: {{{spec}}}\n"
    )
}

fn manifests() -> String {
    let image = |image: &str| format!("containers: [{{name: web, image: {image}}}]");
    let pods = [
        pod("shop", "a", "owner: me", &image("registry.example.com/web:latest")),
        pod("shop", "b", "", &image("elsewhere.example.com/web:1")),
        pod("shop", "c", "owner: me", "hostNetwork: true"),
        pod("billing", "d", "", "securityContext: {runAsUser: 0}"),
        pod("billing", "e", "owner: me", &image("registry.example.com/web:1")),
    ];
    pods.join("---\n")
}

/// Runs git in a folder, without the user's settings.
fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
    command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a repository with the old policies on branch `main`, and the new ones and manifests in the work tree.
fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = files::folder(&[&[("policies/images.rego", OLD)][..], files].concat());
    git(folder.path(), &["init", "--quiet", "--initial-branch=main"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "--quiet", "--message=old"]);
    fs::write(folder.path().join("policies/images.rego"), NEW).unwrap();
    fs::write(folder.path().join("pods.yaml"), manifests()).unwrap();
    folder
}

fn diff(folder: &Path, arguments: &[&str]) -> Command {
    kaudit(folder, &[&["diff"], arguments].concat())
}

#[test]
fn a_commit_is_compared_with_the_work_tree() {
    let folder = repository(&[]);
    let with = |more: &[&str]| diff(folder.path(), &[&["git:main", "policies", "-f", "pods.yaml"], more].concat());
    assert_cmd_snapshot!("text", with(&[]));
    assert_cmd_snapshot!("json", with(&["-o", "json"]));
    assert_cmd_snapshot!("markdown", with(&["-o", "markdown"]));
    // Swapping the sides swaps the classes.
    assert_cmd_snapshot!("back", diff(folder.path(), &["policies", "git:HEAD:policies", "-f", "pods.yaml"]));
    let both = with(&["-o", "text", "-o", "markdown=comment.md"]).output().unwrap();
    assert_eq!(both.stdout, with(&[]).output().unwrap().stdout);
    let comment = fs::read(folder.path().join("comment.md")).unwrap();
    assert_eq!(comment, with(&["-o", "markdown"]).output().unwrap().stdout);
    // The work tree is not changed.
    assert_eq!(fs::read_to_string(folder.path().join("policies/images.rego")).unwrap(), NEW);
}

#[test]
fn new_violations_determine_the_exit_code() {
    let folder = files::folder(&[("old/images.rego", OLD), ("new/images.rego", NEW), ("pods.yaml", &manifests())]);
    let code = |arguments: &[&str]| {
        diff(folder.path(), &[arguments, &["-f", "pods.yaml"]].concat()).output().unwrap().status.code()
    };
    assert_eq!(code(&["old", "new"]), Some(1));
    assert_eq!(code(&["old", "new", "--fail-on", "none"]), Some(0));
    assert_eq!(code(&["new", "old", "--fail-on", "warn"]), Some(1));
    assert_cmd_snapshot!("nothing", diff(folder.path(), &["new", "new", "-f", "pods.yaml"]));
    // A configuration file for kaudit check also works here.
    fs::write(folder.path().join("kaudit.yaml"), "output: [sarif=a.sarif]\nfail-on: none\npolicies: [old]\n").unwrap();
    assert_eq!(code(&["old", "new", "--config", "kaudit.yaml"]), Some(0));
    assert!(!folder.path().join("a.sarif").exists());
    fs::remove_file(folder.path().join("kaudit.yaml")).unwrap();
    // A violation that only now counts by `--fail-on` also fails.
    let stricter = OLD.replace("warn_host", "deny_host");
    fs::write(folder.path().join("new/images.rego"), &stricter).unwrap();
    assert_eq!(code(&["old", "new"]), Some(1));
    assert_eq!(code(&["old", "builtin:services", "--fail-on", "warn"]), Some(0), "there are only Pods");
}

#[test]
fn files_of_a_commit_are_found_like_files_on_disk() {
    let folder = repository(&[
        ("shared/lib.rego", "package lib.names\n\nbad := {\"b\"}\n"),
        (
            "sub/policies/own.rego",
            "package own\n\nimport data.lib.names\n\ndeny contains \"bad name\" if input.metadata.name in names.bad\n",
        ),
        ("sub/policies/own_test.rego", "package own_test\n\ntest_nothing if true\n"),
        ("sub/policies/.hidden/broken.rego", "no Rego"),
        ("sub/policies/README.md", "no policy"),
    ]);
    let here = folder.path().join("sub");
    std::os::unix::fs::symlink("../../shared", here.join("policies/shared")).unwrap();
    std::os::unix::fs::symlink("own.rego", here.join("link.rego")).unwrap();
    git(folder.path(), &["add", "sub"]);
    git(folder.path(), &["commit", "--quiet", "--message=link"]);
    // These all name the same policies.
    for (old, new) in [
        ("git:main", "policies"),
        ("policies", "git:main"),
        ("git:main:sub/policies", "git:main:./policies"),
        ("git:main:./policies/../policies/", "git:HEAD"),
    ] {
        let output = diff(&here, &[old, new, "-f", "../pods.yaml", "-o", "json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{old} {new}: {}", String::from_utf8_lossy(&output.stderr));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["summary"]["stays"], 1, "{old} {new}: {}", result["summary"]);
        assert_eq!(result["before"]["rules"], 1);
    }
    let own = diff(&here, &["builtin:services", "git:main:sub/policies", "-f", "../pods.yaml", "-o", "json"])
        .output()
        .unwrap();
    let own: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(own["appears"][0]["source"]["file"], "git:main:sub/policies/own.rego");
    // A single file, and an absolute path on the other side.
    let path = folder.path().join("policies");
    let absolute =
        diff(&here, &["git:main", path.to_str().unwrap(), "-f", "../pods.yaml", "--fail-on", "none"]).output().unwrap();
    assert!(absolute.status.success(), "{}", String::from_utf8_lossy(&absolute.stderr));
    assert!(String::from_utf8_lossy(&absolute.stdout).contains("git:main:policies ("));
    let file =
        diff(&here, &["git:main:policies/images.rego", "builtin:services", "-f", "../pods.yaml"]).output().unwrap();
    assert_eq!(file.status.code(), Some(0), "{}", String::from_utf8_lossy(&file.stderr));
}

#[test]
fn links_in_a_commit_that_lead_to_links_are_bounded() {
    let folder = repository(&[("links/9/own.rego", NEW)]);
    for level in 0..9 {
        let directory = folder.path().join(format!("links/{level}"));
        fs::create_dir(&directory).unwrap();
        for link in 0..10 {
            std::os::unix::fs::symlink(format!("../{}", level + 1), directory.join(link.to_string())).unwrap();
        }
    }
    git(folder.path(), &["add", "links"]);
    git(folder.path(), &["commit", "--quiet", "--message=links"]);
    let output = diff(folder.path(), &["git:main:links", "policies", "-f", "pods.yaml"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("links lead to more than 5000 files and directories"), "{err}");
}

#[test]
fn missing_inputs_are_errors_with_advice() {
    let folder = repository(&[("broken/broken.rego", "package broken\n\ndeny contains \"x\" if {\n")]);
    let with = |arguments: &[&str]| diff(folder.path(), &[arguments, &["-f", "pods.yaml"]].concat());
    assert_cmd_snapshot!("no_commit", with(&["git:mian", "policies"]));
    assert_cmd_snapshot!("no_path", with(&["git:main:polices", "policies"]));
    assert_cmd_snapshot!("no_revision", with(&["git:", "policies"]));
    assert_cmd_snapshot!("outside", with(&["git:main:../policies", "policies"]));
    assert_cmd_snapshot!("refused", with(&["git:main:broken", "policies"]));
    assert_cmd_snapshot!("no_objects", diff(folder.path(), &["git:main", "policies"]));
    assert_cmd_snapshot!("no_format", with(&["git:main", "policies", "-o", "sarif"]));
    assert_cmd_snapshot!("files_and_context", with(&["git:main", "policies", "--context", "prod"]));
    let elsewhere = files::folder(&[("policies/images.rego", NEW), ("pods.yaml", &manifests())]);
    let mut command = diff(elsewhere.path(), &["git:main", "policies", "-f", "pods.yaml"]);
    command.env("GIT_CEILING_DIRECTORIES", elsewhere.path().parent().unwrap());
    assert_cmd_snapshot!("no_repository", command);
    let mut command = with(&["git:main", "policies"]);
    assert_cmd_snapshot!("no_git", command.env("PATH", "nowhere"));
}

#[test]
fn results_of_failing_policies_are_not_compared() {
    let broken = NEW.replace(
        "deny_owner contains",
        "network := \"a\" if input.spec.hostNetwork\n\nnetwork := \"b\" if input.spec.hostNetwork\n\nwarn_host contains \"x\" if network == \"a\"\n\ndeny_owner contains",
    );
    let folder = files::folder(&[("old/images.rego", OLD), ("new/images.rego", &broken), ("pods.yaml", &manifests())]);
    assert_cmd_snapshot!("fails", diff(folder.path(), &["old", "new", "-f", "pods.yaml", "--fail-on", "none"]));
    // A refused file does not affect the others.
    fs::write(folder.path().join("new/images.rego"), "package images\n\ndeny contains \"x\" if {\n").unwrap();
    fs::write(folder.path().join("new/more.rego"), "package more\n\ndeny contains \"x\" if false\n").unwrap();
    assert_cmd_snapshot!("left_out", diff(folder.path(), &["old", "new", "-f", "pods.yaml", "--allow-refused"]));
}

#[test]
fn exceptions_apply_to_both_sides() {
    let exception = "apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {name: b}\nspec:\n  policies: [{name: images, rules: [deny_owner]}]\n  match: {names: [b]}\n  reason: later\n  expiresAt: \"2999-01-01\"\n";
    let folder = files::folder(&[
        ("old/images.rego", OLD),
        ("new/images.rego", NEW),
        ("pods.yaml", &manifests()),
        ("exceptions.yaml", exception),
    ]);
    assert_cmd_snapshot!(
        "exceptions",
        diff(folder.path(), &["old", "new", "-f", "pods.yaml", "--exceptions", "exceptions.yaml"])
    );
}

/// Writes an audit of manifests.
fn audit(folder: &Path, name: &str, arguments: &[&str]) {
    let to = format!("json={name}");
    let output = kaudit(folder, &[&["check", "-o", &to], arguments].concat()).output().unwrap();
    assert!(folder.join(name).exists(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn two_audits_are_compared_as_far_as_possible() {
    let later = manifests().replace("web:latest", "web:1").replace("web:1", "web:latest");
    let folder = files::folder(&[
        ("old/images.rego", OLD),
        ("new/images.rego", NEW),
        ("pods.yaml", &manifests()),
        ("later.yaml", &later),
        ("broken.yaml", &format!("{}---\nkind: [\n", manifests())),
    ]);
    audit(folder.path(), "before.json", &["-p", "old", "-f", "pods.yaml"]);
    audit(folder.path(), "after.json", &["-p", "old", "-f", "later.yaml"]);
    audit(folder.path(), "other.json", &["-p", "new", "-f", "pods.yaml"]);
    audit(folder.path(), "broken.json", &["-p", "old", "-f", "broken.yaml"]);
    audit(folder.path(), "shop.json", &["-p", "old", "-f", "pods.yaml", "-n", "shop"]);
    let with = |arguments: &[&str]| diff(folder.path(), arguments);
    assert_cmd_snapshot!("audits", with(&["before.json", "after.json"]));
    assert_cmd_snapshot!("audits_same", with(&["before.json", "before.json"]));
    assert_cmd_snapshot!("audits_other_policies", with(&["before.json", "other.json", "--fail-on", "none"]));
    assert_cmd_snapshot!("audits_other_policies_markdown", with(&["before.json", "other.json", "-o", "markdown"]));
    assert_cmd_snapshot!("audits_unread", with(&["broken.json", "after.json"]));
    assert_cmd_snapshot!("audits_namespace", with(&["before.json", "shop.json", "-o", "json"]));
    assert_cmd_snapshot!("audits_and_policies", with(&["before.json", "new"]));
    assert_cmd_snapshot!("audits_and_files", with(&["before.json", "after.json", "-f", "pods.yaml"]));
    let text = fs::read_to_string(folder.path().join("before.json")).unwrap();
    fs::write(folder.path().join("old.json"), text.replace("v1alpha1", "v0")).unwrap();
    assert_cmd_snapshot!("audits_of_another_version", with(&["old.json", "after.json"]));
    fs::write(folder.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    assert_cmd_snapshot!("audits_cut", with(&["cut.json", "after.json"]));
}

#[test]
fn comments_fit_and_are_plain_text() {
    let many: Vec<String> =
        (0..900).map(|number| pod("shop", &format!("pod-{number}"), "", "hostNetwork: true")).collect();
    let policy = "package p\n\ndeny contains sprintf(\"<b>|`@team` #1 %s\", [input.metadata.name])\n";
    let folder = files::folder(&[
        ("old/p.rego", "package p\n\ndeny contains \"x\" if false\n"),
        ("new/p.rego", policy),
        ("pods.yaml", &many.join("---\n")),
    ]);
    let output = diff(folder.path(), &["old", "new", "-f", "pods.yaml", "-o", "markdown"]).output().unwrap();
    let comment = String::from_utf8(output.stdout).unwrap();
    assert!(comment.len() < 60_000, "{}", comment.len());
    assert!(comment.starts_with("<!-- kaudit diff -->\n### kaudit diff: 900 appear (900 fail)\n"), "{comment}");
    assert!(comment.ends_with(" were left out to fit the size limit.\n"));
    for markup in ["<b>", "@team", "`", " #1"] {
        assert!(!comment.contains(markup), "{markup}");
    }
}
