use std::time::Duration;

use regorus::Value;

use super::{Answer, Bounds, Halt, evaluate};
use crate::{compile, limits::Limits, references::Path, syntax};

const BOUNDS: Bounds = Bounds { time: Duration::from_millis(200), stack: 1 << 20, strict: false };

/// Evaluates `data.p.p` of a Rego v1 module for an input; the outer error is why it cannot be planned.
fn run(module: &str, input: &str, bounds: Bounds) -> Result<Result<Answer, Halt>, String> {
    let module = syntax::read(&format!("package p\n\n{module}"), None).unwrap();
    let path: Path = vec!["p".to_owned(), "p".to_owned()];
    let compiled = compile::compile(&[&module], std::iter::empty()).unwrap();
    let program = compiled.plan([&path].into_iter());
    let rule = program.entries[&path].clone().map_err(|why| why.reason)?;
    let input = Value::from_json_str(input).unwrap();
    let data = Value::from_json_str(r#"{"limits": {"cpu": 2}}"#).unwrap();
    let answers = evaluate(&program, (&input, &data), bounds, [rule].into_iter()).0;
    Ok(answers.map(|mut answers| answers.remove(0)))
}

fn value(module: &str) -> Value {
    run(module, r#"{"a": [1, 2, 3], "o": {"x": 1, "y": 2}, "f": false}"#, BOUNDS).unwrap().unwrap().value
}

#[test]
fn rules_have_the_same_values_as_in_opa() {
    let cases = [
        ("p := 1", "1"),
        ("p := input.a[1]", "2"),
        ("p := input.a[x] if { input.o[k] = x; k == \"y\" }", "3"),
        ("p if input.f", "\"<undefined>\""),
        ("p if not input.f", "true"),
        ("p if not input.none.deeper", "true"),
        ("p := x if x := input.none", "\"<undefined>\""),
        ("default p := 7\np := input.none", "7"),
        ("p := 1 if input.none else := 2 if input.a else := 3", "2"),
        ("p contains x if some x in input.a\np contains 9", "[1,2,3,9]"),
        ("p contains x if { some x in input.a; x > 5 }", "[]"),
        ("p[k] := v if some k, v in input.o", r#"{"x":1,"y":2}"#),
        ("p := [[i, x] | some i, x in input.a; x != 2]", "[[0,1],[2,3]]"),
        ("p := {k: [v] | some k, v in input.o}", r#"{"x":[1],"y":[2]}"#),
        ("p := {y | some x in input.a; y := x + 1}", "[2,3,4]"),
        ("p := x if [x, 2, _] = input.a", "1"),
        ("p := x if {\"x\": 1, \"y\": x} = input.o", "2"),
        ("p := x if [x, y] = [y, 4]", "4"),
        ("p if every x in input.a { x > 0 }", "true"),
        ("p if every x in input.a { x > 1 }", "\"<undefined>\""),
        ("p if every x in input.f { x > 1 }", "\"<undefined>\""),
        ("p if every x in [] { x > 1 }", "true"),
        ("f(1) := \"one\"\nf(x) := \"many\" if x > 1\np := [f(x) | some x in input.a]", r#"["one","many","many"]"#),
        ("f([x, _]) := x\np := f([5, 6])", "5"),
        ("default f(_) := 0\nf(x) := 1 if x == 2\np := [f(x) | some x in input.a]", "[0,1,0]"),
        (
            "q contains {\"n\": x, \"k\": \"a\"} if some x in input.a\np contains n if q[{\"n\": n, \"k\": \"a\"}]",
            "[1,2,3]",
        ),
        ("p := count([v | walk(input.o, [_, v])])", "3"),
        ("p := x if walk(input.o, [[\"y\"], x])", "2"),
        ("p := data.limits.cpu", "2"),
        ("p := 1 in input.a", "true"),
        ("p := sprintf(\"%d\", input.none)", "\"<undefined>\""),
        ("p := to_number(\"x\")", "\"<undefined>\""),
        ("p := $\"{input.a[0]} {input.none}\"", "\"1 <undefined>\""),
        ("p if { print(input.none); true }", "true"),
    ];
    for (module, wanted) in cases {
        assert_eq!(value(module).to_string(), wanted, "{module}");
    }
}

#[test]
fn conflicting_values_are_an_error() {
    for module in [
        "p := 1\np := 2",
        "p := x if some x in input.a",
        "f(x) := x\nf(x) := x + 1\np := f(1)",
        "p[k] := x if { some x in input.a; k := \"k\" }",
        "p := {\"k\": x | some x in input.a}",
    ] {
        let answer = run(module, r#"{"a": [1, 2]}"#, BOUNDS).unwrap();
        assert!(matches!(answer, Err(Halt::Failed(_))), "{module}: {answer:?}");
    }
    assert_eq!(value("p := 1\np := 1"), Value::from(1));
    let strict = Bounds { strict: true, ..BOUNDS };
    assert!(run("p := to_number(\"x\")", "{}", strict).unwrap().is_err());
}

#[test]
fn each_definition_has_its_own_value() {
    let module = "p contains \"a\"\np contains x if some x in input\np contains \"b\" if input.none";
    let answer = run(module, r#"["a", "c"]"#, BOUNDS).unwrap().unwrap();
    assert_eq!(answer.value.to_string(), r#"["a","c"]"#);
    let definitions: Vec<String> = answer.definitions.iter().map(ToString::to_string).collect();
    assert_eq!(definitions, [r#"["a"]"#, r#"["a","c"]"#, "[]"]);
}

#[test]
fn documents_combine_rules_and_data() {
    let cases = [
        ("p := object.get(data.limits, \"cpu\", 0)", "2"),
        ("q[x].y[z] := 2 if some x, z in {\"k\": 1}\np := q", r#"{"k":{"y":{"1":2}}}"#),
        ("q[input.o.x].y[k] := v if some k, v in input.o\np := q", r#"{"1":{"y":{"x":1,"y":2}}}"#),
        ("q[k] contains v if { some k in [\"a\", \"b\"]; some v in input.a }\np := q", r#"{"a":[1,2,3],"b":[1,2,3]}"#),
        ("q[k].list contains v if { some k in [\"a\"]; some v in input.a }\np := q.a.list", "[1,2,3]"),
        ("q.a.b := 1\nq[x] := 2 if x := \"c\"\np := q", r#"{"a":{"b":1},"c":2}"#),
        ("q.a.b := 1\nq[x].c := 2 if x := \"a\"\np := q", r#"{"a":{"b":1,"c":2}}"#),
        ("q.a.b := 1 if input.f\np := q", r#"{"a":{}}"#),
        ("q.a.f(x) := x\nq.b := 1\np := q", r#"{"a":{},"b":1}"#),
        ("q.a := 1\nq.b := 2\np := [v | some k; v := q[k]]", "[1,2]"),
        ("q.a.ok := 1\nq.b.no := 2\np := [k | data.p.q[k].ok]", r#"["a"]"#),
        ("default q := {x | some x in [1, 2]}\nq := 1 if input.f\np := q", "[1,2]"),
        ("default f(_) := [x | some x in [1, 2]]\nf(x) := 1 if x == 2\np := f(1)", "[1,2]"),
    ];
    for (module, wanted) in cases {
        assert_eq!(value_text(module), wanted, "{module}");
    }
}

#[test]
fn replacements_by_with_are_only_visible_inside() {
    let cases = [
        ("q := input.a\np := [q, y] if y := q with input as {\"a\": 7}", "[[1,2,3],7]"),
        ("q := input.a[1]\np := [q, y] if y := q with input.a as [4, 5]", "[2,5]"),
        ("q := input.z.y\np := y if y := q with input.z.y as 6", "6"),
        ("q contains x if some x in input.a\np := [x | q[x] with input.a as [8, 9]]", "[8,9]"),
        ("q := 1\nr := q + 1\np := [r, y] if y := r with data.p.q as 5", "[2,6]"),
        ("q := data.limits.cpu\np := y if y := q with data.limits.cpu as 9", "9"),
        ("q := data.limits\np := y if y := q with data.limits.memory as 9", r#"{"cpu":2,"memory":9}"#),
        ("f(x) := x\nq := f(1)\np := [q, y] if y := q with f as 3", "[1,3]"),
        ("f(x) := x\ng(x) := f(x) + 10\nq := f(1)\np := y if y := q with f as g", "11"),
        ("q := count(input.a)\np := y if y := q with count as sum", "6"),
        ("q := input.a[0] < 1\np := y if y := q with lt as true", "true"),
        ("q := time.now_ns()\np := y if y := q with time.now_ns as 12", "12"),
        ("p := time.now_ns() == time.now_ns()", "true"),
        ("q if input.f\np if not q with input.f as false", "true"),
        ("q if input.f\np if not q with input.f as true", "\"<undefined>\""),
        ("q if input.f\np if not q with input.f as input.none", "\"<undefined>\""),
        ("q := input.x\nr := y if y := q with input.x as 2\np := z if z := r with input.x as 1", "2"),
        ("q := [input.x, input.y]\nr := y if y := q with input.x as 2\np := z if z := r with input.y as 1", "[2,1]"),
        (
            "q := [x | some x in input.a; x > 1]\np := [count(q) | some y in [[2], [2, 3], []]; n := count(q) with input.a as y; n >= 0]",
            "[2,2,2]",
        ),
        ("q := count(input.a)\np := [n | some y in [[2], [2, 3], []]; n := q with input.a as y]", "[1,2,0]"),
        ("p if every x in input.a { x > 5 } with input.a as [6]", "true"),
    ];
    for (module, wanted) in cases {
        assert_eq!(value_text(module), wanted, "{module}");
    }
}

fn value_text(module: &str) -> String {
    value(module).to_string()
}

#[test]
fn recursive_rules_are_not_planned() {
    for module in ["p := data.p", "p := data[input.x]", "q := p\np := q"] {
        assert_eq!(run(module, "{}", BOUNDS).unwrap_err(), "recursion", "{module}");
    }
}

#[test]
fn nested_loops_are_stopped_by_limits() {
    let range = "numbers.range(1, 3000)";
    for body in [
        format!("some a in {range}; some b in {range}; some c in {range}; a + b + c < 0"),
        format!("every a in {range} {{ every b in {range} {{ every c in {range} {{ a + b + c > 0 }} }} }}"),
    ] {
        let began = std::time::Instant::now();
        let answer = run(&format!("p if {{ {body} }}"), "{}", BOUNDS).unwrap();
        assert_eq!(answer, Err(Halt::TimedOut), "{body}");
        assert!(began.elapsed() < Duration::from_mins(1));
    }
    let long = Bounds { time: Duration::from_mins(10), ..BOUNDS };
    let all = format!("p := [[a, b, c] | some a in {range}; some b in {range}; some c in {range}]");
    assert_eq!(run(&all, "{}", long).unwrap(), Err(Halt::OutOfMemory));
    let little = Bounds { stack: 64, ..BOUNDS };
    let deep = "q := 1 if input.a\nr := q\np := [x | some y in [r]; some x in [y]]";
    assert!(matches!(run(deep, "{}", little).unwrap(), Err(Halt::Failed(_))));
}

#[test]
fn nested_loops_over_one_list_only_visit_matching_elements() {
    // Each of these would take many minutes if every loop visited all elements.
    let items: Vec<String> = (0..20_000)
        .map(|n| {
            format!(r#"{{"n": {n}, "k": "{}", "to": {}}}"#, if n % 5_000 == 0 { "a" } else { "b" }, (n + 1) % 20_000)
        })
        .collect();
    let input = format!(r#"{{"l": [{}]}}"#, items.join(","));
    let bounds = Bounds { time: Duration::from_secs(30), ..BOUNDS };
    let run = |module: &str| run(module, &input, bounds).unwrap().unwrap().value;
    let levels = |condition: &str| {
        let levels = (0..8).map(|n| format!("some x{n} in input.l\n{}", condition.replace('x', &format!("x{n}"))));
        format!("\np := count([1 | {}])", levels.collect::<Vec<_>>().join("\n"))
    };
    assert_eq!(run(&levels("x.k == \"a\"")), Value::from(65_536));
    assert_eq!(run(&format!("f(x) if x.k == \"a\"{}", levels("f(x)"))), Value::from(65_536));
    let joined = "p := count([1 | some x in input.l; some y in input.l; y.n == x.to; some z in input.l; y.to == z.n])";
    assert_eq!(run(joined), Value::from(20_000));
    let listed = "p := count([1 | some x in input.l; a := [y.n | some y in input.l; y.k == \"a\"]; x.n in a])";
    assert_eq!(run(listed), Value::from(4));
    let guarded = "never(x) if x.k == \"c\"\nis(x) if x.n >= 0\n\
        p := count([1 | some x in input.l; some y in input.l; is(y); never(x)])";
    assert_eq!(run(guarded), Value::from(0));
}

#[test]
fn values_dropped_with_an_element_are_not_charged() {
    let bounds = Bounds { time: Duration::from_secs(30), ..BOUNDS };
    let input = format!(r#"{{"l": [{}]}}"#, (0..800).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let run = |module: &str| run(module, &input, bounds).unwrap();
    // Each of these makes more than an evaluation may hold.
    let made = "x in input.l; l := [[x, y, y, y, y, y, y, y, y, y] | some y in input.l]";
    assert_eq!(run(&format!("p := count([1 | some {made}; count(l) < 0])")).unwrap().value, Value::from(0));
    assert_eq!(run(&format!("p := [l | some {made}]")), Err(Halt::OutOfMemory));
    // Of function calls, only the latest are cached.
    let called = format!("f(l) := [l, l]\np := count([1 | some {made}; m := f(l); count(m[0]) < 0])");
    assert_eq!(run(&called).unwrap().value, Value::from(0));
}

#[test]
fn errors_of_elements_after_the_end_of_a_loop_do_not_count() {
    let input = format!(r#"{{"l": [{}]}}"#, (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    // f(30) has two values.
    let module = "f(x) := 1 if x < 40\nf(x) := 2 if x == 30\nhas(y) if { some x in input.l; f(x) == 1; x == y }\n";
    let value_of = |rule: &str| run(&format!("{module}{rule}"), &input, BOUNDS).unwrap().map(|answer| answer.value);
    assert_eq!(value_of("p := [y | some y in [1, 2, 3, 4]; has(y)]"), Ok(Value::from_json_str("[1,2,3,4]").unwrap()));
    assert!(value_of("p := [y | some y in [1, 2, 3, 35]; has(y)]").is_err());
    let guard = "bad(x) if f(x + 26) == 1\np := [x | some x in [1, 2, 3, 4]; some y in input.l; y > 100; bad(x)]";
    assert_eq!(value_of(guard), Ok(Value::new_array()));
}

#[test]
fn functions_are_evaluated_once_for_the_same_arguments() {
    // Otherwise it would take 2^60 calls.
    let functions = (1..60).map(|n| format!("f{n}(x) := y if {{ y := f{0}(x); y == f{0}(x) }}\n", n - 1));
    let module: String = std::iter::once("f0(x) := x + 1\n".to_owned()).chain(functions).collect();
    assert_eq!(value(&format!("{module}p := f59(1)")), Value::from(2));
    // Twelve different arguments exceed the cache, and still have the right values.
    assert_eq!(
        value("f(x) := x * 2\np := count([f(x) | some y in [1, 2]; some x in numbers.range(1, 12); y > 0])"),
        Value::from(24)
    );
    assert_eq!(Limits::default().stack, BOUNDS.stack);
}
