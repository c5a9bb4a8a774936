//! The description of a policy dialect. Each dialect defines its own in its folder.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use regorus::Value;

use super::{
    metadata::{AnnotationScope, Metadata},
    rule::Entrypoint,
    rule_kinds::RuleKinds,
};
use crate::{
    model::verdict::{Finding, Outcome},
    rego::{
        File, Problem,
        analysis::{
            graph::Graph,
            references::{Node, Path},
            syntax::Module,
        },
    },
};

/// A dialect of policies: the input that its rules expect, and how their values are read.
#[derive(Clone, Copy)]
pub struct Dialect(pub(crate) &'static DialectDescription);

/// The form in which rules receive an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputForm {
    /// The input is the object.
    Object,
    /// The input is an array of objects.
    Array,
    /// The input has an admission review in this field, with the object in its field `object`.
    Review(&'static str),
}

/// How the rules of a dialect for Pods apply to workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkloadRules {
    /// Its libraries have rules for workloads wherever these can violate a rule for Pods.
    Own,
    /// Rules for Pods are evaluated on the Pods that workloads would create.
    Expanded,
}

/// The annotations of one module.
pub(crate) type Annotations = Vec<(AnnotationScope, Metadata)>;

/// Packages with the kinds that their rules apply to; `None` if no rule of the package is evaluated.
pub(crate) type PackageKinds = BTreeMap<Path, Option<RuleKinds>>;

/// Returns the problems of modules, given their files and nodes.
pub(crate) type CheckModules = fn(&[&File], &[&Module], &[Node]) -> Vec<Problem>;

/// Everything that distinguishes a dialect from the others.
pub struct DialectDescription {
    /// The name shown to users.
    pub(crate) name: &'static str,
    pub(crate) input: InputForm,
    /// Converts the value of a rule into results.
    pub(crate) findings: fn(&Entrypoint, &Value) -> Vec<Finding>,
    /// Whether every value except an empty set is a result, including `false`.
    pub(crate) any_value_is_result: bool,
    /// Returns the outcome of results of a rule with this name; `None` for a rule that is not an entrypoint.
    pub(crate) outcome: fn(&str) -> Option<Outcome>,
    /// Whether `exception` rules of a package list rules that are not evaluated, as in conftest.
    pub(crate) has_exceptions: bool,
    /// Whether rules are evaluated only for Constraints.
    pub(crate) has_constraints: bool,
    /// How rules for Pods apply to workloads.
    pub(crate) workloads: WorkloadRules,
    /// Whether packages that read these keys of the input are of this dialect.
    pub(crate) is_read_as: fn(&InputKeys<'_>) -> bool,
    /// Finds the packages that belong to this dialect whatever input they read, by the annotations of each module or by
    /// their calls.
    pub(crate) packages: fn(&[&Module], &[Annotations], &Graph<'_>) -> PackageKinds,
    /// Reads the METADATA of a package that a module declares as rules.
    pub(crate) metadata_in_rules: fn(&Module) -> Option<Metadata>,
    /// The entrypoint of modules that are a unit by themselves.
    pub(crate) single: Option<SingleRule>,
    /// Finds further problems of such modules.
    pub(crate) check: CheckModules,
}

/// The entrypoint of modules that are a unit by themselves.
pub(crate) struct SingleRule {
    /// The name of its package, which has a single segment.
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    /// Whether the rule may have another name if it is the only set of the package.
    pub(crate) or_only_set: bool,
}

impl DialectDescription {
    /// Describes a dialect that is never detected and has no entrypoints by name.
    pub(crate) const fn new(
        name: &'static str,
        input: InputForm,
        findings: fn(&Entrypoint, &Value) -> Vec<Finding>,
    ) -> Self {
        Self {
            name,
            input,
            findings,
            any_value_is_result: false,
            outcome: |_| None,
            has_exceptions: false,
            has_constraints: false,
            workloads: WorkloadRules::Expanded,
            is_read_as: |_| false,
            packages: |_, _, _| PackageKinds::new(),
            metadata_in_rules: |_| None,
            single: None,
            check: |_, _, _| Vec::new(),
        }
    }
}

impl std::ops::Deref for Dialect {
    type Target = DialectDescription;

    fn deref(&self) -> &DialectDescription {
        self.0
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Dialect {}

impl PartialOrd for Dialect {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Dialect {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The top-level keys of the input that some rules read.
#[derive(Default)]
pub(crate) struct InputKeys<'a> {
    keys: BTreeSet<&'a str>,
    /// Whether the rules also use the input as a whole.
    pub(crate) whole: bool,
}

impl<'a> InputKeys<'a> {
    pub(crate) fn of(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut reads = Self::default();
        for node in nodes {
            reads.whole |= node.whole_input;
            reads.keys.extend(node.inputs.iter().filter_map(|path| path.first()).map(String::as_str));
        }
        reads
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Whether the rules read this key and no other.
    pub(crate) fn are_only(&self, key: &str) -> bool {
        self.keys.len() == 1 && self.contains(key) && !self.whole
    }

    /// Whether the rules do not read the input.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.whole
    }
}
