//! What a package expects as its input, found by what it reads of it.

use std::collections::BTreeSet;

use crate::rego::{
    graph::Graph,
    references::{Node, Path},
};

/// How policies of one family are fed and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// The input is the object.
    Conftest,
    /// The input is an admission review: `input.request.object`.
    Admission,
    /// The input is `{review, parameters}`.
    Gatekeeper,
}

/// Shows `conftest`, `admission` or `gatekeeper`.
impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Conftest => "conftest",
            Self::Admission => "admission",
            Self::Gatekeeper => "gatekeeper",
        })
    }
}

/// What some rules read of the input.
#[derive(Default)]
struct Reads<'a> {
    keys: BTreeSet<&'a str>,
    /// The input as a whole under another name.
    whole: bool,
}

impl<'a> Reads<'a> {
    fn of(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut reads = Self::default();
        for node in nodes {
            reads.whole |= node.whole_input;
            reads.keys.extend(node.inputs.iter().filter_map(|path| path.first()).map(String::as_str));
        }
        reads
    }

    /// Returns the dialect that these reads decide; `None` if they decide nothing.
    fn decide(&self) -> Option<Dialect> {
        let reads = |key| self.keys.contains(key);
        // Code that also takes the input as it is was written for both worlds.
        if reads("review") && !self.whole {
            Some(Dialect::Gatekeeper)
        } else if reads("request") {
            Some(Dialect::Admission)
        // `parameters` is also a field of StorageClass, next to `kind`.
        } else if reads("parameters") && self.keys.len() == 1 && !self.whole {
            Some(Dialect::Gatekeeper)
        } else {
            (!self.keys.is_empty() || self.whole).then_some(Dialect::Conftest)
        }
    }
}

/// Returns the dialect of a package: what its own rules read decides, and only if they read nothing telling, what the
/// rules read that they use.
pub(crate) fn find(package: &Path, nodes: &[Node], graph: &Graph<'_>, entries: &BTreeSet<Path>) -> Dialect {
    let own = nodes.iter().filter(|node| node.path.starts_with(package) && node.path.len() > package.len());
    let own = Reads::of(own.filter(|node| !node.is_test(package.len())));
    if let Some(dialect) = own.decide().filter(|_| !own.whole) {
        return dialect;
    }
    let reached = graph.reachable(entries.iter().map(Vec::as_slice));
    let all = Reads::of(reached.into_iter().flat_map(|path| graph.at(path)));
    all.decide().unwrap_or(Dialect::Conftest)
}
