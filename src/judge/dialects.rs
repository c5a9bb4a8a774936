//! The dialects: each has a folder with its description and all code that only it needs.

pub(crate) mod admission;
pub(crate) mod cel;
pub(crate) mod conftest;
pub(crate) mod crd;
pub mod gatekeeper;
pub(crate) mod kubescape;
pub(crate) mod kyverno;
#[cfg(test)]
mod toy;
pub mod trivy;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    dialect::{Annotations, Dialect, InputKeys},
    metadata::Metadata,
    rule_kinds::RuleKinds,
};
use crate::rego::analysis::{
    graph::Graph,
    references::{Node, Path},
    syntax::Module,
};

/// All dialects. If several may read the same input, the first one is chosen.
pub(crate) static ALL: &[Dialect] = &[
    trivy::DIALECT,
    kubescape::DIALECT,
    gatekeeper::DIALECT,
    admission::DIALECT,
    conftest::DIALECT,
    cel::DIALECT,
    kyverno::DIALECT,
    crd::DIALECT,
    #[cfg(test)]
    toy::DIALECT,
];

/// Packages whose dialect is determined by more than the input that they read, with the kinds that their rules apply
/// to; `None` if no rule is evaluated.
pub(crate) type KnownPackages = BTreeMap<Path, (Dialect, Option<RuleKinds>)>;

/// Finds the packages whose dialect is determined by their annotations or calls.
pub(crate) fn packages(modules: &[&Module], annotations: &[Annotations], graph: &Graph<'_>) -> KnownPackages {
    let of = |dialect: &'static Dialect| {
        let found = (dialect.packages)(modules, annotations, graph).into_iter();
        found.map(|(package, kinds)| (package, (*dialect, kinds)))
    };
    ALL.iter().flat_map(of).collect()
}

/// Reads the METADATA of a package that a module declares as rules, in the form of any dialect.
pub(crate) fn metadata_in_rules(module: &Module) -> Option<Metadata> {
    ALL.iter().find_map(|dialect| (dialect.metadata_in_rules)(module))
}

/// Returns the dialect of a package, by the keys of the input that its own rules read; if these are not conclusive,
/// also by those that the rules used by them read.
pub(crate) fn find(package: &Path, nodes: &[Node], graph: &Graph<'_>, entries: &BTreeSet<Path>) -> Dialect {
    let decide = |keys: &InputKeys<'_>| ALL.iter().find(|dialect| (dialect.is_read_as)(keys)).copied();
    let own = nodes.iter().filter(|node| node.path.starts_with(package) && node.path.len() > package.len());
    let own = InputKeys::of(own.filter(|node| !node.is_test()));
    if let Some(dialect) = decide(&own).filter(|_| !own.whole) {
        return dialect;
    }
    let reached = graph.reachable(entries.iter().map(Vec::as_slice));
    let all = InputKeys::of(reached.into_iter().flat_map(|path| graph.at(path)));
    decide(&all).unwrap_or(conftest::DIALECT)
}
