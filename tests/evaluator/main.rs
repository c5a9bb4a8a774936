//! The meaning of policies: kaudit's results, alone and compared with the tools that define the dialects: `opa`,
//! `conftest`, `gator`, Trivy's scanner and Kyverno's engine.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod cases;

mod conftest;
mod fidelity;
mod fuzz;
mod gator;
mod guards;
mod kubescape;
mod kyverno;
mod objects;
mod paths;
mod sharing;
mod trivy;

use std::sync::Arc;

use kaudit::{
    judge::{
        evaluate::{Job, evaluate},
        set::PolicySet,
    },
    model::{
        body::Body,
        object::{Kind, Object, ObjectKey},
        verdict::{Finding, RuleDescriptor, Verdict},
    },
};
use serde_json::Value;

/// Returns an object as delivered by a source.
fn object(value: &Value) -> Object {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, version) = text("/apiVersion").split_once('/').map_or_else(
        || (String::new(), text("/apiVersion")),
        |(group, version)| (group.to_owned(), version.to_owned()),
    );
    let kind = Kind {
        group,
        version,
        plural: format!("{}s", text("/kind").to_lowercase()),
        kind: text("/kind"),
        singular: String::new(),
        short_names: Vec::new(),
        namespaced: true,
    };
    let namespace = value.pointer("/metadata/namespace").and_then(Value::as_str).map(Arc::from);
    Object {
        key: ObjectKey { kind: Arc::new(kind), namespace, name: text("/metadata/name").into(), copy: 0 },
        uid: text("/metadata/uid").into(),
        resource_version: "".into(),
        body: Body::plain(value.to_string().as_bytes()),
        location: None,
        controller: None,
        inactive: false,
        projected: None,
    }
}

fn evaluate_object(policies: &Arc<PolicySet>, object: Object) -> Verdict {
    evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(policies) })
}

/// Returns a result as `outcome policy/rule [severity] file:line: message {details}`.
fn shown(finding: &Finding) -> String {
    let Finding { rule, outcome, severity, message, details, .. } = finding;
    let RuleDescriptor { policy, name: rule, source, .. } = &**rule;
    let outcome = serde_json::to_value(outcome).unwrap();
    let severity = severity.map(|severity| format!("[{}] ", severity.word())).unwrap_or_default();
    let details = details.as_ref().map(|details| format!(" {}", serde_json::to_string(&**details).unwrap()));
    let (outcome, file, line) = (outcome.as_str().unwrap(), &source.file, source.line);
    format!("{outcome} {policy}/{rule} {severity}{file}:{line}: {message}{}", details.unwrap_or_default())
}
