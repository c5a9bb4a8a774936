//! The table of expressions, and those that are known to differ.

use kaudit_cel::EvalError;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_rego::analysis::yaml;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::server::{GivenVariable, Question, answer, difference, expected, is_same};

const EXPRESSIONS: &str = include_str!("expressions.txt");
const BINDINGS: &str = include_str!("bindings.json");

/// Variables of a policy.
const VARIABLES: [(&str, &str); 10] = [
    ("n", "object.n"),
    ("list", "object.list"),
    ("typed", "[1, 2]"),
    ("map", "{'a': 1}"),
    ("failing", "object.missing.a"),
    ("quantity", "quantity('1Gi')"),
    ("optional", "object.?m"),
    ("nested", "variables.n + size(variables.list)"),
    ("time", "timestamp(0)"),
    ("costly", "lists.range(3000).all(x, lists.range(300).all(y, x + y >= 0))"),
];
/// Expressions that use them.
const USES: &[&str] = &[
    "variables.n",
    "variables.n + variables.n",
    "variables.list[0] == 1",
    "variables.typed + ['a']",
    "variables.typed[0] + 1",
    "variables.map.a",
    "variables.map.a + 'b'",
    "variables.failing",
    "variables.failing == 1 || true",
    "has(variables.n)",
    "has(variables.failing)",
    "has(variables.missing)",
    "variables.missing",
    "variables.quantity.isLessThan(quantity('2Gi'))",
    "variables.quantity.foo",
    "variables.optional.orValue({})",
    "variables.optional.a",
    "variables.nested",
    "variables.nested + variables.nested",
    "variables.time.getFullYear()",
    "variables.time + 1",
    "variables.costly",
    "variables.costly || true",
    "variables['n']",
    "variables[object.s]",
    "dyn(variables).n",
    "variables.all(x, true)",
    "type(variables)",
    "size(variables)",
    "variables.?n",
    "variables == variables",
    "[1, 2].map(x, variables.n + x)",
    "variables.n == 1 ? variables.typed : variables.typed",
    "'n' in variables",
];

/// Expressions with another outcome, for a reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    reason: String,
    expressions: Vec<String>,
}

pub(crate) fn bindings() -> Map<String, Json> {
    serde_json::from_str(BINDINGS).unwrap()
}

/// Returns the expressions of the table, one a line; lines with `#` are titles.
pub(crate) fn expressions() -> Vec<String> {
    EXPRESSIONS.lines().filter(|line| !line.starts_with("# ")).map(str::to_owned).collect()
}

#[test]
fn expressions_have_the_outcomes_of_the_api_server() {
    if !require_tool(Tool::Cel) {
        return;
    }
    let known: Vec<Known> = yaml::from_str(include_str!("known.yaml")).unwrap();
    assert!(known.iter().all(|known| !known.reason.is_empty()));
    let known: Vec<&String> = known.iter().flat_map(|known| &known.expressions).collect();
    let ask = |expression| Question { expression, variables: Vec::new(), bindings: bindings() };
    let questions: Vec<_> = expressions().into_iter().map(ask).collect();
    assert!(questions.len() > 2500);
    let mut differences = Vec::new();
    let mut same = Vec::new();
    for (question, expected) in questions.iter().zip(expected(&questions)) {
        let found = answer(question);
        match (is_same(&expected, &found), known.contains(&&question.expression)) {
            (false, false) => differences.push(difference(question, &expected, &found)),
            (true, true) => same.push(&question.expression),
            _ => {}
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(same.is_empty(), "no longer different, remove from known.yaml: {same:?}");
    assert!(known.iter().all(|known| questions.iter().any(|question| question.expression == **known)));
}

#[test]
fn variables_have_the_types_and_costs_of_the_api_server() {
    if !require_tool(Tool::Cel) {
        return;
    }
    let variable =
        |(name, expression): (&str, &str)| GivenVariable { name: name.into(), expression: expression.into() };
    let ask = |expression: &str| Question {
        expression: expression.to_owned(),
        variables: VARIABLES.into_iter().map(variable).collect(),
        bindings: bindings(),
    };
    let questions: Vec<_> = USES.iter().copied().map(ask).collect();
    let differs = |(question, expected)| {
        let found = answer(question);
        (!is_same(&expected, &found)).then(|| difference(question, &expected, &found))
    };
    let differences: Vec<_> = questions.iter().zip(expected(&questions)).filter_map(differs).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn the_budget_is_shared() {
    let environment = kaudit_cel::Environment::admission(false);
    let program = environment.compile("[1, 2, 3].all(x, x + 0 > 0)").unwrap();
    let bindings = kaudit_cel::Bindings::new(&environment);
    let mut budget = kaudit_cel::Budget::new(40);
    assert!(program.evaluate(&bindings, &mut budget).is_ok());
    let first = budget.spent();
    assert_eq!(program.evaluate(&bindings, &mut budget).err(), (2 * first > 40).then_some(EvalError::OutOfBudget));
}
