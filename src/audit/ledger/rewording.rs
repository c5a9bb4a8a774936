//! Compares the results that an object had with those that it has now: which are new, which are resolved, which stay.
//!
//! A result stays if policy, rule, outcome and message are those of one before. New policies may also word the message
//! differently. From the results alone that looks like one violation that is resolved and another that appears, unless only
//! the policies changed: then a rule finds everything in the same object as before. So if the same state of an object is
//! evaluated with another policy set, a result of a policy that reads nothing but the object is taken for a reworded one if,
//! among the results of its rule and outcome that are otherwise new,
//!
//! 1. it has the details of one that would otherwise be resolved, and there are some; or
//! 2. as many are left as would otherwise be resolved: then they are paired in their order, which is that of the messages.
//!
//! A rule that is rewritten to find an equal number of other problems in the same object looks the same, and is treated the
//! same: the reports have its new results, but no Event is written.
//!
//! After a restart it is not known whether only the policies changed, so every difference is reported.

use std::collections::{BTreeMap, HashSet};

use super::{
    Violation,
    dependents::{ResultRule, rule},
    unlisted,
};

/// What differs between two verdicts on one object.
pub(super) struct ResultComparison {
    /// Results that are new, or were not reported before.
    pub(super) appeared: Vec<Violation>,
    /// Results that the object no longer has.
    pub(super) resolved: Vec<Violation>,
    /// Whether anything differs, also in results that stay.
    pub(super) changed: bool,
}

/// Compares results; those in `now` that stay get the id and the times of those `before`. `only_reworded` returns for a
/// policy whether nothing but the wording of its results can have changed.
pub(super) fn compare(
    before: Vec<Violation>,
    now: &mut [Violation],
    only_reworded: impl Fn(&str) -> bool,
) -> ResultComparison {
    let open = (0..now.len()).collect();
    let mut pairing = Pairing { before, now, open, unreported: Vec::new(), changed: false };
    pairing.pair(|known, result| known.fingerprint == result.fingerprint);
    // A replica that has no record of a result gave it an id by the wording that it saw first.
    pairing.pair(|known, result| known.id == result.id);
    pairing.pair(unlisted::is_same_count);
    if !pairing.before.is_empty() && !pairing.open.is_empty() {
        pairing.pair_reworded(only_reworded);
    }
    pairing.keep_apart();
    let Pairing { before: resolved, now, open, unreported, changed } = pairing;
    let appeared: Vec<Violation> =
        unreported.into_iter().chain(open).filter_map(|index| now.get(index).cloned()).collect();
    let changed = changed || !appeared.is_empty() || !resolved.is_empty();
    ResultComparison { appeared, resolved, changed }
}

/// Two verdicts of which the results are being paired.
struct Pairing<'a> {
    /// Those that have no counterpart yet, in order.
    before: Vec<Violation>,
    now: &'a mut [Violation],
    /// The indexes in `now` of those that have no counterpart yet, in order.
    open: Vec<usize>,
    /// The indexes of those that stay and were not reported before.
    unreported: Vec<usize>,
    /// Whether a result stays and still differs.
    changed: bool,
}

