//! The steps of `action.yml` run as on a runner of GitHub, with a release in a folder.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kaudit::rego::analysis::yaml;
use kaudit_test_support::files::write;
use serde_json::Value;
use tempfile::TempDir;

use crate::release::{Release, text};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A runner: its folder for temporary files, and the repository that is checked.
struct Runner {
    temporary: TempDir,
    repository: TempDir,
    release: Release,
}

impl Runner {
    fn new() -> Self {
        let release = Release::new(&["linux-amd64", "darwin-arm64"]);
        release.manifests("https://example.com/kaudit");
        Self { temporary: tempfile::tempdir().unwrap(), repository: tempfile::tempdir().unwrap(), release }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Runs a script of the action in the repository, with these variables besides those of a runner.
    fn run(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/action").join(script));
        let path = format!("{}:{}", self.file("kaudit").display(), std::env::var("PATH").unwrap());
        command.current_dir(self.repository.path()).env_clear().env("PATH", path);
        command.env("HOME", self.temporary.path()).env("RUNNER_TEMP", self.temporary.path());
        for (name, file) in [("GITHUB_PATH", "path"), ("GITHUB_OUTPUT", "output"), ("GITHUB_STEP_SUMMARY", "summary")] {
            command.env(name, self.file(file));
        }
        command.envs(variables.iter().copied()).output().unwrap()
    }

    fn install(&self, change: &[(&str, &str)]) -> Output {
        // The layout of addresses of releases: a folder for each tag.
        let releases = self.file("releases");
        fs::create_dir_all(&releases).unwrap();
        let tag = releases.join(format!("v{VERSION}"));
        if !tag.exists() {
            std::os::unix::fs::symlink(self.release.files(), &tag).unwrap();
        }
        let address = format!("file://{}", releases.display());
        let usual = [
            ("KAUDIT_RELEASES", &*address),
            ("KAUDIT_RELEASE", VERSION),
            ("KAUDIT_SHA256", ""),
            ("RUNNER_OS", "Linux"),
            ("RUNNER_ARCH", "X64"),
        ];
        self.run("install", &[&usual, change].concat())
    }

    /// Runs kaudit with the defaults of `action.yml`, except for these inputs.
    fn check(&self, change: &[(&str, &str)]) -> Output {
        let action: Value = yaml::from_str(include_str!("../../action.yml")).unwrap();
        let steps = action["runs"]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["id"] == "run").unwrap();
        let mut variables = BTreeMap::new();
        for (name, value) in step["env"].as_object().unwrap() {
            let input = value.as_str().unwrap().trim_start_matches("${{ inputs.").trim_end_matches(" }}");
            variables.insert(name.as_str(), action["inputs"][input]["default"].as_str().unwrap_or("main"));
        }
        variables.extend(change.iter().copied());
        self.run("run", &variables.into_iter().collect::<Vec<_>>())
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.current_dir(self.repository.path()).env("HOME", self.temporary.path()).env("GIT_CONFIG_NOSYSTEM", "1");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", text(&done));
    }
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: shell}\nspec:\n  containers:\n  - name: a\n    \
                   image: registry.example.com/a:1\n    securityContext: {privileged: true}\n";

#[test]
fn a_release_is_installed_only_with_its_checksum() {
    let runner = Runner::new();
    let installed = runner.install(&[]);
    assert!(installed.status.success(), "{}", text(&installed));
    assert_eq!(text(&installed), format!("kaudit {VERSION}\n"));
    assert_eq!(runner.read("path"), format!("{}\n", runner.file("kaudit").display()));

    let refused = runner.install(&[("KAUDIT_SHA256", "0000")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).starts_with("::error::kaudit-"), "{}", text(&refused));
    let name = format!("kaudit-{VERSION}-linux-amd64.tar.gz");
    fs::write(runner.release.files().join(&name), "another archive").unwrap();
    assert_eq!(runner.install(&[]).status.code(), Some(2));
    for (variable, value) in [("RUNNER_OS", "Windows"), ("RUNNER_ARCH", "X86"), ("KAUDIT_RELEASE", "9.9.9")] {
        assert!(!runner.install(&[(variable, value)]).status.success(), "{value}");
    }
}

#[test]
fn check_annotates_summarizes_and_fails_as_kaudit_does() {
    let runner = Runner::new();
    assert!(runner.install(&[]).status.success());
    write(runner.repository.path(), &[("manifests/pod.yaml", POD)]);
    let checked = runner.check(&[("FILES", "manifests/*.yaml")]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    assert!(text(&checked).contains("::error file=manifests/pod.yaml,line="), "{}", text(&checked));
    assert_eq!(runner.read("output"), "exit-code=1\n");
    assert!(runner.read("summary").contains("privileged"));
    assert!(runner.read("kaudit-comment.md").contains("privileged"));
    let sarif = fs::read_to_string(runner.repository.path().join("kaudit.sarif")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&sarif).unwrap()["version"], "2.1.0");

    for (change, code) in [
        (&[("FAIL_ON", "none")][..], 0),
        (&[("FAIL_ON", "critical")], 1),
        (&[("FAIL_ON", "critical"), ("ARGUMENTS", "--skip-rule KPS-B03")], 0),
        (&[("ARGUMENTS", "--skip-rule KPS-* --min-severity critical")], 0),
        (&[("POLICIES", "builtin:rbac builtin:probes")], 0),
        (&[("FILES", "nowhere")], 2),
        (&[("COMMAND", "delete")], 2),
    ] {
        let ended = runner.check(&[&[("FILES", "manifests")], change].concat());
        assert_eq!(ended.status.code(), Some(code), "{change:?}: {}", text(&ended));
        // What an earlier run left is not taken for a result of one that failed.
        let left = [runner.repository.path().join("kaudit.sarif"), runner.file("kaudit-comment.md")];
        assert_eq!(left.map(|file| file.exists()), [code != 2; 2], "{change:?}");
    }
}

