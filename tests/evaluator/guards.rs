//! Policies and objects that would hang, crash or overflow the process.

use std::{
    fmt::Write as _,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use kaudit::{
    judge::set::PolicySet,
    model::{body::Body, verdict::Outcome},
    rego::Limits,
};

use crate::{judge, object, shown};

fn load_with(text: &str, limits: &Limits) -> Result<Arc<PolicySet>, String> {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("main.rego"), text).unwrap();
    let set = PolicySet::load_with(&[root.path().to_owned()], limits);
    set.map(Arc::new).map_err(|why| why.to_string())
}

fn load(text: &str) -> Result<Arc<PolicySet>, String> {
    load_with(text, &Limits::default())
}

fn pod() -> kaudit::model::object::Object {
    object(&serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}))
}

#[test]
fn nested_brackets_are_refused_at_once() {
    let began = Instant::now();
    for (open, close) in [("[", "]"), ("{", "}"), ("[x | x := ", "]"), ("{\"a\": ", "}"), ("{x | x := 1; y := [", "]}")]
    {
        let text = format!("package main\n\ndeny contains \"x\" if y := {}1{}\n", open.repeat(40), close.repeat(40));
        let why = load(&text).unwrap_err();
        assert!(why.contains("nested too deep"), "{why}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "took {:?}", began.elapsed());
}

#[test]
fn a_rule_that_never_ends_is_an_error_and_the_others_judge() {
    let limits = Limits { evaluation: Duration::from_millis(50), ..Limits::default() };
    let set = load_with(
        "package main\n\ndeny_slow contains \"x\" if {\n\tsome a in numbers.range(1, 5000)\n\tsome b in numbers.range(1, \
         5000)\n\ta + b < 0\n}\n\ndeny_fine contains \"fine\"\n",
        &limits,
    )
    .unwrap();
    let verdict = judge(&set, pod());
    let results: Vec<String> = verdict.results.iter().map(shown).collect();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results[0].starts_with("fail main/deny_fine") && results[0].ends_with(": fine"), "{results:?}");
    assert!(results[1].ends_with("main.rego:3: took longer than 0.05 s"), "{results:?}");
}

#[test]
fn an_object_that_used_up_its_time_leaves_errors() {
    let limits =
        Limits { evaluation: Duration::from_millis(30), input: Duration::from_millis(50), ..Limits::default() };
    let mut text = String::from("package main\n");
    for index in 0..20 {
        let slow = "some a in numbers.range(1, 5000); some b in numbers.range(1, 5000); a + b < 0";
        write!(text, "\ndeny_{index} contains \"x\" if {{ {slow} }}\n").unwrap();
    }
    let verdict = judge(&load_with(&text, &limits).unwrap(), pod());
    assert_eq!(verdict.results.len(), 20);
    assert!(verdict.results.iter().all(|finding| finding.outcome == Outcome::Error));
    let skipped = verdict.results.iter().filter(|finding| finding.message.starts_with("not evaluated"));
    assert!(skipped.count() > 10);
}

#[test]
fn builtins_that_panic_or_hang_survive() {
    for (call, want) in [
        ("object.subset([1], [])", "true"),
        ("strings.count(\"\", \"x\")", "0"),
        ("strings.count(\"abc\", \"\")", "4"),
        ("units.parse(\"1e100000000\")", "undefined"),
        ("units.parse_bytes(\"1e100000000Gi\")", "undefined"),
        ("units.parse(\"2Ki\")", "2048"),
        ("to_number(\"1e100000000\")", "undefined"),
        ("to_number(\"12\")", "12"),
        ("json.unmarshal(\"{\\\"$serde_json::private::Number\\\": \\\"1e100000000\\\"}\")", "{\"$serde_json"),
        ("yaml.unmarshal(\"$serde_json::private::Number: '1e100000000'\")", "{\"$serde_json"),
        ("json.is_valid(\"{\")", "false"),
        ("yaml.is_valid(\"a: b\")", "true"),
        ("count(numbers.range(1, 1000))", "1000"),
        ("numbers.range(1, 100000000)", "numbers.range: more than"),
        ("numbers.range_step(1, 10, 0)", "undefined"),
        ("numbers.range_step(1, 1000000000, 2)", "numbers.range_step: more than"),
        ("net.cidr_expand(\"10.0.0.0/8\")", "net.cidr_expand: more than"),
        ("count(net.cidr_expand(\"10.0.0.0/30\"))", "4"),
        ("bits.lsh(1, 1000000000)", "bits.lsh: a shift"),
        ("sprintf(\"%1000000000d\", [1])", "%!(NOVERB)"),
        ("sprintf(\"%d%%\", [100000])", "100000%"),
    ] {
        let set = load(&format!("package main\n\ndeny contains {{\"msg\": x}} if x := {call}\n")).unwrap();
        let verdict = judge(&set, pod());
        let message = verdict.results.first().map_or("undefined", |finding| &finding.message);
        let message = message.rsplit_once("main.rego:").map_or(message, |(_, message)| message);
        assert!(message.contains(want), "{call}: {message}, not {want}");
        assert!(verdict.took < Duration::from_secs(1), "{call} took {:?}", verdict.took);
    }
}

/// Returns a policy whose rule `r0` goes through `count` others, each made by `link` out of its own number and the next.
fn chain(count: usize, link: impl Fn(usize, usize) -> String, last: &str) -> String {
    let mut text = String::from("package main\n\n");
    for index in 0..count {
        writeln!(text, "{}\n", link(index, index + 1)).unwrap();
    }
    writeln!(text, "{}\n\ndeny contains \"x\" if r0", last.replace("LAST", &format!("r{count}"))).unwrap();
    text
}

fn functions(count: usize) -> String {
    let text = chain(count, |n, next| format!("r{n}(x) := y if y := r{next}(x)"), "LAST(x) := x");
    text.replace("if r0", "if r0(1)")
}

fn rules(count: usize) -> String {
    chain(count, |n, next| format!("r{n} := y if y := r{next}"), "LAST := 1")
}

fn loops(count: usize) -> String {
    let loops = ["some x in [1]"; 20].join("; ").replace("; some x", "; some _");
    chain(count, |n, next| format!("r{n} if {{ {loops}; r{next} }}"), "LAST := true")
}

fn comprehensions(count: usize) -> String {
    let link = |n, next| format!("r{n} := [y | some y in [z | some z in [w | some w in r{next}]]]");
    chain(count, link, "LAST := [1]")
}

fn every(count: usize) -> String {
    let link = |n, next| format!("r{n} if {{ every x in [1] {{ x; every y in [2] {{ y; r{next} }} }} }}");
    chain(count, link, "LAST := true")
}

fn statements(count: usize) -> String {
    let mut text = String::from("package main\n\ndeny contains \"x\" if {\n");
    (0..count).for_each(|n| writeln!(text, "\tsome x{n} in [1]").unwrap());
    text + "}\n"
}

/// Policies that need as much stack as may be, evaluated on a thread with as much as the limits promise.
#[test]
fn what_is_loaded_does_not_overflow_the_stack() {
    for make in [functions, rules, loops, comprehensions, every, statements] {
        let mut most = None;
        for count in (1..).map(|n| n * 8) {
            match load(&make(count)) {
                Ok(set) => most = Some(set),
                Err(why) => {
                    assert!(why.contains("goes through too many rules"), "{count}: {why}");
                    break;
                }
            }
        }
        let most = most.unwrap();
        let limit = 2 * most.limits.stack;
        let thread = std::thread::Builder::new().stack_size(limit).spawn(move || judge(&most, pod())).unwrap();
        assert_eq!(thread.join().unwrap().results.len(), 1, "{}", make(2));
    }
}

#[test]
fn objects_that_are_no_json_are_one_error() {
    let set = load("package main\n\ndeny contains \"x\"\n").unwrap();
    let mut object = pod();
    for json in ["{".to_owned(), "[".repeat(200), "{\"a\": 1e999}".to_owned()] {
        object.body = Body::plain(json.as_bytes());
        let verdict = judge(&set, object.clone());
        let [finding] = verdict.results.as_slice() else { panic!("{:?}", verdict.results) };
        assert_eq!(finding.outcome, Outcome::Error);
        assert!(finding.message.starts_with("the object cannot be read: "), "{}", finding.message);
        assert_eq!(verdict.passed.iter().count(), 0);
    }
    object.body = Body::plain(br#"{"kind": "Pod", "spec": {"$serde_json::private::Number": "1e999999999"}}"#);
    assert_eq!(judge(&set, object).results[0].outcome, Outcome::Fail);
}

#[test]
fn an_object_nested_too_deep_keeps_its_violations_and_has_an_error() {
    let set = load("package main\n\ndeny contains \"bad\" if input.spec.bad\n").unwrap();
    for depth in [150, 3_000, 9_000] {
        let mut object = pod();
        let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        object.body = Body::plain(format!(r#"{{"kind":"Pod","spec":{{"bad":true,"deep":{deep}}}}}"#).as_bytes());
        let verdict = judge(&set, object.clone());
        let found: Vec<_> = verdict.results.iter().map(|finding| (finding.outcome, &*finding.message)).collect();
        let why = "the object is nested deeper than 127 levels: values below that were evaluated as null";
        assert!(found.len() == 2 && found.contains(&(Outcome::Fail, "bad")), "{found:?}");
        assert!(found.contains(&(Outcome::Error, why)), "{found:?}");
    }
}

#[test]
fn print_and_unused_imports_write_nothing_and_change_nothing() {
    let set =
        load("package main\nimport input\nimport data.nothing\n\ndeny contains \"x\" if print(input, \"loud\")\n")
            .unwrap();
    assert_eq!(judge(&set, pod()).results.len(), 1);
}

#[test]
fn verdicts_are_the_same_from_many_threads() {
    let text = "package main\n\ndeny contains x if some x in [\"b\", \"a\", \"c\"]\n\nwarn contains sprintf(\"%v\", [input.metadata])\n";
    let set = load(text).unwrap();
    let want = judge(&set, pod()).results;
    let threads = (0..4).map(|_| {
        let (set, want) = (Arc::clone(&set), want.clone());
        std::thread::spawn(move || (0..50).for_each(|_| assert_eq!(judge(&set, pod()).results, want)))
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_rule_that_says_too_much_is_an_error_and_the_others_judge() {
    // Thirty doublings: a value of little memory that takes gigabytes once it is written.
    let doubled = (0..30).fold("\"x\"".to_owned(), |inner, _| format!("f({inner})"));
    let text = format!(
        "package a\n\nf(x) := [x, x]\n\ndeny_much contains {{\"msg\": \"much\", \"details\": {doubled}}}\n\ndeny contains \"little\"\n"
    );
    let verdict = judge(&load(&text).unwrap(), pod());
    let results: Vec<String> = verdict.results.iter().map(shown).collect();
    let file = &verdict.results[0].rule.source.file;
    assert_eq!(
        results,
        [
            format!("fail a/deny {file}:7: little"),
            format!("error a/deny_much {file}:5: says more than 4 MiB about one object")
        ]
    );
}
