//! The command line: exit code, standard output and standard error of the real binary.
//!
//! Results are tested where they are rendered; here only what needs a process: environment and exit code.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

use std::{fs, path::Path, process::Command};

use insta_cmd::assert_cmd_snapshot;

mod baselines;
mod builtin;
mod bundles;
mod check;
mod choices;
mod completeness;
mod diff;
mod examples_of_help;
mod excusable;
mod expand;
mod explain;
mod fixing;
mod habits;
mod init;
mod manifests;
mod mistakes;
mod nothing;
mod parameters;
mod plugin;
mod policies;
mod runner;
mod secrets;
mod system;
mod telemetry;
mod templates_in_cel;
mod test;

/// Returns `kaudit` in `folder`, without environment variables that could change its output. `PATH` is inherited:
/// inherited variables are not written into snapshots.
fn kaudit(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kaudit"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name != "PATH") {
        command.env_remove(name);
    }
    command.current_dir(folder).args(arguments);
    command
}

#[test]
fn snapshots_are_independent_of_the_machine() {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots");
    for file in fs::read_dir(snapshots).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let set = text.lines().take_while(|line| !line.starts_with("success:")).find(|line| line.contains("PATH: "));
        assert!(set.is_none_or(|line| line.trim() == "PATH: nowhere"), "{}: {set:?}", path.display());
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "{}", path.display());
    }
}

#[test]
fn help_and_version_succeed() {
    let folder = tempfile::tempdir().unwrap();
    assert_cmd_snapshot!("help", kaudit(folder.path(), &["--help"]));
    assert_cmd_snapshot!("help_check", kaudit(folder.path(), &["check", "--help"]));
    assert_cmd_snapshot!("help_check_short", kaudit(folder.path(), &["check", "-h"]));
    assert_cmd_snapshot!("help_diff", kaudit(folder.path(), &["diff", "--help"]));
    assert_cmd_snapshot!("help_explain", kaudit(folder.path(), &["explain", "--help"]));
    assert_cmd_snapshot!("help_test", kaudit(folder.path(), &["test", "--help"]));
    assert_cmd_snapshot!("help_policies", kaudit(folder.path(), &["policies", "--help"]));
    assert_cmd_snapshot!("help_init", kaudit(folder.path(), &["init", "--help"]));
    assert_cmd_snapshot!("help_rbac", kaudit(folder.path(), &["rbac", "--help"]));
    assert_cmd_snapshot!("help_fleet", kaudit(folder.path(), &["fleet", "--help"]));
    assert_cmd_snapshot!("help_push", kaudit(folder.path(), &["push", "--help"]));
    let stdout = |arguments: &[&str]| {
        let ended = kaudit(folder.path(), arguments).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    for arguments in [["--version"], ["version"]] {
        assert_eq!(stdout(&arguments), concat!("kaudit ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    assert_eq!(stdout(&["help"]), stdout(&["--help"]));
    assert_eq!(stdout(&["help", "check"]), stdout(&["check", "--help"]));
}

#[test]
fn usage_errors_are_2() {
    let folder = tempfile::tempdir().unwrap();
    assert_cmd_snapshot!("no_command", kaudit(folder.path(), &[]));
    assert_cmd_snapshot!("unknown_command", kaudit(folder.path(), &["chek"]));
    assert_cmd_snapshot!("unknown_format", kaudit(folder.path(), &["check", "--once", "-o", "jsno"]));
    assert_cmd_snapshot!("rbac_record_none_and_more", kaudit(folder.path(), &["rbac", "--record=none,events"]));
    assert_cmd_snapshot!("files_and_context", kaudit(folder.path(), &["check", "-f", "a.yaml", "--context", "prod"]));
}

#[test]
fn the_environment_is_validated_like_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut unknown = kaudit(folder.path(), &["check", "--once"]);
    assert_cmd_snapshot!("environment_unknown_format", unknown.env("KAUDIT_OUTPUT", "text,jsno"));
    let mut level = kaudit(folder.path(), &["check"]);
    assert_cmd_snapshot!("environment_log_level", level.env("KAUDIT_LOG", "inof"));
    let mut once = kaudit(folder.path(), &["check", "--initial", "skip"]);
    assert_cmd_snapshot!("environment_once", once.env("KAUDIT_ONCE", "true"));
    // A flag and the environment override the file.
    fs::write(folder.path().join("kaudit.yaml"), "once: true\nfail-on: warn\n").unwrap();
    let mut not_once = kaudit(folder.path(), &["check", "-o", "json"]);
    not_once.envs([("KAUDIT_ONCE", "false"), ("KAUDIT_CONFIG", "kaudit.yaml")]);
    assert_cmd_snapshot!("environment_over_file", not_once);
    // Two paths, not one with a comma: standard input given twice is an error.
    let mut lists = kaudit(folder.path(), &["check"]);
    assert_cmd_snapshot!("environment_lists", lists.env("KAUDIT_FILENAME", "-,-"));
}

#[test]
fn errors_in_the_file_name_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kaudit.yaml"), "once: true\nfailOn: warn\n").unwrap();
    assert_cmd_snapshot!("file_unknown_setting", kaudit(folder.path(), &["check", "--config", "kaudit.yaml"]));
    fs::write(folder.path().join("kaudit.yaml"), "once: true\nfail-on: maybe\n").unwrap();
    assert_cmd_snapshot!("file_wrong_value", kaudit(folder.path(), &["check", "--config", "kaudit.yaml"]));
    assert_cmd_snapshot!("file_missing", kaudit(folder.path(), &["check", "--config", "nowhere.yaml"]));
}

#[test]
fn roles_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    assert_cmd_snapshot!("rbac", kaudit(folder.path(), &["rbac"]));
    let team = ["rbac", "-n", "shop", "--service-account", "shop:auditor", "--record", "events"];
    assert_cmd_snapshot!("rbac_team", kaudit(folder.path(), &team));
}

#[test]
fn completions_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = kaudit(folder.path(), &["completions", shell]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("sync-timeout"), "{shell}");
    }
}
