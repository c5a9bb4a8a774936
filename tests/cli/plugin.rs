//! kaudit under the names by which `kubectl` finds it.

use std::{env, os::unix::fs::symlink, path::Path, process::Command};

use insta_cmd::assert_cmd_snapshot;
use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_test_support::files::folder;
use tempfile::TempDir;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: debug, namespace: shop}\nspec: {hostPID: true, containers: [{name: shell, image: web}]}\n";

/// Creates a folder with both links and a manifest.
fn installed() -> TempDir {
    let folder = folder(&[("pod.yaml", POD)]);
    for name in ["kubectl-kaudit", "kubectl_complete-kaudit"] {
        symlink(env!("CARGO_BIN_EXE_kaudit"), folder.path().join(name)).unwrap();
    }
    folder
}

fn plugin(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(folder.join("kubectl-kaudit"));
    command.env_clear().current_dir(folder).args(arguments);
    command
}

#[test]
fn help_and_errors_use_the_name_that_was_typed() {
    let folder = installed();
    assert_cmd_snapshot!("plugin_help", plugin(folder.path(), &["--help"]));
    assert_cmd_snapshot!("plugin_usage", plugin(folder.path(), &["check", "--onec"]));
    assert_cmd_snapshot!("plugin_conflict", plugin(folder.path(), &["check", "-f", "pod.yaml", "--context", "prod"]));
}

#[test]
fn kubectl_runs_and_completes_it() {
    if !require_tool(Tool::Kubectl) {
        return;
    }
    let folder = installed();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(tool(Tool::Kubectl).unwrap());
        command.env_clear().env("PATH", folder.path()).env("HOME", folder.path()).current_dir(folder.path());
        command.args(arguments).output().unwrap()
    };
    let check = kubectl(&["kaudit", "check", "-f", "pod.yaml", "-p", "builtin:pod_security.baseline"]);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    assert!(String::from_utf8_lossy(&check.stdout).contains("KPS-B02"), "{check:?}");
    let completed = kubectl(&["__complete", "kaudit", "check", "--fail-on", "w"]);
    let lines = String::from_utf8_lossy(&completed.stdout).into_owned();
    assert!(lines.starts_with("warn\t") && lines.trim_end().ends_with(":4"), "{lines}");
}
