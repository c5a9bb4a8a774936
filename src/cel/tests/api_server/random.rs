//! Random expressions, compared with the API server.

use std::env;

use kaudit_controlplane::{Tool, require_tool};

use crate::{
    generator::ExpressionGenerator,
    server::{Question, answer, difference, expected, is_same},
};

/// The expressions that are asked for at once.
const BATCH: usize = 1000;

fn number(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn random_expressions_have_the_outcomes_of_the_api_server() {
    if !require_tool(Tool::Cel) {
        return;
    }
    let seed = number("KAUDIT_TEST_SEED", 1);
    let mut left = usize::try_from(number("KAUDIT_TEST_EXPRESSIONS", 2000)).unwrap();
    let mut generator = ExpressionGenerator::new(seed);
    let mut differences = Vec::new();
    let mut evaluated = 0;
    while left > 0 {
        let questions: Vec<_> = (0..left.min(BATCH))
            .map(|_| Question {
                expression: generator.expression(),
                variables: Vec::new(),
                bindings: generator.bindings(),
            })
            .collect();
        left -= questions.len();
        for (question, expected) in questions.iter().zip(expected(&questions)) {
            let found = answer(question);
            evaluated += usize::from(found.value.is_some());
            let is_fault = expected.error.as_ref().is_some_and(|error| {
                error.starts_with("panic: ")
                    || error.starts_with("internal error: ")
                    || error.contains("unsupported conversion to ref.Val")
            });
            if !is_fault && !is_same(&expected, &found) && !is_known(expected.error.as_deref(), found.error.as_deref())
            {
                differences.push(difference(question, &expected, &found));
            }
        }
    }
    println!("{evaluated} expressions have a value");
    assert!(evaluated > 200, "only {evaluated} expressions have a value");
    let shown: Vec<_> = differences.iter().take(40).map(String::as_str).collect();
    assert!(differences.is_empty(), "seed {seed}: {} differ:\n{}", differences.len(), shown.join("\n"));
}

/// Whether two errors differ only as those in `known.yaml` do.
fn is_known(expected: Option<&str>, found: Option<&str>) -> bool {
    let (Some(expected), Some(found)) = (expected, found) else { return false };
    (found.contains("unable to parse IPv6 address") && expected.contains("ParseAddr("))
        // It contains names of Go's types.
        || (expected.starts_with("invalid qualifier type: ") && found.starts_with("invalid qualifier type: "))
        // Go shows the expression, too.
        || (found.contains("error parsing regexp: ") && expected.contains("error parsing regexp: "))
        // Maps are shown in a random order.
        || (found.starts_with("join: invalid input: {") && expected.starts_with("join: invalid input: {"))
}
