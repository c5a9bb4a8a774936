//! `ValidatingAdmissionPolicies` of Kubernetes, whose expressions are CEL: an existing object is evaluated as the request
//! that would create it.
//!
//! Input: the YAML and JSON files with objects of `admissionregistration.k8s.io`. Output: a policy for each binding. The
//! results are those of the API server; what only a request has, such as `request.userInfo`, is not known, and a result
//! that depends on it is an error.

pub(crate) mod binding;
pub(crate) mod document;
pub(crate) mod evaluation;
mod exempting;
pub(crate) mod exemption;
pub(crate) mod explain;
pub(crate) mod expression;
pub(crate) mod kinds;
pub(crate) mod load;
pub(crate) mod lookup;
pub(crate) mod matching;
pub(crate) mod params;
pub(crate) mod policy;
pub(crate) mod reads;
pub(crate) mod request;
pub(crate) mod set;
mod validation;

#[cfg(test)]
mod tests;

use crate::judge::dialect::{Dialect, DialectDescription, InputForm};

/// Policies are evaluated for their bindings, and have no rules in Rego.
pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    has_constraints: true,
    ..DialectDescription::new("cel", InputForm::Object, |_, _| Vec::new())
});
