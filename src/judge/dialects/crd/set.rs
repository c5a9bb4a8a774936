//! The rules of all CRDs of a policy set.

use std::{collections::BTreeMap, sync::Arc};

use super::load::CustomKind;
use crate::model::object::Kind;

/// The kinds with rules of their CRDs.
#[derive(Debug, Clone, Default)]
pub(crate) struct CustomKinds(Arc<Vec<CustomKind>>);

impl CustomKinds {
    pub(crate) fn new(kinds: Vec<CustomKind>) -> Self {
        Self(Arc::new(kinds))
    }

    /// Returns the rules for a kind.
    pub(crate) fn of(&self, kind: &Kind) -> Option<&CustomKind> {
        self.0.iter().find(|custom| kind.is(&custom.group, &custom.kind))
    }

    /// Returns the kind that a rule is about, by the names of its policy and of the rule.
    pub(crate) fn named(&self, policy: &str, rule: &str) -> Option<&CustomKind> {
        let custom = self.0.iter().find(|custom| *custom.name == *policy)?;
        custom.rules.iter().any(|own| *own.name == *rule).then_some(custom)
    }

    /// Returns the kinds, by group and name.
    pub(crate) fn by_group(&self) -> BTreeMap<&str, Vec<&CustomKind>> {
        let mut groups: BTreeMap<&str, Vec<&CustomKind>> = BTreeMap::new();
        for custom in &*self.0 {
            groups.entry(&custom.group).or_default().push(custom);
        }
        groups
    }
}
