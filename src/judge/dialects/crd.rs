//! Validation rules of custom resources (`x-kubernetes-validations`), whose expressions are CEL: existing objects are
//! evaluated as when they are created.
//!
//! Input: the YAML and JSON files with CRDs. Output: a policy for each CRD with rules. The API server evaluates the rules
//! only when an object is written, so that those of a newer CRD are not checked for objects that exist. The results are those
//! of the API server's package `apiextensions-apiserver/pkg/apiserver/schema/cel`.

mod defaults;
pub(crate) mod document;
pub(crate) mod evaluation;
pub(crate) mod explain;
mod field_path;
pub(crate) mod load;
mod message;
mod names;
mod reads;
mod rules;
pub(crate) mod set;

#[cfg(test)]
mod tests;

use crate::judge::dialect::{Dialect, DialectDescription, InputForm};

/// Rules are evaluated for the kinds of their CRDs, and have no rules in Rego.
pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    has_constraints: true,
    ..DialectDescription::new("crd", InputForm::Object, |_, _| Vec::new())
});
