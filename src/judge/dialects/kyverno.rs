//! `ValidatingPolicies` of Kyverno, whose expressions are the CEL of admission policies with Kyverno's own functions: an
//! existing object is evaluated as the request that would create it, as in Kyverno's background scan.
//!
//! Input: the YAML and JSON files with objects of `policies.kyverno.io`. Output: a policy for each, with one rule that
//! applies to the named objects and, if these are Pods, also to the workloads that create Pods. The results are those of
//! Kyverno; an expression that needs more than the cluster's objects is an error.

mod autogen;
pub(crate) mod document;
mod exceptions;
pub(crate) mod load;
mod spec;

#[cfg(test)]
mod tests;

use crate::judge::dialect::{Dialect, DialectDescription, InputForm, WorkloadRules};

/// Policies are evaluated for their matching objects, and have no rules in Rego.
pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    has_constraints: true,
    // Where Kyverno extends a policy to workloads, and where not, is its author's choice.
    workloads: WorkloadRules::Own,
    ..DialectDescription::new("kyverno", InputForm::Object, |_, _| Vec::new())
});
