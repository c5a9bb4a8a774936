//! Judging by rules in Kubescape's layout: the array that they get, and how their results are read.

use std::{collections::HashMap, sync::Arc};

use regorus::Value;
use serde_json::Map;

use super::{
    judge::{Judge, error},
    results::{self, items},
};
use crate::{
    judge::{
        kubescape::{
            arrays::{Aggregator, ArrayResults, Identity},
            rule::{ControlRule, KubescapeRule, RuleInput},
        },
        unit::{Group, Unit},
    },
    model::{
        object::ObjectKey,
        verdict::{Finding, Outcome, RuleDescriptor},
    },
    rego::{evaluator::Failure, machine::Answer, value},
};

/// The paths in a result that say what to look at or to change.
const PATHS: [&str; 4] = ["failedPaths", "reviewPaths", "deletePaths", "fixPaths"];

impl Judge<'_> {
    /// Asks a rule about an object of a kind that it matches.
    pub(super) fn kubescape(
        &mut self,
        (unit, group, rule): (&Unit, &Group, &KubescapeRule),
        key: &ObjectKey,
        object: &Value,
    ) {
        let Some(identity) = Identity::of(object).filter(|identity| is_scanned(rule, identity)) else { return };
        let query = group.queries.of(&key.kind.kind);
        if let Some(why) = query.and_then(|query| query.unread(0, self.namespace)) {
            for ControlRule { policy, rule, .. } in &rule.controls {
                self.results.push_undecided(error(policy, &rule.name, rule.source.clone(), &why));
            }
            return;
        }
        let own;
        let results = match (rule.input, unit.arrays()) {
            (RuleInput::One, _) => {
                own = self.alone_in_array(unit, group, key, object);
                own.as_deref()
            }
            (_, Some(arrays)) => arrays.results(key.namespace.as_ref(), &identity),
            // Nothing has been read that the object could be related to.
            (_, None) => Ok(&[][..]),
        };
        for control in &rule.controls {
            match results {
                Ok(results) => {
                    let definitions = &control.descriptors.definitions;
                    let results = results.iter().filter_map(|(number, response)| {
                        let definition =
                            if definitions.len() == 1 { definitions.first() } else { definitions.get(*number) };
                        finding(control, response, definition.unwrap_or(&control.descriptors.rule))
                    });
                    let results: Vec<Finding> = results.collect();
                    if results.is_empty() {
                        self.results.pass(&control.rule);
                    }
                    self.results.extend(results);
                }
                Err(failure) => {
                    let ControlRule { policy, rule, .. } = control;
                    self.fail(unit, policy, &rule.name, &rule.source, failure);
                }
            }
        }
    }

    /// Evaluates a rule that relates no two objects: all that it says is about this one.
    fn alone_in_array(
        &mut self,
        unit: &Unit,
        group: &Group,
        key: &ObjectKey,
        object: &Value,
    ) -> Result<Vec<(usize, Value)>, Failure> {
        if group.queries.of(&key.kind.kind).is_none_or(|query| query.rules.is_empty()) {
            return Ok(Vec::new());
        }
        let answer = self.alone(unit, group, 0, &Value::from(vec![object.clone()]))?;
        Ok(responses(&answer, group))
    }
}

/// Whether an object is among those that a rule gets, besides its kind.
fn is_scanned(rule: &KubescapeRule, identity: &Identity) -> bool {
    rule.aggregator != Some(Aggregator::ApiServerPod)
        || identity.namespace.as_deref() == Some("kube-system")
            && ["apiserver", "api-server"].iter().any(|part| identity.name.contains(part))
}

/// Evaluates a rule for an array; returns the results by the object that they are about.
pub(super) fn array_results(unit: &Unit, group: &Group, array: Vec<Value>) -> ArrayResults {
    let objects = array.iter().filter_map(Identity::of);
    let objects: ObjectsByName = objects
        .map(|identity| ((identity.kind.clone(), identity.namespace.clone(), identity.name.clone()), identity))
        .collect();
    let answer = unit.rule(group, 0, &Value::from(array))?;
    let mut all: HashMap<Identity, Vec<(usize, Value)>> = HashMap::new();
    for (number, response) in responses(&answer, group) {
        for identity in concerned(&response, &objects) {
            all.entry(identity).or_default().push((number, response.clone()));
        }
    }
    Ok(all)
}

/// Returns the results, each with the number of the definition that it is of.
fn responses(answer: &Answer, group: &Group) -> Vec<(usize, Value)> {
    let definitions = group.entrypoints.first().map_or(0, |entrypoint| entrypoint.definitions.len());
    if definitions < 2 {
        return items(&answer.value).map(|response| (0, response.clone())).collect();
    }
    let each = answer.definitions.iter().enumerate();
    each.flat_map(|(number, value)| items(value).map(move |response| (number, response.clone()))).collect()
}

/// Objects of an array by kind, namespace and name.
type ObjectsByName = HashMap<(Arc<str>, Option<Arc<str>>, Arc<str>), Identity>;

/// Returns whom a result is about: the objects that it names, or the binding of a subject that it names.
fn concerned(response: &Value, objects: &ObjectsByName) -> Vec<Identity> {
    let about = field(response, "alertObject");
    let mut all: Vec<Identity> = items(field(about, "k8sApiObjects")).filter_map(Identity::of).collect();
    let external = field(about, "externalObjects");
    if matches!(external, Value::Object(_)) {
        let text = |key: &str| value::text(&external[key]).cloned();
        let named = || objects.get(&(text("kind")?, text("namespace"), text("name")?)).cloned();
        let related: Vec<Identity> = items(&external["relatedObjects"]).filter_map(Identity::of).collect();
        let binding = || related.iter().find(|identity| identity.kind.ends_with("Binding")).or(related.first());
        all.extend(Identity::of(external).or_else(named).or_else(|| binding().cloned()));
    }
    all.sort();
    all.dedup();
    all
}

/// Makes a finding of a result; `None` if its status is that nothing is wrong.
fn finding(control: &ControlRule, response: &Value, descriptor: &Arc<RuleDescriptor>) -> Option<Finding> {
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

/// Returns the paths of a result, and what names the objects and the subject that it relates to the one it is about.
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
    results::details(all.iter().map(|(key, value)| (key, value)))
}

fn paths(from: &Value) -> Vec<(String, serde_json::Value)> {
    let lists = PATHS.iter().filter(|key| items(field(from, key)).next().is_some());
    let command =
        value::text(field(from, "fixCommand")).is_some_and(|command| !command.is_empty()).then_some("fixCommand");
    lists.copied().chain(command).map(|key| (key.to_owned(), results::json(field(from, key)))).collect()
}

/// Returns a field by its name in upper or lower case, as Kubescape reads results.
fn field<'v>(of: &'v Value, name: &str) -> &'v Value {
    let exact = &of[name];
    if *exact != Value::Undefined {
        return exact;
    }
    let is = |(key, _): &(&Value, &Value)| value::text(key).is_some_and(|key| key.eq_ignore_ascii_case(name));
    value::object(of).and_then(|fields| fields.iter_sorted().find(is)).map_or(exact, |(_, value)| value)
}

/// Returns what names an object, or a subject.
fn named(object: &Value) -> Map<String, serde_json::Value> {
    let fields = ["apiVersion", "apiGroup", "kind", "namespace", "name"].into_iter().filter_map(|key| {
        let value = [&object[key], &object["metadata"][key]].into_iter().find_map(value::text)?;
        Some((key.to_owned(), serde_json::Value::from(&**value)))
    });
    fields.collect()
}
