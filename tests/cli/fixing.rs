//! `--fix` and `--diff`: apply the fixes that results name.

use std::{fs, path::Path, process::Command};

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;

use crate::kaudit;

/// The directory of examples, whose manifests are copied before they are changed.
fn examples() -> tempfile::TempDir {
    let folder = folder(&[]);
    fs::create_dir(folder.path().join("manifests")).unwrap();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/manifests")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join("manifests").join(file.file_name())).unwrap();
    }
    folder
}

fn check(folder: &Path, arguments: &[&str]) -> Command {
    kaudit(folder, &[&["check"], arguments].concat())
}

#[test]
fn examples_are_fixed_except_for_manual_work() {
    let folder = examples();
    assert_cmd_snapshot!("fix_examples_diff", check(folder.path(), &["-p", "builtin", "manifests", "--diff"]));
    assert_cmd_snapshot!("fix_examples", check(folder.path(), &["-p", "builtin", "manifests", "--fix"]));
    assert_cmd_snapshot!("fix_examples_again", check(folder.path(), &["-p", "builtin", "manifests", "--diff"]));
}

const POLICY: &str = r#"
package p

deny contains {"msg": "the size is not 3", "details": {"field": "spec.size", "fix": 3}} if input.spec.size != 3

deny contains {"msg": "it has no part", "details": {"field": "spec.part.name", "fix": "yes"}} if not input.spec.part.name

deny contains {"msg": "it has a list", "details": {"field": "spec.list[0].open", "fix": null}} if input.spec.list[0].open
"#;

#[test]
fn lists_json_and_odd_layouts_are_fixed_and_the_rest_is_listed() {
    let folder = folder(&[
        ("p/p.rego", POLICY),
        (
            "list.yaml",
            "apiVersion: v1\nkind: List\nitems:\n# One.\n- {apiVersion: example.com/v1, kind: A, metadata: {name: a}, spec: {size: 1}}\n\
             - apiVersion: example.com/v1\n  kind: B\n  metadata: {name: b}\n  spec:\n    list:\n    - open: true # gone\n    size: '3'\n",
        ),
        (
            "a.json",
            "{\n  \"apiVersion\": \"example.com/v1\",\n  \"kind\": \"C\",\n  \"metadata\": {\"name\": \"c\"},\n  \"spec\": {\n    \"size\": 2\n  }\n}\n",
        ),
        ("alias.yaml", "apiVersion: example.com/v1\nkind: D\nmetadata: {name: d}\na: &a {size: 1}\nspec: *a\n"),
        ("crlf.yaml", "apiVersion: example.com/v1\r\nkind: E\r\nmetadata: {name: e}\r\nspec:\r\n  size: 1\r\n"),
    ]);
    let files = ["list.yaml", "a.json", "alias.yaml", "crlf.yaml"];
    assert_cmd_snapshot!("fix_layouts", check(folder.path(), &[&["-p", "p", "--fix"], &files[..]].concat()));
    let texts = files.map(|file| format!("== {file}\n{}", fs::read_to_string(folder.path().join(file)).unwrap()));
    insta::assert_snapshot!("fix_layouts_files", texts.concat().replace('\r', "<CR>"));
    assert_cmd_snapshot!("fix_sarif", {
        fs::write(
            folder.path().join("one.yaml"),
            "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nspec: {size: 3}\n",
        )
        .unwrap();
        check(folder.path(), &["-p", "p", "one.yaml", "-o", "sarif"])
    });
}

#[test]
fn only_files_can_be_fixed() {
    let folder = folder(&[("p/p.rego", POLICY)]);
    for (name, arguments) in [
        ("fix_cluster", &["--once", "--fix"][..]),
        ("fix_and_diff", &["-f", "p", "--fix", "--diff"]),
        ("fix_standard_input", &["-p", "p", "-f", "-", "--fix"]),
    ] {
        let mut command = check(folder.path(), arguments);
        assert_cmd_snapshot!(
            name,
            command.pass_stdin("{apiVersion: example.com/v1, kind: A, metadata: {name: a}, spec: {size: 1}}")
        );
    }
}

const PATCHES: &str = r#"
package q

