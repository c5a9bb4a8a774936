//! How many results one object may have.
//!
//! The author of an object decides how many containers, ports or rules it has, and each may violate every rule. Without
//! bounds, an object of 300 KB leaves 90,000 results in memory and in reports. As Gatekeeper's audit does for a Constraint, the
//! first results are listed and the others are counted.

use std::sync::Arc;

use crate::model::verdict::{Finding, OBJECT_RULE, Outcome, Source, UNLISTED_OF_OBJECT, UNLISTED_OF_RULE};

/// The most results of one rule for one object, the one that counts the others included.
pub(super) const MOST_OF_RULE: usize = 50;
/// The most results for one object, likewise.
pub(super) const MOST_OF_OBJECT: usize = 500;

/// Bounds the results of each rule, of each file that defines it; they are sorted by policy, rule and outcome. Doing so twice is
/// the same as once.
pub(super) fn by_rule(mut findings: Vec<Finding>) -> Vec<Finding> {
    if findings.len() <= MOST_OF_RULE {
        return findings;
    }
    findings.sort_by(|a, b| rule(a).cmp(&rule(b)));
    let mut shortened = Vec::with_capacity(findings.len().min(MOST_OF_OBJECT));
    for group in findings.chunk_by(is_same_rule) {
        shorten_group(group, MOST_OF_RULE, &mut shortened, |first, count| Finding {
            message: format!("{count}{UNLISTED_OF_RULE}").into(),
            details: None,
            ..first.clone()
        });
    }
    shortened
}

/// Bounds the results of an object. Those of a source that is named earlier are listed first, so that no other source can
/// crowd them out, and of one source the most severe; `source` is the position of a file's source. Excused results are listed
/// last, in the room that all others leave.
pub(super) fn by_object(mut findings: Vec<Finding>, source: impl Fn(&str) -> usize) -> Vec<Finding> {
    if findings.len() <= MOST_OF_OBJECT {
        return findings;
    }
    findings.sort_by_key(|finding| {
        let severity = finding.severity.map_or(u8::MAX, |word| word as u8);
        (finding.outcome == Outcome::Skip, source(&finding.source.file), importance(finding.outcome), severity)
    });
    let mut bounded = Vec::with_capacity(MOST_OF_OBJECT);
    let [policy, rule] = OBJECT_RULE.map(Arc::<str>::from);
    shorten_group(&findings, MOST_OF_OBJECT, &mut bounded, |first, count| Finding {
        policy: Arc::clone(&policy),
        rule: Arc::clone(&rule),
        category: None,
        message: format!("{count}{UNLISTED_OF_OBJECT}").into(),
        details: None,
        source: Source { file: Arc::from(""), line: 0 },
        ..first.clone()
    });
    bounded
}

fn is_same_rule(a: &Finding, b: &Finding) -> bool {
    rule(a) == rule(b)
}

/// Returns what tells rules apart. Two sources may have a rule of one name, if one of them is a Constraint.
fn rule(finding: &Finding) -> (&Arc<str>, &Arc<str>, Outcome, &Arc<str>) {
    (&finding.policy, &finding.rule, finding.outcome, &finding.source.file)
}

/// Adds a group to `out`: whole if it has at most so many members, else the first ones and one that counts the others, which
/// `rest` makes from the first of those.
fn shorten_group(group: &[Finding], most: usize, out: &mut Vec<Finding>, rest: impl Fn(&Finding, usize) -> Finding) {
    if group.len() <= most {
        return out.extend_from_slice(group);
    }
    let (listed, left) = group.split_at(most - 1);
    out.extend_from_slice(listed);
    out.extend(left.first().map(|first| rest(first, left.len())));
}

