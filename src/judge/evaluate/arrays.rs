//! Evaluation of the rules that relate objects to each other: once for each array of objects and state of the inventory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::array_rules::array_results;
use crate::{
    blocking::in_parallel,
    judge::{
        dialects::kubescape::{
            arrays::{ArraySource, EvaluatedArray, Identity, ObjectArray, RuleArrays, Scope},
            rule::RuleInput,
        },
        inventory::Inventory,
        set::PolicySet,
        unit::{Unit, UnitForm},
    },
    rego::Failure,
};

/// A rule that runs out of time for so many arrays is not evaluated for more of them, until it is tried again.
const MOST_TIMEOUTS: usize = 3;

/// Returns policies, as they were loaded, with these objects to look up.
#[must_use]
pub fn with_inventory(policies: &PolicySet, inventory: &Inventory) -> PolicySet {
    with_arrays(policies.with_objects(inventory), inventory, None, false)
}

/// Evaluates the rules that relate objects for all arrays of an inventory in parallel, except for those whose objects are the
/// same as `before`, and those for which a rule ran out of time before: these only if `retry` says so.
pub(crate) fn with_arrays(
    mut policies: PolicySet,
    inventory: &Inventory,
    before: Option<&PolicySet>,
    retry: bool,
) -> PolicySet {
    let mut kept: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    let mut open = Vec::new();
    let timeouts: Vec<AtomicUsize> = policies.units.iter().map(|_| AtomicUsize::new(0)).collect();
    for (number, unit) in policies.units.iter().enumerate() {
        let Some(rule) = unit.related() else { continue };
        let known = before.and_then(|before| before.units.get(number)?.arrays());
        let source = ArraySource::new(inventory, &rule.matching, rule.input == RuleInput::Cluster);
        let kept = kept.entry(number).or_default();
        for scope in source.scopes() {
            let array = source.array(&scope);
            if let Some(evaluated) = known.and_then(|known| known.kept(&scope, &array, retry)) {
                kept.push((scope, evaluated));
            } else {
                let before = known.and_then(|known| known.get(&scope));
                open.push(ArrayJob { unit: number, before, scope, array });
            }
        }
    }
    // So that each has its turn where a rule runs out of time for many.
    open.sort_by_key(|job| job.before.and_then(|before| before.evaluated));
    let evaluated = in_parallel(open, |job| {
        let (unit, timeouts) = (&policies.units[job.unit], &timeouts[job.unit]);
        (job.unit, job.scope.clone(), job.evaluate(unit, timeouts, policies.limits.input))
    });
    for (number, scope, evaluated) in evaluated {
        kept.entry(number).or_default().push((scope, evaluated));
    }
    for (number, scopes) in kept {
        if let UnitForm::Kubescape { rule, arrays } = &mut policies.units[number].form {
            *arrays = Some(Arc::new(RuleArrays::new(rule.input == RuleInput::Cluster, scopes.into_iter().collect())));
        }
    }
    policies
}

/// An array to evaluate a rule for.
struct ArrayJob<'a> {
    /// The number of the rule's unit.
    unit: usize,
    scope: Scope,
    array: ObjectArray,
    /// The array of this scope before.
    before: Option<&'a Arc<EvaluatedArray>>,
}

impl ArrayJob<'_> {
    /// Evaluates the rule, unless it has run out of time too often: then what is known from before stays.
    fn evaluate(self, unit: &Unit, timeouts: &AtomicUsize, limit: Duration) -> Arc<EvaluatedArray> {
        if timeouts.load(Ordering::Relaxed) >= MOST_TIMEOUTS {
            let (known, evaluated) = match self.before {
                Some(before) => (before.results.as_ref().err(), before.evaluated),
                None => (None, None),
            };
            let results = Err(known.unwrap_or(&Failure::OutOfTime(limit)).clone());
            return Arc::new(EvaluatedArray { array: self.array, results, evaluated });
        }
        let aggregator = unit.kubescape().and_then(|rule| rule.aggregator);
        let results = match (unit.groups.first(), self.array.input(aggregator)) {
            (Some(group), input) if !input.is_empty() => array_results(unit, group, input),
            _ => Ok(HashMap::new()),
        };
        if let Err(Failure::TimedOut(_)) = results {
            timeouts.fetch_add(1, Ordering::Relaxed);
        }
        Arc::new(EvaluatedArray { array: self.array, results, evaluated: Some(Instant::now()) })
    }
}

