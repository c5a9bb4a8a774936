//! Limits for the number of results of one object.
//!
//! The author of an object decides how many containers, ports or rules it has, and each may violate every rule. Without
//! limits, an object of 300 KB leaves 90,000 results in memory and in reports. As in Gatekeeper's audit of a
//! Constraint, the first results are listed and the others are counted.

use std::sync::Arc;

use crate::model::verdict::{Finding, Outcome, RuleDescriptor, UNLISTED_OF_OBJECT, UNLISTED_OF_RULE};

/// The maximum number of results of one rule for one object, including the one with the count of the others.
pub(super) const MOST_OF_RULE: usize = 50;
/// The maximum number of results for one object, including those with the count of the others.
pub(super) const MOST_OF_OBJECT: usize = 500;
/// The number of outcomes.
const OUTCOMES: usize = 4;

/// Limits the results of each rule, of each file that defines it; they are sorted by policy, rule and outcome.
/// Limiting the results again changes nothing.
pub(super) fn by_rule(mut findings: Vec<Finding>) -> Vec<Finding> {
    if findings.len() <= MOST_OF_RULE {
        return findings;
    }
    findings.sort_by(|a, b| rule(a).cmp(&rule(b)));
    let mut shortened = Vec::with_capacity(findings.len().min(MOST_OF_OBJECT));
    for group in findings.chunk_by(is_same_rule) {
        if group.len() <= MOST_OF_RULE {
            shortened.extend_from_slice(group);
            continue;
        }
        let (listed, left) = group.split_at(MOST_OF_RULE - 1);
        shortened.extend_from_slice(listed);
        shortened.extend(left.first().map(|first| Finding {
            message: format!("{}{UNLISTED_OF_RULE}", left.len()).into(),
            details: None,
            ..first.clone()
        }));
    }
    shortened
}

/// Limits the results of an object. Results of sources given earlier are listed first, so that no other source can
/// crowd them out; within a source, violations and the most severe results come first. `source` returns the index of a
/// file's source. Excused results are listed last, if there is room left. One result for each outcome counts the
/// unlisted ones, so that no outcome is lost: the exit code depends on it.
pub(super) fn by_object(mut findings: Vec<Finding>, source: impl Fn(&str) -> usize) -> Vec<Finding> {
    if findings.len() <= MOST_OF_OBJECT {
        return findings;
    }
    findings.sort_by_key(|finding| {
        let severity = finding.severity.map_or(u8::MAX, |word| word as u8);
        (finding.outcome == Outcome::Skip, source(&finding.rule.source.file), importance(finding.outcome), severity)
    });
    let mut unlisted = findings.split_off(MOST_OF_OBJECT - OUTCOMES);
    unlisted.sort_by_key(|finding| importance(finding.outcome));
    for group in unlisted.chunk_by(|a, b| a.outcome == b.outcome) {
        findings.extend(group.first().map(|first| Finding {
            rule: RuleDescriptor::of_object(),
            message: format!("{}{UNLISTED_OF_OBJECT}", group.len()).into(),
            details: None,
            ..first.clone()
        }));
    }
    findings
}

fn is_same_rule(a: &Finding, b: &Finding) -> bool {
    rule(a) == rule(b)
}

/// Returns the identity of a rule. Two sources may have a rule of the same name, if one of them is a Constraint.
fn rule(finding: &Finding) -> (&Arc<str>, &Arc<str>, Outcome, &Arc<str>) {
    (&finding.rule.policy, &finding.rule.name, finding.outcome, &finding.rule.source.file)
}

