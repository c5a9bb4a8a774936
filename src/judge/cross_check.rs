//! Two evaluators, one meaning: now and then a rule that runs as a program is evaluated by regorus, too.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One evaluation in so many is done both ways.
const EVERY: u32 = 256;

/// Whether the program of a unit is trusted. Shared by all that judge by the unit.
#[derive(Debug, Default)]
pub(crate) struct CrossCheck {
    evaluations: AtomicU32,
    differed: AtomicBool,
}

impl CrossCheck {
    /// Counts an evaluation; returns whether it is to be done both ways.
    pub(crate) fn is_due(&self) -> bool {
        self.evaluations.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// Whether no evaluation differed so far.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.differed.load(Ordering::Relaxed)
    }

    /// From now on regorus evaluates all.
    pub(crate) fn distrust(&self) {
        self.differed.store(true, Ordering::Relaxed);
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
            body::Body,
            object::{Kind, Object, ObjectKey},
        },
        rego::limits::Limits,
    };

    fn load(module: &str) -> PolicySet {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("p.rego"), format!("package p\n\n{module}\n")).unwrap();
        let limits = Limits { share_verdicts: false, ..Limits::default() };
        PolicySet::load_with(&[root.path().to_owned()], &limits).unwrap()
    }

    #[test]
    fn a_program_that_differs_is_told_and_not_asked_again() {
        let mut set = load("deny contains \"right\"");
        let wrong = load("deny contains \"wrong\"");
        let evaluator = set.units[0].evaluator.clone();
        set.units[0].evaluator = evaluator.with_program_of(&wrong.units[0].evaluator);
        let key = ObjectKey { kind: Kind::sample("", "pods", "Pod"), namespace: None, name: "a".into(), copy: 0 };
        let body = Body::plain(br#"{"kind": "Pod"}"#);
        let object = Object {
            key,
            uid: "".into(),
            resource_version: "".into(),
            body,
            location: None,
            controller: None,
            inactive: false,
        };
        let job = Job { object, previous: None, deleted: false, namespace: None, policies: Arc::new(set) };
        let said: Vec<(String, usize)> = (0..600)
            .map(|_| evaluate(&job))
            .map(|verdict| (verdict.results[0].message.to_string(), verdict.differences.len()))
            .collect();
        let first = said.iter().position(|(message, _)| message == "right").unwrap();
        assert_eq!(u32::try_from(first), Ok(super::EVERY - 1));
        assert!(said[..first].iter().all(|(message, differences)| message == "wrong" && *differences == 0));
        assert_eq!(said[first].1, 1);
        assert!(said[first + 1..].iter().all(|(message, differences)| message == "right" && *differences == 0));
    }
}