/// Returns the objects for which rules that relate objects have other results than before, as others changed that they are
/// related to.
pub(crate) fn with_other_results(before: &PolicySet, now: &PolicySet) -> BTreeSet<Identity> {
    let arrays =
        before.units.iter().zip(&now.units).filter_map(|(before, now)| Some((before.arrays()?, now.arrays()?)));
    arrays.flat_map(|(before, now)| now.differing(before)).collect()
}

/// Whether a rule ran out of time for an array.
pub(crate) fn has_unfinished_arrays(policies: &PolicySet) -> bool {
    policies.units.iter().filter_map(Unit::arrays).any(|arrays| arrays.is_unfinished())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::object::{Kind, ObjectKey},
        rego::{Limits, value},
    };

    /// Writes a rule in Kubescape's layout that takes very long for Pods that are endless.
    fn library(directory: &std::path::Path) {
        let rule = directory.join("rules/endless");
        std::fs::create_dir_all(&rule).unwrap();
        let matching = r#"{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["Pod"]}"#;
        let metadata = format!(r#"{{"name": "endless", "ruleLanguage": "Rego", "match": [{matching}]}}"#);
        std::fs::write(rule.join("rule.metadata.json"), metadata).unwrap();
        let module = "package armo_builtins\n\ndeny contains result if {\n\tinput[i].spec.app == \"endless\"\n\t\
            all := numbers.range(1, 9000)\n\tall[_] + all[_] + all[_] < i\n\tresult := {}\n}\n\n\
            deny contains {} if input[_].spec == input[_].spec.app\n";
        std::fs::write(rule.join("raw.rego"), module).unwrap();
    }

    /// Returns for how many arrays the rule ran out of time, and for how many it was not evaluated.
    fn unfinished(policies: &PolicySet) -> (usize, usize) {
        let arrays: Vec<_> = policies.units.iter().filter_map(Unit::arrays).collect();
        let count = |is: fn(&Failure) -> bool| {
            arrays.iter().flat_map(|arrays| arrays.failures()).filter(|failure| is(failure)).count()
        };
        (
            count(|failure| matches!(failure, Failure::TimedOut(_))),
            count(|failure| matches!(failure, Failure::OutOfTime(_))),
        )
    }

    #[test]
    fn a_rule_that_runs_out_of_time_for_many_arrays_holds_up_nothing_and_each_array_has_its_turn() {
        let directory = tempfile::tempdir().unwrap();
        library(directory.path());
        let limits = Limits { input: Duration::from_millis(20), ..Limits::default() };
        let loaded = PolicySet::load_with(&[directory.path().to_owned()], &limits).unwrap();
        let mut inventory = Inventory::default();
        let put = |inventory: &mut Inventory, number: usize, app: &str| {
            let kind = Kind::sample("", "pods", "Pod");
            let namespace = format!("n{number:02}");
            let pod = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"{namespace}"}},"spec":{{"app":"{app}"}}}}"#
            );
            let key = ObjectKey { kind, namespace: Some(namespace.into()), name: "p".into(), copy: 0 };
            inventory.put(&key, Some(&value::from_json(pod.as_bytes()).unwrap()));
        };
        (0..40).for_each(|number| put(&mut inventory, number, if number < 30 { "endless" } else { "x" }));
        let mut policies = with_inventory(&loaded, &inventory);
        let (mut timed_out, mut unevaluated) = unfinished(&policies);
        // Others may be under way when the last one ends.
        assert!(timed_out < 30 && timed_out + unevaluated >= 30, "{timed_out}, {unevaluated}");
        for _ in 0..40 {
            assert!(has_unfinished_arrays(&policies));
            policies = with_arrays(loaded.with_objects(&inventory), &inventory, Some(&policies), true);
            (timed_out, unevaluated) = unfinished(&policies);
            if timed_out == 30 {
                break;
            }
        }
        assert_eq!((timed_out, unevaluated), (30, 0));
    }
}
