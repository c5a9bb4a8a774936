//! Index of Constraints by the kinds that they can match, so that objects of other kinds cost nothing.

use std::collections::{BTreeSet, HashMap};

use super::unit::Unit;
use crate::model::object::Kind;

/// The Constraints of all units, by the kinds that they can match.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConstraintIndex {
    /// Index of the unit and of the Constraint in it, by name of the kind.
    by_kind: HashMap<String, Vec<(usize, usize)>>,
    /// Constraints that are not limited to kinds.
    any: Vec<(usize, usize)>,
}

impl ConstraintIndex {
    pub(crate) fn new(units: &[Unit]) -> Self {
        let mut index = Self::default();
        for (unit, constraints) in units.iter().map(Unit::constraints).enumerate() {
            for (constraint_index, constraint) in constraints.iter().enumerate() {
                match constraint.matching.kind_names() {
                    Some(names) => names.into_iter().collect::<BTreeSet<_>>().into_iter().for_each(|name| {
                        index.by_kind.entry(name.to_owned()).or_default().push((unit, constraint_index));
                    }),
                    None => index.any.push((unit, constraint_index)),
                }
            }
        }
        index
    }

    /// Returns the indexes of unit and Constraint for each Constraint that can match objects of a kind, in order.
    pub(crate) fn candidates(&self, units: &[Unit], kind: &Kind) -> Vec<(usize, usize)> {
        let bound = self.by_kind.get(&kind.kind).into_iter().flatten();
        let allows = |(unit, constraint_index): &&(usize, usize)| {
            units[*unit].constraints()[*constraint_index].matching.allows_kind(&kind.group, &kind.kind)
        };
        let mut found: Vec<_> = bound.chain(&self.any).filter(allows).copied().collect();
        found.sort_unstable();
        found
    }
}