deny contains {"msg": "a volume for /tmp", "details": {"patch": patch}} if {
    input.spec.containers
    not input.spec.volumes
    patch := [
        {"op": "test", "path": "/kind", "value": "Pod"},
        {"op": "add", "path": "/spec/volumes", "value": [{"name": "tmp", "emptyDir": {}}]},
        {"op": "add", "path": "/spec/containers/0/volumeMounts", "value": [{"name": "tmp", "mountPath": "/tmp"}]},
    ]
}

deny contains {"msg": "limits", "details": {"field": "spec.resources", "patch": {"spec": {"resources": {"limits": {"cpu": null}, "requests": {"cpu": "1"}}}}}} if {
    input.spec.resources.limits.cpu
}

deny contains {"msg": sprintf("argument %d", [i]), "details": {"patch": [{"op": "remove", "path": sprintf("/spec/args/%d", [i])}]}} if {
    input.spec.args[i] == "--debug"
}

deny contains {"msg": "no patch", "details": {"patch": [{"op": "move", "from": "/spec", "path": "/status"}]}} if input.spec.moved

deny contains {"msg": "does not apply", "details": {"patch": [{"op": "remove", "path": "/spec/moved"}, {"op": "remove", "path": "/spec/lost"}]}} if input.spec.moved
"#;

#[test]
fn patches_are_applied_completely_or_not_at_all() {
    let folder = folder(&[
        ("q/q.rego", PATCHES),
        (
            "pod.yaml",
            "# The shop.\napiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec:\n  containers:\n  - name: a # first\n    image: a:1\n  # Last.\n\
             \x20 restartPolicy: Always\n",
        ),
        (
            "job.yaml",
            "apiVersion: example.com/v1\nkind: Task\nmetadata: {name: t}\nspec:\n  resources:\n    limits: {cpu: 2, memory: 1Gi} # why\n  args:\n\
             \x20 - --debug # 1\n  - --port=80\n  - --debug # 2\n  moved: true\n",
        ),
    ]);
    let files = ["pod.yaml", "job.yaml"];
    assert_cmd_snapshot!("patch_sarif", check(folder.path(), &["-p", "q", "pod.yaml", "-o", "sarif"]));
    assert_cmd_snapshot!("patch_diff", check(folder.path(), &[&["-p", "q", "--diff"], &files[..]].concat()));
    assert_cmd_snapshot!("patch_fix", check(folder.path(), &[&["-p", "q", "--fix"], &files[..]].concat()));
    let texts = files.map(|file| format!("== {file}\n{}", fs::read_to_string(folder.path().join(file)).unwrap()));
    insta::assert_snapshot!("patch_files", texts.concat());
}

const USELESS: &str = r#"
package u

# The fix adds a label, but the rule is about another one.
deny contains {"msg": "no team", "details": {"patch": patch}} if {
    not input.metadata.labels.team
    patch := [{"op": "add", "path": "/spec/ports/-", "value": count(input.spec.ports)}]
}

deny contains {"msg": "no size", "details": {"field": "spec.size", "fix": 1}} if not input.spec.size
"#;

#[test]
fn a_fix_that_resolves_nothing_is_taken_back() {
    // A byte order mark before a document marker is what some editors write.
    let old = "\u{feff}---\napiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nspec:\n  ports: [1]\n";
    let folder = folder(&[("p/u.rego", USELESS), ("a.yaml", old)]);
    let text = || fs::read_to_string(folder.path().join("a.yaml")).unwrap();
    let output = check(folder.path(), &["-p", "p", "-f", "a.yaml", "--fix"]).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    let fixed = format!("{old}  size: 1\n");
    assert_eq!(text(), fixed, "{notes}");
    assert!(notes.contains("fixed 1 result in 1 file"), "{notes}");
    assert!(notes.contains("1 result not fixed: the fix of u/deny does not resolve the violation"), "{notes}");
    assert!(!notes.contains("standard input, a URL"), "{notes}");
    assert_eq!(output.status.code(), Some(1));
    // The next run finds nothing to change.
    let output = check(folder.path(), &["-p", "p", "-f", "a.yaml", "--fix"]).output().unwrap();
    assert_eq!((text(), output.status.code()), (fixed, Some(1)));
}
