//! Rules that relate elements of their input, and rules that do not: the analysis is compared with evaluations.

use regorus::Value;

use crate::{judge::set::PolicySet, rego::analysis::yaml};

const METADATA: &str = r#"{"name": "r", "ruleLanguage": "Rego", "match": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}"#;

fn load(text: &str) -> PolicySet {
    let root = tempfile::tempdir().unwrap();
    let module = format!("package armo_builtins\n\nimport rego.v1\n\n{text}\n");
    std::fs::write(root.path().join("rule.metadata.json"), METADATA).unwrap();
    std::fs::write(root.path().join("raw.rego"), &module).unwrap();
    PolicySet::load(&[root.path().to_owned()]).unwrap_or_else(|why| panic!("{why}\n{module}"))
}

/// Rules that read one element at a time.
const SINGLE: &[&str] = &[
    "deny contains o.name if o := input[_]",
    "deny contains o.name if some o in input",
    "deny contains o.name if { o = input[i]; o.a == 1 }",
    "deny contains o.name if { some i; o := input[i]; not o.a }",
    "deny contains input[_].name",
    "deny contains 1",
    "deny contains 1 if input[_].a == 1",
    "deny contains o.name if { o := input[_]; every x in o.list { x == 1 } }",
    "deny contains o.name if { o := input[_]; count([x | x := o.list[_]; x == 1]) > 0 }",
    "deny contains o.name if { o := input[_]; f(o) }\nf(x) if x.a == 1\nf(x) if count(x.list) == 2",
    // A list of elements that are read one at a time.
    "deny contains o.name if { all := [o | o := input[_]; o.a == 1]; o := all[_] }",
    "deny contains o.name if { all := {o | some o in input}; some o in all; o.b }",
    "deny contains o.name if { all := [o | o := input[_]]; those := [o | o := all[_]; o.a]; o := those[_] }",
    "deny contains o.name if { o := chosen[_] }\nchosen contains o if { o := input[_]; o.a }",
    "deny contains o.name if { some o in chosen }\nchosen contains o if { o := input[_]; o.a }\nchosen contains o if { o := input[_]; o.b }",
    "deny contains x.name if { x := input[_]; x.a }\ndeny contains y.b if { y := input[_]; y.b }",
];

/// Rules that relate two elements, or may as far as the analysis can tell.
const RELATING: &[&str] = &[
    "deny contains o.name if { o := input[_]; p := input[_]; o.a == p.b }",
    "deny contains o.name if { o := input[_]; not other(o) }\nother(o) if input[_].b == o.a",
    "deny contains o.name if { o := input[_]; count(input) > 1 }",
    "deny contains count(input)",
    "deny contains o.name if { o := input[0] }",
    "deny contains i if { input[i].a }",
    "deny contains o.name if { some i, o in input; i > 0 }",
    "deny contains o.name if { i := 1; o := input[i] }",
    "deny contains o.name if { i := 1; all := [o | o := input[i]]; o := all[_] }",
    "deny contains o.name if { o := input[first] }\nfirst := 0",
    "deny contains 1 if { not has }\nhas if input[_].a",
    "deny contains 1 if { every o in input { o.a } }",
    "deny contains o.name if { every x in input { x.a }; o := input[_] }",
    "deny contains n if { all := [o | o := input[_]; o.a]; n := count(all) }",
    "deny contains o.name if { all := [o | o := input[_]]; o := all[_]; p := all[_]; o.a == p.b }",
    "deny contains o.name if { all := [o | o := input[_]]; all[i] = o; i > 0 }",
    "deny contains n if { n := count({o.a | o := input[_]}) }",
    "deny contains n if { n := [o.name | o := input[_]] }",
    "deny contains n if { n := {o.name: o | o := input[_]} }",
    "deny contains 1 if count(chosen) > 1\nchosen contains o if { o := input[_]; o.a }",
    "deny contains o.name if { o := chosen[_]; count(chosen) == 1 }\nchosen contains o if o := input[_]",
    "deny contains o.name if { o := chosen[_] }\nchosen contains o if { o := input[_]; input[_].b == o.a }",
    "deny contains o.name if { o := input[_]; o.a == max([x.a | x := input[_]]) }",
    "deny contains x if { walk(input, [_, x]); is_string(x) }",
    "deny contains o.name if { o := only }\nonly := input[0]",
    "deny contains 1 if \"x\" in [o.name | o := input[_]]",
    "deny contains 1 if { x := input; count(x) == 2 }",
    "deny contains o.name if { o := input[_]; f with input as [o] }\nf if input[0].a",
    "import input as all\n\ndeny contains o.name if { o := all[_]; p := all[_]; o != p }",
];

