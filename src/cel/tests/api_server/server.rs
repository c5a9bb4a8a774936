//! Evaluates expressions with `tests/tools/cel` and with the crate.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    thread,
};

use kaudit_cel::{Bindings, Budget, CompileError, Environment, Root};
use kaudit_controlplane::{Tool, tool};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// An expression with the values of its variables.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Question {
    pub(crate) expression: String,
    pub(crate) variables: Vec<GivenVariable>,
    pub(crate) bindings: Map<String, Json>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct GivenVariable {
    pub(crate) name: String,
    pub(crate) expression: String,
}

/// The outcome of an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ServerAnswer {
    /// Why it was refused, with line and column.
    #[serde(default)]
    pub(crate) compile: Option<String>,
    #[serde(default)]
    pub(crate) value: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<String>,
    pub(crate) cost: u64,
}

/// Returns the API server's answers. One that needs too much memory ends the process: its answer is a panic.
pub(crate) fn expected(questions: &[Question]) -> Vec<ServerAnswer> {
    let mut answers: Vec<ServerAnswer> = Vec::new();
    while let Some(rest) = questions.get(answers.len()..).filter(|rest| !rest.is_empty()) {
        let (more, crashed) = run_once(rest);
        answers.extend(more);
        if crashed {
            answers.push(ServerAnswer { error: Some("panic: out of memory".to_owned()), ..ServerAnswer::default() });
        }
    }
    answers.into_iter().map(normalized).collect()
}

/// Returns the answers up to a question that ends the process, and whether there is one.
fn run_once(questions: &[Question]) -> (Vec<ServerAnswer>, bool) {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v 6000000; exec \"$0\""])
        .arg(tool(Tool::Cel).unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = questions.iter().map(|question| serde_json::to_string(question).unwrap() + "\n").collect();
    let writer = thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let crashed = ["out of memory", "cannot allocate memory", "stack overflow"].iter().any(|why| errors.contains(why));
    assert!(writer.join().unwrap().is_ok() && output.status.success() || crashed, "{:?} {errors}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), crashed)
}

/// Returns the first problem of a compile error as `line:column: message`.
fn normalized(mut answer: ServerAnswer) -> ServerAnswer {
    let shortened = answer.compile.as_ref().map(|text| match text.split_once("ERROR: <input>:") {
        Some((_, rest)) => rest.lines().next().unwrap_or_default().to_owned(),
        None => format!("0:0: {text}"),
    });
    answer.compile = shortened;
    answer
}

/// Returns the crate's answer.
pub(crate) fn answer(question: &Question) -> ServerAnswer {
    let mut environment = Environment::admission(true);
    let refused = |error: &CompileError| ServerAnswer { compile: Some(error.to_string()), ..ServerAnswer::default() };
    for variable in &question.variables {
        if let Err(error) = environment.add_variable(&variable.name, &variable.expression) {
            return refused(&error);
        }
    }
    let program = match environment.compile(&question.expression) {
        Ok(program) => program,
        Err(error) => return refused(&error),
    };
    let bindings = Root::ALL.into_iter().fold(Bindings::new(&environment), |bindings, root| {
        match question.bindings.get(root.name()) {
            Some(value) => bindings.with(root, value),
            None => bindings,
        }
    });
    let mut budget = Budget::default();
    let value = program.evaluate(&bindings, &mut budget);
    let (value, error) = match value {
        Ok(value) => (Some(value.to_string()), None),
        Err(error) => (None, Some(error.to_string())),
    };
    ServerAnswer { compile: None, value, error, cost: budget.spent() }
}

/// Whether two answers are the same: the same problem at the same place, or the same value or error at the same cost.
///
/// Of syntax errors only the position is not compared: after the first one, the parsers differ.
pub(crate) fn is_same(expected: &ServerAnswer, found: &ServerAnswer) -> bool {
    match (&expected.compile, &found.compile) {
        (Some(expected), Some(found)) => {
            // The API server numbers the type variables of a function in a random order.
            let before_number = |text: &str| text.split("(_var").next().unwrap_or_default().to_owned();
            before_number(expected) == before_number(found) || expected.contains("Syntax error")
        }
        (None, None) => expected == found,
        _ => false,
    }
}

/// Returns what differs, for a message.
pub(crate) fn difference(question: &Question, expected: &ServerAnswer, found: &ServerAnswer) -> String {
    let variables: Vec<_> = question.variables.iter().map(|variable| (&variable.name, &variable.expression)).collect();
    format!("{}\n  {variables:?}\n  expected {expected:?}\n  found    {found:?}", question.expression)
}
