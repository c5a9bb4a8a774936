//! How statements and definitions end, and what the definitions of a rule give together.

use std::collections::BTreeMap;

use super::possible::Possible;
use crate::rego::analysis::resolved::{Outcome, ResolvedRule, Variable};

/// How a statement or body ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// It fails, whatever the object holds.
    #[default]
    No,
    Maybe,
    /// It succeeds, whatever the object holds.
    Yes,
}

impl Certainty {
    /// Returns how something ends that succeeds for sure if it is `sure`.
    pub(super) fn of(sure: bool) -> Self {
        if sure { Self::Yes } else { Self::Maybe }
    }

    /// Returns how the negation ends.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }
}

/// Returns how a statement with this value ends.
pub(super) fn certain(value: &Possible) -> Certainty {
    if value.is_false() { Certainty::No } else { Certainty::of(value.is_true()) }
}

/// The solutions of a body.
#[derive(Default)]
pub(super) struct Solutions {
    pub(super) outcome: Certainty,
    /// What its term may be.
    pub(super) value: Possible,
    /// What it iterates over: for each loop the variable that gets the keys, if one does.
    pub(super) loops: Vec<Option<Variable>>,
}

impl Solutions {
    /// Whether there may be more than one.
    pub(super) fn are_several(&self) -> bool {
        self.outcome != Certainty::No && !self.loops.is_empty()
    }
}

/// What the definitions of a rule have contributed so far.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) value: Possible,
    /// The number of definitions that may give it a value where only one is allowed.
    pub(super) complete: usize,
    /// The number of those that may give it elements.
    pub(super) elements: usize,
    /// Whether one of them may give several values.
    pub(super) several: bool,
    /// Whether there is a value for sure.
    pub(super) sure: bool,
}

impl Definitions {
    /// Adds a definition of the rule at a path of so many keys.
    pub(super) fn add(&mut self, rule: &ResolvedRule, length: usize, (outcome, value): (Certainty, Possible)) {
        let is_set = matches!(rule.result, Outcome::Element(_));
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
