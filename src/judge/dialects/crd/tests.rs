//! Rules of CRDs are loaded and evaluated. The API server is their judge in `tests/cluster`; here are names, reads, what is
//! listed as not evaluated, and what is refused.

use std::{sync::Arc, time::Duration};

use serde_json::{Value as Json, json};

use crate::{
    judge::{
        evaluate::{Job, evaluate},
        load_options::LoadOptions,
        set::PolicySet,
        sources::FileSource,
    },
    model::{
        object::{Kind, Object, ObjectKey},
        verdict::Verdict,
    },
    rego::Limits,
};

/// Returns the CRD of the kind `Shop` whose schema for `spec` is given, in the versions `v1` and `v2`.
fn crd(spec: &Json) -> Json {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}}}});
    let version =
        |name: &str, served: bool| json!({"name": name, "served": served, "storage": false, "schema": schema});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com", "annotations": {"policy.kaudit.dev/severity": "high"}},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Shop", "plural": "shops"},
            "scope": "Namespaced",
            "versions": [version("v1", true), version("v2", true), version("v0", false)],
        },
    })
}

/// Returns a schema of an object with a property.
fn with(name: &str, schema: &Json) -> Json {
    json!({"type": "object", "properties": {name: schema}})
}

fn load(documents: &[Json]) -> Result<PolicySet, crate::rego::LoadError> {
    let directory = tempfile::tempdir().unwrap();
    let text: Vec<String> = documents.iter().map(ToString::to_string).collect();
    std::fs::write(directory.path().join("crds.yaml"), text.join("\n---\n")).unwrap();
    // The limits of the API server end an evaluation before the time does.
    let limits = Limits { input: Duration::from_mins(10), ..Limits::default() };
    let options = LoadOptions { limits, ..LoadOptions::default() };
    PolicySet::load_with::<FileSource>(&[directory.path().to_owned().into()], &options)
}

fn judge(set: &Arc<PolicySet>, version: &str, fields: &Json) -> Verdict {
    let kind = Kind { version: version.to_owned(), ..Kind::clone(&Kind::sample("example.com", "shops", "Shop")) };
    let mut object =
        json!({"apiVersion": kind.api_version(), "kind": "Shop", "metadata": {"name": "a", "namespace": "n"}});
    for (name, value) in fields.as_object().unwrap() {
        object[name] = value.clone();
    }
    let key = ObjectKey { kind: Arc::new(kind), namespace: Some("n".into()), name: "a".into(), copy: 0 };
    let object = Object::sample(key, object.to_string().as_bytes());
    evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(set) })
}

fn shown(verdict: &Verdict) -> Vec<String> {
    verdict.results.iter().map(|finding| format!("{} {}", finding.outcome.word(), finding.message)).collect()
}

/// Returns the results for an object with this `spec` by a CRD with this schema of it.
fn results(schema: &Json, spec: &Json) -> Vec<String> {
    let set = Arc::new(load(&[crd(schema)]).unwrap_or_else(|error| panic!("{error}")));
    shown(&judge(&set, "v1", &json!({"spec": spec})))
}

#[test]
fn rules_are_evaluated_at_every_place_of_the_schema() {
    let least = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1", "message": "too small"}]});
    for (schema, spec, want) in [
        (with("a", &least), json!({"a": 1}), &["fail spec.a: Invalid value: 1: too small"][..]),
        (with("a", &least), json!({"a": 2}), &[]),
        (with("a", &least), json!({}), &[]),
        (
            with("a", &json!({"type": "array", "items": least})),
            json!({"a": [0, 2, 1]}),
            &["fail spec.a[0]: Invalid value: 0: too small", "fail spec.a[2]: Invalid value: 1: too small"],
        ),
        (
            with("a", &json!({"type": "object", "additionalProperties": least})),
            json!({"a": {"x/y": 1}}),
            &["fail spec.a[x/y]: Invalid value: 1: too small"],
        ),
        (
            json!({"type": "object", "properties": {"a": least}, "allOf": [{"x-kubernetes-validations": [
                {"rule": "self.a > 2", "reason": "FieldValueForbidden", "fieldPath": ".a"}]}]}),
            json!({"a": 2}),
            &["fail spec.a: Forbidden: failed rule: self.a > 2"],
        ),
        // Without a rule elsewhere, the API server ignores those in `allOf`.
        (json!({"type": "object", "allOf": [{"x-kubernetes-validations": [{"rule": "false"}]}]}), json!({}), &[]),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": 7}},
                "x-kubernetes-validations": [{"rule": "self.a < 7", "messageExpression": "'not ' + string(self.a)"}]}),
            json!({}),
            &["fail spec: Invalid value: not 7"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
                "x-kubernetes-validations": [{"rule": "self.a[0] > 0"}]}),
            json!({"a": []}),
            &["error spec: Invalid value: \"object\": index out of bounds: 0 evaluating rule: self.a[0] > 0"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.a > 0", "message": "a"}, {"rule": "self.b > 0", "message": "b"}]}),
            json!({"a": "1", "b": 0}),
            &[
                "fail spec: Invalid value: b",
                "error spec: Invalid value: \"object\": the object does not fit the schema: self.a must be of type integer, \
                 but is string; evaluating rule: a",
            ],
        ),
    ] {
        let set = load(&[crd(&schema)]);
        let found = set.map_or_else(|_| Vec::new(), |set| shown(&judge(&Arc::new(set), "v1", &json!({"spec": spec}))));
        let (mut found, mut want) = (found, want.to_vec());
        found.sort();
        want.sort_unstable();
        assert_eq!(found, want, "{schema} {spec}");
    }
}

