//! Two evaluators, one meaning: now and then a rule that runs as a program is evaluated by regorus, too.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// One evaluation in so many is done both ways.
const EVERY: u32 = 256;

/// Which policies' programs are trusted. Shared by all that judge by the unit.
#[derive(Debug, Default)]
pub(crate) struct CrossCheck {
    evaluations: AtomicU32,
    /// Whether there are any below; most of the time that is all that is asked.
    differed: AtomicBool,
    distrusted: RwLock<BTreeSet<Arc<str>>>,
}

impl CrossCheck {
    /// Counts an evaluation; returns whether it is to be done both ways.
    pub(crate) fn is_due(&self) -> bool {
        self.evaluations.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// Whether no evaluation of a policy differed so far.
    pub(crate) fn trusts(&self, policy: impl FnOnce() -> Option<Arc<str>>) -> bool {
        if !self.differed.load(Ordering::Acquire) {
            return true;
        }
        let distrusted = self.distrusted.read().unwrap_or_else(PoisonError::into_inner);
        policy().is_some_and(|policy| !distrusted.contains(&policy))
    }

    /// From now on regorus evaluates this policy; returns whether that is new.
    pub(crate) fn distrust(&self, policy: &Arc<str>) -> bool {
        let new = self.distrusted.write().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(policy));
        self.differed.store(true, Ordering::Release);
        new
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
            verdict::Verdict,
        },
        rego::limits::Limits,
    };

    /// Loads this and a policy `same`.
    fn load(module: &str) -> PolicySet {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("p.rego"), format!("package p\n\n{module}\n")).unwrap();
        std::fs::write(root.path().join("same.rego"), "package same\n\ndeny contains \"same\"\n").unwrap();
        let limits = Limits { share_verdicts: false, ..Limits::default() };
        PolicySet::load_with(&[root.path().to_owned()], &limits).unwrap()
    }

    fn job(set: PolicySet) -> Job {
        let key = ObjectKey { kind: Kind::sample("", "pods", "Pod"), namespace: None, name: "a".into(), copy: 0 };
        let object = Object::sample(key, br#"{"kind": "Pod", "apiVersion": "v1"}"#);
        Job { object, previous: None, deleted: false, namespace: None, policies: Arc::new(set) }
    }

    #[test]
    fn a_program_that_differs_is_told_and_not_asked_again() {
        let mut set = load("deny contains \"right\"");
        let wrong = load("deny contains \"wrong\"");
        let evaluator = set.units[0].evaluator.clone();
        set.units[0].evaluator = evaluator.with_program_of(&wrong.units[0].evaluator);
        let job = job(set);
        let messages = |verdict: &Verdict| verdict.results.iter().map(|result| result.message.to_string()).collect();
        let said: Vec<Verdict> = (0..600).map(|_| evaluate(&job)).collect();
        let first = said.iter().position(|verdict| !verdict.differences.is_empty()).unwrap();
        assert_eq!(u32::try_from(first), Ok(super::EVERY - 1));
        assert_eq!(said[first].differences, ["p".into()]);
        for (number, verdict) in said.iter().enumerate() {
            let says = if number < first { "wrong" } else { "right" };
            let messages: Vec<String> = messages(verdict);
            assert_eq!(messages, [says, "same"], "{number}");
            assert!(number == first || verdict.differences.is_empty());
        }
        let trusts = |policy: &str| job.policies.units[0].cross_check.trusts(|| Some(policy.into()));
        assert!(!trusts("p") && trusts("same"));
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
