//! No expression panics or overflows the stack, whatever its bytes.

use std::time::{Duration, Instant};

use fastrand::Rng;
use kaudit_cel::{Bindings, Budget, Environment, EvalError};

use crate::on_small_stack;

/// Parts of random expressions.
const TOKENS: &[&str] = &[
    "a",
    "object",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    "?",
    ":",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    " in ",
    "1",
    "1u",
    "1.5",
    "'x'",
    "\"\\n\"",
    "b'\\377'",
    "has(",
    ".all(x, ",
    ".map(",
    "x",
    ",",
    "//c\n",
    " ",
    "\n",
    "\t",
    "é",
    "😀",
    "\u{0}",
    "`",
    "@",
    "0x",
    "\"",
    "'",
    "'''",
    "\\",
    "r'",
    "true",
    "null",
    "m{",
    "_",
    "9223372036854775808",
    "1e999",
    ".?",
    "[?",
    "as",
    "size(",
    "%",
    "<",
    "==",
    ".format(",
    ".sortBy(x, ",
    "optional.",
    "\u{feff}",
    "\u{2028}",
];

/// Compiles and evaluates an expression on a small stack; returns whether it has a value.
fn run(source: &str) -> bool {
    on_small_stack(|| {
        let environment = Environment::admission(true);
        let Ok(program) = environment.compile(source) else { return false };
        program.evaluate(&Bindings::new(&environment), &mut Budget::default()).is_ok()
    })
}

#[test]
fn deep_and_long_expressions_end() {
    let repeated = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{'a': ", "1", "}"),
        ("!", "true", ""),
        ("-", "1", ""),
        ("[", "", ""),
        ("(", "", ""),
        ("{", "", ""),
        ("1+", "1", ""),
        ("1*", "1", ""),
        ("true && ", "true", ""),
        ("true || ", "true", ""),
        ("a.", "b", ""),
        ("a[", "1", "]"),
        ("1 < ", "1", ""),
        ("true ? ", "1", " : 2"),
        ("f(", "1", ")"),
        ("object", ".a", ""),
        ("[1].all(x, ", "true", ")"),
        ("[1].map(x, ", "1", ")"),
        ("has(", "a.b", ")"),
        ("optional.of(", "1", ")"),
        ("[[1]].sortBy(x, ", "1", ")"),
        ("'a' + ", "'b'", ""),
        ("true == ", "true", ""),
        ("1 in [", "1", "]"),
        ("", "'", ""),
        ("\\", "", ""),
        ("//", "", ""),
        ("true ? 1 : ", "1", ""),
        ("dyn(", "1", ")"),
        ("a.?", "b", ""),
        ("[?", "a", "]"),
    ];
    for (before, middle, after) in repeated {
        for count in [1, 20, 100, 240, 260, 1000, 20_000] {
            let source = before.repeat(count) + middle + &after.repeat(count);
            run(&source);
        }
    }
    for source in ["1+".repeat(49_999) + "1", "!".repeat(99_990) + "true", "[".repeat(100_000), "a.b".repeat(33_000)] {
        run(&source);
    }
    assert!(run(&("!".repeat(10_000) + "true")));
    assert!(run(&vec!["true"; 5000].join(" && ")));
    let error = Environment::admission(true).compile(&"1+".repeat(60_000)).err().unwrap();
    assert_eq!(error.message, "expression code point size exceeds limit: size: 120000, limit 100000");
    let error = Environment::admission(true).compile(&("1+".repeat(300) + "1")).err().unwrap();
    assert_eq!(error.message, "expression recursion limit exceeded: 250");
}

#[test]
fn random_bytes_are_refused_or_evaluated() {
    let mut random = Rng::with_seed(7);
    for _ in 0..3000 {
        let source: String = match random.u8(..3) {
            0 => (0..random.usize(..40)).map(|_| random.char(..)).collect(),
            1 => String::from_utf8_lossy(&(0..random.usize(..60)).map(|_| random.u8(..)).collect::<Vec<_>>())
                .into_owned(),
            _ => (0..random.usize(..25)).map(|_| TOKENS[random.usize(..TOKENS.len())]).collect(),
        };
        run(&source);
    }
}

