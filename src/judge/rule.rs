//! The rules that judge: how they are described to users, and what is needed to evaluate them.

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

/// One rule that judges, or one Constraint.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The head's name, e.g. `deny_latest`, or that of the Constraint.
    pub name: Arc<str>,
    /// That of its policy and its name.
    pub number: RuleNumber,
    /// What its results count as.
    pub outcome: Outcome,
    /// The annotations of its first definition, filled up from document and package.
    pub metadata: Arc<Metadata>,
    /// Where its first definition begins.
    pub source: Source,
    /// Its definitions as they are written; those of its template for a Constraint.
    pub texts: Vec<RuleText>,
    /// Whether a namespace may excuse its violations; decided when all policies are loaded.
    pub excusable: Excusability,
}

impl Rule {
    /// Whether it is evaluated without the objects that it looks up if they cannot be read, by `custom.lookups: optional`.
    pub(crate) fn has_optional_lookups(&self) -> bool {
        self.metadata.custom.get("lookups").is_some_and(|value| *value == "optional")
    }
}

/// A definition of a rule as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// Where it begins.
    pub source: Source,
    /// Its lines.
    pub text: Arc<str>,
}

/// The descriptors of a rule's results: of the rule as a whole, and of each of its definitions.
#[derive(Debug, Clone)]
pub(crate) struct RuleDescriptors {
    pub(crate) rule: Arc<RuleDescriptor>,
    pub(crate) definitions: Vec<Arc<RuleDescriptor>>,
}

impl RuleDescriptors {
    /// Describes the results of a rule by its source and METADATA, and by those of its definitions. What `nearer` says, e.g. a
    /// Constraint, takes precedence over both.
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

/// How the results stand in a rule's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultShape {
    /// `deny contains x`: each element is a result.
    Set,
    /// `deny[key] := x`: each value is a result.
    Object,
    /// `deny := x`: the value is the result, or several.
    Complete,
}

/// One rule that the evaluator is asked for, with all its definitions.
#[derive(Debug, Clone)]
pub(crate) struct Entrypoint {
    /// The package, as results name it.
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Rule,
    /// What its results have in common.
    pub(crate) descriptors: RuleDescriptors,
    pub(crate) shape: ResultShape,
    /// Keys from `data` on.
    pub(crate) path: Path,
    /// Index of the exceptions that may apply, and what they list it by: the name behind `deny_`.
    pub(crate) exception: Option<(usize, Value)>,
    pub(crate) definitions: Vec<Definition>,
    /// Whether it reads `oldObject` or `operation`.
    pub(crate) transition: bool,
    /// The kinds that it is meant for, whatever its code could say of others.
    pub(crate) kinds: RuleKinds,
}

/// One of the definitions that a rule is made of, each with its own place and annotations.
#[derive(Clone)]
pub(crate) struct Definition {
    /// Where it is written, in the modules of its unit.
    pub(crate) at: SourceLocation,
    pub(crate) source: Source,
    pub(crate) metadata: Arc<Metadata>,
}

impl Definition {
    /// Returns where it is written, and its annotations.
    pub(crate) fn described(&self) -> (&Source, &Metadata) {
        (&self.source, &self.metadata)
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.file, self.source.line)
    }
}

/// The `exception` rule of one package.
#[derive(Debug, Clone)]
pub(crate) struct Exception {
    pub(crate) policy: Arc<str>,
    pub(crate) path: Path,
    pub(crate) source: Source,
}
