//! Generated policies and objects.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use kaudit::{
    judge::{
        evaluate::{Job, evaluate},
        load_options::LoadOptions,
        set::PolicySet,
    },
    model::{
        body::Body,
        object::{Kind, Object, ObjectKey},
    },
    rego::Limits,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns expressions that mostly parse; their meaning does not matter.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("input".to_owned()),
        Just("input.metadata.name".to_owned()),
        Just("input[_]".to_owned()),
        Just("input.spec[a][b]".to_owned()),
        Just("data.lib.f(input)".to_owned()),
        Just("data.lib[k]".to_owned()),
        Just("x".to_owned()),
        Just("y".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("written in JSON", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        "[a-z!\"#$%&'()*+,./:;<=>?@\\[\\]^_`{|}~ -]{0,12}",
    ];
    let call = prop::sample::select(vec![
        "count",
        "sum",
        "max",
        "sort",
        "lower",
        "to_number",
        "json.marshal",
        "json.unmarshal",
        "yaml.unmarshal",
        "base64.decode",
        "regex.is_valid",
        "units.parse",
        "units.parse_bytes",
        "time.parse_rfc3339_ns",
        "time.date",
        "semver.is_valid",
        "urlquery.decode",
        "object.keys",
        "walk",
        "net.cidr_is_valid",
        "type_name",
        "abs",
        "ceil",
        "reverse",
        "trim_space",
        "is_string",
        "hex.decode",
    ]);
    let binary = prop::sample::select(vec![
        "sprintf",
        "concat",
        "split",
        "contains",
        "regex.match",
        "regex.find_n",
        "glob.match",
        "object.get",
        "array.concat",
        "bits.lsh",
        "numbers.range",
        "format_int",
        "indexof",
        "json.filter",
        "json.patch",
        "object.union",
        "strings.count",
        "time.format",
        "trim",
    ]);
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let (one, two) = (inner.clone(), (inner.clone(), inner.clone()));
        prop_oneof![
            (call.clone(), one).prop_map(|(call, argument)| format!("{call}({argument})")),
            (binary.clone(), two.clone()).prop_map(|(call, (a, b))| format!("{call}({a}, {b})")),
            (prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", "&", "|", "in"]), two.clone())
                .prop_map(|(operator, (a, b))| format!("{a} {operator} {b}")),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("{{{}}}", items.join(", "))),
            two.clone().prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            two.clone().prop_map(|(a, b)| format!("[{a} | {b}]")),
            two.clone().prop_map(|(a, b)| format!("{{{a} | some x in {b}; x != null}}")),
            two.prop_map(|(a, b)| format!("{a}[{b}]")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    (expression(), expression(), 0..6).prop_map(|(a, b, shape)| match shape {
        0 => format!("x := {a}"),
        1 => format!("some y in {a}"),
        2 => format!("not {a}"),
        3 => format!("every z in {a} {{ {b} }}"),
        4 => format!("{a} with input as {b}"),
        _ => a,
    })
}

fn rule() -> impl Strategy<Value = String> {
    let body = prop::collection::vec(statement(), 1..4).prop_map(|body| body.join("\n\t"));
    (expression(), body, 0..7).prop_map(|(value, body, shape)| match shape {
        0 => format!("deny contains {value} if {{\n\t{body}\n}}"),
        1 => format!(
            "deny_more contains {{\"msg\": sprintf(\"%v\", [{value}]), \"details\": {value}}} if {{\n\t{body}\n}}"
        ),
        2 => format!("warn[x] {{\n\t{body}\n}}"),
        3 => format!("f(x) := {value} if {{\n\t{body}\n}}"),
        4 => format!("default z := {value}\n\nz := f(x) if {{\n\t{body}\n}}"),
        5 => format!("violation contains x if {{\n\t{body}\n}} else := {value}"),
        _ => format!("a[x] := {value} if {{\n\t{body}\n}}"),
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn object(spec: &Value, metadata: &Value) -> Object {
    let kind = Kind {
        group: String::new(),
        version: "v1".into(),
        plural: "pods".into(),
        kind: "Pod".into(),
        singular: "pod".into(),
        short_names: vec![],
        namespaced: true,
    };
    let json = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Object {
        key: ObjectKey { kind: Arc::new(kind), namespace: Some("shop".into()), name: "a".into(), copy: 0 },
        uid: "".into(),
        resource_version: "".into(),
        body: Body::plain(json.to_string().as_bytes()),
        location: None,
        controller: None,
        inactive: false,
        projected: None,
    }
}

/// Evaluates on a thread with the stack size of worker threads.
fn evaluated(files: &[(&str, &str)], objects: Vec<Object>) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let work = move || {
        let limits =
            Limits { evaluation: Duration::from_millis(50), input: Duration::from_millis(200), ..Limits::default() };
        let options = LoadOptions { limits, ..LoadOptions::allowing_refused() };
        let set = Arc::new(PolicySet::load_with(&[folder.path().to_owned()], &options).unwrap());
        let judge = |object| {
            let began = Instant::now();
            let job = Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(&set) };
            let verdict = evaluate(&job);
            assert!(began.elapsed() < Duration::from_secs(5), "took {:?}", began.elapsed());
            let good = verdict.results.into_iter().filter(|finding| &*finding.rule.policy == "good");
            good.map(|finding| finding.message.to_string()).collect()
        };
        objects.into_iter().map(judge).collect()
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(work).unwrap().join().unwrap()
}

const GOOD: &str = "package good\n\ndeny contains \"good\"\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn generated_policies_and_objects_are_harmless(
        rules in prop::collection::vec(rule(), 1..6),
        spec in value(),
        metadata in value(),
    ) {
        let policy = format!("package hostile\n\n{}\n", rules.join("\n\n"));
        let lib = "package lib\n\nf(x) := x\n\ng := 1\n";
        let files = [("hostile.rego", policy.as_str()), ("lib.rego", lib), ("good.rego", GOOD)];
        let verdicts = evaluated(&files, vec![object(&spec, &metadata), object(&json!({}), &json!({"name": "a"}))]);
        prop_assert_eq!(verdicts, vec![vec!["good".to_owned()]; 2], "{}", policy);
    }

    /// The texts need not be Rego.
    #[test]
    fn generated_texts_are_harmless(text in any::<String>(), bytes in "[ -~\\n]{0,200}") {
        let policies = [("a.rego", text.as_str()), ("b.rego", &bytes), ("good.rego", GOOD)];
        prop_assert_eq!(evaluated(&policies, vec![object(&json!({}), &json!({"name": "a"}))]), vec![vec!["good".to_owned()]]);
    }
}