#[test]
fn limits_are_those_of_the_api_server() {
    let list = |rule: &str| {
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
            "x-kubernetes-validations": [{"rule": rule, "message": "m"}, {"rule": "false", "message": "last"}]})
    };
    let many: Vec<i32> = (0..1100).collect();
    let found = results(&list("self.a.all(x, self.a.all(y, x + y >= 0))"), &json!({"a": many}));
    let limit = "error spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further \
                 validation rules will be run due to call cost exceeds limit for rule: m";
    assert_eq!(found, [limit]);
    // Each is below the limit of one expression; together they exceed that of an object.
    let inner = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [
        {"rule": "self.all(x, self.all(y, x + y >= 0))", "message": "m"}]});
    let lists: Vec<Vec<i32>> = (0..60).map(|_| (0..180).collect()).collect();
    let found = results(&with("a", &json!({"type": "array", "items": inner})), &json!({"a": lists}));
    assert!(found.len() == 1 && found[0].contains("running out of cost budget"), "{found:?}");
}

#[test]
fn names_identify_rules_in_all_versions() {
    let schema = json!({"type": "object", "properties": {"a-b": {"type": "array", "items": {"type": "string",
        "x-kubernetes-validations": [{"rule": "self != ''", "message": "empty"}, {"rule": "self != 'x'"}, {"rule": "self != 'x'"}]}}}});
    let set = Arc::new(load(&[crd(&schema)]).unwrap());
    let [policy] = &set.policies[..] else { panic!("{:?}", set.policies) };
    let rules: Vec<(&str, Option<&str>)> =
        policy.rules.iter().map(|rule| (&*rule.name, rule.metadata.info.title.as_deref())).collect();
    let place = "spec.a__dash__b[]";
    assert_eq!(rules.len(), 3);
    assert!(rules.iter().all(|(name, _)| name.starts_with(place)), "{rules:?}");
    assert!(rules.iter().any(|(name, _)| name.ends_with("-2")), "{rules:?}");
    assert!(rules.iter().any(|(_, title)| *title == Some("empty")) && rules[1].1.is_some());
    assert_eq!(&*policy.name, "shops.example.com");
    for version in ["v1", "v2"] {
        let verdict = judge(&set, version, &json!({"spec": {"a-b": ["", "y"]}}));
        assert_eq!(shown(&verdict), ["fail spec.a-b[0]: Invalid value: \"\": empty"]);
        let finding = &verdict.results[0];
        assert_eq!(
            (finding.field(), finding.severity.map(crate::model::verdict::Severity::word)),
            (Some("spec.a-b[0]"), Some("high"))
        );
        assert_eq!(verdict.passed.iter().count(), 2);
    }
    let other =
        "error the object cannot be evaluated: the CRD shops.example.com does not serve the version v0, but v1, v2";
    assert_eq!(shown(&judge(&set, "v0", &json!({"spec": {}}))), [other]);
}

#[test]
fn only_the_fields_that_rules_read_are_part_of_a_verdict() {
    let schema = json!({"type": "object", "properties": {
        "a-b": {"type": "integer"}, "unread": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self.x != 'a'"}]}}},
        "x-kubernetes-validations": [{"rule": "self.a__dash__b > 1"}]});
    let set = load(&[crd(&schema)]).unwrap();
    let of = |group: &str, kind: &str| set.projection(&Kind::sample(group, "shops", kind)).to_string();
    assert_eq!(of("example.com", "Shop"), "spec.list[*].x spec[\"a-b\"]");
    assert_eq!(of("other.example.com", "Shop"), "");
    assert!(set.concern(&Kind::sample("example.com", "shops", "Shop")));
    assert!(!set.concern(&Kind::sample("other.example.com", "shops", "Shop")));
    assert!(set.evaluates_objects_alone());
}

#[test]
fn rules_about_changes_are_listed_unless_the_old_value_is_optional() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [
        {"rule": "self.a >= oldSelf.a", "message": "only grows"},
        {"rule": "self.a > 1 || oldSelf.hasValue()", "message": "new ones are larger", "optionalOldSelf": true},
    ]});
    let set = Arc::new(load(&[crd(&schema)]).unwrap());
    assert_eq!(
        shown(&judge(&set, "v1", &json!({"spec": {"a": 1}}))),
        ["fail spec: Invalid value: new ones are larger"]
    );
    let [left_out] = &set.left_out[..] else { panic!("{:?}", set.left_out) };
    assert!(
        left_out.name.starts_with("shops.example.com/spec-") && left_out.reason.contains("oldSelf"),
        "{left_out:?}"
    );
    // The message has no old value, whatever the rule has.
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "false", "message": "m",
        "messageExpression": "oldSelf.hasValue() ? 'a' : 'b'", "optionalOldSelf": true}]});
    assert_eq!(results(&schema, &json!({})), ["fail spec: Invalid value: m"]);
}

#[test]
fn crds_without_rules_and_broken_rules_are_reported() {
    let rule = |rule: &str| json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let mut plain = crd(&json!({"type": "object"}));
    plain["metadata"]["name"] = "plain.example.com".into();
    let set = load(&[crd(&rule("true")), plain]).unwrap();
    assert_eq!(set.left_out[0].name, "CustomResourceDefinition plain.example.com");
    for (schema, want) in [
        (rule("self.missing == 1"), "undefined field 'missing'"),
        (rule("1"), "the expression must evaluate to bool, but it evaluates to int"),
        (rule("object.spec"), "undeclared reference to 'object'"),
        (
            with(
                "a",
                &json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]}),
            ),
            "",
        ),
    ] {
        let error = load(&[crd(&schema)]).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(want) && !error.is_empty(), "{want}: {error}");
    }
}
