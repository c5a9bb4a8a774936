//! The tools that no control plane needs.

use std::process::Command;

use kaudit_controlplane::{Tool, require_tool, tool};

#[test]
fn helm_runs() {
    assert_says(Tool::Helm, "v4.");
}

#[test]
fn opa_runs() {
    assert_says(Tool::Opa, "Version: 1.");
}

fn assert_says(name: Tool, version: &str) {
    if !require_tool(name) {
        return;
    }
    let output = Command::new(tool(name).expect("a binary")).arg("version").output().expect("an output");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(version), "{said}");
}
