use serde_json::json;

use super::*;
use crate::{Bindings, Budget, Environment};

fn schema() -> Arc<CelSchema> {
    let text = json!({"type": "string"});
    let entry = json!({"type": "object", "properties": {"name": text, "port": {"type": "integer"}}});
    CelSchema::new(
        &json!({"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "a-b": text,
                "namespace": text,
                "either": {"x-kubernetes-int-or-string": true},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "ratio": {"type": "number"},
                "until": {"type": "string", "format": "date-time"},
                "optional": {"type": "string", "nullable": true},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                "other": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": entry},
                "labels": {"type": "object", "additionalProperties": text},
            }},
        }}),
        true,
    )
}

/// Returns the value of an expression for an object, or its error.
fn shown(expression: &str, spec: &Json) -> String {
    let environment = Environment::validation(&schema(), false).unwrap();
    let program = match environment.compile(expression) {
        Ok(program) => program,
        Err(error) => return error.message,
    };
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "labels": {}}, "spec": spec});
    let bindings = Bindings::new(&environment).with_self(&object);
    let value = program.evaluate(&bindings, &mut Budget::default());
    value.map_or_else(|error| error.to_string(), |value| value.to_string())
}

#[test]
fn expressions_see_the_types_of_the_schema() {
    let spec = json!({
        "a-b": "x", "namespace": "n", "either": "50%", "any": {"x": 1}, "ratio": 1, "optional": null, "hidden": 1,
        "until": "2024-01-01T00:00:00Z", "set": ["a", "b"], "other": ["b", "a"], "labels": {"a-b": "1"},
        "map": [{"name": "x", "port": 1}, {"name": "y", "port": 2}],
    });
    for (expression, want) in [
        ("self.spec.a__dash__b", "\"x\""),
        ("self.spec.__namespace__ + self.spec.namespace", "\"nn\""),
        ("self.spec['a-b']", "found no matching overload for '_[_]' applied to '(self.spec, string)'"),
        ("self.spec.hidden", "undefined field 'hidden'"),
        ("self.spec.any", "undefined field 'any'"),
        ("self.metadata.name + self.kind", "\"aThing\""),
        ("self.metadata.labels", "undefined field 'labels'"),
        ("type(self.spec.either) == string", "true"),
        ("self.spec.ratio == 1.0", "true"),
        ("has(self.spec.optional)", "false"),
        ("self.spec.until < timestamp('2025-01-01T00:00:00Z')", "true"),
        ("self.spec.set == self.spec.other", "true"),
        ("self.spec.set + ['b', 'c'] == ['a', 'b', 'c']", "true"),
        ("size(self.spec.set + self.spec.other)", "2"),
        ("self.spec.map + self.spec.map == self.spec.map", "true"),
        ("self.spec.labels['a-b']", "\"1\""),
        ("self.spec.labels.all(k, k == 'a-b')", "true"),
        ("object == null", "undeclared reference to 'object' (in container '')"),
        ("oldSelf.spec.ratio > 0.0", "no such attribute(s): oldSelf"),
        ("self == self", "true"),
    ] {
        let found = shown(expression, &spec);
        assert!(found.starts_with(want), "{expression}: {found}");
    }
}

#[test]
fn parts_that_are_read_and_do_not_fit_are_found() {
    let environment = Environment::validation(&schema(), false).unwrap();
    let mismatch = |expression: &str, spec: Json| {
        let program = environment.compile(expression).unwrap();
        let object = json!({"spec": spec});
        let found = environment.self_schema().unwrap().check(&object, program.reads());
        found.err().map(|found| format!("{} {} {}", found.place, found.expected, found.found))
    };
    for (expression, spec, want) in [
        ("self.spec.ratio > 1.0", json!({"ratio": "1", "labels": 1}), Some(".spec.ratio number string")),
        ("self.spec.ratio > 1.0", json!({"ratio": 2, "labels": 1}), None),
        ("self.spec.set.exists(e, e == 'a')", json!({"set": ["a", 1]}), Some(".spec.set[1] string integer")),
        ("self.spec.set.size() == 2", json!({"set": ["a", null]}), Some(".spec.set[1] string null")),
        ("self.spec.optional == 'a'", json!({"optional": null}), None),
        ("self.spec.until == self.spec.until", json!({"until": "soon"}), Some(".spec.until date-time string")),
        ("self.spec.labels == self.spec.labels", json!({"labels": {"a": 1}}), Some(".spec.labels[a] string integer")),
        ("self == self", json!({"map": [{"port": 1.5}]}), Some(".spec.map[0].port integer number")),
    ] {
        assert_eq!(mismatch(expression, spec).as_deref(), want, "{expression}");
    }
}
