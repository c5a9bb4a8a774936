//! Hostile objects, each together with a valid one, which must be evaluated in any case.

use crate::corpus::{GOOD, POD, check, folder};

/// Reads everything.
const ALL: &str = r#"package looks

deny contains sprintf("%v %v", [path, value]) if {
	walk(input, [path, value])
	is_string(value)
}

warn contains {"msg": sprintf("%v", [input.metadata]), "details": input} if input.metadata.name != "pod"

warn_count contains sprintf("%d", [count(json.marshal(input))]) if input.spec
"#;

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn with(spec: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"hostile","namespace":"shop"}},"spec":{spec}}}"#)
}

fn named(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"{name}","labels":{{"a":"{name}"}}}}}}"#
    )
}

/// Returns all of them, by file name. Valid objects have a result or an error of their own; all others are named.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let escapes = r"\u001b[2J\u001b]0;title\u0007\u009b31m\u202e\u2066\u0000\r\n::error::x\n##[command]y";
    let texts = vec![
        ("depth_100.json", with(&nested("[", "1", "]", 100))),
        ("depth_128.json", with(&nested("{\"a\":", "1", "}", 126))),
        ("depth_5000.json", with(&nested("[", "1", "]", 5_000))),
        ("depth_yaml.yaml", with(&nested("[", "1", "]", 5_000)).replacen('{', "# \n{", 1)),
        ("depth_blocks.yaml", (0..2_000).fold("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n".into(), |text: String, n| text + &" ".repeat(n + 1) + "a:\n")),
        ("large_text.json", with(&format!("{{\"a\":\"{}\"}}", "x".repeat(1_500_000)))),
        ("large_map.json", with(&format!("{{{}}}", (0..60_000).map(|n| format!("\"key-{n}\":\"value\"")).collect::<Vec<_>>().join(",")))),
        ("large_list.json", with(&format!("[{}]", vec!["1"; 500_000].join(",")))),
        ("nul.json", with("\"\\u0000\\uffff\"")),
        ("surrogate.json", with("\"\\ud800\"")),
        ("surrogates.json", with("\"\\udfff\\ud800\"")),
        ("numbers.json", with("[123456789012345678901234567890,-123456789012345678901234567890,18446744073709551616,-9223372036854775809,0.1e-400,-0,1E+30]")),
        ("infinite.json", with("1e400")),
        ("exponent.json", with("1e99999999999999999999")),
        ("digits.json", with(&"9".repeat(100_000))),
        ("private.json", with(r#"{"$serde_json::private::Number":"1e999999999"}"#)),
        ("raw.json", with(r#"{"$serde_json::private::RawValue":"{broken"}"#)),
        ("raw_top.json", r#"{"$serde_json::private::RawValue":"{broken"}"#.into()),
        ("long_name.json", named(&"n".repeat(253))),
        ("longer_name.json", named(&"n".repeat(50_000))),
        ("escapes.json", named(escapes)),
        ("kind.json", format!(r#"{{"apiVersion":"v1/{escapes}/x/y","kind":"{escapes}","metadata":{{"name":"a"}}}}"#)),
        ("annotations.json", format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","annotations":{{"{escapes}":"{escapes}"}}}}}}"#)),
        ("key_twice.json", format!(r#"{{"apiVersion":"v1","{escapes}":1,"{escapes}":2}}"#)),
        ("no_metadata.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":null}"#.into()),
        ("metadata_text.json", format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":"{escapes}"}}"#)),
        ("labels_list.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":["good"],"annotations":7}}"#.into()),
        ("name_number.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":7}}"#.into()),
        ("kind_list.json", r#"{"apiVersion":[],"kind":{},"metadata":{"name":"a"}}"#.into()),
        ("lists.json", nested(r#"{"apiVersion":"v1","kind":"List","items":["#, &with("1"), "]}", 300)),
        ("reviews.json", nested(r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":"#, &with("1"), "}}", 100)),
        ("arrays.json", nested("[", &with("1"), "]", 100)),
        ("arrays_deep.json", nested("[", &with("1"), "]", 200_000)),
        ("items_text.json", format!(r#"{{"apiVersion":"v1","kind":"List","items":"{escapes}"}}"#)),
        ("laughs.yaml", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\napiVersion: v1\nkind: Pod\nmetadata: {name: laughs}\n".into()),
        ("itself.yaml", "apiVersion: v1\nkind: Pod\nmetadata: &m {name: a, more: *m}\n".into()),
        ("merges.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: &s\n  <<: *s\n".into()),
        ("flow.yaml", format!("apiVersion: v1\nkind: Pod\nmetadata: {}\n", "[".repeat(200_000))),
        ("documents.yaml", "---\n".repeat(50_000)),
        ("scalars.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: [0o777, 0x7fffffffffffffffff, .inf, -.inf, .nan, 1_000, 12e03, ~, yes, 2001-01-01, !!binary zz, !!set {a, b}]\n".into()),
        ("raw_escapes.yaml", format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{escapes}\"}}\n").replace("\\u0000", "").replace("\\u001b", "\u{1b}").replace("\\u009b", "\u{9b}")),
        ("tag.yaml", "apiVersion: v1\nkind: Pod\nmetadata: !!js/function {name: a}\n".into()),
        ("complex_keys.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n? [a, b]\n: {c: d}\n? {e: f}\n: g\n".into()),
        ("long_line.yaml", format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {}\n", "a ".repeat(700_000))),
    ];
    let mut all: Vec<_> = texts.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    all.push(("broken_text.json", [with("\"").as_bytes(), b"\xc3\x28\"}"].concat()));
    all.push(("overlong.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: \"\xc0\x80\xed\xa0\x80\"}\n".to_vec()));
    all.push((
        "\u{1b}[31m\u{202e}\n::error::x.yaml",
        b"apiVersion: v1\nkind: Pod\nmetadata: [\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n".to_vec(),
    ));
    all
}

#[test]
fn each_hostile_object_affects_only_itself() {
    let policies = [("policies/good.rego", GOOD.as_bytes()), ("policies/looks.rego", ALL.as_bytes())];
    for (name, text) in all() {
        let file = format!("objects/{name}");
        let files = [("objects/pod.yaml", POD.as_bytes()), (&file, &text)];
        let folder = folder(&[&policies[..], &files].concat());
        let (result, ended) = check(folder.path(), name);
        let good = |entry: &&serde_json::Value| entry["policy"] == "good" && entry["resource"]["name"] == "pod";
        assert_eq!(result["results"].as_array().unwrap().iter().filter(good).count(), 1, "{name}: {}", ended.stderr);
        // Evaluated, or named as not evaluated.
        let own = result["results"].as_array().unwrap().iter().any(|entry| entry["resource"]["name"] != "pod");
        assert!(own || result["complete"] == false || name == "documents.yaml", "{name}: {result}");
    }
}

#[test]
fn all_hostile_objects_together_affect_no_others() {
    let named: Vec<(String, Vec<u8>)> =
        all().into_iter().map(|(name, text)| (format!("objects/{name}"), text)).collect();
    let mut files: Vec<(&str, &[u8])> = named.iter().map(|(name, text)| (name.as_str(), text.as_slice())).collect();
    files.extend([
        ("objects/pod.yaml", POD.as_bytes()),
        ("policies/good.rego", GOOD.as_bytes()),
        ("policies/looks.rego", ALL.as_bytes()),
    ]);
    let folder = folder(&files);
    let (result, _) = check(folder.path(), "all objects");
    let results = result["results"].as_array().unwrap();
    assert!(results.iter().any(|entry| entry["policy"] == "good" && entry["resource"]["name"] == "pod"));
}
