//! The hostile policies, each with its expected outcome: a part of the problem, or of the result for the object `pod`.

use std::fmt::Write as _;

/// The expected outcome of a policy.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// Its file is refused, with this text in the problem.
    Refused(&'static str),
    /// It is evaluated; the results have this outcome and contain this text.
    Says(&'static str, &'static str),
    /// It ends with an error: it exceeds the limit of time or size, whichever comes first.
    Limited,
    /// It is evaluated without results.
    Silent,
}

use Fate::{Limited, Refused, Says, Silent};

/// A policy of the package `hostile`, with the necessary imports.
pub(crate) struct Policy {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    pub(crate) fate: Fate,
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

/// Returns a `deny` rule with a value in its message.
fn deny(value: &str) -> String {
    format!("deny contains sprintf(\"%v\", [x]) if x := {value}\n")
}

/// Returns a function that doubles its argument, applied `times` times.
fn doubled(twice: &str, first: &str, times: usize) -> String {
    let value = (0..times).fold(first.to_owned(), |inner, _| format!("f({inner})"));
    format!("f(x) := {twice}\n\ndeny contains sprintf(\"%v\", [x]) if x := {value}\n")
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        writeln!(text, "{}\n", line(number)).unwrap();
        text
    })
}

/// Returns all of them.
pub(crate) fn all() -> Vec<Policy> {
    let listed = [deep(), recursive(), endless(), builtins(), outputs(), clashes(), shapes()];
    let policy = |(name, body, fate): (&'static str, String, Fate)| Policy {
        name,
        text: if body.contains("package ") { body } else { format!("package hostile.{name}\n\n{body}") },
        fate,
    };
    listed.into_iter().flatten().map(policy).collect()
}

