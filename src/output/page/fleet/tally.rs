//! Numbers of results, by outcome and severity, and of rules.

use std::ops::AddAssign;

use crate::{
    fleet::clusters::ResultRow,
    model::verdict::{Outcome, Severity},
    output::page::selection::SeverityCounts,
};

/// The outcomes of results.
const OUTCOMES: usize = 4;
/// The number of [classes](class).
pub(super) const CLASSES: usize = OUTCOMES * Severity::INDICES;

/// Returns the class of a result, by its outcome and its severity: the lower, the more urgent, as the page sorts results.
pub(super) fn class(row: &ResultRow) -> usize {
    row.result as usize * Severity::INDICES + Severity::index(row.severity)
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
        let first = outcome as usize * Severity::INDICES;
        self.classes[first..first + Severity::INDICES].iter().sum()
    }

    /// Returns the numbers of violations by severity.
    pub(super) fn severities(&self) -> SeverityCounts {
        let of = |outcome: Outcome, severity: usize| self.classes[outcome as usize * Severity::INDICES + severity];
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
pub(super) struct FleetRuleTally {
    /// Objects with violations.
    pub(super) failing: usize,
    /// Clusters with violations.
    pub(super) clusters: usize,
    pub(super) excused: usize,
    pub(super) errors: usize,
    /// Violations by severity.
    severities: [usize; Severity::INDICES],
    /// The part and the object that were counted last: all results of an object are in a row.
    last_object: Option<(usize, u32)>,
}

impl FleetRuleTally {
    /// Returns the severity of its most severe violation.
    pub(super) fn severity(&self) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| self.severities[Severity::index(Some(*severity))] > 0)
    }

    pub(super) fn count(&mut self, row: &ResultRow, part: usize) {
        match row.result {
            Outcome::Skip => self.excused += 1,
            Outcome::Error => self.errors += 1,
            Outcome::Fail | Outcome::Warn => {
                self.severities[Severity::index(row.severity)] += 1;
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

impl AddAssign<&Self> for FleetRuleTally {
    fn add_assign(&mut self, other: &Self) {
        self.failing += other.failing;
        self.clusters += other.clusters;
        self.excused += other.excused;
        self.errors += other.errors;
        self.severities.iter_mut().zip(other.severities).for_each(|(sum, count)| *sum += count);
    }
}
