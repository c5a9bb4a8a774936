//! Limits of evaluation.

use std::time::Instant;

use crate::{cost, error::EvalError};

/// The number of steps between two looks at the clock.
const STEPS: u32 = 4096;

/// The cost that the expressions of a policy may still have for an object, and a deadline.
#[derive(Debug, Clone)]
pub struct Budget {
    limit: u64,
    spent: u64,
    deadline: Option<Instant>,
}

impl Default for Budget {
    /// Returns the API server's limit for one policy and object.
    fn default() -> Self {
        Self::new(cost::PER_POLICY)
    }
}

impl Budget {
    /// Returns a budget with this limit.
    pub fn new(limit: u64) -> Self {
        Self { limit, spent: 0, deadline: None }
    }

    /// Returns a budget that also ends at a point in time.
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Returns the cost of the evaluations so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Adds the cost of an evaluation.
    ///
    /// # Errors
    /// If the limit is exceeded.
    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::OutOfBudget) } else { Ok(()) }
    }
}

/// Counts the cost of one expression.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    steps: u32,
    deadline: Option<Instant>,
}

impl Meter {
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        Self { cost: 0, steps: 0, deadline }
    }

    /// Returns a meter for a variable, which has a limit of its own.
    pub(crate) fn for_variable(&self) -> Self {
        Self::new(self.deadline)
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds the cost of several steps of one unit each, of which the first one over the limit is the last.
    ///
    /// # Errors
    /// As [`Self::charge`].
    pub(crate) fn charge_units(&mut self, units: u64) -> Result<(), EvalError> {
        let left = (cost::PER_EXPRESSION + 1).saturating_sub(self.cost);
        self.charge(units.min(left))
    }

    /// Adds a cost.
    ///
    /// # Errors
    /// If the limit of one expression is exceeded, or the deadline has passed.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.wrapping_add(cost);
        if self.cost > cost::PER_EXPRESSION {
            return Err(EvalError::CostLimit);
        }
        self.work(1)
    }

    /// Whether a cost exceeds the limit of one expression.
    pub(crate) fn allows(&self, cost: u64) -> bool {
        self.cost.wrapping_add(cost) <= cost::PER_EXPRESSION
    }

    /// Counts steps that have no cost.
    ///
    /// # Errors
    /// If the deadline has passed.
    pub(crate) fn work(&mut self, steps: usize) -> Result<(), EvalError> {
        self.steps = self.steps.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        if self.steps >= STEPS {
            self.steps = 0;
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(EvalError::Deadline);
            }
        }
        Ok(())
    }
}
