//! Which of the rules are asked: all, or one of the parts into which [sharing](crate::judge::sharing) divides them.

use crate::judge::{sharing::plan::Plan, unit::Group};

/// Some of the rules of a policy set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'p> {
    All,
    /// Those that read transitions.
    Transitions,
    /// Those that are shareable.
    Shared(&'p Plan),
    /// Those that are not.
    Rest(&'p Plan),
}

impl<'p> Part<'p> {
    /// Returns which rules of a group are asked, given its indices.
    pub(super) fn of_group(self, unit: usize, group: usize) -> PartOfGroup<'p> {
        match self {
            Self::All => PartOfGroup::All,
            Self::Transitions => PartOfGroup::Transitions,
            Self::Shared(plan) => PartOfGroup::Shared(&plan.unit(unit).groups[group]),
            Self::Rest(plan) => PartOfGroup::Rest(&plan.unit(unit).groups[group]),
        }
    }

    /// Whether a Constraint is asked, whose template reads transitions or not.
    pub(super) fn has_constraint(self, unit: usize, number: usize, transition: bool) -> bool {
        match self {
            Self::All => true,
            Self::Transitions => transition,
            Self::Shared(plan) => plan.unit(unit).constraints[number],
            Self::Rest(plan) => !plan.unit(unit).constraints[number],
        }
    }
}

/// Some of the rules of a group.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartOfGroup<'p> {
    All,
    Transitions,
    Shared(&'p [bool]),
    Rest(&'p [bool]),
}

impl PartOfGroup<'_> {
    /// Whether one of the group's rules is asked.
    pub(super) fn is_empty(self, group: &Group) -> bool {
        match self {
            Self::All => false,
            Self::Transitions => !group.entrypoints.iter().any(|rule| rule.transition),
            Self::Shared(shared) => !shared.contains(&true),
            Self::Rest(shared) => !shared.contains(&false),
        }
    }

    /// Whether a rule that judges is among them.
    pub(super) fn judges(self, index: usize) -> bool {
        match self {
            Self::All | Self::Transitions => true,
            Self::Shared(shared) => shared[index],
            Self::Rest(shared) => !shared[index],
        }
    }

    /// Whether a rule is asked, if it can have a result; exceptions are counted on behind those that judge.
    pub(super) fn asks(self, group: &Group, index: usize) -> bool {
        match (self, group.entrypoints.get(index)) {
            (Self::Transitions, Some(rule)) => rule.transition,
            // They may be about any of the rules.
            (Self::Rest(_), None) => true,
            _ => self.judges(index),
        }
    }
}