type Listed = Vec<(&'static str, String, Fate)>;

fn deep() -> Listed {
    vec![
        ("arrays", deny(&nested("[", "1", "]", 5_000)), Refused("nested too deep")),
        ("objects", deny(&nested("{\"a\": ", "1", "}", 3_000)), Refused("nested too deep")),
        ("sets", deny(&nested("{", "1", "}", 5_000)), Refused("nested too deep")),
        ("parentheses", deny(&nested("(", "1", ")", 5_000)), Refused("nested too deep")),
        ("calls", deny(&nested("abs(", "1", ")", 3_000)), Refused("nested too deep")),
        ("comprehensions", deny(&nested("[y | y := ", "1", "]", 500)), Refused("nested too deep")),
        ("references", deny(&nested("input[", "1", "]", 2_000)), Refused("nested too deep")),
        (
            "everys",
            format!("deny contains \"x\" if {{ {} }}\n", nested("every y in [1] { ", "y == 1", " }", 500)),
            Refused("nested too deep"),
        ),
        ("minuses", deny(&format!("{}1", "-".repeat(9_000))), Refused("")),
        ("additions", deny(&"1 + ".repeat(4_000).add("1")), Refused("")),
        ("unions", deny(&"{1} | ".repeat(3_000).add("{1}")), Refused("")),
        ("elses", format!("y := 1 if false\n{}\n{}", "else := 2 if false\n".repeat(4_000), deny("y")), Silent),
        ("withs", format!("{} {}\n", deny("input").trim_end(), "with input.a as 1 ".repeat(1_000)), Says("fail", "")),
        ("nots", format!("deny contains \"x\" if {}input\n", "not ".repeat(5_000)), Refused("")),
        ("dots", deny(&format!("input{}", ".a".repeat(9_000))), Refused("")),
        (
            "statements",
            format!("deny contains \"x\" if {{\n{}\n}}\n", lines(1_000, |n| format!("x{n} := {n}"))),
            Says("fail", ""),
        ),
        (
            "chain",
            lines(2_000, |n| format!("r{n} := r{}", n + 1)).add("r2000 := 1\n\ndeny contains \"x\" if r0\n"),
            Refused("too many rules"),
        ),
    ]
}

/// Concatenates two texts.
trait Add {
    fn add(self, more: &str) -> String;
}

impl Add for String {
    fn add(mut self, more: &str) -> Self {
        self.push_str(more);
        self
    }
}

fn recursive() -> Listed {
    vec![
        ("rule", "a := b\n\nb := a\n\ndeny contains \"x\" if a\n".into(), Refused("may not refer to themselves")),
        (
            "function",
            "f(x) := f(x + 1)\n\ndeny contains \"x\" if f(1)\n".into(),
            Refused("may not refer to themselves"),
        ),
        (
            "itself",
            "deny contains \"x\" if not data.hostile.itself.deny\n".into(),
            Refused("may not refer to themselves"),
        ),
        ("any_package", "deny contains \"x\" if data.hostile[_].deny\n".into(), Refused("may not refer to themselves")),
        ("all_data", "deny contains \"x\" if count(data) > 0\n".into(), Refused("may not refer to themselves")),
        (
            "computed",
            "deny contains \"x\" if data[input.kind][input.metadata.name]\n".into(),
            Refused("may not refer to themselves"),
        ),
        (
            "imports_itself",
            "import data.hostile.imports_itself as me\n\ndeny contains \"x\" if me.deny\n".into(),
            Refused("may not refer to themselves"),
        ),
        (
            "default_of_itself",
            "default a := 1\n\na := a + 1\n\ndeny contains \"x\" if a\n".into(),
            Refused("may not refer to themselves"),
        ),
        ("by_with", "deny contains \"x\" if deny with input as {}\n".into(), Refused("may not refer to themselves")),
        (
            "by_comprehension",
            "a := [x | some x in a]\n\ndeny contains \"x\" if a\n".into(),
            Refused("may not refer to themselves"),
        ),
    ]
}

fn endless() -> Listed {
    let slow = || Says("error", "took longer than");
    let range = "numbers.range(1, 9000)";
    vec![
        ("loops", format!("deny contains \"x\" if {{\n\tsome a in {range}\n\tsome b in {range}\n\tsome c in {range}\n\ta + b + c < 0\n}}\n"), slow()),
        ("comprehension", deny(&format!("count([1 | some a in {range}; some b in {range}; a + b < 0])")), Limited),
        ("every", format!("deny contains \"x\" if {{\n\tevery a in {range} {{\n\t\tevery b in {range} {{ a + b > 0 }}\n\t}}\n}}\n"), Limited),
        ("walks", "deny contains \"x\" if {\n\twalk(input, a)\n\twalk(input, b)\n\twalk(input, c)\n\twalk(input, d)\n\ta[1] == 1\n}\n".into(), Silent),
        ("object_keys", format!("deny contains \"x\" if {{\n\tsome a in {range}\n\tx := {{sprintf(\"%d\", [b]): [a, b] | some b in {range}}}\n\tx[sprintf(\"no %d\", [a])]\n}}\n"), Limited),
        ("prints", format!("deny contains \"x\" if {{\n\tsome a in {range}\n\tsome b in {range}\n\tprint(a, b, input)\n\ta + b < 0\n}}\n"), Limited),
        ("sorts", format!("deny contains \"x\" if {{\n\tsome a in {range}\n\tsort(numbers.range(a, 9000))[0] < 0\n}}\n"), Limited),
        ("clock", "deny contains \"x\" if {\n\tsome a in numbers.range(1, 9000)\n\tsome b in numbers.range(1, 9000)\n\ttime.now_ns() < a + b\n}\n".into(), slow()),
    ]
}

fn builtins() -> Listed {
    vec![
        ("http", deny("http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1:1\"})"), Refused("http.send")),
        ("lookup", deny("net.lookup_ip_addr(\"localhost\")"), Refused("net.lookup_ip_addr")),
        ("environment", deny("opa.runtime()[\"env\"][\"HOME\"]"), Refused("opa.runtime")),
        ("random", deny("rand.intn(input.metadata.name, 1000000)"), Refused("")),
        ("regex_size", deny("regex.match(\"((((a{100}){100}){100}){100})\", input.kind)"), Says("error", "too large")),
        (
            "regex_states",
            deny("regex.match(\"(a*)*(a*)*(a*)*(a*)*$\", concat(\"\", [\"a\" | some _ in numbers.range(1, 9000)]))"),
            Says("fail", "true"),
        ),
        ("regex_broken", deny("regex.match(\"(((\", input.kind)"), Silent),
        (
            "regex_from_object",
            deny("regex.match(input.metadata.annotations.pattern, input.kind)"),
            Says("error", "too large"),
        ),
        (
            "regex_replaces",
            deny(
                "count(regex.replace(concat(\"\", [\"a\" | some _ in numbers.range(1, 9000)]), \"a*?\", \"bbbbbbbbbbbbbbbbbbbb\"))",
            ),
            Says("fail", ""),
        ),
        (
            "glob",
            deny("glob.match(\"{{{{{{{{*,**},*},**},*},**},*},**},*}\", [], \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\")"),
            Says("fail", "true"),
        ),
        (
            "json_depth",
            deny("json.unmarshal(concat(\"\", [\"[\" | some _ in numbers.range(1, 9000)]))"),
            Says("error", "recursion limit"),
        ),
        (
            "yaml_depth",
            deny("yaml.unmarshal(concat(\"\", [\"[\" | some _ in numbers.range(1, 9000)]))"),
            Says("error", "deeper than 127"),
        ),
        (
            "yaml_laughs",
            deny(
                r#"yaml.unmarshal("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]")"#,
            ),
            Says("error", "aliases expand to too many"),
        ),
        (
            "patch",
            deny("json.patch(input, [{\"op\": \"move\", \"from\": \"/metadata\", \"path\": \"/metadata/a/b\"}])"),
            Silent,
        ),
        ("graph", deny("graph.reachable({\"a\": [\"b\"], \"b\": [\"a\"]}, {\"a\"})"), Says("fail", "")),
        ("range", deny("numbers.range(1, 1000000000000)"), Says("error", "numbers.range")),
        ("steps", deny("numbers.range_step(1, 1000000000000, 1)"), Says("error", "numbers.range_step")),
        ("shift", deny("bits.lsh(1, 100000000000)"), Says("error", "bits.lsh")),
        ("addresses", deny("net.cidr_expand(\"::/0\")"), Says("error", "net.cidr_expand")),
        ("number", deny("to_number(\"1e999999999\")"), Silent),
        ("quantity", deny("units.parse(\"1e999999999E\")"), Silent),
        ("zero", deny("1 / (count(input.kind) - 3)"), Silent),
        ("product", deny("1e308 * 1e308"), Says("", "")),
        ("squares", doubled("x * x", "123456789", 16), Says("error", "")),
        ("width", deny("sprintf(\"%999999999d\", [1])"), Says("fail", "NOVERB")),
        ("verbs", deny("sprintf(\"%[1]*.[2]*[3]f %!%%z %#[99]v %\", [1])"), Says("fail", "")),
        ("dates", deny("time.date(99999999999999999999999999)"), Silent),
        ("years", deny("time.add_date(time.now_ns(), 999999999, 999999999, 999999999)"), Silent),
        (
            "layout",
            deny("time.parse_ns(\"2006-01-02T15:04:05.999999999999999999999999Z07:00\", \"\u{1b}[31m\")"),
            Silent,
        ),
        ("durations", deny("time.parse_duration_ns(\"99999999999999999999h\")"), Silent),
        ("zone", deny("time.clock([time.now_ns(), \"../../../../etc/passwd\"])"), Silent),
        ("semver", deny("semver.compare(\"99999999999999999999.0.0\", \"1.0.0-\u{1b}\")"), Silent),
        ("base64", deny("base64.decode(\"\u{0}\u{0}====\")"), Refused("")),
        ("hex", deny("hex.decode(\"zz\")"), Silent),
        ("paths", deny("json.filter(input, [\"////\", \"/metadata/0/-1\", [1, null]])"), Says("", "")),
        ("substring", deny("substring(\"äöü\", -1, 99999999999999)"), Silent),
        ("indexes", deny("array.slice([1], -99999999999999999999, 99999999999999999999)"), Silent),
        ("answers", deny("concat(\"\", [\"[\" | some _ in numbers.range(1, 9000)])"), Says("fail", "[[[[")),
        ("text_growth", doubled("concat(\"\", [x, x])", "\"0123456789\"", 30), Says("error", "")),
    ]
}

fn outputs() -> Listed {
    let number = |text: &str| format!("deny contains {text}\n");
    vec![
        ("number_said", number("7"), Says("", "")),
        ("null_said", number("null"), Says("", "")),
        ("list_said", number("[1, \"x\"]"), Says("", "")),
        ("set_said", number("{\"x\"}"), Says("", "")),
        ("no_msg", number("{\"message\": \"x\"}"), Says("", "")),
        ("number_msg", number("{\"msg\": 7}"), Says("", "")),
        ("object_msg", number("{\"msg\": {\"a\": [1]}}"), Says("", "")),
        ("number_details", number("{\"msg\": \"x\", \"details\": 7}"), Says("", "")),
        ("number_metadata", number("{\"msg\": \"x\", \"metadata\": [], \"severity\": {\"a\": 1}}"), Says("", "")),
        ("complete_text", "deny := \"x\"\n".into(), Says("", "")),
        ("complete_truth", "deny := true\n".into(), Says("", "")),
        ("complete_number", "deny := 1\n".into(), Says("", "")),
        ("of_objects", "deny[x] := y if some x, y in {\"a\": 1, \"b\": [2]}\n".into(), Says("", "")),
        ("function_deny", "deny(x) := x\n\nwarn contains \"x\"\n".into(), Says("", "")),
        ("long_message", "deny contains concat(\"\", [\"0123456789\" | some _ in numbers.range(1, 9000)])\n".into(), Says("", "")),
        ("many", "deny contains sprintf(\"%d\", [x]) if some x in numbers.range(1, 2000)\n".into(), Says("fail", "1951 more results")),
        ("everything", "deny contains {\"msg\": \"x\", \"details\": {\"a\": [input | some _ in numbers.range(1, 5000)]}}\n".into(), Says("", "")),
        ("deep_details", format!("{}deny contains {{\"msg\": \"x\", \"details\": {{\"a\": r0}}}}\n", lines(200, |n| format!("r{n} := [r{}]", n + 1)).add("r200 := 1\n\n")), Refused("too many rules")),
        ("controls", "deny contains \"a\\u001b[31m\\u0000\\u0007\\r\\n::error::b\\n##[command]c\\u009b\\u202e\\u2066\\u2028\\u007f</script>]]>|`\"\n".into(), Says("fail", "::error::")),
        ("surrogates", "deny contains json.unmarshal(`\"\\ud800\\udfff\"`)\n".into(), Says("", "")),
        ("time_told", "deny contains sprintf(\"%d\", [time.now_ns()])\n".into(), Says("fail", "1")),
        ("empty", "deny contains \"\"\n".into(), Says("", "")),
        ("exceptions", "deny_x contains \"x\"\n\nexception contains rules if rules := numbers.range(1, 9000)\n".into(), Says("", "")),
        ("conflict", "a := 1\n\na := 2\n\ndeny contains \"x\" if a\n".into(), Says("error", "")),
    ]
}

fn clashes() -> Listed {
    vec![
        ("own_input", "input := {}\n\ndeny contains \"x\"\n".into(), Refused("")),
        ("own_data", "data := {}\n\ndeny contains \"x\"\n".into(), Refused("")),
        ("own_count", "count(x) := 7\n\ndeny contains sprintf(\"%d\", [count([])])\n".into(), Says("fail", "7")),
        ("two_kinds", "deny contains \"x\"\n\ndeny := \"y\"\n".into(), Refused("conflicting rules")),
        ("rule_and_function", "a := 1\n\na(x) := x\n\ndeny contains \"x\" if a\n".into(), Refused("conflicting rules")),
        ("inventory", "package inventory\n\nnamespace := {}\n\ndeny contains \"x\"\n".into(), Says("fail", "x")),
        ("kubernetes", "package kubernetes\n\ndeny contains \"x\"\n".into(), Says("", "")),
        ("reserved", "package kaudit\n\nobject := 1\n\ndeny contains \"x\"\n".into(), Says("", "")),
        ("system", "package system\n\ndeny contains \"x\"\n\nmain := 1\n".into(), Says("", "")),
        ("two_defaults", "default a := 1\n\ndefault a := 2\n\ndeny contains \"x\" if a\n".into(), Refused("multiple default rules")),
        ("shadows", "deny contains \"x\" if {\n\tinput := 1\n\tinput == 1\n}\n".into(), Refused("must not shadow input")),
        ("package_text", "package hostile[\"\\u001b[31m\u{202e}<script>\\n::error::x\"]\n\ndeny contains \"named\"\n".into(), Says("", "")),
        ("metadata", "# METADATA\n# title: \"\\e[31m\\u202e<script>alert(1)</script>\"\n# description: \"a\\r\\n::error::b\"\n# related_resources:\n# - ref: \"javascript:alert(1)\"\n# custom:\n#   severity: \"\\e[0m\"\n#   id: \"](x) | `\"\npackage hostile.metadata\n\n# METADATA\n# title: \"##[command]x\"\ndeny contains \"described\"\n".into(), Says("", "")),
        ("metadata_laughs", "# METADATA\n# title: x\n# custom:\n#   a: &a [x,x,x,x,x,x,x,x,x,x]\n#   b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n#   c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n#   d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n#   e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n#   f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n#   g: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\npackage hostile.metadata_laughs\n\ndeny contains \"x\"\n".into(), Says("fail", "x")),
        ("metadata_deep", format!("# METADATA\n# custom: {}\npackage hostile.metadata_deep\n\ndeny contains \"x\"\n", nested("[", "1", "]", 5_000)), Says("fail", "x")),
    ]
}

fn shapes() -> Listed {
    vec![
        // The evaluator's parser accepts it, and fails later.
        (
            "half_read",
            "deny contains \"x\" if {\n\t-8[{1: 2}]\n\tnot {1 | some x in {1}; x}\n\tindexof(x, 1)\n}\n".into(),
            Refused("found `[`"),
        ),
        ("long_line", deny(&format!("\"{}\"", "x".repeat(200_000))), Says("fail", "xxxx")),
        ("long_name", format!("{0} := 1\n\ndeny contains \"x\" if {0}\n", "a".repeat(15_000)), Says("", "")),
        ("many_rules", lines(800, |n| format!("deny_{n} contains \"x\" if input.spec.never == {n}")), Silent),
        ("large", format!("deny contains \"x\"\n\n{}", "# filler\n".repeat(150_000)), Refused("")),
        ("nul", "deny contains \"x\u{0}y\"\n".into(), Refused("")),
        ("escape_in_text", "deny contains \"x\" if nope\u{1b}[31m(1)\n".into(), Refused("")),
        ("bidi_in_text", "deny contains \"x\" if nope(\"\u{202e}\u{2066}\")\n".into(), Refused("")),
        ("separators", "deny contains \"a\u{2028}b\u{2029}c\u{85}d\"\n".into(), Says("fail", "")),
        ("returns", "deny contains \"x\"\r\n\r\n# \r::error::x\r\n".into(), Says("", "")),
        ("mark", "\u{feff}package hostile.mark\n\ndeny contains \"x\"\n".into(), Says("", "")),
    ]
}