#[test]
fn names_of_files_do_not_change_options() {
    let runner = Runner::new();
    assert!(runner.install(&[]).status.success());
    write(runner.repository.path(), &[("manifests/pod.yaml", POD), ("KPS-B03", ""), ("KPS-other", "")]);
    let inputs = [("FILES", "manifests"), ("ARGUMENTS", "--skip-rule KPS-* --min-severity critical")];
    let ended = runner.check(&inputs);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
}

/// `gh` is a script that prints the id of an earlier comment and notes its arguments.
#[test]
fn a_comment_replaces_only_that_of_an_earlier_run() {
    let runner = Runner::new();
    fs::create_dir_all(runner.file("kaudit")).unwrap();
    let variables = [("NUMBER", "7"), ("GITHUB_REPOSITORY", "shop/web"), ("GH_TOKEN", "t")];
    for (earlier, wanted) in [
        ("", "api --method POST repos/shop/web/issues/7/comments --field body=@"),
        ("42", "api --method PATCH repos/shop/web/issues/comments/42 --field body=@"),
    ] {
        let called = runner.file("called");
        let gh = format!("#!/bin/sh\necho \"$*\" >> {called:?}\n[ \"$2\" != --paginate ] || echo {earlier}\n");
        fs::write(runner.file("kaudit/gh"), gh).unwrap();
        fs::set_permissions(runner.file("kaudit/gh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(runner.file("kaudit-comment.md"), "<!-- kaudit -->\n### kaudit\n").unwrap();
        fs::write(&called, "").unwrap();
        let ended = runner.run("comment", &variables);
        assert!(ended.status.success(), "{}", text(&ended));
        let calls = runner.read("called");
        assert!(calls.contains("startswith(\"<!-- kaudit -->\")"), "{calls}");
        assert!(calls.lines().last().unwrap().starts_with(wanted), "{calls}");
        // Without a comment, nothing is asked.
        fs::remove_file(runner.file("kaudit-comment.md")).unwrap();
        fs::write(&called, "").unwrap();
        assert!(runner.run("comment", &variables).status.success());
        assert_eq!(runner.read("called"), "");
    }
}

#[test]
fn diff_compares_the_policies_with_those_of_the_base() {
    let runner = Runner::new();
    assert!(runner.install(&[]).status.success());
    let deny = |name: &str| format!("package {name}\n\ndeny contains \"{name}\" if input.kind == \"Pod\"\n");
    write(runner.repository.path(), &[("manifests/pod.yaml", POD), ("policies/one.rego", &deny("one"))]);
    runner.git(&["init", "--quiet", "--initial-branch=main"]);
    runner.git(&["add", "."]);
    runner.git(&["commit", "--quiet", "--message=base"]);
    runner.git(&["remote", "add", "origin", "."]);
    write(runner.repository.path(), &[("policies/two.rego", &deny("two"))]);

    let inputs = [("COMMAND", "diff"), ("POLICIES", "policies"), ("FILES", "manifests"), ("BASE", "main")];
    let compared = runner.check(&inputs);
    assert_eq!(compared.status.code(), Some(1), "a new violation: {}", text(&compared));
    let comment = runner.read("kaudit-comment.md");
    assert!(comment.contains("two") && runner.read("summary") == comment, "{comment}");
    let ended = runner.check(&[&inputs[..], &[("POLICIES", "policies other")]].concat());
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended));
}

#[test]
fn hooks_of_pre_commit_check_the_files_of_a_commit() {
    let hooks: Value = yaml::from_str(include_str!("../../.pre-commit-hooks.yaml")).unwrap();
    let runner = Runner::new();
    assert!(runner.install(&[]).status.success());
    write(runner.repository.path(), &[("pod.yaml", POD)]);
    for hook in hooks.as_array().unwrap() {
        assert!(["id", "name", "description", "language"].iter().all(|key| hook[key].is_string()), "{hook}");
        let mut words = hook["entry"].as_str().unwrap().split(' ');
        let program = runner.file("kaudit").join(words.next().unwrap());
        let mut command = Command::new(program);
        let ended = command.args(words).arg("pod.yaml").current_dir(runner.repository.path()).output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{}", text(&ended));
    }
}
