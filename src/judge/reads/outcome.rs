//! The outcomes of statements and definitions, and the combined value of a rule's definitions.

use std::collections::BTreeMap;

use super::possible::Possible;
use crate::rego::analysis::resolved::{ResolvedResult, ResolvedRule, Variable};

/// The outcome of a statement or body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// It fails for every object.
    #[default]
    No,
    Maybe,
    /// It succeeds for every object.
    Yes,
}

impl Certainty {
    /// Returns `Yes` if `sure`, else `Maybe`.
    pub(super) fn of(sure: bool) -> Self {
        if sure { Self::Yes } else { Self::Maybe }
    }

    /// Returns the outcome of the negation.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }
}

/// Returns the outcome of a statement with this value.
pub(super) fn certain(value: &Possible) -> Certainty {
    if value.is_false() { Certainty::No } else { Certainty::of(value.is_true()) }
}

/// The solutions of a body.
#[derive(Default)]
pub(super) struct Solutions {
    pub(super) outcome: Certainty,
    /// The possible values of its term.
    pub(super) value: Possible,
    /// Its loops: for each, the variable bound to the keys, if any.
    pub(super) loops: Vec<Option<Variable>>,
}

impl Solutions {
    /// Whether there may be more than one.
    pub(super) fn are_several(&self) -> bool {
        self.outcome != Certainty::No && !self.loops.is_empty()
    }
}

/// The contributions of a rule's definitions so far.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) value: Possible,
    /// The number of definitions that may define a complete value, of which only one is allowed.
    pub(super) complete: usize,
    /// The number of definitions that may add elements.
    pub(super) elements: usize,
    /// Whether one of them may have several values.
    pub(super) several: bool,
    /// Whether the rule is certainly defined.
    pub(super) sure: bool,
}

impl Definitions {
    /// Adds a definition of the rule whose path has `length` keys.
    pub(super) fn add(&mut self, rule: &ResolvedRule, length: usize, (outcome, value): (Certainty, Possible)) {
        let is_set = matches!(rule.result, ResolvedResult::Element(_));
        // A partial set or object exists, even if it is empty.
        let empty = if rule.path.len() > length {
            Some(Possible { fields: Some(BTreeMap::new()), ..Possible::default() })
        } else {
            is_set.then(|| Possible::set(Possible::default(), true))
        };
        self.sure |= empty.is_some() || outcome == Certainty::Yes;
        self.value.join(empty.unwrap_or_default());
        if outcome != Certainty::No {
            *(if is_set { &mut self.elements } else { &mut self.complete }) += 1;
            self.value.join(value);
        }
    }
}
