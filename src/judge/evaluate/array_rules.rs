//! Evaluates rules whose input is an array of objects.

use std::{collections::HashMap, time::Duration};

use regorus::Value;

use super::object::{ObjectEvaluation, error};
use crate::{
    judge::{
        dialects::kubescape::{
            arrays::{Aggregator, ArrayResults, Identity, ObjectArray},
            results::{ObjectsByName, concerned, finding},
            rule::{ControlRule, KubescapeRule, RuleInput},
        },
        result_values::items,
        unit::{Group, Unit},
    },
    model::{object::ObjectKey, verdict::Finding},
    rego::{Answer, Failure, analysis::cpu_time::CpuTimer},
};

impl ObjectEvaluation<'_> {
    /// Evaluates a rule for an object of a kind that it matches.
    pub(super) fn array_rule(
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
            (_, Some(arrays)) => {
                let mut shared = Duration::ZERO;
                let results = arrays.results(key.namespace.as_ref(), &identity, |array| {
                    let timer = CpuTimer::start();
                    let results = array_results(unit, group, array);
                    shared += timer.elapsed();
                    results
                });
                self.results.shared_time += shared;
                results
            }
            // No objects have been read that this object could be related to.
            (_, None) => Ok(&[][..]),
        };
        for control in &rule.controls {
            match results {
                Ok(results) => {
                    let definitions = &control.descriptors.definitions;
                    let results = results.iter().filter_map(|(index, response)| {
                        let definition =
                            if definitions.len() == 1 { definitions.first() } else { definitions.get(*index) };
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

    /// Evaluates a rule that does not relate objects: all its results are about this one.
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

/// Whether a rule's input includes an object of a matching kind.
pub(super) fn is_scanned(rule: &KubescapeRule, identity: &Identity) -> bool {
    rule.aggregator != Some(Aggregator::ApiServerPod)
        || identity.namespace.as_deref() == Some("kube-system")
            && ["apiserver", "api-server"].iter().any(|part| identity.name.contains(part))
}

/// Evaluates the rule of a unit on an array; returns the results by the object that they are about.
pub(super) fn array_results(unit: &Unit, group: &Group, array: &ObjectArray) -> ArrayResults {
    let input = array.input(unit.kubescape().and_then(|rule| rule.aggregator));
    if input.is_empty() {
        return Ok(HashMap::new());
    }
    let objects = ObjectsByName::new(&input);
    let answer = unit.rule(group, 0, &Value::from(input))?;
    let mut all: HashMap<Identity, Vec<(usize, Value)>> = HashMap::new();
    for (index, response) in responses(&answer, group) {
        for identity in concerned(&response, &objects) {
            all.entry(identity).or_default().push((index, response.clone()));
        }
    }
    Ok(all)
}

/// Returns the results, each with the index of its definition.
fn responses(answer: &Answer, group: &Group) -> Vec<(usize, Value)> {
    let definitions = group.entrypoints.first().map_or(0, |entrypoint| entrypoint.definitions.len());
    if definitions < 2 {
        return items(&answer.value).map(|response| (0, response.clone())).collect();
    }
    let each = answer.definitions.iter().enumerate();
    each.flat_map(|(index, value)| items(value).map(move |response| (index, response.clone()))).collect()
}
