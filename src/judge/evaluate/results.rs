//! Collects the results of one object.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use super::{bounds, texts};
use crate::{
    judge::rule::{Entrypoint, ResultShape, Rule, RuleDescriptors},
    model::{
        rule_numbers::RuleNumbers,
        verdict::{Finding, Outcome, RuleDescriptor, Severity},
    },
};

/// The results of one object so far.
#[derive(Default)]
pub(super) struct ObjectFindings {
    findings: Vec<Finding>,
    passed: RuleNumbers,
    /// Whether texts were shortened.
    shortened: bool,
    /// Whether an evaluation ran out of time.
    pub(super) unfinished: bool,
    /// Whether rules were not evaluated because their shared query failed.
    pub(super) incomplete: bool,
    /// The CPU time of evaluations that also cover other objects.
    pub(super) shared_time: Duration,
    /// The rules without a decision; see [`undecided`](crate::model::verdict::Verdict::undecided).
    pub(super) undecided: Vec<[Arc<str>; 2]>,
}

impl ObjectFindings {
    /// Returns the result of an object that could not be evaluated this time but may be later.
    pub(super) fn unfinished(finding: Finding) -> Self {
        let mut results = Self { unfinished: true, ..Self::default() };
        results.push_undecided(finding);
        results
    }

    /// Returns results to be added to these, with the same limit of time.
    pub(super) fn of_same_object(&self) -> Self {
        Self { shared_time: self.shared_time, ..Self::default() }
    }

    pub(super) fn push(&mut self, mut finding: Finding) {
        self.shortened |= texts::shorten(&mut finding);
        self.findings.push(finding);
    }

    /// Adds an error that may not recur for the same object.
    pub(super) fn push_undecided(&mut self, error: Finding) {
        self.undecided.push([&error.rule.policy, &error.rule.name].map(Arc::clone));
        self.push(error);
    }

    pub(super) fn extend(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.push(finding);
        }
    }

    /// Whether another evaluation would have the same results: nothing failed, and no text was shortened. A shortened
    /// text may end at a different position with the name of another object.
    pub(super) fn can_be_kept(&self) -> bool {
        let failed = self.findings.iter().any(|finding| finding.outcome == Outcome::Error);
        !failed && !self.unfinished && !self.incomplete && !self.shortened
    }

    /// Adds the results of another object, each as `convert` returns it.
    pub(super) fn add(&mut self, other: Self, convert: impl Fn(Finding) -> Option<Finding>) {
        self.unfinished |= other.unfinished;
        self.shortened |= other.shortened;
        self.undecided.extend(other.undecided);
        self.passed.extend(&other.passed);
        self.extend(other.findings.into_iter().filter_map(convert).collect());
    }

    /// Adds the cached results of an object with the same sharing key.
    pub(super) fn share(&mut self, findings: Vec<Finding>, passed: &RuleNumbers) {
        self.extend(findings);
        self.passed.extend(passed);
    }

    pub(super) fn pass(&mut self, rule: &Rule) {
        self.passed.insert(rule.number);
    }

    /// Returns the results (sorted, without duplicates, bounded for each rule) and the rules that passed.
    pub(super) fn finish(mut self) -> (Vec<Finding>, RuleNumbers) {
        self.findings.sort_by(order);
        self.findings.dedup();
        let mut findings = bounds::by_rule(self.findings);
        findings.sort_by(order);
        (findings, self.passed)
    }
}

/// Bounds the results of an object and sorts the remaining ones. `source` returns the index of a file's source.
pub(super) fn bounded(findings: Vec<Finding>, source: impl Fn(&str) -> usize) -> Vec<Finding> {
    let mut findings = bounds::by_object(findings, source);
    findings.sort_by(order);
    findings
}

fn order(a: &Finding, b: &Finding) -> Ordering {
    fn key(finding: &Finding) -> impl Ord {
        let Finding { rule, outcome, message, severity, .. } = finding;
        (&rule.policy, &rule.name, *outcome, message, &rule.source, *severity)
    }
    // Details have no order; their JSON is only created if everything else is equal.
    let details = |finding: &Finding| finding.details.as_ref().map(|details| serde_json::to_string(&**details).ok());
    key(a).cmp(&key(b)).then_with(|| details(a).cmp(&details(b)))
}

/// Sets the descriptor and the severity of the definition that produced each result. For rules with several
/// definitions, `evaluate` returns the results of one definition alone, by its index. The severity `nearer` takes
/// precedence over that of the definition.
pub(super) fn attribute(
    findings: &mut [Finding],
    entrypoint: &Entrypoint,
    (descriptors, nearer): (&RuleDescriptors, Option<Severity>),
    evaluate: impl Fn(usize) -> Option<Vec<Finding>>,
) {
    if let [only] = entrypoint.definitions.as_slice() {
        let descriptor = descriptors.definitions.first().unwrap_or(&descriptors.rule);
        let severity = nearer.or(only.metadata.severity);
        return findings.iter_mut().for_each(|finding| stamp(finding, descriptor, severity));
    }
    let mut open: Vec<&mut Finding> = findings.iter_mut().collect();
    // A set is the union of its definitions: results of no other definition belong to the last one.
    let mut sure = entrypoint.shape == ResultShape::Set;
    for (index, (definition, descriptor)) in entrypoint.definitions.iter().zip(&descriptors.definitions).enumerate() {
        let severity = nearer.or(definition.metadata.severity);
        if open.is_empty() {
            return;
        }
        if sure && index + 1 == entrypoint.definitions.len() {
            return open.into_iter().for_each(|finding| stamp(finding, descriptor, severity));
        }
        let Some(own) = evaluate(index) else {
            sure = false;
            continue;
        };
        open.retain_mut(|finding| {
            let mine = own.iter().any(|own| own.message == finding.message && own.details == finding.details);
            if mine {
                stamp(finding, descriptor, severity);
            }
            !mine
        });
    }
    for finding in open {
        stamp(finding, &descriptors.rule, nearer.or(entrypoint.rule.metadata.severity));
    }
}

/// Sets the descriptor and severity of the definition; a result with its own severity keeps it.
fn stamp(finding: &mut Finding, descriptor: &Arc<RuleDescriptor>, severity: Option<Severity>) {
    finding.severity = finding.severity.or(severity);
    finding.rule = Arc::clone(descriptor);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_of_all_results_are_shortened_and_not_shared() {
        let long = |end: &str| Finding::sample(&format!("{}{end}", "x".repeat(1_300_000)));
        let ways: [fn(Finding) -> ObjectFindings; 4] = [
            ObjectFindings::unfinished,
            |finding| {
                let mut results = ObjectFindings::default();
                results.push(finding);
                results
            },
            |finding| {
                let mut results = ObjectFindings::default();
                results.extend(vec![finding]);
                results
            },
            |finding| {
                let mut results = ObjectFindings::default();
                results.share(vec![finding], &RuleNumbers::default());
                results
            },
        ];
        let kept = ways.map(|way| {
            let results = way(long("a"));
            assert!(!results.can_be_kept());
            results.finish().0
        });
        assert!(kept.iter().all(|findings| findings == &kept[0] && findings[0].message.len() <= texts::MESSAGE_BYTES));
        let mut results = ObjectFindings::default();
        results.extend(vec![Finding::sample("short"), Finding::sample("short")]);
        assert!(results.can_be_kept());
        // Results that differ only after the end of a shortened message are duplicates.
        results.extend(vec![long("a"), long("b")]);
        assert!(!results.can_be_kept());
        assert_eq!(results.finish().0.len(), 2);
    }
}
