use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::source::manifest::{patch::ObjectPatch, text_edits::PARSED_BYTES};

const TEXT: &str = "\
# The shop.
apiVersion: v1
kind: Pod
metadata: {name: shop}  # kept
spec:
  hostPID: true
  # Only one.
  containers:
    - name: a   # the first
      image: a:1
      securityContext:
        privileged: true # why?
    - {name: b, image: 'b:2'}
    - name: c
      securityContext: {}

---
apiVersion: v1
kind: List
items:
- kind: Service
  spec: {type: NodePort}
- kind: Service
  spec:
    type: NodePort
";

fn fixed(text: &str, objects: BTreeMap<usize, FixedObject>) -> (String, usize) {
    let (text, applied) = ManifestText::new(text).fixed(objects);
    (text, applied.len())
}

fn object<const N: usize>(kind: &str, name: &str, fixes: [(&str, Value); N]) -> FixedObject {
    let fixes = fixes.map(|(field, value)| ResultFix::Field(field.to_owned(), value)).into();
    let object = ObjectRef { kind: kind.to_owned(), name: name.into(), ..ObjectRef::default() };
    FixedObject { object: Arc::new(object), fixes }
}

#[test]
fn fields_get_values_and_everything_else_stays() {
    let pod = object(
        "Pod",
        "shop",
        [
            ("spec.hostPID", Value::Null),
            ("spec.containers[0].securityContext.privileged", json!(false)),
            ("spec.containers[0].securityContext.capabilities.drop", json!(["ALL"])),
            ("spec.containers[1].securityContext.runAsNonRoot", json!(true)),
            ("spec.containers[2].securityContext.runAsNonRoot", json!(true)),
            ("spec.containers[2].securityContext.seccompProfile", json!({"type": "RuntimeDefault"})),
        ],
    );
    let service = |line| (line, object("Service", "", [("spec.type", json!("ClusterIP"))]));
    let (text, applied) = fixed(TEXT, BTreeMap::from([(2, pod), service(21), service(23)]));
    insta::assert_snapshot!(text);
    assert_eq!(applied, 8);
    let (again, applied) =
        fixed(&text, BTreeMap::from([(2, object("Pod", "shop", [("spec.containers[0].image", json!("a:1"))]))]));
    assert_eq!((again, applied), (text, 1));
}

#[test]
fn unicode_byte_order_marks_and_json_are_preserved() {
    for (old, new) in [
        ("# Grüße\nkind: Pod\nd: {é: ü, x: 1} # Ö\ny: 2\n", "# Grüße\nkind: Pod\nd: {é: ü, x: 3} # Ö\ny: 2\n"),
        ("\u{feff}kind: Pod\nd:\n  x: 1\n", "\u{feff}kind: Pod\nd:\n  x: 3\n"),
        ("{\"kind\":\"Pod\",\"d\":{}}", "{\"kind\":\"Pod\",\"d\":{\"x\":3}}"),
        ("{\"kind\":\"Pod\"}", "{\"kind\":\"Pod\", \"d\": {\"x\":3}}"),
    ] {
        let line = if old.starts_with('#') { 2 } else { 1 };
        let fixes = BTreeMap::from([(line, object("Pod", "", [("d.x", json!(3))]))]);
        assert_eq!(fixed(old, fixes), (new.to_owned(), 1));
    }
}

