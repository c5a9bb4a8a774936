//! Traces of small modules.

use super::*;
use crate::{
    file::Form,
    limits::Limits,
    program::Program,
    syntax::{self, Position},
};

/// Traces a rule of a module.
fn trace(text: &str, rule: usize, input: &str) -> Vec<Option<TracedBranch>> {
    let files = [File::new("p.rego".into(), Form::Rego, text.to_owned())];
    let modules = [syntax::read(text, None).unwrap()];
    let input = Value::from_json_str(input).unwrap();
    let evaluator = Evaluator::new(Program::default(), Value::new_object(), &Limits::default());
    let uses =
        ModuleUses::new(&[&modules[0]], &compile::resolve(&[&modules[0]], std::iter::empty()).nodes(&[&modules[0]]));
    let tracer = Tracer { files: &files, modules: &modules, uses: &uses, evaluator: &evaluator, input: &input };
    let at = SourceLocation { module: 0, at: Position { line: modules[0].rules[rule].at.line, column: 1 } };
    tracer.trace(at)
}

/// Traces the first rule of a module, and formats each statement of its first branch: the number of attempts that
/// reached it, and the values with which it holds or fails.
fn shown(text: &str, input: &str) -> Vec<String> {
    of_rule(text, 0, input)
}

fn of_rule(text: &str, rule: usize, input: &str) -> Vec<String> {
    let branch = trace(text, rule, input).remove(0).unwrap();
    let mut lines = of_body(&branch.body);
    lines.extend(branch.value.map(|value| format!("value {}", value.value)));
    lines
}

fn of_body(body: &TracedBody) -> Vec<String> {
    let parts = |parts: &[TracedPart]| {
        parts.iter().map(|part| format!("{} = {}", part.text, part.value)).collect::<Vec<_>>().join(", ")
    };
    let passed = body.passed();
    let mut lines = Vec::new();
    for (index, statement) in body.statements.iter().enumerate() {
        let TracedStatement { reached, held, parts: own, inside, .. } = statement;
        let holds = index < passed;
        let values = parts(if holds { held } else { own });
        lines.push(format!("{reached} {} {values}", if holds { "holds" } else { "fails" }));
        if let Some((element, body)) = inside.as_ref().filter(|_| !holds) {
            lines.push(format!("  of {}", parts(element)));
            lines.extend(of_body(body).into_iter().map(|line| format!("  {line}")));
        }
    }
    lines.push(format!("{} solutions", body.solutions));
    lines
}

#[test]
fn values_come_from_the_first_attempt_that_gets_furthest() {
    let text = "package p\n\ndeny contains x if {\n\tsome c in input.cs\n\tc.n > 1\n\tx := c.name\n\tx != \"b\"\n}\n";
    let cs = |last: &str| format!(r#"{{"cs": [{{"n": 0}}, {{"n": 2, "name": "b"}}, {{"n": 3, "name": "{last}"}}]}}"#);
    let expected = [
        r#"1 holds c = {"n":2,"name":"b"}"#,
        "3 holds c.n > 1 = true",
        r#"2 holds x = "b""#,
        r#"2 fails x = "b""#,
        "0 solutions",
    ];
    let found = shown(text, &cs("b"));
    assert_eq!([&found[0], &found[2], &found[3], &found[4]], [expected[0], expected[2], expected[3], expected[4]]);
    let found = shown(text, &cs("c"));
    assert_eq!(found[0], r#"1 holds c = {"n":3,"name":"c"}"#);
    assert_eq!(found[4], "1 solutions");
}

#[test]
fn statements_are_in_evaluation_order() {
    let text = "package p\n\ndeny if {\n\tx > 1\n\tx = input.n\n}\n";
    assert_eq!(shown(text, r#"{"n": 2}"#), ["1 holds x = 2, input.n = 2", "1 holds x = 2", "1 solutions"]);
    assert_eq!(shown(text, r#"{"n": 1}"#), ["1 holds x = 1, input.n = 1", "1 fails x = 1", "0 solutions"]);
    let text = "package p\n\ndeny if {\n\tsome x\n\tx != 7\n\tcount(input.xs) == y\n\ty = 2\n\tinput.xs[_] = x\n}\n";
    let found = shown(text, r#"{"xs": [7, 7]}"#);
    assert_eq!(found.last().map(String::as_str), Some("0 solutions"));
    assert_eq!(found[3..5], ["2 fails x = 7", "0 fails "]);
}

#[test]
fn values_are_noted_for_expressions_that_bind_a_variable() {
    let text = "package p\n\npobj[k] := v if some k, v in input.o\n\ndeny if {\n\tpobj[v] == 3\n}\n";
    let found = of_rule(text, 1, r#"{"o": {"a": 1, "b": 2}}"#);
    assert_eq!(found, [r#"1 fails pobj[v] = 1, pobj = {"a":1,"b":2}"#, "0 solutions"]);
    let text = "package p\n\ndeny if {\n\twalk(input, [p, v])\n\tv == 2\n}\n";
    let found = shown(text, r#"{"o": 1}"#);
    assert_eq!(found[1], r#"2 fails v = {"o":1}"#);
}

#[test]
fn other_statements_keep_their_values_if_one_cannot_be_noted() {
    let text = "package p\n\ndeny if {\n\tx := input.n\n\ty := [z | z := [x][_]; z > 0]\n\ty[i] == [z | z := x]\n}\n";
    let found = shown(text, r#"{"n": 1}"#);
    assert_eq!(found[..2], ["1 holds x = 1", "1 holds y = [1]"]);
}

#[test]
fn too_long_traces_are_dropped() {
    let text = "package p\n\ndeny if {\n\tsome i in numbers.range(1, 60000)\n\tsome j in [1, 2]\n\ti * j < 0\n}\n";
    assert!(trace(text, 0, "{}").remove(0).is_none());
}

#[test]
fn an_operand_of_a_negation_may_be_undefined() {
    let text = "package p\n\ndeny if {\n\tnot input.b\n\tnot input.a < input.n\n}\n";
    let branch = |input| trace(text, 0, input).remove(0).unwrap();
    let body = branch(r#"{"n": 1}"#).body;
    assert_eq!((body.passed(), &body.statements[1].whole), (1, &None));
    let body = branch(r#"{"n": 1, "b": true}"#).body;
    assert_eq!((body.passed(), &body.statements[0].whole), (0, &Some(Value::from(true))));
}

#[test]
fn the_element_that_fails_in_every_is_shown() {
    let text = "package p\n\ndeny if {\n\tevery i, n in input.ns {\n\t\tn > 0\n\t\ti < 2\n\t}\n}\n";
    let found = shown(text, r#"{"ns": [1, 2, 3]}"#);
    assert_eq!(found[..3], ["1 fails input.ns = [1,2,3]", "  of i = 2, n = 3", "  1 holds n = 3"]);
    assert_eq!(found[3..], ["  1 fails i = 2", "  0 solutions", "0 solutions"]);
}

#[test]
fn replaced_documents_apply_to_all_parts_of_a_statement() {
    let text =
        "package p\n\ndeny := x if {\n\tx := f(input.n) with input as {\"n\": 5}\n\tx == 6\n}\n\nf(n) := n + 1\n";
    assert_eq!(shown(text, "{}"), ["1 holds ", "1 holds x = 6", "1 solutions", "value 6"]);
}

#[test]
fn print_is_not_shown_as_a_value() {
    let text = "package p\n\ndeny if {\n\tprint(input.n)\n\tinput.n == 2\n}\n";
    let found = shown(text, r#"{"n": 1}"#);
    assert_eq!(found[1], "1 fails input.n = 1");
}
