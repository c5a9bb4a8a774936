//! The modules of a unit, as they are walked.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Module, Ref, Rule};

use super::regorus_nodes::{aliases, head_path, package};
use crate::rego::{
    graph::Graph,
    references::{Node, Path},
};

/// The modules of a unit and what their names mean.
pub(crate) struct Rules<'a> {
    pub(super) modules: &'a [Ref<Module>],
    pub(super) graph: &'a Graph<'a>,
    pub(super) names: BTreeMap<Path, BTreeSet<String>>,
    pub(super) aliases: Vec<BTreeMap<String, Path>>,
    pub(super) packages: Vec<Path>,
    /// Whether a builtin that fails is an error.
    pub(super) strict: bool,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(modules: &'a [Ref<Module>], graph: &'a Graph<'a>, strict: bool) -> Self {
        let packages: Vec<Path> = modules.iter().map(|module| package(module)).collect();
        let mut names: BTreeMap<Path, BTreeSet<String>> = BTreeMap::new();
        for (module, package) in modules.iter().zip(&packages) {
            let names = names.entry(package.clone()).or_default();
            names.extend(module.policy.iter().filter_map(|rule| head_path(rule).0.into_iter().next()));
        }
        Self {
            modules,
            graph,
            names,
            aliases: modules.iter().map(|module| aliases(module)).collect(),
            packages,
            strict,
        }
    }

    pub(super) fn rule(&self, node: &Node) -> &'a Rule {
        &self.modules[node.module].policy[node.rule]
    }
}
