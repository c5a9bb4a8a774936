//! Counts of the objects that a rule applies to, by outcome.

use std::{fmt, ops::AddAssign};

use serde::{Deserialize, Serialize};

use super::verdict::Outcome;

/// How many objects a rule applies to: those of its kinds that it matches. Objects whose results an owner covers are
/// not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// All of them.
    pub applicable: usize,
    /// Those with a violation that is not excused.
    pub failing: usize,
    /// Those whose violations are all excused.
    pub excused: usize,
    /// Those on which the rule could not be evaluated.
    pub error: usize,
}

impl RuleCounts {
    /// Returns the number of objects for which the rule has no result.
    pub fn pass(&self) -> usize {
        self.applicable.saturating_sub(self.failing + self.excused + self.error)
    }

    /// Returns the count of objects with this outcome.
    pub fn of(&mut self, outcome: ObjectOutcome) -> &mut usize {
        match outcome {
            ObjectOutcome::Excused => &mut self.excused,
            ObjectOutcome::Error => &mut self.error,
            ObjectOutcome::Failing => &mut self.failing,
        }
    }

    /// Replaces the counts of objects with results; `outcomes` has one item for each such object.
    pub fn count(&mut self, outcomes: impl IntoIterator<Item = ObjectOutcome>) {
        (self.failing, self.excused, self.error) = (0, 0, 0);
        outcomes.into_iter().for_each(|outcome| *self.of(outcome) += 1);
    }
}

/// Adds the counts of other objects.
impl AddAssign for RuleCounts {
    fn add_assign(&mut self, other: Self) {
        self.applicable += other.applicable;
        self.failing += other.failing;
        self.excused += other.excused;
        self.error += other.error;
    }
}

/// Shows the counts for users: `1 of 6 objects, 2 excused`.
impl fmt::Display for RuleCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = if self.applicable == 1 { "object" } else { "objects" };
        write!(f, "{} of {} {objects}", self.failing, self.applicable)?;
        for (count, label) in [(self.excused, "excused"), (self.error, "not evaluated")] {
            if count > 0 {
                write!(f, ", {count} {label}")?;
            }
        }
        Ok(())
    }
}

/// The worst result of a rule for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectOutcome {
    /// Its violations are excused.
    Excused,
    /// The rule could not be evaluated.
    Error,
    /// It has a violation that is not excused.
    Failing,
}

impl From<Outcome> for ObjectOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Skip => Self::Excused,
            Outcome::Error => Self::Error,
            Outcome::Fail | Outcome::Warn => Self::Failing,
        }
    }
}
