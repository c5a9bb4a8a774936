//! A rule in Kubescape's layout that is compiled: what it is given, and the controls that its results count for.

use std::sync::Arc;

use super::arrays::Aggregator;
use crate::judge::resource_match::ResourceMatch;
use crate::{
    judge::rule::{Rule, RuleDescriptors},
    model::object::Kind,
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
    /// Which objects it gets in one array.
    pub(crate) input: RuleInput,
}

/// Which objects a rule gets in one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleInput {
    /// One alone, as the rule relates no two of them.
    One,
    /// Those of a namespace, and those of the cluster.
    Namespace,
    /// All.
    Cluster,
}

/// A rule as one of its controls has it.
#[derive(Debug, Clone)]
pub(crate) struct ControlRule {
    /// The id of the control; the name of the rule if no control names it.
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Rule,
    /// What its results have in common.
    pub(crate) descriptors: RuleDescriptors,
}

impl KubescapeRule {
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
