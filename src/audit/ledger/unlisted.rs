//! Results that are no longer listed because an object has too many.
//!
//! Of a rule or an object with very many results the first are listed and the others counted. A violation that leaves the list
//! may still be open, with others sorted before it: it is reported neither as resolved nor as open. When it is listed again, it
//! is reported as new.

use super::Violation;
use crate::model::verdict::Finding;

/// Retains the violations that have ended for sure, given the results now.
pub(super) fn retain_ended(resolved: &mut Vec<Violation>, now: &[Violation]) {
    if resolved.is_empty() {
        return;
    }
    if now.iter().any(|result| result.finding.counts_unlisted_of_object()) {
        return resolved.clear();
    }
    let counts: Vec<&Finding> =
        now.iter().map(|result| &result.finding).filter(|finding| finding.counts_unlisted_of_rule()).collect();
    resolved.retain(|ended| !counts.iter().any(|count| is_same_rule(count, &ended.finding)));
}

/// Whether both count what is not listed of the same rule or object, with whatever number.
pub(super) fn is_same_count(known: &Violation, result: &Violation) -> bool {
    let (known, result) = (&known.finding, &result.finding);
    let are_counts = |counts: fn(&Finding) -> bool| counts(known) && counts(result);
    is_same_rule(known, result)
        && known.outcome == result.outcome
        && (are_counts(Finding::counts_unlisted_of_rule) || are_counts(Finding::counts_unlisted_of_object))
}

fn is_same_rule(a: &Finding, b: &Finding) -> bool {
    (&a.rule.policy, &a.rule.name) == (&b.rule.policy, &b.rule.name)
}
