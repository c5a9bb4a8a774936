//! Runs programs and captures their output.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// Returns a policy whose message for a Pod is `text`.
pub(crate) fn policy(text: &str) -> String {
    format!("package own\n\ndeny contains msg if {{\n\tinput.kind == \"Pod\"\n\tmsg := {text:?}\n}}\n")
}

/// The manifest that is checked.
pub(crate) const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n";

/// The exit code and output of a program.
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl ProgramOutput {
    /// Returns standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {} {}", self.out, self.err))
    }

    /// Returns the messages of an audit's results.
    pub(crate) fn messages(&self) -> Vec<String> {
        let json = self.json();
        let results = json["results"].as_array().unwrap();
        results.iter().map(|result| result["message"].as_str().unwrap().to_owned()).collect()
    }
}

impl From<Output> for ProgramOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Runs a program in a directory without any user credentials.
pub(crate) fn run(
    program: impl AsRef<Path>,
    directory: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> ProgramOutput {
    let mut command = Command::new(program.as_ref());
    command.current_dir(directory).env("HOME", directory).env("DOCKER_CONFIG", directory.join("none"));
    command.env_remove("KUBECONFIG").envs(variables.iter().copied()).args(arguments);
    command.output().unwrap().into()
}

/// Runs kaudit in the same way.
pub(crate) fn kaudit(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> ProgramOutput {
    run(env!("CARGO_BIN_EXE_kaudit"), directory, variables, arguments)
}

/// Checks a Pod with policies, with further options.
pub(crate) fn check(directory: &Path, variables: &[(&str, &str)], policies: &str, more: &[&str]) -> ProgramOutput {
    fs::write(directory.join("pod.yaml"), POD).unwrap();
    let arguments = [&["check", "-f", "pod.yaml", "-o", "json", "-p", policies], more].concat();
    kaudit(directory, variables, &arguments)
}
