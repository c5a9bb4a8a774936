//! The cross-check: from time to time regorus evaluates a rule of a program, too, and the values are compared.
//!
//! A difference is counted and logged; the program's value is the result all the same.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// One evaluation in so many is compared.
const EVERY: u32 = 256;

/// The state of the cross-check, shared by all clones of a unit.
#[derive(Debug, Default)]
pub(crate) struct CrossCheck {
    evaluations: AtomicU32,
    /// Policies whose first difference has been logged.
    logged: Mutex<BTreeSet<Arc<str>>>,
}

/// A rule for which the program and regorus have different values.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) policy: Arc<str>,
    /// Whether it is the first one of its policy.
    pub(crate) is_first: bool,
}

impl CrossCheck {
    /// Counts an evaluation; returns whether it is to be compared.
    pub(crate) fn is_due(&self) -> bool {
        self.evaluations.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    pub(crate) fn difference(&self, policy: Arc<str>) -> Difference {
        let is_first = self.logged.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&policy));
        Difference { policy, is_first }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{
        judge::{
            evaluate::{Job, evaluate},
            set::PolicySet,
        },
        model::{
            object::{Kind, Object, ObjectKey},
            verdict::Shared,
        },
        rego::limits::Limits,
    };

    /// Loads this and a policy `same`.
    fn load(module: &str) -> PolicySet {
        load_with(module, &Limits { share_verdicts: false, ..Limits::default() })
    }

    fn load_with(module: &str, limits: &Limits) -> PolicySet {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("p.rego"), format!("package p\n\n{module}\n")).unwrap();
        std::fs::write(root.path().join("same.rego"), "package same\n\ndeny contains \"same\"\n").unwrap();
        PolicySet::load_with(&[root.path().to_owned()], limits).unwrap()
    }

    fn job(set: PolicySet) -> Job {
        let namespace = Some("n".into());
        let key = ObjectKey { kind: Kind::sample("", "pods", "Pod"), namespace, name: "a".into(), copy: 0 };
        let json = br#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"}}"#;
        let object = Object::sample(key, json);
        Job { object, previous: None, deleted: false, namespace: None, policies: Arc::new(set) }
    }

    #[test]
    fn a_difference_is_counted_and_does_not_change_the_result() {
        let mut set = load("deny contains \"by regorus\"");
        let other = load("deny contains \"by the program\"");
        let evaluator = set.units[0].evaluator.clone();
        set.units[0].evaluator = evaluator.with_program_of(&other.units[0].evaluator);
        let job = job(set);
        let every = usize::try_from(super::EVERY).unwrap();
        let mut counted = Vec::new();
        for number in 0..3 * every {
            let verdict = evaluate(&job);
            let messages: Vec<&str> = verdict.results.iter().map(|result| &*result.message).collect();
            assert_eq!(messages, ["by the program", "same"], "{number}");
            counted.extend(verdict.differences.iter().map(|policy| (number, policy.to_string())));
        }
        assert_eq!(counted, [1, 2, 3].map(|time| (time * every - 1, "p".to_owned())));
    }

    #[test]
    fn verdicts_are_shared_after_a_difference() {
        let limits = Limits { share_verdicts: true, ..Limits::default() };
        let mut set = load_with("deny contains \"by regorus\"", &limits);
        let other = load_with("deny contains \"by the program\"", &limits);
        let evaluator = set.units[0].evaluator.clone();
        set.units[0].evaluator = evaluator.with_program_of(&other.units[0].evaluator);
        set.units[0].cross_check.evaluations.store(super::EVERY - 1, std::sync::atomic::Ordering::Relaxed);
        let job = job(set);
        let verdicts = [evaluate(&job), evaluate(&job)];
        assert_eq!(verdicts[0].differences, ["p".into()]);
        assert_eq!(verdicts.map(|verdict| verdict.shared), [Some(Shared::Miss), Some(Shared::Hit)]);
    }

    #[test]
    fn the_first_difference_of_a_policy_is_told_apart() {
        let check = super::CrossCheck::default();
        let firsts = ["p", "p", "q"].map(|policy| check.difference(policy.into()).is_first);
        assert_eq!(firsts, [true, false, true]);
    }

    #[test]
    fn what_regorus_is_known_to_get_wrong_is_not_told_as_a_difference() {
        for wrong in [
            "f(x, x)\n\ndeny contains \"wrong\" if f(input.kind, input.apiVersion)",
            "f([x], {\"a\": x})\n\ndeny contains \"wrong\" if f([input.kind], {\"a\": input.apiVersion})",
            "deny contains \"wrong\" if { every kind in [1, 1] { kind = input.kind } }",
            "deny contains \"wrong\" if { every index, kind in [1, 1] { kind > 0; input.kind = index } }",
        ] {
            let set = load(wrong);
            assert!(set.units[0].evaluator.is_unlike_regorus(), "{wrong}");
            let job = job(set);
            for _ in 0..300 {
                let verdict = evaluate(&job);
                assert!(verdict.differences.is_empty() && verdict.results.len() == 1, "{wrong}");
            }
        }
        for known in [
            "f(x, y) if x == y\n\ndeny contains \"x\" if f(1, 1)",
            "deny contains \"x\" if { every x in [1] { y := x; y == 1 } }",
        ] {
            assert!(!load(known).units[0].evaluator.is_unlike_regorus(), "{known}");
        }
    }
}