/// Returns the rank of an outcome: lower ranks are listed first.
fn importance(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Fail => 0,
        Outcome::Warn => 1,
        Outcome::Error => 2,
        Outcome::Skip => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::verdict::{Severity, Source};

    /// The maximum number of listed results of an object, if the unlisted ones have one outcome.
    const LISTED: usize = MOST_OF_OBJECT - OUTCOMES;

    fn findings(rules: usize, results: usize) -> Vec<Finding> {
        let rule = |rule: usize| {
            let severity = if rule.is_multiple_of(2) { Severity::Low } else { Severity::High };
            let first = Finding::sample_of("p", &format!("deny_{rule:03}"), "");
            (0..results).map(move |number| Finding {
                severity: Some(severity),
                message: format!("container c{number:05} is wrong").into(),
                ..first.clone()
            })
        };
        (0..rules).flat_map(rule).collect()
    }

    /// Returns the result with a rule from another file.
    fn in_file(file: &str, finding: Finding) -> Finding {
        let source = Source { file: file.into(), line: 1 };
        Finding { rule: Arc::new(RuleDescriptor { source, ..RuleDescriptor::clone(&finding.rule) }), ..finding }
    }

    #[test]
    fn results_within_the_limits_are_unchanged() {
        for (rules, results) in [(0, 0), (1, 1), (1, MOST_OF_RULE), (MOST_OF_OBJECT / MOST_OF_RULE, MOST_OF_RULE)] {
            let all = findings(rules, results);
            assert_eq!(by_object(by_rule(all.clone()), |_| 0), all);
        }
    }

    #[test]
    fn the_results_of_a_rule_are_limited_and_the_others_counted() {
        let short = by_rule(findings(2, 10_000));
        assert_eq!(short.len(), 2 * MOST_OF_RULE);
        let last = &short[MOST_OF_RULE - 1];
        assert_eq!(&*last.message, "9951 more results of this rule for this object are not listed");
        assert_eq!((&*last.rule.name, last.outcome), ("deny_000", Outcome::Fail));
        assert_eq!(by_rule(short.clone()), short, "limiting twice changes nothing");
    }

    #[test]
    fn the_results_of_an_object_are_limited_and_the_most_severe_listed() {
        let short = by_object(by_rule(findings(100, 40)), |_| 0);
        assert_eq!(short.len(), LISTED + 1);
        let [listed @ .., last] = short.as_slice() else { panic!("no results") };
        assert!(listed.iter().all(|finding| finding.severity == Some(Severity::High)), "{listed:?}");
        assert_eq!(
            (&*last.rule.policy, &*last.message),
            ("kaudit", "3504 more results for this object are not listed")
        );
    }

    /// Returns how many results a list represents, including those that it only counts.
    fn counted(list: &[Finding], outcome: Outcome) -> usize {
        let of_outcome = list.iter().filter(|finding| finding.outcome == outcome);
        let number = |finding: &Finding| {
            finding.message.strip_suffix(UNLISTED_OF_OBJECT).map_or(1, |count| count.parse().unwrap())
        };
        of_outcome.map(number).sum()
    }

    #[test]
    fn no_outcome_is_lost() {
        const OUTCOME: [Outcome; OUTCOMES] = [Outcome::Fail, Outcome::Warn, Outcome::Error, Outcome::Skip];
        for numbers in 0..3_usize.pow(8) {
            // The number of results of each outcome, for the earlier and the later source.
            let number = |place: u32| [0, 1, 300][numbers / 3_usize.pow(place) % 3];
            let all: Vec<Finding> = (0..8)
                .flat_map(|place| {
                    let sample = Finding { outcome: OUTCOME[place % 4], ..Finding::sample("x") };
                    let sample = in_file(["first.rego", "later.rego"][place / 4], sample);
                    std::iter::repeat_n(sample, number(u32::try_from(place).unwrap()))
                })
                .collect();
            let short = by_object(all.clone(), |file| usize::from(file != "first.rego"));
            assert!(short.len() <= MOST_OF_OBJECT);
            for outcome in OUTCOME {
                assert_eq!(counted(&short, outcome), counted(&all, outcome), "{outcome:?} of {numbers}");
            }
        }
    }

    #[test]
    fn errors_and_excused_results_do_not_crowd_out_violations() {
        for (outcome, file) in [(Outcome::Error, "p.rego"), (Outcome::Skip, "first.rego")] {
            let others = |count| {
                findings(count, 40)
                    .into_iter()
                    .map(|finding| in_file(file, Finding { outcome, severity: Some(Severity::Critical), ..finding }))
            };
            for (rules, listed) in [(1, 40), (10, 400), (20, LISTED)] {
                let all: Vec<Finding> = others(20).chain(findings(rules, 40)).collect();
                let short = by_object(by_rule(all), |file| usize::from(file != "first.rego"));
                let named = short.iter().filter(|finding| !finding.counts_unlisted_of_object());
                assert_eq!(named.filter(|finding| finding.outcome == Outcome::Fail).count(), listed);
            }
        }
    }

    #[test]
    fn a_later_source_does_not_crowd_out_results_of_an_earlier_one() {
        let from = |file: &str, severity, finding: &Finding| {
            in_file(file, Finding { severity: Some(severity), ..finding.clone() })
        };
        let own = [from("own.rego", Severity::Low, &Finding::sample("runs as root"))];
        let flood: Vec<Finding> =
            findings(20, 60).iter().map(|finding| from("flood.rego", Severity::Critical, finding)).collect();
        // One rule of the flood has the same name.
        let same =
            (0..60).map(|number| from("flood.rego", Severity::Critical, &Finding::sample(&format!("a{number:02}"))));
        let all: Vec<Finding> = own.iter().cloned().chain(flood).chain(same).collect();
        let position = |file: &str| usize::from(file != "own.rego");
        let short = by_object(by_rule(all), position);
        assert_eq!(short.len(), LISTED + 1);
        assert_eq!(short[0], own[0]);
    }
}
