//! A compiled rule in Kubescape's layout: its input, and the controls that use its results.

use std::sync::Arc;

use super::arrays::Aggregator;
use crate::judge::resource_match::ResourceMatch;
use crate::{
    judge::rule::{Rule, RuleDescriptors},
    model::object::Kind,
};

/// The package of all rules.
pub(crate) const PACKAGE: &str = "armo_builtins";
/// The entrypoint of the package.
pub(crate) const ENTRY: &str = "deny";

/// One rule, with the controls that use it.
#[derive(Debug)]
pub(crate) struct KubescapeRule {
    /// `match` of its metadata.
    pub(crate) matching: Vec<ResourceMatch>,
    /// How the objects are aggregated to the rule's input.
    pub(crate) aggregator: Option<Aggregator>,
    /// The controls that each of its results is reported for.
    pub(crate) controls: Vec<ControlRule>,
    /// The objects that one array contains.
    pub(crate) input: RuleInput,
}

/// The objects that one array of a rule contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleInput {
    /// A single object, as the rule does not relate objects.
    One,
    /// The objects of a namespace, and the cluster-scoped ones.
    Namespace,
    /// All objects.
    Cluster,
}

/// A rule in the context of one of its controls.
#[derive(Debug, Clone)]
pub(crate) struct ControlRule {
    /// The id of the control; the name of the rule if no control uses it.
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Rule,
    /// The parts that its results share.
    pub(crate) descriptors: RuleDescriptors,
}

impl KubescapeRule {
    /// Whether the rule applies to objects of a kind.
    pub(crate) fn matches(&self, kind: &Kind) -> bool {
        self.matching.iter().any(|one| one.matches(kind))
    }

    /// Returns the names of all kinds that it may apply to; `None` if it may be any.
    pub(crate) fn kind_names(&self) -> Option<Vec<Arc<str>>> {
        let names = self.matching.iter().map(ResourceMatch::kind_names).collect::<Option<Vec<_>>>();
        names.map(|names| names.concat())
    }

    /// Whether it may apply to objects of a kind with this name.
    pub(crate) fn may_match(&self, kind: &str) -> bool {
        self.kind_names().is_none_or(|names| names.iter().any(|name| **name == *kind))
    }
}
