//! Rules that join elements of a list, which are evaluated by loops with filters.

use fastrand::Rng;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_rego::Version;
use kaudit_test_support::opa::{
    comparison::{OpaComparison, by_opa},
    on_deep_stack,
};
use serde_json::json;

/// Conditions of rules that join elements of a list: `{v}` is an element, `{u}` an earlier one.
const CONDITIONS: [&str; 20] = [
    "{v}.kind == \"A\"",
    "\"B\" == {v}.kind",
    "{v}.kind in {\"A\", \"C\"}",
    "is_large({v})",
    "not is_large({v})",
    "not {v}.labels",
    "count({v}.labels) > 0",
    "{v}.n > 2",
    "{v}.name == {u}.to",
    "{u}.name == {v}.to",
    "{v}.n < {u}.n",
    "{v}.labels == {u}.labels",
    "connected({u}, {v})",
    "connected({u}, {u})",
    "x{i} := number({u})",
    "x{i} := first({u}, {v})",
    "names{i} := [x.name | some x in input.spec.items; x.kind == \"C\"]; {v}.to in names{i}",
    "not {v}.name in {x.to | some x in input.spec.items; is_large(x)}",
    "targets{i} := {x.name: x.n | some x in input.spec.items}; targets{i}[{u}.to] > 1",
    "every x in input.spec.items { x.n != {v}.n + 9 }",
];
const FUNCTIONS: &str = "is_large(x) if x.n > 5\n\nis_large(x) if x.labels.large\n\n\
    connected(x, y) if x.to == y.name\n\nconnected(x, y) if { some z in input.spec.items; z.name == x.to; z.to == y.name }\n\n\
    number(x) := y.n if { some y in input.spec.items; y.name == x.to }\n\n\
    first(x, y) := x.n if x.n < y.n else := y.n\n\nlarge := [x | some x in input.spec.items; is_large(x)]\n\n";
const GENERATORS: [&str; 4] = [
    "{v} := input.spec.items[_]",
    "some {v} in input.spec.items",
    "some k{i}, {v} in input.spec.items",
    "some {v} in large",
];

/// Returns a rule of up to four loops.
fn joins(name: &str, random: &mut Rng) -> String {
    let mut body = Vec::new();
    let loops = random.usize(2..5);
    for number in 0..loops {
        let mut parts = vec![GENERATORS[random.usize(..GENERATORS.len())]];
        parts.extend((0..random.usize(1..4)).map(|_| CONDITIONS[random.usize(..CONDITIONS.len())]));
        for part in parts {
            let before = if number == 0 { 0 } else { random.usize(..number) };
            let part = part.replace("{v}", &format!("v{number}")).replace("{u}", &format!("v{before}"));
            body.push(part.replace("{i}", &body.len().to_string()));
        }
    }
    let message = (0..loops).map(|number| format!("v{number}.name")).collect::<Vec<_>>().join(", ");
    format!("{name} contains sprintf(\"%v\", [[{message}]]) if {{\n\t{}\n}}\n\n", body.join("\n\t"))
}

#[test]
fn joins_over_lists_agree_with_opa() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let mut random = Rng::with_seed(7);
    let names: Vec<String> = (0..60).map(|number| format!("deny_{number}")).collect();
    let rules: String = names.iter().map(|name| joins(name, &mut random)).collect();
    let inputs = (0..40).map(|_| list(&mut random)).collect();
    let comparison = OpaComparison {
        version: Version::V1,
        modules: vec![format!("package joins\n\n{FUNCTIONS}{rules}")],
        rules: names.into_iter().map(|name| vec!["joins".to_owned(), name]).collect(),
        inputs,
        strict: false,
    };
    let answer = by_opa(std::slice::from_ref(&comparison)).remove(0);
    let difference = on_deep_stack(|| comparison.difference(&answer));
    assert!(difference.is_none(), "{}", difference.unwrap().text);
}

/// Returns a Pod with a list of elements that refer to each other by name.
fn list(random: &mut Rng) -> serde_json::Value {
    let names = random.usize(2..12);
    let mut item = |number: usize| {
        let mut name = || format!("n{}", random.usize(..names));
        let (own, to) = (name(), name());
        let kind = ["A", "B", "C", "D"][number % 4];
        let mut item = json!({"name": own, "to": to, "kind": kind, "n": number % 9});
        if number.is_multiple_of(3) {
            item["labels"] = json!({"large": number.is_multiple_of(2)});
        }
        if number.is_multiple_of(7) {
            item["name"] = json!(number);
        }
        item
    };
    let items: Vec<serde_json::Value> = (0..24).map(&mut item).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"items": items}})
}
