//! A valid policy that is not evaluated.

use serde::Serialize;

use crate::model::verdict::Source;

/// A policy that is not evaluated, although it is valid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unjudged {
    /// `ConstraintTemplate k8sfoo` or `K8sFoo all-pods`, a package without `data.`, or a rule of Kubescape's library;
    /// or a control without rules.
    pub name: String,
    /// Why it is not evaluated; the same text for all policies with this reason.
    pub reason: String,
    /// The position where the policy is defined.
    pub source: Source,
    /// The controls of Kubescape's library that use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<ControlName>,
}

/// A control of Kubescape's library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ControlName {
    /// The id, for example `C-0069`.
    pub id: String,
    /// The title; empty if the library does not define the control.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
}
