//! Which input a package expects, found by what it reads of it.

use std::collections::BTreeSet;

use crate::rego::{
    graph::Graph,
    references::{Node, Path},
};

/// Which input policies expect, and how their values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// The input is the object, as for conftest.
    Conftest,
    /// The input is the object; results and kinds are as Trivy's checks have them.
    Trivy,
    /// The input is an admission review: `input.request.object`.
    Admission,
    /// The input is `{review, parameters}`.
    Gatekeeper,
    /// The input is an array of objects, as Kubescape makes it.
    Kubescape,
}

/// In what form rules get an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputForm {
    /// The input is the object.
    Object,
    /// The input is an array of objects.
    Array,
    /// The input has an admission review in this field, and that the object in `object`.
    Review(&'static str),
}

impl Dialect {
    pub(crate) fn input_form(self) -> InputForm {
        match self {
            Self::Conftest | Self::Trivy => InputForm::Object,
            Self::Kubescape => InputForm::Array,
            Self::Admission => InputForm::Review("request"),
            Self::Gatekeeper => InputForm::Review("review"),
        }
    }

    /// Whether rules are evaluated for Constraints and not by themselves.
    pub(crate) fn has_constraints(self) -> bool {
        self == Self::Gatekeeper
    }

    /// Whether rules `exception` of a package list others that are not evaluated, as in conftest.
    pub(crate) fn has_exceptions(self) -> bool {
        matches!(self, Self::Conftest | Self::Admission)
    }
}

/// Shows `conftest`, `trivy`, `admission`, `gatekeeper` or `kubescape`.
impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Conftest => "conftest",
            Self::Trivy => "trivy",
            Self::Admission => "admission",
            Self::Gatekeeper => "gatekeeper",
            Self::Kubescape => "kubescape",
        })
    }
}

/// The parts of the input that some rules read.
#[derive(Default)]
struct InputKeys<'a> {
    keys: BTreeSet<&'a str>,
    /// The input as a whole under another name.
    whole: bool,
}

impl<'a> InputKeys<'a> {
    fn of(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut reads = Self::default();
        for node in nodes {
            reads.whole |= node.whole_input;
            reads.keys.extend(node.inputs.iter().filter_map(|path| path.first()).map(String::as_str));
        }
        reads
    }

    /// Returns the dialect that reads these keys; `None` if any may.
    fn decide(&self) -> Option<Dialect> {
        let reads = |key| self.keys.contains(key);
        // Code that also takes the input as a whole was written for both kinds of input.
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

/// Returns the dialect of a package: what its own rules read decides, and only if that is not conclusive, what the
/// rules read that they use.
pub(crate) fn find(package: &Path, nodes: &[Node], graph: &Graph<'_>, entries: &BTreeSet<Path>) -> Dialect {
    let own = nodes.iter().filter(|node| node.path.starts_with(package) && node.path.len() > package.len());
    let own = InputKeys::of(own.filter(|node| !node.is_test()));
    if let Some(dialect) = own.decide().filter(|_| !own.whole) {
        return dialect;
    }
    let reached = graph.reachable(entries.iter().map(Vec::as_slice));
    let all = InputKeys::of(reached.into_iter().flat_map(|path| graph.at(path)));
    all.decide().unwrap_or(Dialect::Conftest)
}
