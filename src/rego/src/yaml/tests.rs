use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

/// Reads the first document as kubectl does.
fn kubectl(text: &str) -> Result<Option<YamlDocument>, YamlError> {
    first(text, YamlDialect::Kubectl)
}

fn value(text: &str, dialect: YamlDialect) -> Value {
    first(text, dialect).unwrap().map_or(Value::Null, |document| document.root.json())
}

#[test]
fn duplicate_keys_are_reported_with_their_line_unless_they_replace_merged_ones() {
    for (text, duplicates) in [
        ("a: 1\nb: 2\na: 3\n", vec![(3, "a")]),
        ("a:\n  b: 1\n  \"b\": 2\nc: {d: 1, d: 2}\n", vec![(3, "b"), (4, "d")]),
        ("- a: 1\n  a: 1\n  a: 1\n- a: 1\n", vec![(2, "a"), (3, "a")]),
        ("1: a\n\"1\": b\n", vec![(2, "1")]),
        ("x: &x {a: 1, a: 2}\ny: *x\nz: *x\n", vec![(1, "a")]),
        ("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\nz:\n  a: 2\n  <<: *x\n", vec![]),
        ("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n  a: 3\n", vec![(5, "a")]),
        ("a: {b: 1}\nb: {a: 1}\n", vec![]),
    ] {
        let document = kubectl(text).unwrap().unwrap();
        let found: Vec<_> = document.duplicates.iter().map(|(at, key)| (at.line, key.as_str())).collect();
        assert_eq!(found, duplicates, "{text}");
    }
    let many = kubectl(&"a: 1\n".repeat(100_000)).unwrap().unwrap();
    assert_eq!(many.duplicates.len(), MOST_DUPLICATES);
}

#[test]
fn differences_between_yaml_parsers_are_resolved_as_in_go() {
    for (text, value) in [
        ("a: 26437e834904\nb: 91250e867068\n", json!({"a": "26437e834904", "b": "91250e867068"})),
        (
            "{a: 0644, b: on, c: \"on\", d: 1.0, e: 1_000, f: 08}\n",
            json!({"a": 420, "b": true, "c": "on", "d": 1, "e": 1000, "f": 8}),
        ),
        ("a: 1\na: 2\n", json!({"a": 2})),
        ("a: 1\n<<: {a: 2, b: 3}\nb: 4\n", json!({"a": 2, "b": 4})),
        ("1: a\ntrue: b\n1e7: c\n", json!({"1": "a", "true": "b", "1e+07": "c"})),
        ("a: !!binary aGk=\nb: !mine 1\nc: ! 1\n", json!({"a": "hi", "b": "1", "c": "1"})),
        ("k:\n  a: \"one\n  two\"\n", json!({"k": {"a": "one two"}})),
        ("", Value::Null),
    ] {
        assert_eq!(self::value(text, YamlDialect::Kubectl), value, "{text}");
    }
    for (text, value) in [
        (
            "{a: yes, b: off, c: true, d: 010, e: 2001-01-01, f: 1.0}\n",
            json!({"a": "yes", "b": "off", "c": true, "d": 8, "e": "2001-01-01", "f": 1}),
        ),
        ("on: 1\n", json!({"on": 1})),
        ("a: -0.0\n", json!({"a": -0.0})),
        ("a: 1\n<<: {a: 2, b: 3}\n<<: {b: 4, c: 5}\n", json!({"a": 1, "b": 3, "c": 5})),
    ] {
        assert_eq!(self::value(text, YamlDialect::Opa), value, "{text}");
    }
}

#[test]
fn a_text_need_not_end_with_a_line_break() {
    for (text, value) in [
        ("a: |\n  b", json!({"a": "b"})),
        ("a: |\n  b\n", json!({"a": "b\n"})),
        ("a: |+\n  b\n\n  c", json!({"a": "b\n\nc"})),
        ("a: >-\n  b\n  c", json!({"a": "b c"})),
        ("a: |\n  b\n ", json!({"a": "b\n"})),
        ("a: |\n  b\nc: d", json!({"a": "b\n", "c": "d"})),
        ("- \"b\\n\"", json!(["b\n"])),
        ("- b\\", json!(["b\\"])),
    ] {
        assert_eq!(self::value(text, YamlDialect::Opa), value, "{text}");
    }
    let refused = kubectl("a: \"b\\").unwrap_err().to_string();
    assert_eq!(refused, "line 1 column 4: while scanning a quoted scalar: found unexpected end of stream");
}

#[test]
fn errors_have_the_position_of_the_mistake() {
    for (text, at, why) in [
        ("a: \"one\n", (1, 4), "while scanning a quoted scalar: found unexpected end of stream"),
        ("a:\n- [b\n- c\n", (2, 3), "unclosed bracket '['"),
        ("ä: {b: [\n", (1, 8), "unclosed bracket '['"),
        ("a: {b: c\n\n", (1, 4), "unclosed bracket '{'"),
        ("a: [b\nc: d\n", (2, 2), "while parsing a flow sequence: did not find expected ',' or ']'"),
        ("a: b\n~: c\n", (2, 1), "a key must be a string, number or boolean"),
        ("a: .nan\n", (1, 4), "JSON cannot represent this number"),
        ("a: *b\n", (1, 4), "an alias of an unknown anchor"),
        ("a: &a [*a]\n", (1, 8), "the value of an anchor contains itself"),
        ("a: b\nc: \u{1}\n", (2, 4), "control characters are not allowed"),
        ("a: [!b, c]\n", (1, 1), "the YAML parser failed on this document"),
    ] {
        let refused = kubectl(text).unwrap_err();
        assert_eq!(((refused.at.line, refused.at.column), &*refused.why), (at, why), "{text}");
    }
}

