//! Tests the analysis of hand-written rules, with one rule for each pitfall.

mod elements;
mod library;
mod property;

use super::inventory::LookupReach;
use crate::judge::set::PolicySet;

/// Loads one module, in package `p` unless it declares another.
fn load(module: &str) -> PolicySet {
    let root = tempfile::tempdir().unwrap();
    let package = if module.starts_with("package") { "" } else { "package p\n\n" };
    std::fs::write(root.path().join("p.rego"), format!("{package}{module}\n")).unwrap();
    PolicySet::load(&[root.path().to_owned()]).unwrap_or_else(|why| panic!("{why}\n{module}"))
}

/// A module, the paths that it reads, and the kinds that it can have results for.
struct Case(&'static str, &'static str, &'static str);

fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for Case(module, reads, kinds) in cases {
        let set = load(module);
        let policy = &set.policies[0];
        let got = (policy.reads.to_string(), policy.matches.to_string());
        if got != ((*reads).to_owned(), (*kinds).to_owned()) {
            wrong.push(format!("{module}\n  got  {} | {}\n  want {reads} | {kinds}", got.0, got.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Where values come from and where they are used.
const READS: &[Case] = &[
    Case("deny if input.a.b == 1", "a.b", "*"),
    Case(r#"deny if input["a"]["x/y"] == 1"#, r#"a["x/y"]"#, "*"),
    Case("deny if { c := input.spec.containers[_]; c.image == \"x\" }", "spec.containers[*].image", "*"),
    Case(
        "deny if { some c in input.spec.containers; f(c) }\nf(x) if g(x)\ng(x) if x.image == 1",
        "spec.containers[*].image",
        "*",
    ),
    Case("deny if f(input)\nf(x) if x.spec.a == 1", "spec.a", "*"),
    Case("import input.spec as s\ndeny if s.a == 1", "spec.a", "*"),
    Case("deny if { o := {\"a\": input.x, \"b\": input.y}; o.a.z == 1 }", "x.z y?", "*"),
    Case("deny if { o := [input.x, input.y]; o[0].z == 1 }", "x.z y.z", "*"),
    Case("deny if { [a, b] := [input.x, input.y]; a.z == 1; b }", "x.z y.z", "*"),
    Case("deny if { [a, b] = input.x; a.z == 1; b.y == 1 }", "x[*].y x[*].z", "*"),
    Case("deny if { {\"k\": a} = input.x; a.z == 1 }", "x.k.z x[*]?", "*"),
    // A variable may be used before it is bound.
    Case("deny if { c.image == 1; c = input.spec.containers[_] }", "spec.containers[*].image", "*"),
    Case(
        "deny if { c.image == i; c = input.spec.containers[j]; i = input.xs[j] }",
        "spec.containers[*].image xs[*]",
        "*",
    ),
    // Only existence, or null.
    Case("deny if not input.a", "a?", "*"),
    Case("deny if input.a", "a?", "*"),
    Case("deny if input.a == null", "a?", "*"),
    Case("deny if object.get(input, \"a\", null) == null", "a?", "*"),
    Case("deny if object.get(input.s, [\"a\", \"b\"], 1) == 1", "s.a.b", "*"),
    Case("deny if object.get(input.s, path, 1) == 1\npath := [\"a\", \"b\"]", "s.a.b", "*"),
    Case("deny if object.get(input.s, path, 1) == 1\npath := [\"a\", input.k]", "k s", "*"),
    Case("deny if object.get(input.s, path, 1) == 1\npath := [\"a\"] if input.k", "k? s", "*"),
    Case("deny if object.get(input.s, path, 1) == 1\npath := [\"a\"] if input.k else := [\"b\"]", "k? s", "*"),
    Case("deny if { path := input.k; object.get(input.s, path, 1) == 1 }\npath := [\"a\"]", "k s", "*"),
    Case("deny if object.get(input.s, input.k, 1) == 1", "k s", "*"),
    Case("deny if is_string(input.a)", "a?", "*"),
    Case("deny if count(input.a) > 0", "a[*]?", "*"),
    // Lists of names.
    Case("deny if { some l in [\"a\", \"b\"]; input.spec[l].x == 1 }", "spec.a.x spec.b.x", "*"),
    Case("deny if { l := [\"a\", \"b\"][_]; input.spec[l][_].x == 1 }", "spec.a[*].x spec.b[*].x", "*"),
    Case("deny if f(\"a\")\nf(l) if input.spec[l] == 1", "spec.a", "*"),
    // Unknown keys.
    Case("deny if { some k; input[k] == 1 }", "[*]", "*"),
    Case("deny if input.m[input.k] == 1", "k m[*]", "*"),
    Case("deny contains k if some k, v in input.m", "m[*]?", "*"),
    Case("deny contains sprintf(\"%v %v\", [k, v]) if some k, v in input.m", "m[*]", "*"),
    // Comprehensions and every.
    Case("deny if { xs := [c | some c in input.cs]; xs[_].a == 1 }", "cs[*].a", "*"),
    Case("deny if { xs := [c | c := input.cs[_]; c.b == 2]; count(xs) > 1 }", "cs[*].b", "*"),
    Case("deny if every c in input.cs { c.a == 1 }", "cs[*].a", "*"),
    Case("deny if { m := {k: v | some k, v in input.m}; m.x.y == 1 }", "m[*]", "*"),
    Case("deny if { x := [x | x := input.a.b; x > 1]; y := [x | x := input.c; x.d == 1]; x; y }", "a.b c.d", "*"),
    // Sets compare their elements as a whole.
    Case("deny if { xs := {c | c := input.cs[_]}; count(xs) > 1 }", "cs[*]", "*"),
    Case("deny if cs[_].a == 1\ncs contains c if some c in input.cs", "cs[*]", "*"),
    // Unless there cannot be two elements.
    Case("deny if os[_].a == 1\nos contains input.x if input.k", "k? x.a", "*"),
    Case("deny if { os[o]; o.a == 1 }\nos contains o if { input.k; o = input.x }", "k? x.a", "*"),
    Case("deny if { some o in os; f(o) }\nf(o) if o.a == 1\nos contains input.x", "x.a", "*"),
    Case("deny if every o in os { o.a == 1 }\nos contains input.x", "x.a", "*"),
    Case("deny if os[_].a == 1\nos contains input.x if input.k\nos contains input.x if input.l", "k? l? x", "*"),
    Case("deny if os[_].a == 1\nos contains input.x[_] if input.k", "k? x[*]", "*"),
    Case("deny if os[_].a == 1\nos contains v if some v in input.x", "x[*]", "*"),
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k == \"A\"\nos contains input.y if \"B\" = input.k",
        "k x.a y.a",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k == \"A\"\nos contains input.y if input.l == \"B\"",
        "k l x y",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if is_a\nos contains input.y if not is_a\nis_a if input.k == 1",
        "k x.a y.a",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x[_] if is_a\nos contains input.y if not is_a\nis_a if input.k == 1",
        "k x[*] y",
        "*",
    ),
    // As in Trivy's library.
    Case(
        "deny if { some o in os; o.a == 1 }\nos contains o if { is_a; o = object }\nos contains o if { is_b; o = object.b }\n\
         is_a if kind = \"A\"\ndefault is_b := false\nis_b if kind = \"B\"\nis_b if { kind = \"C\"; input.l }\n\
         kind := object.k\nobject := input.x if not other\nobject := input.y if other\nother if input.z",
        "l? x.a x.b.a x.k y.a y.b.a y.k z?",
        "*",
    ),
    // The condition may also be true for other reasons.
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k == \"A\"\nos contains input.y if is_b\n\
         is_b if input.k == \"B\"\nis_b if input.l",
        "k l? x y",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k == \"A\"\nos contains input.y if is_b\n\
         default is_b := true\nis_b if input.k == \"B\"",
        "k x y",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k == \"A\"\nos contains input.y if bs\n\
         bs contains 1 if input.k == \"B\"",
        "k x y",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k == \"A\"\nos contains input.y if is_b\n\
         is_b.c if input.k == \"B\"",
        "k x y",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if k == \"A\"\nos contains input.y if { k := input.l; k == \"B\" }\n\
         k := input.k",
        "k l x y",
        "*",
    ),
    Case(
        "deny if os[_].a == 1\nos contains input.x if input.k[_] == \"A\"\nos contains input.y if input.k[_] == \"B\"",
        "k[*] x y",
        "*",
    ),
    Case("deny if { all := os; all[_].a == 1; count(all) == 1 }\nos contains input.x", "x.a", "*"),
    Case("deny if count([o.a | o := os[_]]) > 0\nos contains input.x", "x.a?", "*"),
    Case("deny if { s := [os, ps][_]; s[_].a == 1 }\nos contains input.x\nps contains input.y", "x.a y.a", "*"),
    Case("deny if os[_].a == 1\nos contains input.x if input.k\nos contains input.y", "k? x y", "*"),
    Case("deny if os[_].a == 1\nos contains input.x\nos contains 1", "x", "*"),
    Case("deny if ps[_].a == 1\nps contains o if os[o]\nos contains input.x", "x", "*"),
    Case("deny if os[_].a == 1\nos contains input[input.k]", "[*].a k", "*"),
    Case("deny if { o := input.y; os[o] }\nos contains input.x", "x y", "*"),
    Case("deny if { os[o]; o = input.y }\nos contains input.x", "x y", "*"),
    Case("deny if os[\"t\"]\nos contains input.x", "x", "*"),
    Case("deny if os[input.k].a\nos contains input.x", "k x", "*"),
    Case("deny if input.y in os\nos contains input.x", "x y", "*"),
    Case("deny if os == {input.y}\nos contains input.x", "x y", "*"),
    Case("deny if { s := os | ps; s[_].a == 1 }\nos contains input.x\nps contains input.y", "x y", "*"),
    Case(
        "deny if { s := {s | s := [os, ps][_]}; s[_][_].a == 1 }\nos contains input.x\nps contains input.y",
        "x y",
        "*",
    ),
    Case("deny if o[_].a == 1\no := {input.x}", "x.a", "*"),
    Case("deny contains os\nos contains input.x", "x", "*"),
    Case("deny contains {\"msg\": \"m\", \"details\": os}\nos contains input.x", "x", "*"),
    Case("deny contains sprintf(\"%v\", [os])\nos contains input.x", "x", "*"),
    Case("deny if all[_][_].a == 1\nall contains os\nos contains input.x", "x.a", "*"),
    // Also not if each element adds its own elements to another set.
    Case("deny contains o.a if some o in os\nos contains o if some o in input.x", "x[*].a", "*"),
    Case("deny contains o.a if o := os[_]\nos contains o if some o in input.x", "x[*].a", "*"),
    Case("deny contains o.a if os[o]\nos contains o if some o in input.x", "x[*].a", "*"),
    Case("deny contains os[_].a\nos contains input.x[_]", "x[*].a", "*"),
    Case(
        "deny contains p.a if p := ps[_]\nps contains o if { some o in os; o.b == 1 }\nos contains o if some o in input.x",
        "x[*].a x[*].b",
        "*",
    ),
    Case("deny contains o.a if some o in os\nos contains input.x\nos contains input.y", "x.a y.a", "*"),
    Case("deny contains f(os[_])\nf(o) := o.a if o.c\nos contains o if some o in input.x", "x[*].a x[*].c?", "*"),
    Case("deny contains f(os[_])\nf(o) := o.a\nf(o) := o.b\nos contains o if some o in input.x", "x[*].a x[*].b", "*"),
    Case("deny contains {k: v | some k, v in os[_].m}\nos contains o if some o in input.x", "x[*]", "*"),
    Case(
        "deny contains {k: v | some k, v in o.m} if some o in os\nos contains o if some o in input.x",
        "x[*].m[*]",
        "*",
    ),
    // The first of two errors depends on the order of the elements.
    Case(
        "deny contains [f(o), g(o)] if some o in os\nf(o) := o.a\nf(o) := o.b\ng(o) := o.a\ng(o) := o.b\n\
         os contains o if some o in input.x",
        "x[*]",
        "*",
    ),
    Case(
        "deny contains [f(o), c] if some o in os\nc := input.a\nc := input.b\nf(o) := o.c\n\
         os contains o if some o in input.x",
        "a b x[*]",
        "*",
    ),
    Case(
        "deny contains [f(o), {k: o.b | k := o.c[_].k}] if some o in os\nf(o) := o.a\nf(o) := o.b\n\
         os contains o if some o in input.x",
        "x[*]",
        "*",
    ),
    // Other uses may end at the first element, or count the elements.
    Case("deny if os[_].a\nos contains o if some o in input.x", "x[*]", "*"),
    Case("deny contains 1 if f(input.y)\nf(y) if os[_].a == y\nos contains o if some o in input.x", "x[*] y", "*"),
    Case("deny contains count([1 | os[_].a])\nos contains o if some o in input.x", "x[*]", "*"),
    Case("deny contains 1 if every o in os { o.a }\nos contains o if some o in input.x", "x[*]", "*"),
    Case("deny contains 1 if { o := input.y; os[o] }\nos contains o if some o in input.x", "x[*] y", "*"),
    Case("deny contains 1 if { os[o]; o = input.y }\nos contains o if some o in input.x", "x[*] y", "*"),
    Case("deny contains 1 if { all := os; all[_].a }\nos contains o if some o in input.x", "x[*]", "*"),
    Case("deny contains 1 if count(os) > 1\nos contains o if some o in input.x", "x[*]", "*"),
    // Objects with added fields.
    Case(
        "deny if { p := json.patch(input.cs[_], [{\"op\": \"add\", \"path\": \"s\", \"value\": input.v}]); p.a == p.s.b }",
        "cs[*].a cs[*].s.b v.b",
        "*",
    ),
    Case("deny if json.patch(input.x, [{\"op\": \"add\", \"path\": \"/s\", \"value\": input.v}])", "v? x?", "*"),
    Case("deny contains json.patch(input.x, [{\"op\": \"add\", \"path\": \"s\", \"value\": input.v}])", "v x", "*"),
    Case("deny if json.patch(input.x, [{\"op\": \"add\", \"path\": \"s/t\", \"value\": input.v}])", "v x", "*"),
    Case("deny if json.patch(input.x, [{\"op\": \"replace\", \"path\": \"s\", \"value\": input.v}])", "v x", "*"),
    Case("deny if json.patch(input.x, [{\"op\": \"add\", \"path\": input.p, \"value\": 1}])", "p x", "*"),
    Case("deny if json.patch(input.x, input.p)", "p x", "*"),
    Case("deny if \"x\" in input.a", "a[*]", "*"),
    Case("deny if input.a in [\"x\"]", "a", "*"),
    // A variable that is bound twice is a comparison.
    Case("deny if { v = input.a; v = input.b }", "a b", "*"),
    Case("deny if f(input.a)\nf(x) if { v = {\"k\": x}; v.k.b == 1 }", "a.b", "*"),
    Case("deny if f(input.a)\nf(x) if { v = [x]; v[0].b == 1 }", "a.b", "*"),
    Case("deny if f(input.a)\nf(x) if { v = {\"k\": x}; v = input.c; v.k.b == 1 }", "a c", "*"),
    Case("deny if f(input.a)\nf(x) if { input.c[v]; v = {\"k\": x} }", "a c[*]?", "*"),
    Case("deny if f(input.a)\nf(x) if { c[v]; v = {\"k\": x} }\nc contains {\"k\": input.b}", "a b", "*"),
    Case("deny if f(input.a)\nf(x) if v = {\"k\": x}\nv := {\"k\": input.b}", "a b", "*"),
    Case("deny if { v = {\"k\": x}; x = input.a; x.b == 1 }", "a.b", "*"),
    Case("deny if f(input.a)\nf(x) if { split(\"a\", \"b\", v); v = [x] }", "a", "*"),
    Case("deny if { v := input.a; v = input.b }", "a b", "*"),
    Case("deny if { v = input.a; v.b == 1 }", "a.b", "*"),
    Case("deny if { input.a = input.b }", "a b", "*"),
    Case("deny if every c in input.cs { c = input.d }", "cs[*] d", "*"),
    Case("deny if { some i; input.m[i].x == 1; i = input.k }", "k m[*].x", "*"),
    Case("deny if { p[[a, _]]; a = input.a }\np contains [x, 1] if x := input.x", "a x", "*"),
    Case("deny if { split(\"a\", \"b\", out); out = input.a }", "a", "*"),
    Case("deny if f(input.a, input.b)\nf(x, x) if true", "a b", "*"),
    Case("deny if [x, x] = input.a", "a[*]", "*"),
    // Values of complete rules are compared if there may be two.
    Case("deny if x.y == 1\nx := input.a", "a.y", "*"),
    Case("deny if x.y == 1\nx := input.a if input.c\nx := input.b if input.d", "a b c? d?", "*"),
    Case("deny if x.y == 1\nx := input.a if input.c else := input.b", "a.y b.y c?", "*"),
    Case("deny if x.y == 1\nx := v if v := input.a[_]", "a[*]", "*"),
    Case("deny if x.y == 1\nx := input.a[_]", "a[*]", "*"),
    Case("deny if x.y == 1\ndefault x := {}\nx := input.a if input.c", "a.y c?", "*"),
    Case("deny if f(input.a).y == 1\nf(x) := x.p if x.q\nf(x) := x.r if x.s", "a.p a.q? a.r a.s?", "*"),
    Case("deny if o.k.y == 1\no[k] := v if some k, v in input.a", "a[*]", "*"),
    Case("deny if o.k.y == 1\no[input.k] := input.v", "k v", "*"),
    Case("deny contains k if some k, v in o\no[input.k] contains input.v", "k v", "*"),
    Case("deny if count(o) == 0\no[input.k] contains 1", "k", "*"),
    Case("deny if o[80].x\no[80] contains input.v if input.k", "k? v", "*"),
    Case("deny if { some k; o[k][v]; v.a == 1 }\no[k] contains v if some k, v in input.m", "m[*]", "*"),
    Case("deny if o.k[_] == 1\no[q.x] contains input.v\nq := input.w", "v w.x", "*"),
    Case("default deny := false\ndeny if input.a == 1", "a", "*"),
    // Builtins read their arguments completely.
    Case("deny if { walk(input.a, [p, v]); v == 1; p }", "a", "*"),
    Case("deny if object.union(input.a, {}).b == 1", "a", "*"),
    Case("deny if { split(input.a, \".\", parts); parts[0] == \"x\" }", "a", "*"),
    Case("deny if { x := array.concat(input.a, [input.b]); x[_].c == 1 }", "a[*].c b.c", "*"),
    Case("deny if input.a < input.b", "a b", "*"),
    Case("deny if { print(input.status); input.a }", "a?", "*"),
    // Replaced input documents, and rules with unknown names.
    Case("deny if r with input as {\"a\": input.b}\nr if input.a == 1", "*", "*"),
    Case("deny if { some n; data.p.rules[n].a == 1 }\nrules.x := input.x\nrules.y := input.y", "x y", "*"),
    // Values in results.
    Case("deny contains {\"msg\": \"m\", \"details\": {\"x\": input.a}}", "a", "*"),
    Case("exception contains [input.a]\ndeny_x if input.b == 1", "a b", "*"),
    // Admission.
    Case("deny if input.request.object.spec.a == 1", "spec.a", "*"),
    Case(
        "deny contains input.request.name if input.request.uid",
        "metadata.generateName metadata.name metadata.uid",
        "*",
    ),
    Case("deny if { r := input.request; r.object.a == 1; r.oldObject.b == 1 }", "a b", "*"),
    Case("deny if json.marshal(input.request) == \"\"", "*", "*"),
    Case("deny contains json.marshal(object.remove(input.request, [\"object\"]))", "*", "*"),
    Case("deny contains json.marshal(input.a)", "a", "*"),
    Case("deny contains input.a", "a", "*"),
];

/// Kinds that can be derived from the code.
const KINDS: &[Case] = &[
    Case("deny if { input.kind == \"Pod\"; input.spec.a == 1 }", "kind spec.a", "Pod"),
    Case("deny if { \"Pod\" == input.kind; input.spec.a == 1 }", "kind spec.a", "Pod"),
    Case("deny if { input.kind = \"Pod\"; input.a == 1 }", "a kind", "Pod"),
    Case("deny if { k := input.kind; k == \"Pod\"; input.a == 1 }", "a kind", "Pod"),
    Case("deny if { input.kind in {\"Pod\", \"Job\"}; input.a == 1 }", "a kind", "Job, Pod"),
    Case("deny if { ks[input.kind]; input.a == 1 }\nks := {\"Pod\", \"Job\"}", "a kind", "Job, Pod"),
    Case("deny if { ks[input.kind] == 1; input.a == 1 }\nks := {\"Pod\": 1, \"Job\": 2}", "a kind", "Pod"),
    Case("deny if { ks[_] == input.kind; input.a == 1 }\nks := [\"Pod\", \"Job\"]", "a kind", "Job, Pod"),
    Case(
        "deny if { is_pod; input.a == 1 }\nis_pod if input.kind == \"Pod\"\nis_pod if input.kind == \"Job\"",
        "a kind",
        "Job, Pod",
    ),
    Case("deny if { is(\"Pod\"); input.a == 1 }\nis(k) if input.kind == k", "a kind", "Pod"),
    Case("deny if { is(input); input.a == 1 }\nis(o) if o.kind == \"Pod\"", "a kind", "Pod"),
    Case("deny if { k; input.a == 1 }\nk if input.kind == \"Pod\"\nelse := false", "a kind", "Pod"),
    Case("deny if { c := cs[_]; c.a == 1 }\ncs := input.x if input.kind == \"Pod\"", "kind x[*].a", "Pod"),
    Case("deny contains 1 if input.kind == \"Pod\"\ndeny contains 2 if input.kind == \"Job\"", "kind", "Job, Pod"),
    Case("deny contains 1 if input.kind == \"Pod\"\ndeny contains 2 if input.a", "a? kind", "*"),
    Case("default deny := false\ndeny if input.kind == \"Pod\"", "kind", "Pod"),
    // A different kind for each branch: the fields of one kind are read only for that kind.
    Case(
        "deny if spec.a == 1\nspec := input.x if input.kind == \"Pod\" else := input.y if input.kind == \"Job\"",
        "kind x.a y.a",
        "Job, Pod",
    ),
    Case(
        "deny if { os[o]; o.a == 1 }\nos contains o if { k == \"Pod\"; o = input }\n\
         os contains o if { k == \"Job\"; o = input.y }\nk := input.kind",
        "a kind y.a",
        "Job, Pod",
    ),
    // All kinds except some count as all kinds.
    Case("deny if { input.kind != \"Pod\"; input.a == 1 }", "a kind", "*"),
    Case("deny if { not input.kind == \"Pod\"; input.a == 1 }", "a kind", "*"),
    Case("deny if { not is_pod; input.a == 1 }\nis_pod if input.kind == \"Pod\"", "a kind", "*"),
    Case("deny if { not input.kind == \"Pod\"; input.kind in {\"Pod\", \"Job\"} }", "kind", "Job"),
    // If the argument is undefined, the statement fails.
    Case("deny if not f(input.a)\nf(_) := true", "", ""),
    Case("deny if { not f(input.kind); input.a }\nf(_) := true", "", ""),
    Case("deny if { not input.a; input.b }", "a? b?", "*"),
    // No kind can be derived.
    Case("deny if { startswith(input.kind, \"Po\"); input.a == 1 }", "a kind", "*"),
    Case("deny if { k := input[\"kind\"]; lower(k) == \"pod\" }", "kind", "*"),
    Case("deny if { k := input[input.x]; k == \"Pod\" }", "[*] x", "*"),
    // A statement before the kind check may be an error.
    Case("deny if { x == 1; input.kind == \"Pod\" }\nx := 1 if input.a\nx := 2 if input.b", "a? b? kind", "*"),
    Case("deny if { input.kind == \"Pod\"; x == 1 }\nx := 1 if input.a\nx := 2 if input.b", "a? b? kind", "Pod"),
    Case("deny if r with input as {\"kind\": \"Pod\"}\nr if input.kind == \"Pod\"", "*", "*"),
    // A review may lack the object, but never its kind.
    Case("deny if { input.request.kind.kind == \"Pod\"; input.request.object.a == 1 }", "a", "Pod"),
    Case("deny if { input.request.object.kind == \"Pod\"; input.request.object.a == 1 }", "a kind", "Pod"),
];

/// Modules for the random changes only: their reads are not obvious, or they are evaluated in another order than
/// written.
const TRAPS: &[&str] = &[
    // Variables that are bound in later statements.
    "deny contains y if { y == z.b; z = input.a[i]; i = input.x; y = input.m[i] }",
    "deny if { p = [q, 1]; q = input.a; r = p[0].b; r == input.x }",
    "deny if { {\"k\": v, \"b\": w} = {\"k\": input.a, \"b\": input.x}; w == v.k }",
    "deny if { [x, y] = [y, input.a]; x.b == 1 }",
    "deny contains k if { input.m[k] == v; v = input.a[k] }",
    "deny contains x if { f(x) == 1; x = input.a[_] }\nf(y) := y.b",
    // Several variables with the same name.
    "deny if { xs := [x | x := input.a[_]; x.b]; ys := [x | x := input.m[_]; x.k]; count(xs) > count(ys) }",
    "deny contains x if { some x in input.a; not y(x) }\ny(x) if x.b == input.x\ny(x) if { some z in x; z == 1 }",
    "deny if { some i, x in input.a; every j, y in input.m { i != j; x != y } }",
    "deny contains [i, j] if { some i, j in input.a; some j2 in input.m; j == j2 }",
    // Negation.
    "deny if not input.a.b == input.m.k",
    "deny if { not f(input.a) }\nf(x) if x.b\nf(x) if x == 1",
    "deny if { some k in [\"a\", \"m\"]; not input[k].b }",
    "import future.keywords.not\n\ndeny if not { x := input.a; x.b == input.x }",
    "import future.keywords.not\n\ndeny if { some k; input.m[k]; not { input.a[k].b == 1; input.x } }",
    // Every.
    "deny if every k, v in input.m { v == input.a[k] }",
    "deny if every x in [y | y := input.a[_]; y.b] { x.k == 1 }",
    "deny if every x in input.a { some y in input.m; x.b == y.k }",
    "deny if every x in os { x.b }\nos contains input.a\nos contains input.x",
    // Comprehensions in comprehensions.
    "deny contains n if n := count([1 | x := input.a[_]; count([1 | y := x[_]; y.b]) > 0])",
    "deny contains s if s := sum([n | n := count(input.a[_])])",
    "deny if { m := {k: {j: v | some j, v in w} | some k, w in input.m}; m.k.b == input.x }",
    "deny if { m := {v.b: v.k | v := input.a[_]}; m[input.x] }",
    "deny if { m := {k: 1 | input.m[k]; k != input.x}; count(m) > 1 }",
    "deny if { s := {x | x := input.a}; s[input.x] }",
    "deny if { s := {x.b | x := input.a}; t := {y | y := input.m}; count(s | t) == 1 }",
    "deny contains x if some x in {y | y := input.a}",
    "deny contains count(s) if s := {{x | x := input.a}, {y | y := input.m}}",
    "deny if { s := [{x | x := input.a}, {y | y := input.m[_]}][_]; count(s) == 1 }",
    "deny if { s := [{input.a}, {input.m}][input.x]; s[_].b }",
    // Partial objects and sets with variable keys.
    "deny if o.k == 1\no[k] := v if some k, v in input.m\no[k] := 2 if some k in input.a",
    "deny contains k if some k, _ in o\no[k].b := v if some k, v in input.m",
    "deny if count(o.b) == 1\no[k] contains v if { some k, w in input.m; some v in w }",
    "deny if o[input.x].b\no[k] := v if some k, v in input.a",
    "deny if { some k; o[k] == input.x }\no.a := input.a.b\no[k] := v if { k := \"m\"; v := input.m.k }",
    // Patterns as parameters.
    "deny if f(input.a)\nf([x, {\"b\": y}]) if x == y",
    "deny if f(input.a, input.m)\nf({\"b\": x}, {\"k\": x}) if true",
    "deny if f([input.a, input.m])\nf([x, y]) if { x.b; not y.k }",
    "deny contains y if y := f(input.a)\nf(null) := 1\nf(x) := x.b",
    "deny if f(input.x, \"b\")\nf(x, \"b\") if x.k\nf(x, \"k\") if x.b",
    "deny if f(input.a) == 1\ndefault f(_) := 1\nf(x) := x.b",
    // Else.
    "deny if r == 1\nr := input.a.b if input.x else := input.m.k if input.m else := 1",
    "deny contains r\nr := f(input.a) if input.x else := f(input.m)\nf(x) := x.b if x.b else := x.k",
    "deny if { not r }\nr if input.a.b else := false if input.m.k",
    "deny if f(input.a) == 2\nf(x) := 1 if x.b == 1 else := 2 if x.k == 1",
    // Texts.
    "deny contains $\"{input.a} and {input.m.k}\"",
    "deny contains $\"{x.b}\" if some x in input.a",
    "deny contains x if { x := $\"{input.metadata.name}\"; x != input.x }",
    "deny contains sprintf(f, a) if { f := \"%v %d\"; a := [input.a, input.x] }",
    "deny contains concat(\"-\", [input.metadata.name, input.x])",
    // Walks and paths.
    "deny contains p if { walk(input.m, [p, v]); v == input.x }",
    "deny if { walk(input.a, x); x[1] == 1 }",
    "deny if { p := [\"a\", input.x]; object.get(input, p, 1) == 1 }",
    "deny if { p := [\"a\", \"b\"]; object.get(input, p, input.x) == 1 }",
    "deny if { o := object.get(input, \"a\", {}); o.b == object.get(o, [\"k\", input.x], 2) }",
    "deny if { ks := [\"b\", \"k\"]; k := ks[_]; object.get(input.a, [k], null) == input.m[k] }",
    "deny if object.get(object.get(input, \"a\", {}), \"b\", 1) == 1",
    // Sets of objects, matched with patterns.
    "deny contains m if os[{\"b\": m, \"k\": 1}]\nos contains {\"b\": x.b, \"k\": x.k} if some x in input.a",
    "deny contains m if os[{\"b\": m}]\nos contains input.a[_]",
    "deny if os[{\"b\": input.x}]\nos contains {\"b\": x} if some x in input.a\nos contains input.m",
    "deny contains m if os[[m, input.x]]\nos contains [x, y] if some x, y in input.m",
    "deny if { x := input.x; os[{\"b\": x, \"k\": y}]; y == 1 }\nos contains {\"b\": input.a, \"k\": 1}\n\
     os contains {\"b\": input.m, \"k\": 2}",
    // Rules that exclude each other, or appear to.
    "deny if r.b\nr := input.a if input.x\nr := input.m if not input.x",
    "deny if r.b\nr := input.a if input.x == \"b\"\nr := input.m if input.x != \"b\"",
    "deny if r.b\nr := input.a if input.x.k\nr := input.m if not input.x",
    "deny if r.b\nr := input.a if { input.x with input.x as true }\nr := input.m if not input.x",
    // Comparisons of the kind.
    "deny if { k := input.kind; not is_pod(k); input.a }\nis_pod(\"Pod\") if true",
    "deny if { ks := {\"Pod\": input.a, \"Job\": input.m}; ks[input.kind].b }",
    "deny if { x := [input.kind, input.x]; x == [\"Pod\", 1] }",
    "deny if { [k, 1] = [input.kind, input.x]; k == \"Pod\" }",
    "deny contains m if { some k, m in {\"Pod\": input.a}; k == input.kind }",
    "deny if { input.kind == [\"Pod\", \"Job\"][_]; not input.a }",
    "deny if { not input.kind in [\"Pod\", input.x]; input.a }",
    "deny if r\nr := false if input.kind == \"Pod\" else := input.a if input.kind == \"Job\" else := input.m",
];

#[test]
fn reads_of_rules() {
    check(READS);
}

#[test]
fn kinds_of_rules() {
    check(KINDS);
}

/// A rule, its lookups of each kind, and whether it iterates over all objects.
type Row = (&'static str, [Option<&'static str>; 3], bool);

#[test]
fn lookups_of_each_kind_are_found() {
    let kind = |version: &str, kind: &str, namespaced| crate::model::object::Kind {
        group: version.split_once('/').map(|(group, _)| group).unwrap_or_default().to_owned(),
        version: version.rsplit('/').next().unwrap_or_default().to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        kind: kind.to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        namespaced,
    };
    let (pod, ingress, node) =
        (kind("v1", "Pod", true), kind("networking.k8s.io/v1", "Ingress", true), kind("v1", "Node", false));
    // The lookups of Pods, Ingresses and Nodes, and whether the rule iterates over all objects.
    let rows: &[Row] = &[
        ("deny if input.a", [None, None, None], false),
        (
            "deny if data.inventory.namespace[_][_].Ingress[_].spec.host == input.a",
            [None, Some("spec.host"), None],
            true,
        ),
        ("deny if data.inventory.namespace[input.n][\"v1\"].Pod[_].a == 1", [Some("a"), None, None], false),
        ("deny if data.inventory.cluster[\"v1\"].Node[input.n].spec == 1", [None, None, Some("spec")], false),
        ("deny if data.inventory.cluster[\"v1\"].Node[_].spec == 1", [None, None, Some("spec")], true),
        ("deny if not data.inventory.cluster[\"v1\"].Node[input.n]", [None, None, Some("")], false),
        ("deny if count(data.inventory.namespace) > 1", [Some(""), Some(""), None], false),
        ("deny if count(data.inventory) > 1", [Some(""), Some(""), Some("")], false),
        ("deny if data.kubernetes.pods[_][_].a == 1", [Some("a"), None, None], true),
        ("deny if data.kubernetes.pods[input.n].x.a == 1", [Some("a"), None, None], false),
        ("deny if json.marshal(data.inventory) == input.a", [Some("*"), Some("*"), Some("*")], false),
        // A package may have the same name.
        ("package kubernetes.p\ndeny if data.kubernetes.p.mine.x == 1\nmine := input.a", [None, None, None], false),
        (
            "deny if { is_pod; data.inventory.namespace.a[\"v1\"].Pod.b }\nis_pod if input.kind == \"Pod\"",
            [Some(""), None, None],
            false,
        ),
    ];
    for (module, want, scans) in rows {
        let set = load(module);
        let reads = |kind| set.inventory_reads().of(kind).map(|projection| projection.to_string());
        assert_eq!([&pod, &ingress, &node].map(reads), want.map(|want| want.map(str::to_owned)), "{module}");
        assert_eq!(set.policies[0].scans_inventory, *scans, "{module}");
        assert_eq!(set.policies[0].depends.inventory, want.iter().any(Option::is_some), "{module}");
    }
    let set = load(rows[12].0);
    assert!(set.dependencies(&pod).inventory && !set.dependencies(&node).inventory);
}

#[test]
fn namespaces_of_lookups_are_found() {
    let own_input = "input.metadata.namespace";
    let rows: Vec<(String, &str, bool)> = vec![
        ("deny if data.kubernetes.pods[input.metadata.namespace].x.a == 1".into(), "own", true),
        ("deny if not data.kubernetes.pods[input.metadata.namespace].needed".into(), "own", true),
        (format!("deny if {{ some pod in data.kubernetes.pods[{own_input}]; pod.a == 1 }}"), "own", true),
        (format!("deny if {{ ns := {own_input}; pods := data.kubernetes.pods; pods[ns][_].a == 1 }}"), "own all", true),
        (format!("import data.kubernetes.pods\ndeny if not pods[{own_input}].x"), "own", true),
        (
            format!(
                "import data.kubernetes.pods\ndeny if not found\nfound if {{ some p in pods[{own_input}]; every k, v in p.spec {{ input.metadata.labels[k] == v }} }}"
            ),
            "own",
            true,
        ),
        (format!("deny if f({own_input})\nf(ns) if data.kubernetes.pods[ns].x"), "own", true),
        (format!("deny if data.inventory.namespace[{own_input}][\"v1\"].Pod[_].a == 1"), "own", true),
        (format!("deny if data.inventory.namespace[{own_input}][_].Pod[_].a == 1"), "own", true),
        (format!("deny if data.inventory.namespace[{own_input}][_][_][_].a == 1"), "own", false),
        ("deny if data.kubernetes.pods[\"kube-system\"].x.a == 1".into(), "kube-system", true),
        ("deny if data.kubernetes.pods[input.metadata.name].x.a == 1".into(), "all", true),
        ("deny if data.kubernetes.pods[_][_].a == 1".into(), "all", true),
        ("deny if count(data.kubernetes.pods) > 1".into(), "all", true),
        ("deny if count(data.inventory.namespace) > 1".into(), "all", false),
        ("deny if data.kubernetes[_][_][_].a == 1".into(), "all", false),
        ("deny if json.marshal(data.inventory) == input.a".into(), "all", false),
        ("deny if data.kubernetes.nodes[_].a == 1".into(), "", false),
    ];
    let pods = crate::model::object::Kind::sample("", "pods", "Pod");
    let mut wrong = Vec::new();
    for (module, places, named) in rows {
        let reach = load(&module).inventory_reads().reach(&pods);
        let place = |place: &LookupReach| match place {
            LookupReach::Own => "own".to_owned(),
            LookupReach::Named(name) => name.to_string(),
            LookupReach::All => "all".to_owned(),
        };
        let got = (reach.places.iter().map(place).collect::<Vec<_>>().join(" "), reach.named);
        if got != (places.to_owned(), named) {
            wrong.push(format!("{module}\n  got {got:?}, want {places} {named}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn code_beyond_the_analysis_limits_counts_as_reading_everything() {
    // As deep as loading allows.
    let chain = |length: usize| {
        let functions = (0..length).map(|n| format!("f{n}(x) := y if {{ y := [z | z := f{}(x)][_] }}\n", n + 1));
        format!("deny if f0(input.a).b == 1\n{}f{length}(x) := x\n", functions.collect::<String>())
    };
    assert_eq!(load(&chain(5)).policies[0].reads.to_string(), "a");
    assert_eq!(load(&chain(45)).policies[0].reads.to_string(), "*");
    let plain: Vec<String> = (0..90).map(|n| format!("f{n}(x) if f{}(x)", n + 1)).collect();
    let plain = plain.join("\n");
    assert_eq!(load(&format!("deny if f0(input.a)\n{plain}\nf90(x) if x.b == 1")).policies[0].reads.to_string(), "a.b");
    // Each function calls the next one twice, with different arguments.
    let calls = |n: usize| format!("f{n}(x) if {{ f{m}([x, \"a\"]); f{m}([x, {n}]); input.a }}\n", m = n + 1);
    let many = format!("deny if f0(1)\n{}f20(x) if x\n", (0..20).map(calls).collect::<String>());
    let began = std::time::Instant::now();
    assert!(load(&many).policies[0].reads.to_string().starts_with(['a', '*']));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
