//! kaudit's Rego against OPA's: the compliance cases that OPA is tested by, and policies and expressions that the real
//! `opa` answers.

mod compliance;
mod declarations;
mod expressions;
mod fidelity;
mod generated;
mod refusals;

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use kaudit::rego::{File, Form, Limits, LoadError, Policies};
use kaudit_controlplane::{Tool, tool};
use regorus::Value;
use serde::de::DeserializeOwned;

/// Puts questions to `opa-cases`, a line each; returns its answers.
pub(crate) fn opa_cases<A: DeserializeOwned>(command: &str, questions: &[String]) -> Vec<A> {
    let mut child = Command::new(tool(Tool::OpaCases).unwrap())
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = questions.join("\n") + "\n";
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// What is compared has the time that it takes, also on a busy machine.
pub(crate) fn limits(strict: bool) -> Limits {
    Limits { strict, evaluation: Duration::from_mins(1), ..Limits::default() }
}

/// Loads modules, each by itself a file that is named by its index, and data.
pub(crate) fn policies(modules: &[String], data: &serde_json::Value, limits: &Limits) -> Result<Policies, LoadError> {
    let modules = modules.iter().enumerate();
    let modules = modules.map(|(index, text)| (format!("{index}.rego"), Form::Rego, text.clone()));
    let files = modules.chain([("data.json".to_owned(), Form::Json, data.to_string())]);
    Policies::load(files.map(|(name, form, text)| File::new(name.into(), form, text)).collect(), limits)
}

fn from_json(value: &serde_json::Value) -> Value {
    Value::from_json_str(&value.to_string()).unwrap()
}

/// A value as it is when it was written as JSON and read again, large numbers rounded.
fn through_json(value: &Value) -> Value {
    from_json(&serde_json::from_str(&without_sets(value).to_string()).unwrap())
}

/// A value as JSON has it.
fn without_sets(value: &Value) -> Value {
    match value {
        Value::Set(items) => Value::from(items.iter().map(without_sets).collect::<Vec<_>>()),
        Value::Array(items) => Value::from(items.iter().map(without_sets).collect::<Vec<_>>()),
        Value::Object(entries) => {
            let key = |key: &Value| if let Value::String(_) = key { key.clone() } else { Value::from(key.to_string()) };
            let entry = |(name, value): (&Value, &Value)| (key(name), without_sets(value));
            Value::from(entries.iter().map(entry).collect::<BTreeMap<_, _>>())
        }
        _ => value.clone(),
    }
}
