//! Evaluates expressions as `tests/tools/cel` does: reads questions as JSON, one a line, and prints answers.

use std::io::{BufRead as _, Write as _, stdin, stdout};

use kaudit_cel::{Bindings, Budget, Environment, Root};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

#[derive(Deserialize)]
struct Question {
    expression: String,
    #[serde(default)]
    variables: Vec<Variable>,
    #[serde(default)]
    bindings: Map<String, Json>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    expression: String,
}

fn main() {
    for line in stdin().lock().lines() {
        let Ok(line) = line else { return };
        let answer = match serde_json::from_str(&line) {
            Ok(question) => answer(&question),
            Err(error) => json!({"compile": error.to_string()}),
        };
        if writeln!(stdout().lock(), "{answer}").is_err() {
            return;
        }
    }
}

fn answer(question: &Question) -> Json {
    let mut environment = Environment::admission(true);
    for variable in &question.variables {
        if let Err(error) = environment.add_variable(&variable.name, &variable.expression) {
            return json!({"compile": format!("variables.{}: {error}", variable.name)});
        }
    }
    let program = match environment.compile(&question.expression) {
        Ok(program) => program,
        Err(error) => return json!({"compile": error.to_string()}),
    };
    let bindings = Root::ALL.into_iter().fold(Bindings::new(&environment), |bindings, root| {
        match question.bindings.get(root.name()) {
            Some(value) => bindings.with(root, value),
            None => bindings,
        }
    });
    let mut budget = Budget::default();
    match program.evaluate(&bindings, &mut budget) {
        Ok(value) => json!({"value": value.to_string(), "cost": budget.spent()}),
        Err(error) => json!({"error": error.to_string(), "cost": budget.spent()}),
    }
}