/// Returns the place of an outcome among those that are listed first.
fn importance(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Error => 0,
        Outcome::Fail => 1,
        Outcome::Warn => 2,
        Outcome::Skip => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::verdict::Severity;

    fn findings(rules: usize, results: usize) -> Vec<Finding> {
        let rule = |rule: usize| {
            let severity = if rule.is_multiple_of(2) { Severity::Low } else { Severity::High };
            let name: Arc<str> = format!("deny_{rule:03}").into();
            (0..results).map(move |number| Finding {
                rule: Arc::clone(&name),
                severity: Some(severity),
                ..Finding::sample(&format!("container c{number:05} is wrong"))
            })
        };
        (0..rules).flat_map(rule).collect()
    }

    #[test]
    fn what_is_within_the_bounds_stays() {
        for (rules, results) in [(0, 0), (1, 1), (1, MOST_OF_RULE), (MOST_OF_OBJECT / MOST_OF_RULE, MOST_OF_RULE)] {
            let all = findings(rules, results);
            assert_eq!(by_object(by_rule(all.clone()), |_| 0), all);
        }
    }

    #[test]
    fn the_results_of_a_rule_are_bounded_and_the_others_counted() {
        let short = by_rule(findings(2, 10_000));
        assert_eq!(short.len(), 2 * MOST_OF_RULE);
        let last = &short[MOST_OF_RULE - 1];
        assert_eq!(&*last.message, "9951 more results of this rule for this object are not listed");
        assert_eq!((&*last.rule, last.outcome), ("deny_000", Outcome::Fail));
        assert_eq!(by_rule(short.clone()), short, "once is as good as twice");
    }

    #[test]
    fn the_results_of_an_object_are_bounded_and_the_most_severe_listed() {
        let short = by_object(by_rule(findings(100, 40)), |_| 0);
        assert_eq!(short.len(), MOST_OF_OBJECT);
        let [listed @ .., last] = short.as_slice() else { panic!("no results") };
        assert!(listed.iter().all(|finding| finding.severity == Some(Severity::High)), "{listed:?}");
        assert_eq!((&*last.policy, &*last.message), ("kaudit", "3501 more results for this object are not listed"));
    }

    #[test]
    fn excused_results_crowd_out_no_violation() {
        let excused = |count| {
            findings(count, 40).into_iter().map(|finding| Finding {
                outcome: Outcome::Skip,
                severity: Some(Severity::Critical),
                source: Source { file: "first.rego".into(), line: 1 },
                ..finding
            })
        };
        for (violations, listed) in [(1, 1), (10, 400), (20, MOST_OF_OBJECT - 1)] {
            let violations = findings(violations, if violations == 1 { 1 } else { 40 });
            let all: Vec<Finding> = excused(20).chain(violations).collect();
            let short = by_object(by_rule(all), |file| usize::from(file != "first.rego"));
            assert_eq!(short.len(), MOST_OF_OBJECT);
            let [named @ .., rest] = short.as_slice() else { panic!("no results") };
            assert_eq!(named.iter().filter(|finding| finding.outcome == Outcome::Fail).count(), listed);
            // What is left out counts as a violation only if one of those is.
            assert_eq!(rest.outcome == Outcome::Fail, listed == MOST_OF_OBJECT - 1);
        }
    }

    #[test]
    fn a_later_source_crowds_out_no_results_of_an_earlier_one() {
        let from = |file: &str, severity, finding: &Finding| Finding {
            severity: Some(severity),
            source: Source { file: file.into(), line: 1 },
            ..finding.clone()
        };
        let own = [from("own.rego", Severity::Low, &Finding::sample("runs as root"))];
        let flood: Vec<Finding> =
            findings(20, 60).iter().map(|finding| from("flood.rego", Severity::Critical, finding)).collect();
        // One of the flood has the name of the rule.
        let same =
            (0..60).map(|number| from("flood.rego", Severity::Critical, &Finding::sample(&format!("a{number:02}"))));
        let all: Vec<Finding> = own.iter().cloned().chain(flood).chain(same).collect();
        let position = |file: &str| usize::from(file != "own.rego");
        let short = by_object(by_rule(all), position);
        assert_eq!(short.len(), MOST_OF_OBJECT);
        assert_eq!(short[0], own[0]);
    }
}
