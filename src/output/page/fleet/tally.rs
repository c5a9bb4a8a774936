//! Numbers of results, by outcome and severity, and of rules.

use std::ops::AddAssign;

use crate::{
    fleet::clusters::Row,
    model::verdict::{Outcome, Severity},
    output::page::selection::{KINDS, SeverityCounts},
};

/// Returns the index of a severity in an array that has the one of violations without a severity at its end.
pub(super) fn severity_index(severity: Option<Severity>) -> usize {
    severity.map_or(KINDS - 1, |severity| severity as usize)
}

/// The outcomes of results.
const OUTCOMES: usize = 4;
/// The number of [classes](class).
pub(super) const CLASSES: usize = OUTCOMES * KINDS;

/// Returns the class of a result, by its outcome and its severity: the lower, the more urgent, as the page sorts results.
pub(super) fn class(row: &Row) -> usize {
    row.result as usize * KINDS + severity_index(row.severity)
}

/// Numbers of results and changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResultCounts {
    /// Results by [class].
    pub(super) classes: [usize; CLASSES],
    /// Objects with violations or errors.
    pub(super) failing_objects: usize,
    /// New violations.
    pub(super) new: usize,
    /// New violations that are critical or high.
    pub(super) severe: usize,
    /// Resolved violations.
    pub(super) resolved: usize,
    /// When the latest change was, in seconds since 1970.
    pub(super) changed: u32,
}

impl ResultCounts {
    /// Returns the number of results with an outcome.
    pub(super) fn outcome(&self, outcome: Outcome) -> usize {
        let first = outcome as usize * KINDS;
        self.classes[first..first + KINDS].iter().sum()
    }

    /// Returns the numbers of violations by severity.
    pub(super) fn severities(&self) -> SeverityCounts {
        let of = |outcome: Outcome, severity: usize| self.classes[outcome as usize * KINDS + severity];
        SeverityCounts::new(std::array::from_fn(|severity| of(Outcome::Fail, severity) + of(Outcome::Warn, severity)))
    }

    /// Returns the number of violations.
    pub(super) fn violations(&self) -> usize {
        self.outcome(Outcome::Fail) + self.outcome(Outcome::Warn)
    }

    /// Returns the number of results.
    pub(super) fn results(&self) -> usize {
        self.classes.iter().sum()
    }

    /// Whether there are neither results nor changes.
    pub(super) fn is_empty(&self) -> bool {
        self.results() == 0 && self.resolved == 0
    }
}

impl AddAssign<&Self> for ResultCounts {
    fn add_assign(&mut self, other: &Self) {
        self.classes.iter_mut().zip(other.classes).for_each(|(sum, count)| *sum += count);
        self.failing_objects += other.failing_objects;
        self.new += other.new;
        self.severe += other.severe;
        self.resolved += other.resolved;
        self.changed = self.changed.max(other.changed);
    }
}

/// The numbers of a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleTally {
    /// Objects with violations.
    pub(super) failing: usize,
    /// Clusters with violations.
    pub(super) clusters: usize,
    pub(super) excused: usize,
    pub(super) errors: usize,
    /// Violations by severity.
    severities: [usize; KINDS],
    /// The part and the object that were counted last: all results of an object are in a row.
    last_object: Option<(usize, u32)>,
}

impl RuleTally {
    /// Returns the severity of its most severe violation.
    pub(super) fn severity(&self) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| self.severities[severity_index(Some(*severity))] > 0)
    }

    pub(super) fn count(&mut self, row: &Row, part: usize) {
        match row.result {
            Outcome::Skip => self.excused += 1,
            Outcome::Error => self.errors += 1,
            Outcome::Fail | Outcome::Warn => {
                self.severities[severity_index(row.severity)] += 1;
                if self.last_object != Some((part, row.object)) {
                    self.last_object = Some((part, row.object));
                    self.failing += 1;
                }
                self.clusters = 1;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.failing == 0 && self.excused == 0 && self.errors == 0
    }
}

impl AddAssign<&Self> for RuleTally {
    fn add_assign(&mut self, other: &Self) {
        self.failing += other.failing;
        self.clusters += other.clusters;
        self.excused += other.excused;
        self.errors += other.errors;
        self.severities.iter_mut().zip(other.severities).for_each(|(sum, count)| *sum += count);
    }
}
