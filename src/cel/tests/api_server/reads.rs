//! Fields outside of the read set do not change results.

use kaudit_cel::{Bindings, Budget, Environment, Root, reads::ReadStep};
use serde_json::{Value as Json, json};

use crate::{generator::ExpressionGenerator, table};

/// Calls a function with every path of a value, parents first.
fn visit(value: &Json, path: &mut Vec<ReadStep>, keys: &mut Vec<String>, run: &mut impl FnMut(&[ReadStep], &[String])) {
    let mut child = |step: ReadStep, key: String, value: &Json| {
        path.push(step);
        keys.push(key);
        run(path, keys);
        visit(value, path, keys, run);
        path.pop();
        keys.pop();
    };
    match value {
        Json::Object(entries) => {
            entries.iter().for_each(|(key, value)| child(ReadStep::Field(key.as_str().into()), key.clone(), value));
        }
        Json::Array(elements) => {
            elements.iter().enumerate().for_each(|(index, value)| child(ReadStep::Any, index.to_string(), value));
        }
        _ => {}
    }
}

/// Returns the results of an expression for an object and for each change of a part that is not read.
fn assert_unread_parts_do_not_matter(expression: &str, bindings: &serde_json::Map<String, Json>) -> usize {
    let environment = Environment::admission(true);
    let Ok(program) = environment.compile(expression) else { return 0 };
    let evaluate = |object: &Json| {
        let bound = Root::ALL.into_iter().filter(|root| *root != Root::Object);
        let bound = bound.filter_map(|root| Some((root, bindings.get(root.name())?)));
        let bound = bound.fold(Bindings::new(&environment), |all, (root, value)| all.with(root, value));
        let value = program.evaluate(&bound.with(Root::Object, object), &mut Budget::default());
        value.map_or_else(|error| error.to_string(), |value| value.to_string())
    };
    let object = &bindings["object"];
    let before = evaluate(object);
    let mut changes = 0;
    visit(object, &mut Vec::new(), &mut Vec::new(), &mut |path, keys| {
        if program.reads().covers(Root::Object, path) {
            return;
        }
        let pointer = format!(
            "/{}",
            keys.iter().map(|key| key.replace('~', "~0").replace('/', "~1")).collect::<Vec<_>>().join("/")
        );
        let mut other = object.clone();
        *other.pointer_mut(&pointer).unwrap() = json!({"a": ["changed", {"name": 7}]});
        assert_eq!(evaluate(&other), before, "{expression}: {pointer} is not in {:?}", program.reads());
        changes += 1;
    });
    changes
}

#[test]
fn parts_that_are_not_read_do_not_matter() {
    let bindings = table::bindings();
    let mut changes: usize =
        table::expressions().iter().map(|expression| assert_unread_parts_do_not_matter(expression, &bindings)).sum();
    assert!(changes > 10_000, "{changes}");
    let mut generator = ExpressionGenerator::new(3);
    for _ in 0..1500 {
        let (expression, bindings) = (generator.expression(), generator.bindings());
        changes += assert_unread_parts_do_not_matter(&expression, &bindings);
    }
    assert!(changes > 20_000, "{changes}");
}

#[test]
fn read_sets_are_precise_for_usual_expressions() {
    for (expression, whole, seen) in [
        ("object.spec.replicas > 1", "spec.replicas", "spec spec.replicas"),
        ("object.spec.containers.all(c, c.image.startsWith('a'))", "spec.containers.*.image", ""),
        ("has(object.spec.hostNetwork)", "", "spec.hostNetwork"),
        (
            "object.spec.containers.map(c, c.env).exists(e, e.exists(v, v.name == 'A'))",
            "spec.containers.*.env.*.name",
            "",
        ),
        ("(object.spec.a + object.spec.b).all(c, c.image == 'x')", "spec.a.*.image spec.b.*.image", ""),
        ("object.?spec.?priority.orValue(0) == 1", "spec.priority", ""),
        ("object.metadata.labels['a/b'] == 'x'", "metadata.labels.a/b", ""),
        ("size(object.spec.containers) > 1", "", "spec.containers.*"),
        ("variables.containers.all(c, c.image == 'a')", "spec.containers.*.image", ""),
        ("variables.names.exists(n, n == 'a')", "spec.containers.*.name", ""),
        ("variables == variables", "spec.containers spec.containers.*.name", ""),
        ("object == oldObject", "", ""),
        ("object == null || null != object.spec.replicas", "", "spec spec.replicas"),
    ] {
        let mut environment = Environment::admission(true);
        environment.add_variable("containers", "object.spec.containers").unwrap();
        environment.add_variable("names", "variables.containers.map(c, c.name)").unwrap();
        let program = environment.compile(expression).unwrap();
        let shown = |steps: &[ReadStep]| {
            let names = steps.iter().map(|step| match step {
                ReadStep::Field(name) => name.to_string(),
                ReadStep::Any => "*".to_owned(),
            });
            names.collect::<Vec<_>>().join(".")
        };
        let of_object = |root: &Root| *root == Root::Object;
        let reads = program.reads();
        let wholes: Vec<_> =
            reads.whole.iter().filter(|path| of_object(&path.root)).map(|path| shown(&path.steps)).collect();
        let seens: Vec<_> =
            reads.seen.iter().filter(|path| of_object(&path.root)).map(|path| shown(&path.steps)).collect();
        assert_eq!(wholes.join(" "), whole, "{expression}");
        assert!(
            seen.split(' ').all(|path| path.is_empty() || seens.iter().any(|seen| seen == path)),
            "{expression}: {seens:?}"
        );
    }
}
