//! Selects the rules to evaluate: all, or one of the parts into which [sharing](crate::judge::sharing) divides them.

use crate::judge::{sharing::plan::SharingPlan, unit::Group, unit_selection::UnitSelection};

/// A selection of the rules of a policy set.
#[derive(Debug, Clone, Copy)]
pub(super) enum RulePart<'p> {
    All,
    /// Rules that read transitions.
    Transitions,
    /// Shareable rules.
    Shared(&'p SharingPlan),
    /// Rules that are not shareable.
    Rest(&'p SharingPlan),
    /// These rules of each unit.
    Selected(&'p [UnitSelection]),
}

impl<'p> RulePart<'p> {
    /// Returns the selected rules of a group, given the indexes of unit and group.
    pub(super) fn of_group(self, unit: usize, group: usize) -> PartOfGroup<'p> {
        match self {
            Self::All => PartOfGroup::All,
            Self::Transitions => PartOfGroup::Transitions,
            Self::Shared(plan) => PartOfGroup::Shared(&plan.unit(unit).groups[group]),
            Self::Rest(plan) => PartOfGroup::Rest(&plan.unit(unit).groups[group]),
            Self::Selected(units) => PartOfGroup::Selected(&units[unit].groups[group]),
        }
    }

    /// Whether a Constraint is selected; `transition` is whether its template reads transitions.
    pub(super) fn has_constraint(self, unit: usize, index: usize, transition: bool) -> bool {
        match self {
            Self::All => true,
            Self::Transitions => transition,
            Self::Shared(plan) => plan.unit(unit).constraints[index],
            Self::Rest(plan) => !plan.unit(unit).constraints[index],
            Self::Selected(units) => units[unit].constraints[index],
        }
    }
}

/// A selection of the rules of a group.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartOfGroup<'p> {
    All,
    Transitions,
    Shared(&'p [bool]),
    Rest(&'p [bool]),
    Selected(&'p [bool]),
}

impl PartOfGroup<'_> {
    /// Whether no rule of the group is selected.
    pub(super) fn is_empty(self, group: &Group) -> bool {
        match self {
            Self::All => false,
            Self::Transitions => !group.entrypoints.iter().any(|rule| rule.transition),
            Self::Shared(selected) | Self::Selected(selected) => !selected.contains(&true),
            Self::Rest(shared) => !shared.contains(&false),
        }
    }

    /// Whether an entrypoint rule is selected.
    pub(super) fn has_entrypoint(self, index: usize) -> bool {
        match self {
            Self::All | Self::Transitions => true,
            Self::Shared(selected) | Self::Selected(selected) => selected[index],
            Self::Rest(shared) => !shared[index],
        }
    }

    /// Whether a rule is evaluated if it can have a result; the indexes of exceptions follow those of entrypoints.
    pub(super) fn evaluates(self, group: &Group, index: usize) -> bool {
        match (self, group.entrypoints.get(index)) {
            (Self::Transitions, Some(rule)) => rule.transition,
            // Exceptions may apply to any of the rules.
            (Self::Rest(_), None) => true,
            _ => self.has_entrypoint(index),
        }
    }
}
