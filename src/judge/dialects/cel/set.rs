//! All admission policies of a policy set.

use std::{collections::BTreeSet, ops::BitOr, sync::Arc};

use super::{binding::BoundPolicy, lookup::OtherObjects};
use crate::{
    judge::{
        dependencies::Dependencies,
        inventory::Inventory,
        reads::{InventoryReads, ReadTree},
    },
    model::object::Kind,
};

/// The bound admission policies of a policy set.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionPolicies(Arc<Vec<BoundPolicy>>);

impl AdmissionPolicies {
    pub(crate) fn new(bound: Vec<BoundPolicy>) -> Self {
        Self(Arc::new(bound))
    }

    /// Returns the policies that can match objects of a kind.
    pub(crate) fn of<'s>(&'s self, kind: &'s Kind) -> impl Iterator<Item = &'s BoundPolicy> {
        self.0.iter().filter(|bound| bound.allows_kind(kind))
    }

    /// Returns the policy with one of its bindings, by name. Of a policy that Kyverno extends to workloads, the one for
    /// objects of a kind.
    pub(crate) fn named(&self, policy: &str, binding: &str, kind: &Kind) -> Option<&BoundPolicy> {
        let mut named =
            self.0.iter().filter(|bound| *bound.policy.name == *policy && *bound.rule.name == *binding).peekable();
        let first = named.peek().copied();
        named.find(|bound| bound.allows_kind(kind)).or(first)
    }

    /// Returns what results for objects of a kind depend on besides the object.
    pub(crate) fn dependencies(&self, kind: &Kind) -> Dependencies {
        self.of(kind).map(BoundPolicy::dependencies).fold(Dependencies::default(), BitOr::bitor)
    }

    /// Returns the plural names of the resources that policies name.
    pub(crate) fn resources(&self) -> BTreeSet<&str> {
        self.0.iter().filter_map(BoundPolicy::resources).flatten().collect()
    }

    /// Adds the fields that policies read of objects of a resource, and their lookups. `None` is a resource that no policy
    /// names.
    pub(crate) fn add_reads(&self, resource: Option<&str>, object: &mut ReadTree, lookups: &mut InventoryReads) {
        for bound in &*self.0 {
            let is_matched = match (bound.resources(), resource) {
                (None, _) => true,
                (Some(names), Some(resource)) => names.contains(&resource),
                (Some(_), None) => false,
            };
            if is_matched {
                object.merge(&bound.object_reads);
                lookups.merge(&bound.lookups);
            }
        }
    }

    /// Adds the fields that policies read of objects of any resource, and their lookups.
    pub(crate) fn add_all_reads(&self, object: &mut ReadTree, lookups: &mut InventoryReads) {
        for bound in &*self.0 {
            object.merge(&bound.object_reads);
            lookups.merge(&bound.lookups);
        }
    }

    /// Adds all lookups, and the fields that policies read of the objects' Namespaces.
    pub(crate) fn add_others(&self, lookups: &mut InventoryReads, namespace: &mut ReadTree) {
        for bound in &*self.0 {
            lookups.merge(&bound.lookups);
            namespace.merge(&bound.namespace_reads);
        }
    }

    /// Returns the policies with the objects of an inventory, among which they look up others.
    pub(crate) fn with_inventory(&self, inventory: &Inventory) -> Self {
        if self.0.iter().all(|bound| bound.lookups.is_empty()) {
            return self.clone();
        }
        let with_objects = |bound: &BoundPolicy| {
            let looks_up = !bound.lookups.is_empty();
            let others = looks_up.then(|| OtherObjects::new(&bound.lookups, inventory));
            BoundPolicy { others: others.unwrap_or_default(), ..bound.clone() }
        };
        Self::new(self.0.iter().map(with_objects).collect())
    }
}
