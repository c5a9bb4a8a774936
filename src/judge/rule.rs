//! Entrypoint rules: their description for users, and the data for their evaluation.

use std::{fmt, sync::Arc};

use regorus::Value;

use super::{excusable::Excusability, metadata::Metadata, rule_kinds::RuleKinds};
use crate::{
    model::{
        rule_numbers::RuleNumber,
        verdict::{Outcome, RuleDescriptor, RuleInfo, Source},
    },
    rego::{SourceLocation, analysis::references::Path},
};

/// One entrypoint rule, or one Constraint.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name of the rule's head, e.g. `deny_latest`, or of the Constraint.
    pub name: Arc<str>,
    /// The number that identifies the policy and the rule.
    pub number: RuleNumber,
    /// The outcome of its results.
    pub outcome: Outcome,
    /// The annotations of its first definition, merged with those of document and package.
    pub metadata: Arc<Metadata>,
    /// The start of its first definition.
    pub source: Source,
    /// The source text of its definitions; for a Constraint, those of its template.
    pub texts: Vec<RuleText>,
    /// Whether a namespace may excuse its violations; set after all policies are loaded.
    pub excusable: Excusability,
}

/// The source text of a rule's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// The position of its start.
    pub source: Source,
    /// Its lines.
    pub text: Arc<str>,
}

/// The descriptors of a rule's results: for the rule as a whole, and for each of its definitions.
#[derive(Debug, Clone)]
pub(crate) struct RuleDescriptors {
    pub(crate) rule: Arc<RuleDescriptor>,
    pub(crate) definitions: Vec<Arc<RuleDescriptor>>,
}

impl RuleDescriptors {
    /// Describes the results of a rule by its source and METADATA, and by those of its definitions. The values of
    /// `nearer`, e.g. of a Constraint, take precedence over both.
    pub(crate) fn new<'d>(
        [policy, name]: [&Arc<str>; 2],
        nearer: &Arc<RuleInfo>,
        rule: (&Source, &Metadata),
        definitions: impl IntoIterator<Item = (&'d Source, &'d Metadata)>,
    ) -> Self {
        let describe = |(source, metadata): (&Source, &Metadata)| {
            let info = nearer.or(&metadata.info);
            Arc::new(RuleDescriptor { policy: policy.clone(), name: name.clone(), info, source: source.clone() })
        };
        Self { rule: describe(rule), definitions: definitions.into_iter().map(describe).collect() }
    }
}

/// How a rule's value contains its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultShape {
    /// `deny contains x`: each element is a result.
    Set,
    /// `deny[key] := x`: each value is a result.
    Object,
    /// `deny := x`: the value is one result, or several.
    Complete,
}

/// One rule to evaluate, with all its definitions.
#[derive(Debug, Clone)]
pub(crate) struct Entrypoint {
    /// The package, as shown in results.
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Rule,
    /// The parts that its results share.
    pub(crate) descriptors: RuleDescriptors,
    pub(crate) shape: ResultShape,
    /// The keys below `data`.
    pub(crate) path: Path,
    /// The index of the exceptions that may apply, and the name that they list it by: the part after `deny_`.
    pub(crate) exception: Option<(usize, Value)>,
    pub(crate) definitions: Vec<RuleDefinition>,
    /// Whether it reads `oldObject` or `operation`.
    pub(crate) transition: bool,
    /// The kinds that it applies to, even if its code could match others.
    pub(crate) kinds: RuleKinds,
}

/// One definition of a rule, with its own position and annotations.
#[derive(Clone)]
pub(crate) struct RuleDefinition {
    /// Its position in the modules of its unit.
    pub(crate) at: SourceLocation,
    pub(crate) source: Source,
    pub(crate) metadata: Arc<Metadata>,
}

impl RuleDefinition {
    /// Returns its position and its annotations.
    pub(crate) fn described(&self) -> (&Source, &Metadata) {
        (&self.source, &self.metadata)
    }
}

impl fmt::Debug for RuleDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.file, self.source.line)
    }
}

/// The `exception` rule of one package.
#[derive(Debug, Clone)]
pub(crate) struct PackageException {
    pub(crate) policy: Arc<str>,
    pub(crate) path: Path,
    pub(crate) source: Source,
}