#[test]
fn the_expansion_of_aliases_is_bounded() {
    let laughs = ('b'..='h').fold("a: &a [1,1,1,1,1,1,1,1,1]\n".to_owned(), |text, anchor| {
        let alias = char::from_u32(u32::from(anchor) - 1).unwrap();
        text + &format!("{anchor}: &{anchor} [{}]\n", format!("*{alias} ,").repeat(9))
    });
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1_000_000), "*a ,".repeat(90));
    for text in [laughs, long] {
        assert_eq!(kubectl(&text).unwrap_err().why, "its anchors and aliases expand to too many values");
    }
    assert!(kubectl(&format!("a: &a {{b: c}}\nd: [{}]\n", "*a ,".repeat(300))).is_ok());
}

#[test]
fn every_value_has_its_position() {
    let text = "kind: A\nb:\n  - c: |\n      x\n      y\n---\n- &a {d: 1}\n- *a\n-\n";
    let roots = documents(text, YamlDialect::Opa).unwrap();
    let at = |node: &YamlNode| (node.at.line, node.at.column);
    let block = roots[0].get("b").items()[0].get("c");
    assert_eq!((block.text(), at(block)), (Some("x\ny\n"), (3, 8)));
    let [anchored, alias, empty] = roots[1].items() else { panic!("{roots:?}") };
    assert_eq!([anchored, alias, empty].map(at), [(7, 3), (8, 3), (9, 2)]);
    assert_eq!((at(alias.get("d")), &alias.fields()[0].at), ((7, 10), &Position { line: 7, column: 7 }));
    assert_eq!(anchored, alias);
}

#[test]
fn the_number_key_of_serde_json_is_not_special() {
    let node = single(r#"{"$serde_json::private::Number": "1e999999999"}"#, YamlDialect::Opa).unwrap();
    assert_eq!(node.value()["$serde_json::private::Number"], regorus::Value::from("1e999999999"));
}

#[test]
fn duplicate_keys_can_be_refused() {
    let first = |text: &str| kubectl(text).unwrap().unwrap().without_duplicates();
    assert_eq!(first("a: 1\nb: {c: 1}\n").unwrap().json(), json!({"a": 1, "b": {"c": 1}}));
    let refused = first("a: 1\nb: {c: 1, c: 2}\na: 2\n").unwrap_err();
    assert_eq!(refused.to_string(), "line 2 column 11: duplicate mapping key: c");
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    name: String,
    count: Option<u8>,
    #[serde(default)]
    modes: Vec<Mode>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Mode {
    Fast,
    Slow { by: f64 },
}

#[test]
fn documents_are_deserialized_and_unquoted_strings_stay_as_they_are_written() {
    let typed = |name: &str, count, modes| Typed { name: name.to_owned(), count, modes };
    let text = "name: 1.10\ncount: ~\n---\n---\nname: true\ncount: 0x10\nmodes: [fast, slow: {by: 2}]\n";
    let read: Vec<Typed> = from_multiple(text).unwrap();
    assert_eq!(read, [typed("1.10", None, vec![]), typed("true", Some(16), vec![Mode::Fast, Mode::Slow { by: 2.0 }])]);
    assert_eq!(from_str::<Option<Typed>>("# nothing\n"), Ok(None));
    // Everything below the key is a comment.
    assert_eq!(from_str::<Typed>("name: a\nmodes:\n# - fast\n"), Ok(typed("a", None, vec![])));
    assert_eq!(from_str::<Value>("a: [1, -2.5, ~]").unwrap(), json!({"a": [1, -2.5, null]}));
}

#[test]
fn values_of_another_type_are_refused_with_their_position_and_never_shown() {
    for (text, at, why) in [
        ("", (1, 1), "missing field `name`"),
        ("- hidden\n", (1, 1), "expected a mapping"),
        ("name: [hidden]\n", (1, 7), "expected a string"),
        ("name: a\ncount: hidden\n", (2, 8), "expected u8"),
        ("name: a\nmodes: hidden\n", (2, 8), "expected a sequence"),
        ("name: a\nmodes:\n- fast\n- first\n", (4, 3), "unknown variant `first`, expected one of fast, slow"),
        ("name: a\nmodes:\n- slow: {by: hidden}\n", (3, 14), "expected f64"),
        ("name: a\nmode: hidden\n", (2, 1), "unknown field `mode`, expected one of name, count, modes"),
        ("# c\ncount: 1\n", (2, 1), "missing field `name`"),
        ("name: a\nname: b\n", (2, 1), "duplicate mapping key: name"),
        ("name: a\n---\nname: b\n", (3, 1), "more than one document"),
    ] {
        let refused = from_str::<Typed>(text).unwrap_err();
        assert_eq!(((refused.at.line, refused.at.column), &*refused.why), (at, why), "{text}");
    }
}
