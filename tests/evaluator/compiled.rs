//! Two evaluators, one meaning: what is judged by programs is judged the same by regorus alone.
//!
//! The shipped policies, the examples and the cases of this folder are asked about objects that are altered at random.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use kaudit::{judge::set::PolicySet, rego::limits::Limits};
use serde_json::{Value, json};

use crate::{files::folder, judge, object, shown};

/// How often each object is altered.
const ALTERATIONS: u64 = 40;

/// Loads policies twice: with programs, and without.
fn both(paths: &[&Path]) -> [Arc<PolicySet>; 2] {
    [true, false].map(|compiled| {
        let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
        let limits = Limits { compiled, ..Limits::default() };
        Arc::new(PolicySet::load_with(&paths, &limits).unwrap_or_else(|why| panic!("{paths:?}: {why}")))
    })
}

/// Returns the objects of the example manifests, and Pods with more of what policies look at.
pub(crate) fn objects() -> Vec<Value> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests");
    let mut files: Vec<_> = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let mut objects: Vec<Value> = texts.flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).unwrap()).collect();
    let container = |name: &str, image: &str, cpu: Value| {
        json!({
            "name": name, "image": image, "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "securityContext": {"privileged": true, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}},
        })
    };
    objects.push(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "hostNetwork": true, "automountServiceAccountToken": true,
            "containers": [container("a", "web:latest", json!("2")), container("b", "example.com/b@sha256:1", json!(1.5))],
            "initContainers": [container("c", "web", json!("0.5"))],
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        },
    }));
    objects
}

/// Takes a value away, adds one, or puts another in its place.
pub(crate) fn alter(value: &mut Value, random: &mut fastrand::Rng) {
    let other =
        [json!(null), json!(true), json!(false), json!("x"), json!(0), json!(1.5), json!([]), json!({}), json!([{}])];
    let other = other[random.usize(..other.len())].clone();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(random.usize(..fields.len())).unwrap().clone();
            match random.u32(..8) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(key, other)),
                _ => alter(&mut fields[&key], random),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = random.usize(..items.len());
            match random.u32(..8) {
                0 => drop(items.remove(index)),
                1 => items.push(other),
                _ => alter(&mut items[index], random),
            }
        }
        value => *value = other,
    }
}

/// What becomes of objects on which regorus fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failures {
    Compared,
    /// regorus has mistakes of its own (`binding plan not found`, an index out of bounds), where OPA and programs have a value.
    Skipped,
}

/// Compares all that is said of each object, as it is and altered. Returns how much was said.
fn compare(sets: &[Arc<PolicySet>; 2], objects: &[Value], failures: Failures) -> usize {
    let mut said = 0;
    for (number, original) in objects.iter().enumerate() {
        for round in 0..ALTERATIONS {
            let mut random = fastrand::Rng::with_seed(number as u64 * ALTERATIONS + round);
            let mut altered = original.clone();
            for _ in 0..round.min(3) {
                // It stays an object of its kind.
                for part in ["metadata", "spec"] {
                    if let Some(part) = altered.get_mut(part) {
                        alter(part, &mut random);
                    }
                }
            }
            let verdicts = sets.each_ref().map(|set| judge(set, object(&altered)));
            let [compiled, regorus] = verdicts.each_ref().map(|verdict| {
                let lists = [&verdict.results, &verdict.transitions];
                (lists.map(|list| list.iter().map(shown).collect::<Vec<_>>()), verdict.passed.clone())
            });
            let failed = regorus.0[0].iter().any(|line| line.starts_with("error"));
            if !failed || failures == Failures::Compared {
                assert_eq!(compiled, regorus, "{altered}");
            }
            said += compiled.0[0].len();
        }
    }
    said
}

#[test]
fn programs_say_what_regorus_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let objects = objects();
    for folder in [
        "policies",
        "examples/policies",
        "examples/bench/policies",
        "examples/bench/templates",
        "tests/evaluator/conftest",
    ] {
        let said = compare(&both(&[&root.join(folder)]), &objects, Failures::Compared);
        assert!(said > 50, "{folder}: only {said} results");
    }
}

