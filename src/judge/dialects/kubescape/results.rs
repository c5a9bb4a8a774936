//! Interprets the values of rules as Kubescape does: the objects that they are about, and their messages.

use std::{collections::HashMap, sync::Arc};

use regorus::Value;
use serde_json::Map;

use super::{arrays::Identity, rule::ControlRule};
use crate::{
    judge::result_values::{self, items, json},
    model::verdict::{Finding, Outcome, RuleDescriptor},
    rego::value,
};

/// The paths in a result to review or change.
const PATHS: [&str; 4] = ["failedPaths", "reviewPaths", "deletePaths", "fixPaths"];

/// Objects of an array by kind, namespace and name.
pub(crate) struct ObjectsByName(HashMap<KindAndName, Identity>);

type KindAndName = (Arc<str>, Option<Arc<str>>, Arc<str>);

impl ObjectsByName {
    pub(crate) fn new(array: &[Value]) -> Self {
        let objects = array.iter().filter_map(Identity::of);
        let named = objects
            .map(|identity| ((identity.kind.clone(), identity.namespace.clone(), identity.name.clone()), identity));
        Self(named.collect())
    }
}

/// Returns the objects that a result is about: the objects that it lists, or the binding of the subject that it
/// contains.
pub(crate) fn concerned(response: &Value, objects: &ObjectsByName) -> Vec<Identity> {
    let about = field(response, "alertObject");
    let mut all: Vec<Identity> = items(field(about, "k8sApiObjects")).filter_map(Identity::of).collect();
    let external = field(about, "externalObjects");
    if matches!(external, Value::Object(_)) {
        let text = |key: &str| value::text(&external[key]).cloned();
        let named = || objects.0.get(&(text("kind")?, text("namespace"), text("name")?)).cloned();
        let related: Vec<Identity> = items(&external["relatedObjects"]).filter_map(Identity::of).collect();
        let binding = || related.iter().find(|identity| identity.kind.ends_with("Binding")).or(related.first());
        all.extend(Identity::of(external).or_else(named).or_else(|| binding().cloned()));
    }
    all.sort();
    all.dedup();
    all
}

/// Converts a value into a result; `None` if its status is that the check passed.
pub(crate) fn finding(control: &ControlRule, response: &Value, descriptor: &Arc<RuleDescriptor>) -> Option<Finding> {
    let text = |key: &str| value::text(field(response, key)).filter(|text| !text.is_empty());
    let rule = &control.rule;
    let outcome = match text("ruleStatus").map(AsRef::as_ref) {
        None | Some("failed") => rule.outcome,
        Some("warning") => Outcome::Warn,
        Some(_) => return None,
    };
    Some(Finding {
        rule: Arc::clone(descriptor),
        outcome,
        severity: rule.metadata.severity,
        message: text("alertMessage").map_or_else(|| Arc::clone(&rule.name), Arc::clone),
        details: details(response),
        excused: None,
    })
}

/// Returns the paths of a result, and the identities of its related objects and of its subject.
fn details(response: &Value) -> Option<Arc<Map<String, serde_json::Value>>> {
    let mut all = paths(response);
    let related: Vec<serde_json::Value> = items(field(response, "relatedObjects"))
        .map(|related| {
            let mut named = named(&related["object"]);
            named.extend(paths(related));
            named.into()
        })
        .collect();
    if !related.is_empty() {
        all.push(("relatedObjects".to_owned(), related.into()));
    }
    let external = named(field(field(response, "alertObject"), "externalObjects"));
    if !external.is_empty() {
        all.push(("subject".to_owned(), external.into()));
    }
    let all: Vec<(Value, Value)> = all.into_iter().map(|(key, value)| (Value::from(key), Value::from(value))).collect();
    result_values::details(all.iter().map(|(key, value)| (key, value)))
}

fn paths(from: &Value) -> Vec<(String, serde_json::Value)> {
    let lists = PATHS.iter().filter(|key| items(field(from, key)).next().is_some());
    let command =
        value::text(field(from, "fixCommand")).is_some_and(|command| !command.is_empty()).then_some("fixCommand");
    lists.copied().chain(command).map(|key| (key.to_owned(), json(field(from, key)))).collect()
}

/// Returns a field by its name, ignoring case, as Kubescape does.
fn field<'v>(of: &'v Value, name: &str) -> &'v Value {
    let exact = &of[name];
    if *exact != Value::Undefined {
        return exact;
    }
    let is = |(key, _): &(&Value, &Value)| value::text(key).is_some_and(|key| key.eq_ignore_ascii_case(name));
    value::object(of).and_then(|fields| fields.iter_sorted().find(is)).map_or(exact, |(_, value)| value)
}

/// Returns the identifying fields of an object or subject.
fn named(object: &Value) -> Map<String, serde_json::Value> {
    let fields = ["apiVersion", "apiGroup", "kind", "namespace", "name"].into_iter().filter_map(|key| {
        let value = [&object[key], &object["metadata"][key]].into_iter().find_map(value::text)?;
        Some((key.to_owned(), serde_json::Value::from(&**value)))
    });
    fields.collect()
}
