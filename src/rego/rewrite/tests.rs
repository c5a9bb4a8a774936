//! What the passes make of a text. That it means what OPA makes of it is compared in `tests/evaluator/opa/fidelity`.

use super::*;
use crate::rego::syntax;

fn read(text: &str) -> Result<Rewritten, SyntaxError> {
    rewrite(&[syntax::read(text, None)]).remove(0)
}

/// Returns the words of a text.
fn words(text: &str) -> Vec<String> {
    syntax::words(text).into_iter().map(|(word, _)| word).collect()
}

fn rewritten(text: &str) -> String {
    read(text).unwrap().text
}

#[test]
fn each_pass_rewrites_what_it_is_for() {
    for (text, want) in [
        ("f(\"x\")", "f(\"x\") := true"),
        ("p if not f(input.u)", "p if { operand__1 := input.u; not f(operand__1) }"),
        ("p if not input.u == 1", "p if { not input.u == 1 }"),
        ("p if { x := y\n(1 == x) }", "p if { x := y; 1 == x }"),
        ("p if { a } { b }", "p if { a } p if { b }"),
        ("p[x] { x = s[x] }", "p[x] { s[x] == x }"),
        ("p contains x[_].a", "p contains key__1 if { key__1 := x[_].a }"),
        ("p if [x | some x in y; x] == x", "p if { [x__1 | some x__1 in y; x__1] == x }"),
        ("p if { some i; x[i] }", "p if { x[i] }"),
        ("p := [x | y; some x in y]", "p := [x | y; some x in y; true]"),
        ("p if {\n y\n some x in y }", "p if { y; some x in y; true }"),
        ("q := 1\np if q == 2 with q as 2", "q := 1 p if { q == 2 with data.test.q as 2 }"),
        ("p := -1", "p := -1"),
        ("p if count(x, 1)", "p if { 1 = count(x) }"),
        ("p if { [a, b] := walk(x); a }", "p if { walk(x, [a, b]); a }"),
        ("p := $\"a {x}\"", "p := internal.template_string([\"a \", {part__1 | part__1 := x}])"),
        ("p := x if y else := z", "p := value__1 if { y; value__1 := x } else := value__2 if { value__2 := z }"),
        ("import data.lib.k\np := k.x", "p := data.lib.k.x"),
        ("import input\np := input.x", "p := input.x"),
        ("p := 1\nimport input.a as b\nq := b.c", "p := 1 q := input.a.c"),
        ("p[x] := 1 if y[x]\np.b := 2 if z", "p[x] := 1 if { y[x] } p[key__1] := 2 if { z; key__1 := \"b\" }"),
        ("p := 1 in x", "p := kaudit_generated.member(1, x)"),
    ] {
        assert_eq!(
            words(&rewritten(&format!("package test\n{text}"))),
            words(&format!("package test\n{want}")),
            "{text}"
        );
    }
}

#[test]
fn what_needs_nothing_stays_as_it_is() {
    for text in [
        "package a.b\n\ndeny contains msg if {\n\tsome c in input.spec.containers\n\tnot c.ready\n\tmsg := sprintf(\"%s\", [c.name])\n}\n",
        "package a\n\ndeny[msg] {\n  x := {y | y := input.xs[_]; y > 1}\n  msg := `raw`\n}\n",
        "package a\n\np := 1 + 2\n\nr := {(a | b), c}\n\ns := [(a | b)]\n\nt := {a | b}\n",
    ] {
        let words = |text: &str| words(text).into_iter().filter(|word| word != ";").collect::<Vec<_>>();
        assert_eq!(words(&rewritten(text)), words(text));
    }
}

#[test]
fn lines_hold_and_columns_where_nothing_was_put_before() {
    let text = "# comment\npackage a\n\nimport data.lib\n\ndeny contains msg if {\n\tnot f(input.u) # why\n\n\tx := lib.g(\n\t\tinput.y,\n\t)\n\tmsg := `two\nlines`\n\tz := nowhere(x)\n}\n\nlast := here\n";
    let rewritten = rewritten(text);
    let place = |text: &str, word: &str| {
        syntax::words(text).into_iter().find(|(found, _)| found == word).map(|(_, at)| at).unwrap()
    };
    for word in ["deny", "u", "g", "y", "nowhere", "last", "here"] {
        assert_eq!(place(&rewritten, word).line, place(text, word).line, "{word}\n{rewritten}");
    }
    for word in ["deny", "msg", "nowhere", "last", "here"] {
        assert_eq!(place(&rewritten, word), place(text, word), "{word}\n{rewritten}");
    }
}

#[test]
fn a_text_that_is_no_rego_says_where() {
    for (text, line, column) in [
        ("package a\np := $\"{x\"", 2, 10),
        ("package a\np if { x y }", 2, 10),
        ("package a\np := \"abc", 2, 6),
        ("package a\np := [1, 2", 2, 11),
        ("", 1, 1),
    ] {
        let why = read(text).unwrap_err();
        assert_eq!((why.at.line, why.at.column), (line, column), "{text}: {why:?}");
    }
}

#[test]
fn reading_is_linear_and_bounded() {
    for (open, close) in
        [("[", "]"), ("{", "}"), ("(", ")"), ("{a | ", "}"), ("{\"a\": ", "}"), ("f(", ")"), ("x[", "]")]
    {
        let deep = |depth: usize| format!("package a\np := {}1{}", open.repeat(depth), close.repeat(depth));
        drop(read(&deep(30)));
        assert!(read(&deep(20_000)).is_err(), "{open}");
    }
    let long = format!("package a\np := 1{}", " + 1".repeat(20_000));
    assert!(read(&long).is_err());
    let nots = format!("package a\np := {}x", "- ".repeat(20_000));
    assert!(read(&nots).is_err());
}