#[test]
fn an_evaluation_ends_at_its_deadline() {
    let environment = Environment::admission(false);
    let program = environment.compile("lists.range(100).all(x, lists.range(100).all(y, x + y >= 0))").unwrap();
    let evaluate = |mut budget: Budget| program.evaluate(&Bindings::new(&environment), &mut budget).err();
    assert_eq!(evaluate(Budget::default().until(Instant::now())), Some(EvalError::Deadline));
    assert_eq!(evaluate(Budget::default().until(Instant::now() + Duration::from_hours(1))), None);
}

#[test]
fn expensive_expressions_are_stopped() {
    for source in [
        "lists.range(1000000).all(x, lists.range(1000000).all(y, true))",
        "lists.range(9223372036854775807)",
        "['a'].map(x, x + x).map(x, lists.range(1000000).map(y, x))",
        "lists.range(100000).map(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').join('bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb').replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaa')",
        "'%.999999f'.format([1.0])",
        "lists.range(900000).map(x, lists.range(900000))",
        "lists.range(3000).map(x, x).distinct()",
    ] {
        let environment = Environment::admission(false);
        let program = environment.compile(source).unwrap();
        let error = program.evaluate(&Bindings::new(&environment), &mut Budget::default()).err();
        assert!(error.is_some(), "{source}");
    }
}

/// Returns the result of an expression with variables that are each made of the one before; `None` if one is refused.
fn run_chain(count: usize, variable: impl Fn(&str) -> String, source: &str) -> Option<Result<String, EvalError>> {
    let mut environment = Environment::admission(true);
    environment.add_variable("v0", "['a']").unwrap();
    for index in 1..count {
        let before = format!("variables.v{}", index - 1);
        environment.add_variable(&format!("v{index}"), &variable(&before)).ok()?;
    }
    let program = environment.compile(source).ok()?;
    let value = program.evaluate(&Bindings::new(&environment), &mut Budget::default());
    Some(value.map(|value| value.to_string()))
}

#[test]
fn values_that_contain_others_very_often_end() {
    on_small_stack(|| {
        for source in [
            "variables.v39 == variables.v39",
            "variables.v39 != variables.v39",
            "{'a': variables.v39} == {'a': variables.v39}",
            "optional.of(variables.v39) == optional.of(variables.v39)",
            "variables.v39 in [variables.v39]",
            "sets.contains(variables.v39, variables.v39)",
            "variables.v39.distinct() == []",
            "variables.v39.indexOf(variables.v38) == 0",
            "dyn(variables.v39).isSorted()",
            "'%s'.format([variables.v39])",
            "'%s'.format([{'a': variables.v39}])",
            "{variables.v39: 1}",
        ] {
            let result = run_chain(40, |before| format!("[{before}, {before}]"), source);
            assert_eq!(result, Some(Err(EvalError::TooLarge)), "{source}");
        }
        let shown = run_chain(40, |before| format!("[{before}, {before}]"), "variables.v39");
        assert_eq!(shown.unwrap().unwrap(), "a list with very many values");
        let failed = run_chain(40, |before| format!("[{before}, {before}]"), "[?dyn(variables.v39)]");
        assert!(failed.unwrap().unwrap_err().to_string().ends_with("a list with very many values"));
    });
}

#[test]
fn chains_of_variables_do_not_overflow_the_stack() {
    on_small_stack(|| {
        let nested = |before: &str| format!("{}{before}{}", "[".repeat(60), "]".repeat(60));
        assert_eq!(run_chain(20, nested, "variables.v19 == variables.v19"), Some(Ok("true".to_owned())));
        assert_eq!(run_chain(60, nested, "variables.v59 == variables.v59"), None);
    });
}

#[test]
fn sets_that_cost_too_much_are_not_compared() {
    on_small_stack(|| {
        let list = "lists.range(100000)";
        let result = run_chain(1, str::to_owned, &format!("sets.equivalent({list}, {list})"));
        assert_eq!(result, Some(Err(EvalError::CostLimit)));
    });
}