impl Pairing<'_> {
    fn pair(&mut self, is_same: impl Fn(&Violation, &Violation) -> bool) {
        let Self { before, now, open, unreported, changed } = self;
        open.retain(|index| {
            let Some(result) = now.get_mut(*index) else { return false };
            let Some(place) = before.iter().position(|known| is_same(known, result)) else { return true };
            let known = before.remove(place);
            *changed |= known.finding != result.finding;
            unreported.extend(known.unreported.then_some(*index));
            result.continue_from(&known);
            false
        });
    }

    fn pair_reworded(&mut self, only_reworded: impl Fn(&str) -> bool) {
        let may = |known: &Violation, result: &Violation| {
            rule(&known.finding) == rule(&result.finding) && only_reworded(&known.finding.rule.policy)
        };
        self.pair(|known, result| {
            let details = &known.finding.details;
            details.is_some() && *details == result.finding.details && may(known, result)
        });
        let mut counts: BTreeMap<ResultRule, (usize, usize)> = BTreeMap::new();
        self.before.iter().for_each(|known| counts.entry(rule(&known.finding)).or_default().0 += 1);
        let open = self.open.iter().filter_map(|index| self.now.get(*index));
        open.for_each(|result| counts.entry(rule(&result.finding)).or_default().1 += 1);
        let as_many =
            |result: &Violation| counts.get(&rule(&result.finding)).is_some_and(|(ended, begun)| ended == begun);
        self.pair(|known, result| may(known, result) && as_many(result));
    }

    /// Gives a new result an id of its own if it has the first wording of another result that stays.
    fn keep_apart(&mut self) {
        if self.now.iter().all(|result| result.id == result.fingerprint) {
            return;
        }
        let open: HashSet<usize> = self.open.iter().copied().collect();
        let going_on = self.now.iter().enumerate().filter(|(index, _)| !open.contains(index));
        let mut taken: HashSet<_> = going_on.map(|(_, result)| result.id).collect();
        for index in &self.open {
            if let Some(result) = self.now.get_mut(*index) {
                while !taken.insert(result.id) {
                    result.id = result.id.next();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::{
        object::ObjectRef,
        verdict::{Finding, Outcome},
    };

    fn violation(rule: &str, message: &str, details: Option<&str>, since: i64) -> Violation {
        let details = details.map(|text| Arc::new([("key".to_owned(), json!(text))].into_iter().collect()));
        let finding = Finding { details, ..Finding::sample_of("p", rule, message) };
        Violation::new(&ObjectRef::sample(), finding, Timestamp::from_second(since).unwrap())
    }

    fn some(rule: &str, messages: &[&str], since: i64) -> Vec<Violation> {
        messages.iter().map(|message| violation(rule, message, None, since)).collect()
    }

    fn messages(violations: &[Violation]) -> Vec<&str> {
        violations.iter().map(|violation| &*violation.finding.message).collect()
    }

    #[test]
    fn equally_many_reworded_results_are_paired_in_order() {
        let before = [some("deny", &["a: x", "b: x"], 1), some("other", &["c"], 1)].concat();
        let mut now = [some("deny", &["a: y", "b: y"], 2), some("other", &["c", "d"], 2)].concat();
        let comparison = compare(before.clone(), &mut now, |_| true);
        assert_eq!(
            (messages(&comparison.appeared), comparison.resolved.len(), comparison.changed),
            (vec!["d"], 0, true)
        );
        for (known, result) in before.iter().zip(&now) {
            assert_eq!((known.id, known.since), (result.id, result.since));
        }
        assert_ne!(now[0].id, now[0].fingerprint);
        // The next verdict finds them as they are now, whatever may have changed.
        let mut again = [some("deny", &["a: y", "b: y"], 3), some("other", &["c", "d"], 3)].concat();
        let comparison = compare(now.clone(), &mut again, |_| false);
        assert!(!comparison.changed && again == now);
    }

    #[test]
    fn possibly_different_violations_are_reported() {
        let change = |only_reworded: bool, now: &[&str]| {
            let mut now = some("deny", now, 2);
            let comparison = compare(some("deny", &["a", "b"], 1), &mut now, |_| only_reworded);
            (messages(&comparison.appeared).join(" "), messages(&comparison.resolved).join(" "))
        };
        let changes = |appeared: &str, resolved: &str| (appeared.to_owned(), resolved.to_owned());
        assert_eq!(change(false, &["a", "c"]), changes("c", "b"), "the object changed");
        assert_eq!(change(true, &["a", "c"]), changes("", ""));
        assert_eq!(change(true, &["a", "c", "d"]), changes("c d", "b"), "another number of them");
        assert_eq!(change(true, &["c"]), changes("c", "a b"));
        assert_eq!(change(true, &[]), changes("", "a b"));
        // Another rule or outcome is another violation.
        let mut now = some("warn", &["c"], 2);
        assert_eq!(compare(some("deny", &["a"], 1), &mut now, |_| true).appeared.len(), 1);
        let mut now = some("deny", &["c"], 2);
        now[0].finding.outcome = Outcome::Warn;
        assert_eq!(compare(some("deny", &["a"], 1), &mut now, |_| true).resolved.len(), 1);
    }

    #[test]
    fn details_say_which_is_which() {
        let of = |words: &str, keys: &[&str]| -> Vec<Violation> {
            keys.iter().map(|key| violation("deny", &format!("{words} {key}"), Some(key), 1)).collect()
        };
        let mut now = of("new", &["b", "c", "d"]);
        let comparison = compare(of("old", &["a", "b", "c"]), &mut now, |_| true);
        assert_eq!((messages(&comparison.appeared), messages(&comparison.resolved)), (vec![], vec![]), "d for a");
        let mut now = of("new", &["b", "c"]);
        let comparison = compare(of("old", &["a", "b", "c"]), &mut now, |_| true);
        assert_eq!((messages(&comparison.appeared), messages(&comparison.resolved)), (vec![], vec!["old a"]));
        assert_eq!(
            now.iter().map(|result| result.id).collect::<Vec<_>>(),
            of("old", &["b", "c"]).iter().map(|known| known.id).collect::<Vec<_>>()
        );
    }

    #[test]
    fn unreported_violations_are_reported_while_they_are_open() {
        let mut before = some("deny", &["a", "b", "c"], 1);
        before[1].unreported = true;
        let mut now = some("deny", &["a", "b"], 2);
        let comparison = compare(before.clone(), &mut now, |_| false);
        assert_eq!((messages(&comparison.appeared), messages(&comparison.resolved)), (vec!["b"], vec!["c"]));
        assert!(
            comparison.changed
                && comparison.appeared[0].since == before[1].since
                && now.iter().all(|one| !one.unreported)
        );
    }

    #[test]
    fn no_two_open_results_have_the_same_id() {
        let mut now = some("deny", &["b"], 2);
        compare(some("deny", &["a"], 1), &mut now, |_| true);
        // The first wording comes back, in addition to the new one.
        let mut both = some("deny", &["a", "b"], 3);
        let comparison = compare(now.clone(), &mut both, |_| false);
        assert_eq!((messages(&comparison.appeared), both[1].id), (vec!["a"], now[0].id));
        assert_ne!(both[0].id, both[1].id);
        // And in the place of the new ones they are the same violation.
        let mut back = some("deny", &["a"], 3);
        let comparison = compare(now, &mut back, |_| false);
        assert!(comparison.appeared.is_empty() && comparison.resolved.is_empty() && comparison.changed);
    }

    proptest! {
        /// In whatever order objects and policies change, the open results are those reported to appear and not to be resolved,
        /// ids are unique, and if the object changed no violation replaces another.
        #[test]
        fn reports_and_open_results_agree(steps in prop::collection::vec((prop::collection::btree_set(0u8..6, 0..4), 0u8..3, any::<bool>()), 1..12)) {
            let (mut results, mut open) = (Vec::new(), BTreeSet::new());
            for (time, (found, words, only_policies)) in steps.into_iter().enumerate() {
                let words: Vec<String> = found.iter().map(|number| format!("{number} {words}")).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let mut now = some("deny", &words, i64::try_from(time).unwrap());
                let before = std::mem::take(&mut results);
                let comparison = compare(before.clone(), &mut now, |_| only_policies);
                for resolved in &comparison.resolved {
                    prop_assert!(open.remove(&(resolved.id, resolved.since)), "resolved and never reported");
                }
                for appeared in &comparison.appeared {
                    prop_assert!(open.insert((appeared.id, appeared.since)), "reported twice");
                }
                let ids: BTreeSet<_> = now.iter().map(|result| (result.id, result.since)).collect();
                prop_assert_eq!(&ids, &open);
                prop_assert_eq!(now.iter().map(|result| result.id).collect::<HashSet<_>>().len(), now.len());
                if !only_policies {
                    let new = |result: &&Violation| before.iter().all(|known| known.fingerprint != result.fingerprint && known.id != result.fingerprint);
                    prop_assert!(now.iter().filter(new).all(|result| comparison.appeared.contains(result)), "hidden");
                }
                results = now;
            }
        }
    }
}
