//! What there is to know of a dialect of policies. Each describes itself in its own folder.

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

/// Which input policies expect, and how their values are read.
#[derive(Clone, Copy)]
pub struct Dialect(pub(crate) &'static DialectDescription);

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

/// The annotations of one module.
pub(crate) type Annotations = Vec<(AnnotationScope, Metadata)>;

/// Packages, each with the kinds that its rules are for; `None` where no rule of it judges.
pub(crate) type PackageKinds = BTreeMap<Path, Option<RuleKinds>>;

/// Returns what is wrong with modules, given their files and nodes.
pub(crate) type CheckModules = fn(&[&File], &[&Module], &[Node]) -> Vec<Problem>;

/// What distinguishes a dialect from the others.
pub struct DialectDescription {
    /// What users see.
    pub(crate) name: &'static str,
    pub(crate) input: InputForm,
    /// Reads the value of a rule.
    pub(crate) findings: fn(&Entrypoint, &Value) -> Vec<Finding>,
    /// Whether every value but an empty set is a result, also `false`.
    pub(crate) any_value_is_result: bool,
    /// Returns what the results of a rule with this name count as; `None` for a rule that does not judge.
    pub(crate) outcome: fn(&str) -> Option<Outcome>,
    /// Whether rules `exception` of a package list others that are not evaluated, as in conftest.
    pub(crate) has_exceptions: bool,
    /// Whether rules are evaluated for Constraints and not by themselves.
    pub(crate) has_constraints: bool,
    /// Whether packages that read so of the input are of this dialect.
    pub(crate) is_read_as: fn(&InputKeys<'_>) -> bool,
    /// Finds the packages that are of this dialect whatever they read, by the annotations of each module, or by what they call.
    pub(crate) packages: fn(&[&Module], &[Annotations], &Graph<'_>) -> PackageKinds,
    /// Reads the METADATA of a package that a module holds in rules.
    pub(crate) metadata_in_rules: fn(&Module) -> Option<Metadata>,
    /// Which rule judges, if modules are a unit by themselves.
    pub(crate) single: Option<SingleRule>,
    /// Finds what else is wrong with such modules.
    pub(crate) check: CheckModules,
}

/// The rule that judges of modules that are a unit by themselves.
pub(crate) struct SingleRule {
    /// Its package has a single part.
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
    /// Whether the only set of the package may have another name.
    pub(crate) or_only_set: bool,
}

impl DialectDescription {
    /// Describes a dialect that is found in no way, whose rules judge by no name.
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

/// Shows the name.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The parts of the input that some rules read.
#[derive(Default)]
pub(crate) struct InputKeys<'a> {
    keys: BTreeSet<&'a str>,
    /// Whether they take the input as a whole under another name.
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

    /// Whether this key is the only one.
    pub(crate) fn are_only(&self, key: &str) -> bool {
        self.keys.len() == 1 && self.contains(key) && !self.whole
    }

    /// Whether they read nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && !self.whole
    }
}