#[test]
fn text_that_cannot_be_fixed_is_unchanged() {
    for (line, name, field) in [
        (1, "shop", "spec.hostPID"),
        (2, "shop", "spec.containers[3].image"),
        (2, "shop", "spec.volumes[0].name"),
        (2, "shop", "kind.a"),
        (2, "another", "spec.hostPID"),
    ] {
        let fixes = BTreeMap::from([(line, object("Pod", name, [(field, json!("x"))]))]);
        assert_eq!(fixed(TEXT, fixes), (TEXT.to_owned(), 0), "{line} {name} {field}");
    }
    let twice = object("Pod", "", [("a", json!("A")), ("a", json!("B"))]);
    assert_eq!(fixed("kind: Pod\n", BTreeMap::from([(1, twice)])), ("kind: Pod\na: A\n".to_owned(), 1));
    for odd in ["{{ .Values.a }}", "a: [", "\t", "", "kind: Pod\na: &a {}\nb: *a\n"] {
        let fixes = BTreeMap::from([(1, object("Pod", "", [("a.b", json!(1))]))]);
        assert_eq!(fixed(odd, fixes), (odd.to_owned(), 0));
    }
}

fn patch(value: &Value) -> ResultFix {
    ResultFix::Patch(ObjectPatch::new(value).unwrap())
}

fn patched(text: &str, patches: impl IntoIterator<Item = Value>) -> (String, usize) {
    let object = ObjectRef { kind: "Pod".to_owned(), name: "shop".into(), ..ObjectRef::default() };
    let fixes = patches.into_iter().map(|value| patch(&value)).collect();
    let line = 1 + text.lines().take_while(|line| line.starts_with('#')).count();
    fixed(text, BTreeMap::from([(line, FixedObject { object: Arc::new(object), fixes })]))
}

#[test]
fn a_block_scalar_without_a_line_break_at_the_end_of_a_file_is_no_obstacle() {
    let text = "kind: Pod\nmetadata: {name: shop}\nspec:\n  a: |\n    x";
    for patch in [json!({"spec": {"b": 1}}), json!({"spec": {"a": null}}), json!({"spec": {"a": 1}}), json!({"c": 1})] {
        let (new, applied) = patched(text, [patch.clone()]);
        let mut wanted = super::parse(text).unwrap();
        if applied == 1 {
            json_patch::merge(&mut wanted, &patch);
        }
        assert_eq!(super::parse(&new), Some(wanted), "{patch}: {new}");
    }
}

#[test]
fn an_object_that_starts_where_another_one_ends_is_fixed_or_left() {
    let text = "kind: List\nitems: [{kind: Pod,\n  metadata: {name: a}, spec: {l: [\n  {image: a}]}}, {kind: Pod, metadata: {name: b}}]\n";
    let object = ObjectRef { kind: "Pod".to_owned(), name: "b".into(), ..ObjectRef::default() };
    let object = FixedObject { object: Arc::new(object), fixes: vec![patch(&json!({"x": 1}))] };
    let (new, _) = fixed(text, BTreeMap::from([(4, object)]));
    assert!(new.contains("{image: a}]}}"), "{new}");
}

#[test]
fn a_block_scalar_at_the_end_of_a_document_leaves_the_next_document() {
    let text = "kind: Pod\nmetadata: {name: shop}\nspec:\n  a: |\n    x\n---\nkind: Other\n";
    let fixed = "kind: Pod\nmetadata: {name: shop}\nspec:\n  a: new\n---\nkind: Other\n";
    let patch = json!([{"op": "replace", "path": "/spec/a", "value": "new"}]);
    assert_eq!(patched(text, [patch]), (fixed.to_owned(), 1));
}

#[test]
fn patches_change_several_fields_and_items_of_lists() {
    let volume = json!({"name": "tmp", "emptyDir": {"medium": "Memory"}});
    let operations = json!([
        {"op": "test", "path": "/spec/hostPID", "value": true},
        {"op": "remove", "path": "/spec/hostPID"},
        {"op": "add", "path": "/spec/volumes", "value": [volume]},
        {"op": "add", "path": "/spec/containers/1", "value": {"name": "x", "image": "x:1"}},
        {"op": "remove", "path": "/spec/containers/0"},
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "last", "args": []}},
        {"op": "add", "path": "/spec/containers/3/args/-", "value": "a b"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "x:2"},
    ]);
    let text = TEXT.split("---").next().unwrap();
    let (new, applied) = patched(text, [operations]);
    assert_eq!(applied, 1);
    insta::assert_snapshot!("json_patch", new);
    let merge = json!({"metadata": {"labels": {"app": "shop", "none": null}}, "spec": {"hostPID": null, "containers": null, "os": {"name": "linux"}}});
    let (new, applied) = patched(text, [merge]);
    assert_eq!(applied, 1);
    insta::assert_snapshot!("merge_patch", new);
}

