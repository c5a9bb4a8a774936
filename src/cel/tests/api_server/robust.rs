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