#[test]
fn programs_say_what_regorus_says_of_constraints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/evaluator/gator");
    let policies = ["template.yaml", "constraints.yaml"].map(|file| folder.join(file));
    let text = fs::read_to_string(folder.join("objects.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let said = compare(&both(&policies.each_ref().map(PathBuf::as_path)), &objects, Failures::Compared);
    assert!(said > 50, "only {said} results");
}

/// Each folder of policies is a set of its own; what does not load is compared elsewhere.
#[test]
fn programs_say_what_regorus_says_by_policies_that_people_wrote() {
    let Some(library) = std::env::var_os("KAUDIT_TEST_LIBRARY") else { return };
    let objects = objects();
    let mut folders = vec![PathBuf::from(library)];
    let (mut sets, mut said) = (0, 0);
    while let Some(folder) = folders.pop() {
        let entries: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.extend(entries.iter().filter(|path| path.is_dir()).cloned());
        let judges = |path: &&PathBuf| {
            path.extension().is_some_and(|extension| extension == "rego" || extension == "yaml") && path.is_file()
        };
        let files: Vec<&Path> = entries.iter().filter(judges).map(PathBuf::as_path).collect();
        let loads = PolicySet::load(&files.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>());
        if !files.is_empty() && loads.is_ok() {
            sets += 1;
            said += compare(&both(&files), &objects, Failures::Skipped);
        }
    }
    assert!(sets > 0 && said > 0, "nothing there judges");
}

/// Conditions of rules that relate elements of a list: `{v}` is one of them, `{u}` one that is found before it.
const CONDITIONS: [&str; 20] = [
    "{v}.kind == \"A\"",
    "\"B\" == {v}.kind",
    "{v}.kind in {\"A\", \"C\"}",
    "is_large({v})",
    "not is_large({v})",
    "not {v}.labels",
    "count({v}.labels) > 0",
    "{v}.n > 2",
    "{v}.name == {u}.to",
    "{u}.name == {v}.to",
    "{v}.n < {u}.n",
    "{v}.labels == {u}.labels",
    "connected({u}, {v})",
    "connected({u}, {u})",
    "x{i} := number({u})",
    "x{i} := first({u}, {v})",
    "names{i} := [x.name | some x in input.spec.items; x.kind == \"C\"]; {v}.to in names{i}",
    "not {v}.name in {x.to | some x in input.spec.items; is_large(x)}",
    "targets{i} := {x.name: x.n | some x in input.spec.items}; targets{i}[{u}.to] > 1",
    "every x in input.spec.items { x.n != {v}.n + 9 }",
];
const FUNCTIONS: &str = "is_large(x) if x.n > 5\n\nis_large(x) if x.labels.large\n\n\
    connected(x, y) if x.to == y.name\n\nconnected(x, y) if { some z in input.spec.items; z.name == x.to; z.to == y.name }\n\n\
    number(x) := y.n if { some y in input.spec.items; y.name == x.to }\n\n\
    first(x, y) := x.n if x.n < y.n else := y.n\n\nlarge := [x | some x in input.spec.items; is_large(x)]\n\n";
const GENERATORS: [&str; 4] = [
    "{v} := input.spec.items[_]",
    "some {v} in input.spec.items",
    "some k{i}, {v} in input.spec.items",
    "some {v} in large",
];

/// Returns a rule of up to four loops.
fn joins(name: &str, random: &mut fastrand::Rng) -> String {
    let mut body = Vec::new();
    let loops = random.usize(2..5);
    for number in 0..loops {
        let mut parts = vec![GENERATORS[random.usize(..GENERATORS.len())]];
        parts.extend((0..random.usize(1..4)).map(|_| CONDITIONS[random.usize(..CONDITIONS.len())]));
        for part in parts {
            let before = if number == 0 { 0 } else { random.usize(..number) };
            let part = part.replace("{v}", &format!("v{number}")).replace("{u}", &format!("v{before}"));
            body.push(part.replace("{i}", &body.len().to_string()));
        }
    }
    let message = (0..loops).map(|number| format!("v{number}.name")).collect::<Vec<_>>().join(", ");
    format!("{name} contains sprintf(\"%v\", [[{message}]]) if {{\n\t{}\n}}\n\n", body.join("\n\t"))
}

#[test]
fn programs_say_what_regorus_says_of_lists_that_are_joined() {
    let mut random = fastrand::Rng::with_seed(7);
    let rules: String = (0..60).map(|number| joins(&format!("deny_{number}"), &mut random)).collect();
    let policies = folder(&[("joins.rego", &format!("package joins\n\n{FUNCTIONS}{rules}"))]);
    let sets = both(&[policies.path()]);
    let mut said = 0;
    for _ in 0..40 {
        let names = random.usize(2..12);
        let mut item = |number: usize| {
            let mut name = || format!("n{}", random.usize(..names));
            let (own, to) = (name(), name());
            let kind = ["A", "B", "C", "D"][number % 4];
            let mut item = json!({"name": own, "to": to, "kind": kind, "n": number % 9});
            if number.is_multiple_of(3) {
                item["labels"] = json!({"large": number.is_multiple_of(2)});
            }
            if number.is_multiple_of(7) {
                item["name"] = json!(number);
            }
            item
        };
        let items: Vec<Value> = (0..24).map(&mut item).collect();
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"items": items}});
        let [compiled, regorus] = sets.each_ref().map(|set| {
            let verdict = judge(set, object(&value));
            (verdict.results.iter().map(shown).collect::<Vec<_>>(), verdict.passed)
        });
        assert_eq!(compiled, regorus, "{value}");
        said += compiled.0.len();
    }
    assert!(said > 1_000, "only {said} results");
}

#[test]
fn whole_documents_and_other_documents_are_judged_the_same() {
    let policies = folder(&[
        (
            "mixed.rego",
            "package mixed\n\nlimit := input.spec.replicas\n\ndeny contains \"few\" if limit < 3 with input.spec.replicas as 2\n\n\
             deny contains \"with\" if { x := limit with input as {\"spec\": {\"replicas\": 1}}; x == 1 }\n\n\
             deny_plain contains sprintf(\"replicas %v\", [limit])\n\nwarn_all contains \"all\" if data.mixed.limit\n\n\
             warn_any contains name if data.named[name].limit == 1\n",
        ),
        ("a.rego", "package named.a\n\nlimit := 1 if input.spec.replicas == 4\n\nother := 2\n"),
        ("b.rego", "package named.b\n\nlimit := 1\n"),
        (
            "fails.rego",
            "package fails\n\nx := y if some y in [1, input.kind]\n\ndeny contains \"x\" if x\n\ndeny_fine contains \"fine\"\n",
        ),
    ]);
    let sets = both(&[policies.path()]);
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replicas": 4}});
    assert!(compare(&sets, std::slice::from_ref(&deployment), Failures::Compared) > 100);
    let mut rules = sets[0].policies.iter().flat_map(|policy| &policy.rules);
    assert_eq!(rules.find_map(|rule| rule.not_compiled.as_deref()), None);
    let verdict = judge(&sets[0], object(&deployment));
    let shown: Vec<String> = verdict.results.iter().map(shown).collect();
    let error = shown.iter().find(|line| line.starts_with("error")).unwrap();
    assert!(error.contains("fails.rego:3"), "the place of an error is known: {error}");
}
