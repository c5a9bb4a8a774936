//! Rules by their position in a unit.

/// A selection of the rules of a unit.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnitSelection {
    /// By group and index of the rule; the indexes of exceptions follow those of entrypoints.
    pub(crate) groups: Vec<Vec<bool>>,
    /// By index of the Constraint.
    pub(crate) constraints: Vec<bool>,
}