#[test]
fn patches_of_one_object_are_applied_together_or_not_at_all() {
    let text = "kind: Pod\nmetadata: {name: shop}\na:\n# One.\n- b: 0 # zero\n- b: 1 # one\n- b: 2\nc: {}\n";
    let remove = |index: usize| json!([{"op": "remove", "path": format!("/a/{index}")}]);
    let both = "kind: Pod\nmetadata: {name: shop}\na:\n# One.\n- b: 1 # one\nc: {}\n";
    assert_eq!(patched(text, [remove(0), remove(2)]), (both.to_owned(), 2));
    assert_eq!(patched(text, [remove(2), remove(0), remove(2)]), (both.to_owned(), 3), "the same twice");
    // An item may have another index after the first patch.
    let insert = json!([{"op": "add", "path": "/a/1", "value": {"b": 9}}]);
    let outer = json!([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/1"}]);
    let (new, applied) = patched(text, [insert.clone(), outer]);
    assert!(applied == 2 && new.ends_with("a:\n# One.\n- b: 9\n- b: 1 # one\nc: {}\n"), "{new}");
    let (new, applied) = patched(text, [insert, json!([{"op": "replace", "path": "/a/2/b", "value": 8}])]);
    assert!(applied == 2 && new.ends_with("- b: 0 # zero\n- b: 9\n- b: 1 # one\n- b: 8\nc: {}\n"), "{new}");
    let all =
        json!([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/0"}]);
    assert_eq!(patched(text, [all]).0, "kind: Pod\nmetadata: {name: shop}\na: []\nc: {}\n");
    for half in [
        json!([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/d"}]),
        json!([{"op": "add", "path": "/c/d", "value": 1}, {"op": "test", "path": "/c/d", "value": 2}]),
        json!([{"op": "replace", "path": "", "value": {}}, {"op": "remove", "path": "/c"}]),
    ] {
        assert_eq!(patched(text, [half.clone()]), (text.to_owned(), 0), "{half}");
    }
    let anchors = "kind: Pod\nmetadata: {name: shop}\na: &a\n- b: 0\n- *a\n";
    assert_eq!(patched(anchors, [remove(0)]), (anchors.to_owned(), 0));
    let (set, field) = (json!({"c": {"d": 1}}), json!([{"op": "replace", "path": "/c", "value": {"e": 2}}]));
    assert_eq!(patched(text, [set, field]).1, 1, "the second would undo the first");
}

#[test]
fn patches_of_one_object_change_only_their_own_values() {
    let text = "kind: Pod\nmetadata: {name: shop}\nl: [a, b, c, d]\nm: {x: {v: 1}}\n";
    let remove = |path: &str| json!({"op": "remove", "path": path});
    let set = |path: &str, value: i32| json!({"op": "add", "path": path, "value": value});
    let replace = |path: &str| json!({"op": "replace", "path": path, "value": 9});
    for (patches, list, rest, want) in [
        // Both replace the item at index 1: c and b.
        (vec![json!([remove("/l/0"), replace("/l/1")]), json!([replace("/l/1")])], "[9, 9, d]", "{x: {v: 1}}", 2),
        (vec![json!([remove("/l/1")]), json!([remove("/l/2")]), json!([remove("/l/0")])], "[d]", "{x: {v: 1}}", 3),
        (vec![json!([remove("/l/1")]), json!([replace("/l/1")])], "[a, c, d]", "{x: {v: 1}}", 1),
        (vec![json!([replace("/l/1")]), json!([remove("/l/1")])], "[a, 9, c, d]", "{x: {v: 1}}", 1),
        (vec![json!([remove("/m/x")]), json!([set("/m/x/z", 2)])], "[a, b, c, d]", "{}", 1),
        (vec![json!([set("/m/x/z", 2)]), json!([remove("/m/x")])], "[a, b, c, d]", "{x: {v: 1, z: 2}}", 1),
        (vec![json!([set("/m/x", 3)]), json!({"m": {"x": {"z": 2}}})], "[a, b, c, d]", "{x: 3}", 1),
        (
            vec![json!({"m": {"k": {"a": 1}}}), json!({"m": {"k": {"b": 2}}})],
            "[a, b, c, d]",
            "{x: {v: 1}, k: {a: 1, b: 2}}",
            2,
        ),
        (vec![json!([set("/l/-", 1)]), json!([set("/l/-", 2)])], "[a, b, c, d, 1]", "{x: {v: 1}}", 1),
        // One patch that changes what it made itself.
        (
            vec![json!([set("/m/k", 1), {"op": "replace", "path": "/m/k", "value": {}}, set("/m/k/z", 2)])],
            "[a, b, c, d]",
            "{x: {v: 1}, k: {z: 2}}",
            1,
        ),
        (
            vec![
                json!([set("/l/0", 1), set("/l/0", 2), replace("/l/1"), remove("/l/2"), remove("/l/2")]),
                json!([remove("/l/3")]),
            ],
            "[2, 9, c]",
            "{x: {v: 1}}",
            2,
        ),
    ] {
        let (new, applied) = patched(text, patches.clone());
        let want_text = format!("kind: Pod\nmetadata: {{name: shop}}\nl: {list}\nm: {rest}\n");
        assert_eq!((parse(&new), applied), (parse(&want_text), want), "{patches:?}\n{new}");
    }
}

#[test]
fn comments_go_with_the_items_of_lists_in_brackets() {
    let text = |items: &str| format!("kind: Pod\nmetadata: {{name: shop}}\nl: [\n{items}]\n");
    let lines = text("  a, # first\n  # Before b.\n  b, # second\n  c # third\n");
    for (text, index, want) in [
        (&lines, 0, text("  # Before b.\n  b, # second\n  c # third\n")),
        (&lines, 1, text("  a, # first\n  # Before b.\n  c # third\n")),
        (&lines, 2, text("  a, # first\n  # Before b.\n  b, # second\n")),
        (&text("  a, b # both\n"), 1, text("  a # both\n")),
        (&text("  a, # first\n  b"), 1, text("  a, # first\n  ")),
    ] {
        let patch = json!([{"op": "remove", "path": format!("/l/{index}")}]);
        assert_eq!(patched(text, [patch]), (want, 1), "{index}");
    }
}

#[test]
fn the_cost_of_a_fix_does_not_depend_on_other_objects_of_its_list() {
    let pod = |indent: &str| format!("- apiVersion: v1\n{indent}kind: Pod\n{indent}spec: {{a: 1, b: [x, y]}}\n");
    let json = r#"{"kind": "Pod", "spec": {"a": 1, "b": ["x", "y"]}}"#;
    let fixed_list = |pods: usize, is_json: bool| {
        let text = if is_json {
            format!("{{\"kind\": \"List\", \"items\": [\n{}\n]}}", vec![json; pods].join(",\n"))
        } else {
            format!("kind: List\nitems:\n{}", pod("  ").repeat(pods))
        };
        let line = |index: usize| if is_json { 2 + index } else { 3 + 3 * index };
        let fixes = |index| (line(index), object("Pod", "", [("spec.a", json!(2)), ("spec.b[0]", Value::Null)]));
        PARSED_BYTES.set(0);
        let manifest = ManifestText::new(&text);
        let (new, applied) = manifest.fixed((0..pods).map(fixes).collect());
        let applied = applied.len();
        let lines = manifest.fixed_lines(line(pods - 1), &fixes(0).1).unwrap();
        assert!(
            lines.line == line(pods - 1) && lines.old.lines().count() < 4 && lines.new.contains("[\"y\"]") == is_json
        );
        let wanted = text.replace("1, b: [x, y]", "2, b: [y]").replace(r#"1, "b": ["x", "y"]"#, r#"2, "b": ["y"]"#);
        assert_eq!((new, applied), (wanted, 2 * pods));
        PARSED_BYTES.get()
    };
    for is_json in [false, true] {
        let [few, many] = [50, 100].map(|pods| fixed_list(pods, is_json));
        assert!(many <= 2 * few, "{few} bytes for 50 objects, {many} for 100");
    }
}

#[test]
fn items_of_a_typed_list_need_no_kind() {
    let metadata = "metadata: {name: shop}";
    for item in [format!("- {metadata}\n  spec: {{a: 1}}\n"), format!("- {{{metadata}, spec: {{a: 1}}}}\n")] {
        let text = format!("kind: PodList\nitems:\n{item}");
        let fixes = BTreeMap::from([(3, object("Pod", "shop", [("spec.a", json!(2))]))]);
        assert_eq!(fixed(&text, fixes), (text.replace('1', "2"), 1));
    }
}

#[test]
fn objects_with_aliases_of_one_list_are_fixed() {
    let text = "kind: List\nitems:\n- kind: Pod\n  a: &a {b: 1}\n  c: 1\n- kind: Pod\n  a: *a\n  c: 1\n";
    let fixes = |line| (line, object("Pod", "", [("c", json!(2)), ("a.b", json!(2))]));
    let want = text.replace("c: 1", "c: 2").replace("{b: 1}", "{b: 2}").replace("a: *a", "a:\n    b: 2");
    assert_eq!(fixed(text, BTreeMap::from([fixes(3), fixes(6)])), (want, 4));
    let (first, applied) = fixed(text, BTreeMap::from([fixes(3)]));
    assert_eq!((first, applied), (text.replacen("c: 1", "c: 2", 1), 1), "the value in both objects stays");
}

/// What a rule wants of an item of a list, which it finds by its name.
#[derive(Debug, Clone)]
enum Wish {
    Absent,
    First,
    Last,
    Value(u8),
}

/// Returns the patch by which a rule gets its wishes for some items, as a policy computes it.
fn wished(wishes: &[Wish], rule: &BTreeSet<usize>, object: &Value) -> Option<Value> {
    let (mut object, mut operations) = (object.clone(), Vec::new());
    for name in rule {
        let items = object["l"].as_array().unwrap();
        let index = items.iter().position(|item| item["name"] == *name);
        let operation = match (&wishes[*name], index) {
            (Wish::Absent, Some(index)) => json!({"op": "remove", "path": format!("/l/{index}")}),
            (Wish::First, None) => json!({"op": "add", "path": "/l/0", "value": {"name": name}}),
            (Wish::Last, None) => json!({"op": "add", "path": "/l/-", "value": {"name": name, "v": 1}}),
            (Wish::Value(value), Some(index)) if items[index]["v"] != *value => {
                json!({"op": "add", "path": format!("/l/{index}/v"), "value": value})
            }
            _ => continue,
        };
        json_patch::patch(&mut object, &serde_json::from_value::<json_patch::Patch>(json!([operation])).unwrap())
            .unwrap();
        operations.push(operation);
    }
    (!operations.is_empty()).then(|| operations.into())
}

/// A value with few keys, so that patches find them.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!("x y")),
        Just(json!("0o7")),
        Just(json!({})),
        Just(json!([]))
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// All paths below a value, and some that do not exist.
fn paths(value: &Value, own: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            all.push(format!("{own}/new"));
            members.iter().for_each(|(key, value)| {
                all.push(format!("{own}/{key}"));
                paths(value, &format!("{own}/{key}"), all);
            });
        }
        Value::Array(items) => {
            all.push(format!("{own}/-"));
            all.push(format!("{own}/{}", items.len()));
            items.iter().enumerate().for_each(|(index, value)| {
                all.push(format!("{own}/{index}"));
                paths(value, &format!("{own}/{index}"), all);
            });
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn fixing_again_and_again_equals_each_patch_for_a_new_evaluation(
        items in prop::collection::btree_set(0..8_usize, 0..8),
        wishes in prop::collection::vec(
            prop_oneof![Just(Wish::Absent), Just(Wish::First), Just(Wish::Last), (0..3_u8).prop_map(Wish::Value)], 8,
        ),
        rules in prop::collection::vec(prop::collection::btree_set(0..8_usize, 1..5), 1..5),
    ) {
        let items: Vec<Value> = items.into_iter().map(|name| json!({"name": name, "v": 1})).collect();
        let mut object = json!({"kind": "Pod", "metadata": {"name": "shop"}, "l": items});
        let block = serde_saphyr::to_string(&object).unwrap();
        let listed = format!("kind: List\nitems:\n- kind: Other\n- {}", block.trim_end().replace('\n', "\n  "));
        let texts = [(block, 1, ""), (object.to_string(), 1, ""), (listed, 4, "/items/1")];
        while let Some(patch) = rules.iter().find_map(|rule| wished(&wishes, rule, &object)) {
            json_patch::patch(&mut object, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
        }
        let sorted = |object: &Value| {
            let mut items = object["l"].as_array().unwrap().clone();
            items.sort_by_key(|item| item["name"].as_u64());
            items
        };
        for (mut text, line, place) in texts {
            for _ in 0..=rules.len() {
                let now = parse(&text).unwrap().pointer(place).unwrap().clone();
                let patches: Vec<Value> = rules.iter().filter_map(|rule| wished(&wishes, rule, &now)).collect();
                let fixes = patches.iter().map(patch).collect();
                let own = FixedObject { fixes, ..self::object::<0>("Pod", "shop", []) };
                text = fixed(&text, BTreeMap::from([(line, own)])).0;
            }
            let found = parse(&text).unwrap();
            prop_assert_eq!(sorted(found.pointer(place).unwrap()), sorted(&object), "{}", text);
        }
    }

    #[test]
    fn a_patch_of_the_text_equals_the_patch_of_the_value(
        spec in tree(), merged in tree(),
        operations in prop::collection::vec((0..3_usize, any::<prop::sample::Index>(), tree()), 1..4),
    ) {
        let object = json!({"kind": "Pod", "metadata": {"name": "shop"}, "spec": {"a": spec}});
        let mut all = Vec::new();
        paths(&object["spec"], "/spec", &mut all);
        let operations = operations.iter().map(|(operation, path, value)| {
            let operation = ["add", "remove", "replace"][*operation];
            json!({"op": operation, "path": path.get(&all), "value": value})
        });
        for value in [operations.collect::<Value>(), json!({"spec": {"a": merged}})] {
            let mut wanted = object.clone();
            let is_applicable = match ObjectPatch::new(&value).unwrap() {
                ObjectPatch::Json(patch) => json_patch::patch(&mut wanted, &patch).is_ok(),
                ObjectPatch::Merge(_) => {
                    json_patch::merge(&mut wanted, &value);
                    true
                }
            };
            let block = serde_saphyr::to_string(&object).unwrap();
            let pretty = serde_json::to_string_pretty(&object).unwrap();
            for text in [block, pretty, object.to_string()] {
                let (new, applied) = patched(&text, [value.clone()]);
                prop_assert_eq!(applied, usize::from(is_applicable), "{}\n{}", value, text);
                prop_assert_eq!(parse(&new).unwrap(), if is_applicable { &wanted } else { &object }.clone());
                prop_assert!(is_applicable || new == text);
            }
        }
    }
}
