//! The environment of Kyverno's policies: its own functions, and which of them are not implemented. Kyverno's engine is the
//! judge of whole policies in the tests of kaudit.

use std::collections::BTreeSet;

use kaudit_cel::{Bindings, Budget, Environment, Root};
use serde_json::json;

fn value(expression: &str) -> String {
    let environment = Environment::kyverno();
    let program = environment.compile(expression).unwrap();
    let object = json!({"spec": {"image": "ghcr.io/team/app:1", "list": ["a"]}});
    let bindings = Bindings::new(&environment).with(Root::Object, &object);
    program
        .evaluate(&bindings, &mut Budget::default())
        .map_or_else(|error| error.to_string(), |value| value.to_string())
}

#[test]
fn functions_of_kyverno_have_its_values() {
    for (expression, want) in [
        ("object.spec.list.orValue([])", "[\"a\"]"),
        ("object.spec.?none.orValue([])", "[]"),
        ("parseImageReference(object.spec.image).registry()", "\"ghcr.io\""),
        ("image('nginx').repository()", "\"library/nginx\""),
        ("isImage('A')", "false"),
        ("parseServiceAccount('system:serviceaccount:a:b').Name", "\"b\""),
        ("string(base64.decode('YQ=='))", "\"a\""),
        ("sha256('').startsWith('e3b0c442')", "true"),
        ("true || http.Get('https://example.com') == 1", "true"),
    ] {
        assert_eq!(value(expression), want, "{expression}");
    }
}

#[test]
fn functions_of_kyverno_are_unknown_to_the_api_server() {
    for expression in ["isImage('a')", "exceptions.allowedImages == []", "object.spec.list.size().orValue(1)"] {
        assert!(Environment::admission(false).compile(expression).is_err(), "{expression}");
    }
}

#[test]
fn calls_that_cannot_be_evaluated_and_lookups_are_known() {
    let mut environment = Environment::kyverno();
    environment.add_variable("answer", "http.Get('https://example.com')").unwrap();
    let reads = |expression: &str| environment.compile(expression).unwrap().reads().clone();
    let names =
        |expression: &str| reads(expression).unsupported.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(names("variables.answer == 1"), ["http.Get".to_owned()].into());
    assert_eq!(names("x509.decode('a') == 1 && isImage('a')"), ["x509.decode".to_owned()].into());
    assert_eq!(names("has(resource.Get(object.apiVersion, 'pods', 'a', 'b').kind)").len(), 1);
    let lookups = reads("resource.List('v1', 'configmaps', object.metadata.namespace).items.size() > 0").lookups;
    assert_eq!(lookups.len(), 1);
    assert!(value("resource.Get('v1', 'pods', 'a', 'b')").contains("other objects are not known"));
}
