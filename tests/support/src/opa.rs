//! Runs the real `opa` as the reference, and loads the same modules into kaudit.

pub mod comparison;

use std::{
    io::Write as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use kaudit_controlplane::{Tool, tool};
use kaudit_rego::{Declared, File, Form, Limits, LoadError, Policies, Version};
use serde::de::DeserializeOwned;

/// Sends questions to `opa-cases`, one per line; returns its answers. A question that crashes it has an empty answer.
pub fn opa_cases<A: DeserializeOwned>(command: &str, questions: &[String]) -> Vec<A> {
    let mut answers = Vec::new();
    while let Some(rest) = questions.get(answers.len()..).filter(|rest| !rest.is_empty()) {
        let (lines, crashed) = run_once(command, rest);
        answers.extend(lines.iter().map(|line| serde_json::from_str(line).unwrap()));
        if crashed {
            answers.push(serde_json::from_str("{}").unwrap());
        }
    }
    answers
}

/// Returns the answers up to a question that needs too much stack or memory, and whether there is one.
fn run_once(command: &str, questions: &[String]) -> (Vec<String>, bool) {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 8000000; exec \"$0\" \"$@\""])
        .arg(tool(Tool::OpaCases).unwrap())
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = questions.join("\n") + "\n";
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let crashed = ["stack overflow", "out of memory", "cannot allocate memory"].iter().any(|why| errors.contains(why));
    assert!(writer.join().unwrap().is_ok() && output.status.success() || crashed, "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(), crashed)
}

/// Returns limits with enough time for comparisons, also on a busy machine.
pub fn limits(strict: bool) -> Limits {
    Limits { strict, evaluation: Duration::from_mins(1), ..Limits::default() }
}

/// Loads modules, each as a file named by its index, and data. Without a version, that of each module is detected by
/// its syntax.
pub fn policies(
    version: Option<Version>,
    modules: &[String],
    data: &serde_json::Value,
    limits: &Limits,
) -> Result<Policies, LoadError> {
    let declared = version.map(|version| Declared { version, by: "the test", help: "" });
    let modules = modules.iter().enumerate().map(|(index, text)| {
        let file = File::new(format!("{index}.rego").into(), Form::Rego, text.clone());
        File { declared, ..file }
    });
    let data = File::new("data.json".into(), Form::Json, data.to_string());
    Policies::load(modules.chain([data]).collect(), limits)
}

/// Calls `run` on a stack as deep as that of the evaluating threads.
pub fn on_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, run).unwrap().join().unwrap())
}
