//! Results that are kept because their rules could not be evaluated.
//!
//! A rule that ran out of time, or whose lookups could not be read, decides nothing about its earlier results: they stay as
//! they were, and the error is added. An error that the same object always has is a decision, and resolves them.

use std::sync::Arc;

use super::Violation;
use crate::model::verdict::{Finding, OBJECT_RULE, Outcome};

/// Marks the errors of these rules, each with its policy.
pub(super) fn mark(results: &mut [Violation], undecided: &[[Arc<str>; 2]]) {
    for result in results.iter_mut().filter(|result| result.finding.outcome == Outcome::Error) {
        let [policy, rule] = rule(&result.finding);
        result.undecided = undecided.iter().any(|known| [&*known[0], &*known[1]] == [policy, rule]);
    }
}

/// Returns the results among `before` that are not among `now` and whose rules are undecided there.
pub(super) fn kept(before: &[Violation], now: &[Violation]) -> Vec<Violation> {
    let undecided: Vec<[&str; 2]> =
        now.iter().filter(|result| result.undecided).map(|result| rule(&result.finding)).collect();
    if undecided.is_empty() {
        return Vec::new();
    }
    let is_kept = |known: &&Violation| {
        known.finding.outcome != Outcome::Error
            && (undecided.contains(&rule(&known.finding)) || undecided.contains(&OBJECT_RULE))
            && !now.iter().any(|result| is_same(known, result))
    };
    before.iter().filter(is_kept).cloned().collect()
}

fn rule(finding: &Finding) -> [&str; 2] {
    [&finding.rule.policy, &finding.rule.name]
}

/// Whether two results are of one violation, which may have been excused in between.
fn is_same(known: &Violation, result: &Violation) -> bool {
    let is_decided = result.finding.outcome != Outcome::Error;
    is_decided && rule(&known.finding) == rule(&result.finding) && known.finding.message == result.finding.message
}
