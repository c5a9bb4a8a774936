//! The inputs that a verdict depends on besides the object: a change of one of them requires another evaluation.

use std::{
    collections::BTreeSet,
    ops::{BitAnd, BitOr},
};

use crate::rego::analysis::{
    builtins::is_impure,
    graph::Graph,
    references::{Node, Path},
};

/// Inputs of policies other than the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the four are independent of each other")]
pub struct Dependencies {
    /// Other objects: `data.inventory` (Gatekeeper) or `data.kubernetes` (kube-mgmt).
    pub inventory: bool,
    /// The object's Namespace: `namespaceSelector` of a Constraint, `input.review.namespaceObject`.
    pub namespace: bool,
    /// The time or randomness: `time.now_ns`, `uuid.rfc4122`.
    pub clock: bool,
    /// The transition of the object: `oldObject` or `operation` of a review.
    pub transition: bool,
}

impl Dependencies {
    /// Whether a verdict depends on the evaluated object alone: on its present state, or on its transition.
    pub fn is_object_alone(self) -> bool {
        !self.inventory && !self.namespace && !self.clock
    }
}

impl BitOr for Dependencies {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            inventory: self.inventory || other.inventory,
            namespace: self.namespace || other.namespace,
            clock: self.clock || other.clock,
            transition: self.transition || other.transition,
        }
    }
}

impl BitAnd for Dependencies {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self {
            inventory: self.inventory && other.inventory,
            namespace: self.namespace && other.namespace,
            clock: self.clock && other.clock,
            transition: self.transition && other.transition,
        }
    }
}

/// The documents below `data` that hold other objects.
pub(crate) const INVENTORIES: [&str; 2] = ["inventory", "kubernetes"];

impl Dependencies {
    /// Returns the dependencies of the rules at these paths and of everything that they use.
    pub(crate) fn of(graph: &Graph<'_>, entrypoints: &BTreeSet<Path>) -> Self {
        let reached = graph.reachable(entrypoints.iter().map(Vec::as_slice));
        let nodes = reached.into_iter().flat_map(|path| graph.at(path));
        nodes.fold(Self::default(), |all, node| all | Self::of_node(graph, node))
    }

    fn of_node(graph: &Graph<'_>, node: &Node) -> Self {
        let review = |path: &&Path| path.first().is_some_and(|key| key == "request" || key == "review");
        let fields = || node.inputs.iter().filter(review).map(|path| path.get(1).map(String::as_str));
        Self {
            inventory: node.uses.iter().any(|path| match path.as_slice() {
                // A reference to all of `data` includes the inventory.
                [] => true,
                // A package may have the same name: `package kubernetes.admission`.
                [key, below @ ..] => {
                    INVENTORIES.contains(&key.as_str()) && (below.is_empty() || graph.covered(path).is_empty())
                }
            }),
            namespace: fields().any(|field| field.is_none_or(|field| field == "namespaceObject")),
            clock: node.calls.iter().any(|call| is_impure(&call.name)),
            transition: fields().flatten().any(|field| field == "oldObject" || field == "operation"),
        }
    }
}