/// Returns the results of a rule for an array, sorted.
fn results(set: &PolicySet, array: &[Value]) -> Vec<String> {
    let unit = &set.units[0];
    let value = unit.rule(&unit.groups[0], 0, &Value::from(array.to_vec())).unwrap().value;
    let mut all: Vec<String> = value.as_set().unwrap().iter().map(ToString::to_string).collect();
    all.sort();
    all
}

/// Returns whether the results of a rule for every subset of the elements are the union of those for each element
/// alone.
fn can_be_split(set: &PolicySet, elements: &[Value]) -> bool {
    (1_usize..1 << elements.len()).all(|chosen| {
        let chosen = elements.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1);
        let array: Vec<Value> = chosen.map(|(_, element)| element.clone()).collect();
        let mut each: Vec<String> =
            array.iter().flat_map(|element| results(set, std::slice::from_ref(element))).collect();
        each.sort();
        each.dedup();
        each == results(set, &array)
    })
}

fn relates(set: &PolicySet) -> bool {
    set.policies[0].depends.inventory
}

#[test]
fn arrays_of_rules_that_do_not_relate_elements_can_be_split() {
    let elements = [
        r#"{"name": "p", "a": 1, "list": [1, 1]}"#,
        r#"{"name": "q", "b": 1, "list": [1, 2]}"#,
        r#"{"name": "r", "a": 2, "b": 2}"#,
        r#"{"name": "s", "a": false, "list": []}"#,
    ];
    let elements = elements.map(|text| Value::from_json_str(text).unwrap());
    for text in SINGLE {
        let set = load(text);
        assert!(!relates(&set), "{text}");
        assert!(can_be_split(&set, &elements), "{text}");
    }
    let mut apart = 0;
    for text in RELATING {
        let set = load(text);
        assert!(relates(&set), "{text}");
        apart += usize::from(can_be_split(&set, &elements));
    }
    // Most of these rules have different results if they are split.
    assert!(apart < 6, "{apart} of {} rules would come apart", RELATING.len());
}

/// With `KAUDIT_TEST_REGOLIBRARY=DIR`, the same for each rule of Kubescape's library and the objects of its own test
/// cases.
#[test]
fn arrays_of_library_rules_that_do_not_relate_elements_can_be_split() {
    let Some(library) = std::env::var_os("KAUDIT_TEST_REGOLIBRARY") else { return };
    let (mut single, mut arrays) = (0, 0);
    for rule in std::fs::read_dir(std::path::Path::new(&library).join("rules")).unwrap() {
        let rule = rule.unwrap().path();
        let sources = [rule.clone(), std::path::Path::new(&library).join("default-config-inputs.json")];
        let Ok(set) = PolicySet::load(&sources) else { continue };
        if relates(&set) {
            continue;
        }
        let mut elements = Vec::new();
        for case in std::fs::read_dir(rule.join("test")).into_iter().flatten() {
            for file in std::fs::read_dir(case.unwrap().path().join("input")).into_iter().flatten() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                elements.extend(yaml::from_multiple::<serde_json::Value>(&text).unwrap());
            }
        }
        let elements: Vec<Value> =
            elements.iter().map(|element| Value::from_json_str(&element.to_string()).unwrap()).collect();
        single += 1;
        for some in elements.chunks(6) {
            arrays += (1 << some.len()) - 1;
            assert!(can_be_split(&set, some), "{}", rule.display());
        }
    }
    eprintln!("{single} rules relate no two elements; {arrays} arrays came apart");
}
