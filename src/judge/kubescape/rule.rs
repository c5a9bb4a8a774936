//! A rule in Kubescape's layout that is compiled: what it is given, and the controls that its results count for.

use std::sync::Arc;

use regorus::Value;

use super::{
    matching::ResourceMatch,
    scopes::{Aggregator, Identity, Scopes},
};
use crate::{
    judge::{inventory::Inventory, rule::Rule},
    model::object::{Kind, ObjectKey},
};

/// The package of all rules.
pub(crate) const PACKAGE: &str = "armo_builtins";
/// The rule in it that judges.
pub(crate) const ENTRY: &str = "deny";

/// One rule, with the controls that name it.
#[derive(Debug)]
pub(crate) struct KubescapeRule {
    /// `match` of its metadata.
    pub(crate) matching: Vec<ResourceMatch>,
    /// How the objects are put together before the rule gets them.
    pub(crate) aggregator: Option<Aggregator>,
    /// What each of its results counts for.
    pub(crate) controls: Vec<ControlRule>,
    /// The objects that it is given all at once; `None` if it gets one at a time, as it relates no two of them.
    pub(crate) scopes: Option<Scopes>,
}

/// A rule as one of its controls has it.
#[derive(Debug, Clone)]
pub(crate) struct ControlRule {
    /// The id of the control; the name of the rule if no control names it.
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Rule,
}

impl KubescapeRule {
    /// Returns the rule with these objects; `None` for one that gets one at a time.
    pub(crate) fn with_inventory(&self, inventory: &Inventory) -> Option<Self> {
        let scopes = Some(self.scopes.as_ref()?.with_inventory(inventory));
        let (matching, controls) = (self.matching.clone(), self.controls.clone());
        Some(Self { matching, controls, scopes, aggregator: self.aggregator })
    }

    /// Returns the arrays that the rule gets with an object; none if it gets the object alone.
    pub(crate) fn arrays(&self, key: &ObjectKey, object: &Value) -> Vec<Vec<Value>> {
        let Some((scopes, identity)) = self.scopes.as_ref().zip(Identity::of(object)) else { return Vec::new() };
        let own = scopes.of(key.namespace.as_ref(), &identity);
        own.iter().map(|scope| scopes.input(scope, (&self.matching, self.aggregator)).1).collect()
    }

    /// Whether the rule is about objects of a kind.
    pub(crate) fn matches(&self, kind: &Kind) -> bool {
        self.matching.iter().any(|one| one.matches(kind))
    }

    /// Returns the names of all kinds that it may be about; `None` if it may be any.
    pub(crate) fn kind_names(&self) -> Option<Vec<Arc<str>>> {
        let names = self.matching.iter().map(ResourceMatch::kind_names).collect::<Option<Vec<_>>>();
        names.map(|names| names.concat())
    }

    /// Whether it may be about objects of a kind of this name.
    pub(crate) fn may_match(&self, kind: &str) -> bool {
        self.kind_names().is_none_or(|names| names.iter().any(|name| **name == *kind))
    }
}
