//! A dialect that exists only in tests. It proves that a dialect is defined by its description and its entry in the
//! list of dialects.
//!
//! Its packages are those with METADATA `custom.toy`. Their rules are named `forbid`; each key of their value is a
//! result.

use std::sync::Arc;

use regorus::Value;

use super::conftest;
use crate::{
    judge::{
        dialect::{Annotations, Dialect, DialectDescription, InputForm, PackageKinds},
        evaluate::{Job, evaluate},
        metadata::AnnotationScope,
        rule::Entrypoint,
        rule_kinds::RuleKinds,
        set::PolicySet,
    },
    model::{
        object::{Kind, Object, ObjectKey},
        verdict::{Finding, Outcome},
    },
    rego::{
        analysis::{graph::Graph, syntax::Module},
        value,
    },
};

pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    any_value_is_result: true,
    outcome: |name| (name == "forbid").then_some(Outcome::Warn),
    packages,
    ..DialectDescription::new("toy", InputForm::Object, findings)
});

fn packages(modules: &[&Module], annotations: &[Annotations], _: &Graph<'_>) -> PackageKinds {
    let is_toy = |annotations: &Annotations| {
        annotations.iter().any(|(scope, about)| *scope == AnnotationScope::Package && about.custom.contains_key("toy"))
    };
    let own = modules.iter().zip(annotations).filter(|(_, annotations)| is_toy(annotations));
    own.map(|(module, _)| (module.package_path(), Some(RuleKinds::named(["pod"].into_iter())))).collect()
}

fn findings(entrypoint: &Entrypoint, value: &Value) -> Vec<Finding> {
    let keys = value::fields(value).map(|(key, _)| Value::from(vec![Value::String(key)]));
    keys.flat_map(|key| conftest::findings(entrypoint, &key)).collect()
}

#[test]
fn a_dialect_is_defined_by_its_description() {
    let directory = tempfile::tempdir().unwrap();
    let toy = "# METADATA\n# scope: package\n# custom:\n#   toy: true\npackage games\n\n\
        forbid[key] := false if some key, _ in input.spec\n\ndeny contains \"no rule of this dialect\"\n";
    let other = "package main\n\ndeny contains \"as before\"\n";
    for (name, text) in [("toy.rego", toy), ("other.rego", other)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let policies = Arc::new(PolicySet::load(&[directory.path().to_owned()]).unwrap());
    let dialects: Vec<_> = policies.policies.iter().map(|policy| policy.dialect.to_string()).collect();
    assert_eq!(dialects, ["toy", "conftest"]);
    let messages = |kind: &str| {
        let kind = Kind::sample("", &format!("{}s", kind.to_lowercase()), kind);
        let json =
            format!(r#"{{"apiVersion":"v1","kind":"{}","metadata":{{"name":"a"}},"spec":{{"b":1,"c":2}}}}"#, kind.kind);
        let object = Object::sample(ObjectKey { kind, namespace: None, name: "a".into(), copy: 0 }, json.as_bytes());
        let policies = Arc::clone(&policies);
        let verdict = evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies });
        verdict.results.iter().map(|finding| (finding.message.to_string(), finding.outcome)).collect::<Vec<_>>()
    };
    let both =
        |outcome, messages: &[&str]| messages.iter().map(|text| ((*text).to_owned(), outcome)).collect::<Vec<_>>();
    assert_eq!(messages("Pod"), [both(Outcome::Warn, &["b", "c"]), both(Outcome::Fail, &["as before"])].concat());
    assert_eq!(messages("Service"), both(Outcome::Fail, &["as before"]), "the description names the kinds");
}
