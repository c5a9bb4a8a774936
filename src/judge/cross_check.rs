//! Two evaluators, one meaning: now and then a rule that runs as a program is evaluated by regorus, too.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One evaluation in so many is done both ways.
const EVERY: u32 = 256;

/// Whether the program of a unit is trusted. Shared by all that judge by the unit.
#[derive(Debug, Default)]
pub(crate) struct CrossCheck {
    evaluations: AtomicU32,
    differed: AtomicBool,
}

impl CrossCheck {
    /// Counts an evaluation; returns whether it is to be done both ways.
    pub(crate) fn is_due(&self) -> bool {
        self.evaluations.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
    }

    /// Whether no evaluation differed so far.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.differed.load(Ordering::Relaxed)
    }

    /// From now on regorus evaluates all.
    pub(crate) fn distrust(&self) {
        self.differed.store(true, Ordering::Relaxed);
    }
}
